"""Hard links that were made before a run, by which what a jail holds could be written all the same."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perdure.jail import names as names_module
from perdure.jail.names import Names
from tests.app.command_line import envelope_of
from tests.app.conftest import Generation
from tests.app.jail.layout import IDENTITY, Layout
from tests.app.jail.test_jail_cli import hide_in_ls
from tests.unprivileged import UnprivilegedUser

pytestmark = pytest.mark.platforms("linux", "darwin")
needs_bubblewrap = [
    pytest.mark.platforms("linux"),
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed"),
]

VENV = f"store/generations/{IDENTITY}/venv"
HELD = {
    "a module": f"{VENV}/lib/module.py",
    "what says which interpreter it is": f"{VENV}/pyvenv.cfg",
    "the record": f"store/generations/{IDENTITY}/record.json",
    "the list of plugins": f"store/generations/{IDENTITY}/boot.json",
    "the kept record": f"store/records/{IDENTITY}.json",
    "uv": "tools/uv/1.0/uv",
    "a launcher": "bin/perdure",
    "an interpreter of the home": "python/cpython-3.13/bin/python3.13",
    "a module of PM's runtime": "pm/runtimes/r/venv/lib/module.py",
    "the pointer": "profiles/default/current",
    "the policy": "profiles/default/app.yaml",
    "the configuration": "config.yaml",
    "a store of approvals": "state/default/approvals.db",
}


class Home(Layout):
    """A home with one file of each kind."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        for path in HELD.values():
            place = self.home / path
            place.parent.mkdir(parents=True, exist_ok=True)
            if not place.exists():
                place.write_text("x")
        named = self.home / "python" / "cpython-3.13" / "bin"
        (self.home / "pm" / "runtimes" / "r" / "venv" / "pyvenv.cfg").write_text(f"home = {named}\n")

    def names(self, kept: Path | None = None) -> Names:
        """Return what counts the names of this home."""
        return Names(roots=self.roots, home=str(self.home), kept=kept)


