"""What a run has damaged is told with its result; what PM did meanwhile is none, and neither is missing byte code."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from perdure.installation import find_installation
from perdure.tools import sentinels as sentinels_module
from perdure.tools.sentinels import Damage, Sentinels
from tests.app.command_line import envelope_of
from tests.app.conftest import Generation

pytestmark = pytest.mark.platforms("linux", "darwin")


@pytest.fixture
def home(generation: Generation) -> Generation:
    """A home with everything that is looked at."""
    (generation.path / "record.json").write_text("{}")
    code = generation.site / "code"
    code.mkdir()
    (code / "__init__.py").write_text("")
    for name in ("perdure", "perdure-pm"):
        generation.launcher(name, "exit 0\n")
    for place, text in {
        "profiles/default/current": "1-0123456789ab\n",
        "pm/current": "one\n",
        "pm/seed/current": "feed\n",
        "pm/seed/feed/pm/bootstrap.py": "print('mended')\n",
        "tools/uv/1.0/uv": "uv",
        "receipts/one.json": "{}",
    }.items():
        path = generation.home / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (generation.home / "state").mkdir()
    return generation


def look(generation: Generation) -> Sentinels:
    installation = find_installation(str(generation.venv), str(generation.python), {})
    code = str(generation.site / "code")
    return Sentinels(installation, "default", prefix=str(generation.venv), code=code)


def append(path: Path) -> None:
    path.write_text(path.read_text() + "x")


def replace(path: Path) -> None:
    draft = path.with_name("draft")
    draft.write_text(path.read_text())
    draft.replace(path)


def receipt(generation: Generation, operation: str, status: str, name: str = "two") -> None:
    """Write the receipt of an operation."""
    path = generation.home / "receipts" / f"{name}.json"
    path.write_text(json.dumps({"schema": 1, "operation": operation, "status": status}))


DAMAGES: list[tuple[str, Callable[[Path], object], str]] = [
    ("store/generations/1-0123456789ab/venv/bin/python", Path.unlink, "missing"),
    ("store/generations/1-0123456789ab/venv/pyvenv.cfg", append, "changed"),
    ("store/generations/1-0123456789ab/venv/pyvenv.cfg", lambda path: path.chmod(0), "changed"),
    ("store/generations/1-0123456789ab/boot.json", Path.unlink, "missing"),
    ("store/generations/1-0123456789ab/record.json", replace, "changed"),
    ("store/generations/1-0123456789ab/venv/lib", shutil.rmtree, "missing"),
    ("profiles/default/current", append, "changed"),
    ("bin/perdure", lambda path: path.chmod(0o644), "changed"),
    ("bin/perdure-pm", append, "changed"),
    ("pm/current", Path.unlink, "missing"),
    ("pm/seed", shutil.rmtree, "missing"),
    ("tools/uv/1.0/uv", Path.unlink, "missing"),
    ("state", shutil.rmtree, "missing"),
]


@pytest.mark.proves("exec-damage-told")
@pytest.mark.parametrize(("place", "harm", "how"), DAMAGES)
def test_what_is_gone_or_changed_is_damage(
    home: Generation, place: str, harm: Callable[[Path], object], how: str
) -> None:
    sentinels = look(home)
    assert len(sentinels) >= 10
    assert sentinels.damage() == []
    path = home.home / place
    harm(path)
    found = sentinels.damage()
    assert [(each.path, each.how) for each in found if Path(each.path).is_relative_to(path)]
    assert {each.how for each in found} == {how}


@pytest.mark.proves("exec-damage-told")
def test_a_link_that_no_jail_can_hold_is_looked_at(home: Generation, tmp_path: Path) -> None:
    link = tmp_path / "python3"
    link.symlink_to(os.path.realpath(home.python))
    home.python.unlink()
    home.python.symlink_to(link)
    sentinels = look(home)
    link.unlink()
    assert (str(link), "a link on the way to the interpreter", "missing") in [
        (each.path, each.what, each.how) for each in sentinels.damage()
    ]


@pytest.mark.proves("exec-damage-told")
def test_an_installed_package_that_is_gone_is_damage_and_byte_code_is_none(home: Generation) -> None:
    (home.site / "other").mkdir()
    (home.site / "__pycache__").mkdir()
    sentinels = look(home)
    (home.site / "__pycache__").rmdir()
    (home.site / "code" / "__pycache__").mkdir()
    (home.site / "new.py").write_text("")
    assert sentinels.damage() == []
    (home.site / "other").rmdir()
    (damage,) = sentinels.damage()
    assert damage == Damage(path=str(home.site), what="the installed packages", how="entries missing")


@pytest.mark.proves("exec-damage-told")
def test_what_an_operation_of_pm_replaced_meanwhile_is_no_damage(home: Generation) -> None:
    sentinels = look(home)
    for place in ("profiles/default/current", "pm/current", "pm/seed/current", "bin/perdure", "bin/perdure-pm"):
        replace(home.home / place)
    (home.home / "tools/uv/1.0/uv").unlink()
    assert len(sentinels.damage()) == 6
    # The receipt of an operation that does not write there, or that wrote nothing, is no excuse.
    for operation, status in (("config-set", "ok"), ("stage", "ok"), ("install", "noop"), ("repair", "refused")):
        receipt(home, operation, status)
        assert len(sentinels.damage()) == 6, operation
    receipt(home, "rollback", "ok")
    assert {each.what for each in sentinels.damage()} == {*("PM's pointer", "PM's seed", "the launcher of PM")}
    receipt(home, "self-update", "ok", name="three")
    assert sentinels.damage() == []
    # A pointer that is gone is nothing that PM does, and neither is a changed environment.
    (home.home / "profiles/default/current").unlink()
    append(home.venv / "pyvenv.cfg")
    assert [each.how for each in sentinels.damage()] == ["changed", "missing"]


@pytest.mark.proves("exec-damage-told")
def test_each_operation_that_excuses_something_is_one_of_pm(checkout: Path) -> None:
    known = (checkout / "docs" / "reference" / "worker-protocol.md").read_text()
    for operation in (sentinels_module._PUBLISHING | sentinels_module._OWN) - {"rescue"}:
        assert f"`{operation}`" in known, operation


@pytest.mark.proves("exec-damage-told")
def test_an_operation_that_is_still_at_work_counts_too(home: Generation) -> None:
    for name, operation in (("two", "self-update"), ("three", "label")):
        receipt(home, operation, "started", name=name)
        (home.home / "receipts" / "unfinished" / name).mkdir(parents=True)
    for path in (home.home / "receipts").glob("*.json"):
        os.utime(path, (1, 1))  # begun long before
    sentinels = look(home)
    replace(home.home / "pm/current")
    assert sentinels.damage() == []
    (home.home / "receipts" / "two.json").unlink()
    assert [each.what for each in sentinels.damage()] == ["PM's pointer"]


@pytest.mark.proves("exec-damage-told", "app-hints-run")
@pytest.mark.parametrize("name", ["perdure", "perdure-pm"])
def test_the_repair_command_needs_nothing_of_what_is_damaged(home: Generation, name: str) -> None:
    sentinels = look(home)
    (home.home / "bin" / name).write_text("")
    command = sentinels.repair(sentinels.damage())
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "mended\n" if name == "perdure-pm" else ""), (command, done.stderr)


@pytest.mark.proves("exec-damage-told", "exec-recorded")
def test_a_run_that_got_past_the_other_layers_says_what_it_has_damaged(home: Generation, tmp_path: Path) -> None:
    # What the guard takes for `ls` is another program on this PATH, and the jail would hold it.
    (home.home / "profiles" / "default" / "app.yaml").write_text("jail: off\n")
    stand_in = tmp_path / "bin" / "ls"
    stand_in.parent.mkdir()
    stand_in.write_text(f"#!/bin/sh\nrm -f {shlex.quote(str(home.home / 'tools/uv/1.0/uv'))}\n")
    stand_in.chmod(0o755)
    path = {"PATH": f"{stand_in.parent}{os.pathsep}{os.environ['PATH']}"}
    done = home.run("exec", "--json", "--", "ls", environment=path)
    data = envelope_of(done)["data"]
    uv = {"path": str(home.home / "tools/uv/1.0/uv"), "what": "the uv of PM", "how": "missing"}
    assert (done.returncode, data["damage"]) == (0, [uv])
    assert data["repair"] == find_installation(str(home.venv), "", {}).pm_command("repair")
    assert "the run has damaged what Perdure needs" in done.stderr
    (record,) = (home.home / "state" / "default").glob("runs-*.jsonl")
    assert json.loads(record.read_text().splitlines()[-1])["damage"] == [uv]
    assert envelope_of(home.run("exec", "--json", "--", "true"))["data"]["damage"] == []


@pytest.mark.proves("exec-layers-fast")
def test_looking_costs_little(home: Generation, figure: Callable[[str], None]) -> None:
    def once() -> float:
        began = time.perf_counter()
        assert look(home).damage() == []
        return time.perf_counter() - began

    best = min(once() for _ in range(20))
    figure(f"sentinels: before and after a run {best * 1e3:.2f} ms (target 1)")
    assert best < 0.01