def found_by(folder: Path) -> list[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    """Return of each kind of file what is found while it has a foreign name, and what is found after that."""
    home = Home(folder)
    names = home.names(folder / "kept")
    assert names.find_foreign() == ()
    told = []
    for name, place in HELD.items():
        link = home.work / "prepared"
        os.link(home.home / place, link)
        there = home.names(folder / "kept").find_foreign()
        link.unlink()
        told.append((name, there, names.find_foreign()))
    return told


@pytest.mark.proves("jail-names-counted")
@pytest.mark.unprivileged
def test_a_name_that_was_made_before_is_found_of_every_kind_of_file(
    tmp_path: Path, unprivileged_user: UnprivilegedUser
) -> None:
    homes = {tmp_path: found_by(tmp_path)}
    homes[unprivileged_user.folder] = unprivileged_user.call(found_by, unprivileged_user.folder)
    for folder, told in homes.items():
        expected = [(name, (str(folder / "deep" / "house" / place),), ()) for name, place in HELD.items()]
        assert told == expected


@pytest.mark.proves("jail-names-counted")
def test_names_in_the_home_are_none_outside_and_what_is_somebody_elses_there_is_one(tmp_path: Path) -> None:
    home = Home(tmp_path)
    module = home.home / HELD["a module"]
    for place in ("cache/uv/archive/module.py", "store/generations/2-aaaaaaaaaaaa/venv/lib/module.py"):
        (home.home / place).parent.mkdir(parents=True)
        os.link(module, home.home / place)
    os.link(module, module.with_name("beside.py"))
    assert home.names().find_foreign() == ()
    # The layout does not know this directory, and so it can be written to in a jail.
    (home.home / "mine").mkdir()
    os.link(module, home.home / "mine" / "module.py")
    assert home.names().find_foreign() == (str(module.with_name("beside.py")),)


@pytest.mark.proves("jail-names-counted")
def test_byte_code_and_locks_are_nobodys_way_in(tmp_path: Path) -> None:
    home = Home(tmp_path)
    code = home.venv / "lib" / "__pycache__" / "module.cpython-313.pyc"
    lease = home.venv.parent / "lease"
    for path in (code, lease, home.home / "mutex"):
        path.parent.mkdir(exist_ok=True)
        path.write_text("")
        os.link(path, home.work / path.name)
    assert home.names().find_foreign() == ()


@pytest.mark.proves("jail-names-counted")
def test_the_home_is_counted_again_only_where_something_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, kept, counts = Home(tmp_path), tmp_path / "kept", list[int]()
    count = names_module._count

    def counted(held: names_module._Held) -> names_module._Count:
        counts.append(1)
        return count(held)

    monkeypatch.setattr(names_module, "_count", counted)

    def look() -> int:
        counts.clear()
        assert home.names(kept).find_foreign() == ()
        return len(counts)

    assert [look(), look()] == [1, 0]
    for change in (
        lambda: (home.venv / "lib" / "new.py").write_text(""),
        lambda: (home.venv / "lib" / "module.py").chmod(0o600),
        (home.venv / "lib" / "new.py").unlink,
        lambda: (home.home / "profiles" / "default" / "pending").write_text(""),
        lambda: kept.write_bytes(b"\x00 no count"),
        lambda: kept.write_bytes(kept.read_bytes()[:-20]),
        lambda: kept.write_bytes(kept.read_bytes().replace(b'"schema": 1', b'"schema": 9')),
    ):
        change()
        assert [look(), look()] == [1, 0]


@pytest.mark.proves("jail-names-counted")
def test_a_count_that_cannot_be_kept_is_made_anew_each_time(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    names_module._save(kept, "[]", names_module._Count(files={"/x": (1, 1 << 63, 2)}))
    assert not kept.exists()
    home = Home(tmp_path)
    os.link(home.home / HELD["a module"], home.work / "prepared")
    for _ in range(2):
        assert home.names(tmp_path / "nowhere" / "kept").find_foreign() == (str(home.home / HELD["a module"]),)


@pytest.mark.proves("jail-names-counted")
def test_what_was_changed_by_a_name_that_is_gone_again_is_found_unless_pm_was_at_work(tmp_path: Path) -> None:
    home = Home(tmp_path)
    module, link = home.home / HELD["a module"], home.work / "prepared"
    os.link(module, link)
    names = home.names()
    assert names.find_foreign() == (str(module),)
    assert names.find_changed(names_module.now()) == ()
    since = names_module.now()
    link.write_text("harmed")
    link.unlink()
    (home.home / HELD["the policy"]).write_text("jail: prefer\n")  # the app adds rules to it
    assert names.find_foreign() == ()
    assert names.find_changed(since) == (str(module),)
    (home.home / "receipts" / "unfinished").mkdir(parents=True)
    assert names.find_changed(since) == ()


@pytest.mark.proves("jail-names-counted", "jail-cheap")
def test_a_look_costs_little_more_than_asking_for_each_file(tmp_path: Path, figure: Callable[[str], None]) -> None:
    home, files = Home(tmp_path), 2000
    for number in range(files):
        (home.venv / "lib" / f"module{number}.py").touch()
    roots = home.roots()
    names = Names(roots=lambda: roots, home=str(home.home))
    assert names.find_foreign() == ()
    paths = [str(path) for path in home.venv.rglob("*.py")]

    def work(call: Callable[[], object]) -> float:
        took = []
        for _ in range(10):
            began = time.process_time()
            call()
            took.append(time.process_time() - began)
        return min(took) * 1e6 / files

    asking, looking = work(lambda: [os.lstat(path) for path in paths]), work(names.find_foreign)
    figure(f"names of held files: {looking:.1f} µs of work a file, asking for it alone {asking:.1f} µs")
    assert looking <= 3 * asking


def prepare(generation: Generation, tmp_path: Path) -> tuple[Path, Path]:
    """Link a file of the generation from outside, and return both names."""
    held = generation.site / "greeter.py"
    held.write_text("x = 1\n")
    generation.launcher("perdure-pm", "exit 0\n")
    link = tmp_path / "work" / "prepared.py"
    link.parent.mkdir()
    os.link(held, link)
    return held, link


def run(generation: Generation, link: Path, *options: str) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    """Run a command that writes by the other name."""
    done = generation.run("exec", "--json", "--cwd", str(link.parent), *options, "--", f"echo harmed > {link.name}")
    return done, envelope_of(done)


class TestWithBubblewrap:
    pytestmark = needs_bubblewrap

    @pytest.mark.proves("jail-names-counted", "jail-holds-roots", "jail-told")
    def test_where_the_jail_is_required_nothing_runs_that_could_write_by_such_a_name(
        self, generation: Generation, tmp_path: Path
    ) -> None:
        held, link = prepare(generation, tmp_path)
        done, answer = run(generation, link, "--jail", "require")
        (error,) = answer["errors"]
        assert (done.returncode, error["code"]) == (10, "jail-unavailable")
        assert str(held) in error["summary"]
        assert error["hint"] == shlex.join([str(generation.home / "bin" / "perdure-pm"), "repair"])
        assert held.read_text() == "x = 1\n"
        link.unlink()
        link.touch()
        done, answer = run(generation, link, "--jail", "require")
        assert (done.returncode, answer["data"]["layers"]["jail"]["gap"]) == (0, None)
        assert link.read_text() == "harmed\n"

    @pytest.mark.proves("jail-names-counted", "jail-told", "layers-told")
    def test_where_it_is_preferred_the_run_says_what_it_did_not_hold(
        self, generation: Generation, tmp_path: Path
    ) -> None:
        held, link = prepare(generation, tmp_path)
        done, answer = run(generation, link)
        gap = answer["data"]["layers"]["jail"]["gap"]
        assert (done.returncode, str(held) in gap) == (0, True)
        assert gap in done.stderr
        assert "perdure-pm" in done.stderr
        (record,) = (generation.home / "state" / "default").glob("runs-*.jsonl")
        assert json.loads(record.read_text().splitlines()[-1])["gap"] == gap
        doctor = generation.run("doctor")
        assert doctor.returncode == 3
        assert f"not whole   jail: {gap}\n" in doctor.stdout
        assert f"found: the jail is not whole: {gap}\n  try: " in doctor.stdout
        assert f"on, and not whole: {gap}\n" in generation.run("guard", "roots").stdout

    @pytest.mark.proves("jail-names-counted", "jail-told")
    def test_a_command_that_takes_its_way_in_away_again_is_told_all_the_same(
        self, generation: Generation, tmp_path: Path
    ) -> None:
        held, link = prepare(generation, tmp_path)
        assert run(generation, tmp_path / "work" / "mine")[1]["data"]["layers"]["jail"]["gap"] is not None
        environment = hide_in_ls(tmp_path, f"echo harmed > {link}; rm {link}")
        done = generation.run("exec", "--json", "--", "ls", "-l", environment=environment)
        assert (held.read_text(), link.exists()) == ("harmed\n", False)
        gap = envelope_of(done)["data"]["layers"]["jail"]["gap"]
        # Which of the two is seen depends on who is first: the command, or whoever counts.
        assert gap.startswith((f"{held} was changed, while the command ran,", f"{held} can be written"))
        # Of what happened before, the next run knows nothing.
        assert run(generation, tmp_path / "work" / "mine")[1]["data"]["layers"]["jail"]["gap"] is None

    @pytest.mark.platforms("linux")
    @pytest.mark.proves("jail-names-counted", "jail-told")
    def test_a_name_that_is_no_text_is_told_all_the_same(self, generation: Generation, tmp_path: Path) -> None:
        held = generation.site / os.fsdecode(b"a\xff\nb.py")
        held.write_text("")
        os.link(held, tmp_path / "other")
        for code, words in ((0, ("exec", "--", "echo", "done")), (0, ("guard", "roots")), (3, ("doctor", "--json"))):
            done = generation.run(*words)
            assert (done.returncode, "hard link outside" in done.stdout + done.stderr) == (code, True), done

    @pytest.mark.proves("jail-names-counted")
    def test_of_what_pm_does_not_write_the_way_out_shows_the_other_name(
        self, generation: Generation, tmp_path: Path
    ) -> None:
        path = generation.home / "state" / "default" / "approvals.db"
        path.parent.mkdir(parents=True)
        path.write_text("")
        os.link(path, tmp_path / "other")
        done = generation.run("exec", "--json", "--jail", "require", "--", "true")
        (error,) = envelope_of(done)["errors"]
        find, mount, *rest = shlex.split(error["hint"].partition("   (")[0])
        assert os.path.ismount(mount)
        assert tmp_path.is_relative_to(mount)
        # The same search, kept to where this test has put the names: a machine's whole disk takes minutes.
        shown = subprocess.run([find, str(tmp_path), *rest], capture_output=True, text=True, check=False)
        assert set(shown.stdout.splitlines()) == {str(path), str(tmp_path / "other")}
