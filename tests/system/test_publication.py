"""Publishing the app for real: what changes it, what does not, and that it is the old one or the new one throughout."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from perdure_pm.adapters.filesystem import LocalFilesystem
from perdure_pm.adapters.mutex import held
from perdure_pm.store.layout import Layout
from tests.system.conftest import IS_ROOT
from tests.system.machine import Installation, differences, fingerprint, interpreters, plain_environment
from tests.unprivileged import UnprivilegedUser

LIVE = ("bin", "config.yaml", "profiles", "pm")
"""What must stay as it is when a publication fails."""


@pytest.fixture
def site(own: Installation, own_checkout: Path) -> Installation:
    """A home whose host is a checkout of its own, offline from here on."""
    there = replace(own, checkout=own_checkout).with_environment(PERDURE_OFFLINE="1")
    there.pm("install", "--checkout", own_checkout).succeeded()
    return there


def edit(installation: Installation, name: str, text: str) -> Path:
    """Append `text` to a file of the checkout."""
    path = installation.checkout / name
    path.write_text(path.read_text(encoding="utf-8") + text, encoding="utf-8")
    return path


def live(installation: Installation) -> dict[str, str]:
    """Return what is selected, and every byte of it."""
    home = installation.home
    found = {name: text for name, text in fingerprint(home).items() if name.partition("/")[0] in LIVE}
    return {**found, **fingerprint(installation.generation_path)}


def require_sound(installation: Installation, known: set[str] | None = None) -> None:
    """Check that the app starts, that status finds nothing, and that what is selected is sealed."""
    answer = installation.perdure("--version").succeeded()
    assert answer.out.startswith("perdure ")
    status = installation.pm("status", "--json").succeeded()
    assert status.json["data"]["findings"] == []
    assert (installation.generation_path / "record.json").is_file()
    if known is not None:
        assert installation.generation in known


@pytest.mark.proves("publication-inputs")
def test_a_changed_source_of_the_same_version_is_built_and_selected(site: Installation) -> None:
    old = site.generation
    edit(site, "app/perdure/api/tools.py", "\nCHANGED = 'really'\n")
    answer = site.pm("install", "--json").succeeded()
    assert answer.json["data"]["generation"] == site.generation != old
    python = site.generation_path / "venv" / "bin" / "python"
    assert site.run([python, "-I", "-c", "from perdure.api.tools import CHANGED; print(CHANGED)"]).out == "really\n"
    edit(site, "plugins/facts/perdure_facts/__init__.py", "\nCHANGED = 'too'\n")
    site.pm("install").succeeded()
    python = site.generation_path / "venv" / "bin" / "python"
    assert site.run([python, "-I", "-c", "from perdure_facts import CHANGED; print(CHANGED)"]).out == "too\n"
    require_sound(site)


@pytest.mark.proves("publication-inputs")
def test_what_gets_into_no_wheel_changes_nothing(site: Installation, figure: Callable[[str], None]) -> None:
    """Case 41: documents, tests and PM's own sources are not the app's."""
    for name in ("docs/README.md", "tests/conftest.py", "CHANGELOG.md", "pm/perdure_pm/cli/__init__.py"):
        edit(site, name, "\n# another line\n")
    (site.checkout / "new file.txt").write_text("x", encoding="utf-8")
    before = live(site)
    started = time.perf_counter()
    answer = site.pm("install", "--json").succeeded()
    figure(f"no-op install: {(time.perf_counter() - started) * 1000:.0f} ms, whole command (target: 300 ms)")
    assert answer.json["status"] == "noop"
    assert differences(before, live(site)) == []
    assert site.receipts()[-1]["status"] == "noop"


@pytest.mark.proves("publication-inputs")
def test_a_checkout_that_is_gone_leaves_the_release_in_the_store(site: Installation) -> None:
    edit(site, "app/perdure/api/tools.py", "\nOWN = 'release'\n")
    site.pm("install").succeeded()
    LocalFilesystem().remove_tree(site.checkout)
    before = live(site)
    answer = site.pm("install", "--json").succeeded()
    assert answer.json["status"] == "noop"
    (notice,) = [line for line in site.receipts()[-1]["obligations"] if "is gone" in line]
    assert str(site.checkout) in notice
    assert differences(before, live(site)) == []
    LocalFilesystem().remove_tree(site.generation_path)  # and it is rebuilt from there too
    assert site.pm("install", "--json").succeeded().json["status"] == "ok"
    require_sound(site)


@pytest.mark.proves("publication-health")
@pytest.mark.parametrize(
    "text",
    [
        "raise RuntimeError('broken')",
        pytest.param("import no_such_module", marks=pytest.mark.slow),
        pytest.param("raise SystemExit(0)", marks=pytest.mark.slow),
        "import os; os._exit(0)",
    ],
    ids=["raises", "needs what is missing", "exits", "ends the process"],
)
def test_a_plugin_that_fails_at_import_keeps_the_old_generation(site: Installation, text: str) -> None:
    """Cases 30 and 104."""
    before, generations = live(site), site.generations
    module = site.checkout / "plugins" / "facts" / "perdure_facts" / "__init__.py"
    good = module.read_text(encoding="utf-8")
    edit(site, "plugins/facts/perdure_facts/__init__.py", f"\n{text}\n")
    answer = site.pm("install", "--json")
    assert (answer.code, answer.error["code"], answer.error["state"]) == (5, "health-check-failed", "unchanged")
    assert differences(before, live(site)) == []
    assert site.generations == generations, "the candidate is gone"
    assert site.receipts()[-1]["status"] == "failed"
    require_sound(site)
    module.write_text(good + "\nMENDED = True\n", encoding="utf-8")
    assert site.pm("install", "--json").succeeded().json["status"] == "ok"


EDITOR = """
import pathlib, sys
_config = pathlib.Path(sys.prefix).parents[3] / "profiles" / "default" / "config.yaml"
_text = _config.read_text(encoding="utf-8")
if _text.count("# by hand") < {times}:
    _config.write_text(_text + "# by hand" + chr(10), encoding="utf-8")
"""
"""A plugin that edits the configuration when it is imported, which is during the build: in its health check."""


@pytest.mark.proves("publication-overtaken")
def test_an_edit_during_the_build_is_picked_up_and_kept(site: Installation) -> None:
    """Case 36."""
    edit(site, "plugins/facts/perdure_facts/__init__.py", EDITOR.format(times=1))
    old = site.generation
    site.pm("install").succeeded()
    assert site.generation != old
    text = (site.home / "profiles" / "default" / "config.yaml").read_text(encoding="utf-8")
    assert text.count("# by hand") == 1
    require_sound(site)


@pytest.mark.proves("publication-overtaken")
def test_edits_that_do_not_stop_are_refused_and_kept(site: Installation) -> None:
    """Cases 36 and 37: the caller is asked to try again; nothing is published."""
    edit(site, "plugins/facts/perdure_facts/__init__.py", EDITOR.format(times=99))
    old, generations = site.generation, site.generations
    answer = site.pm("install", "--json")
    assert (answer.code, answer.error["code"], answer.error["retry"]) == (7, "config-changed", "later")
    assert (site.generation, site.generations) == (old, generations)
    text = (site.home / "profiles" / "default" / "config.yaml").read_text(encoding="utf-8")
    assert text.count("# by hand") == 2
    site.pm("status").succeeded()


# Kills


def kill_somewhere(site: Installation, seconds: float, *, everything: bool) -> None:
    """Start an install and kill it after `seconds`: all of its processes at once, or only the one a person started."""
    command = [str(site.home / "bin" / "perdure-pm"), "install"]
    if everything:
        # The first process of a namespace takes all others with it, as a power failure does.
        command = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", *command]
    process = subprocess.Popen(
        command,
        env=dict(site.environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@pytest.mark.proves("publication-kill")
@pytest.mark.parametrize("turns", [24, pytest.param(200, marks=pytest.mark.slow)])
def test_an_install_that_is_killed_at_any_moment_leaves_the_old_or_the_new(
    site: Installation, turns: int, figure: Callable[[str], None]
) -> None:
    """Cases 32, 33, 73 and 91."""
    seed = time.time_ns()
    dice = random.Random(seed)  # noqa: S311 - moments, not secrets
    edit(site, "app/perdure/api/tools.py", "\nFIRST = 0\n")
    started = time.perf_counter()
    site.pm("install").succeeded()
    whole = time.perf_counter() - started
    ends = {"old": 0, "new": 0}
    for turn in range(turns):
        old = site.generation
        edit(site, "app/perdure/api/tools.py", f"\nTURN_{turn} = {turn}\n")
        kill_somewhere(site, dice.uniform(0.0, whole * 1.05), everything=IS_ROOT and turn % 2 == 0)
        with held(Layout(site.home), "test"):  # a worker whose caller died ends by itself
            new = site.generation
        ends["old" if new == old else "new"] += 1
        assert (site.generation_path / "record.json").is_file(), seed
        site.perdure("plugins", "--check").succeeded()
    figure(f"{turns} kills of an install of {whole:.1f} s: {ends['old']} old, {ends['new']} new (seed {seed})")
    assert ends["old"], "no kill came before the commit"
    site.pm("install").succeeded()
    require_sound(site)
    assert [receipt["status"] for receipt in site.receipts() if receipt["status"] == "started"] == []
    assert any(receipt["status"] == "interrupted" for receipt in site.receipts())
    site.pm("collect").succeeded()
    unsealed = [
        name for name in site.generations if not (site.home / f"store/generations/{name}/record.json").is_file()
    ]
    assert unsealed == []
    assert list((site.home / "cache" / "tmp").iterdir()) == []
    site.pm("install").succeeded()
    require_sound(site)


@pytest.mark.proves("publication-kill")
def test_a_candidate_without_a_record_is_never_selected(site: Installation) -> None:
    """Case 73: it is complete but for its seal, and has a higher number."""
    complete = site.generation_path
    candidate = complete.with_name("99-ffffffffffff")
    subprocess.run(["cp", "-a", str(complete), str(candidate)], check=True)
    candidate.chmod(0o755)
    (candidate / "record.json").unlink()
    assert site.pm("install", "--json").succeeded().json["status"] == "noop"
    assert site.generation == complete.name
    (site.home / "profiles" / "default" / "current").write_text("99-ffffffffffff\n", encoding="ascii")
    site.pm("install").succeeded()
    assert site.generation != "99-ffffffffffff"
    require_sound(site)


# At the same time


@pytest.mark.proves("publication-concurrent")
def test_two_installs_at_once_end_as_if_one_after_the_other(site: Installation) -> None:
    edit(site, "app/perdure/api/tools.py", "\nTWICE = 2\n")
    command = [str(site.home / "bin" / "perdure-pm"), "install", "--json"]
    running = [
        subprocess.Popen(command, env=dict(site.environment), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(2)
    ]
    answers = [json.loads(process.communicate(timeout=120)[0]) for process in running]
    assert [process.returncode for process in running] == [0, 0]
    assert sorted(answer["status"] for answer in answers) == ["noop", "ok"]
    assert {answer["data"]["generation"] for answer in answers} == {site.generation}
    require_sound(site)


@pytest.mark.proves("publication-concurrent")
def test_who_does_not_want_to_wait_is_told_who_is_busy(site: Installation) -> None:
    edit(site, "app/perdure/api/tools.py", "\nBUSY = True\n")
    with held(Layout(site.home), "a long operation"):
        answer = site.pm("install", "--no-wait", "--json")
        assert (answer.code, answer.error["code"]) == (7, "busy")
        assert f"a long operation (process {os.getpid()}" in answer.error["summary"]
        site.perdure("--version").succeeded()  # case 52: a start waits for nobody
        site.pm("status", "--json").succeeded()
    site.pm("install", "--no-wait").succeeded()


# Space, permissions, locks


@pytest.fixture
def small_disk(installed: Installation, own_checkout: Path, tmp_path: Path) -> Iterator[tuple[Installation, Path]]:
    """A home on a filesystem of its own, which only a mount namespace sees, and the same home as seen from here."""
    if not IS_ROOT or shutil.which("nsenter") is None:
        pytest.skip("only root may mount a filesystem of its own")
    place = tmp_path / "disk"
    place.mkdir()
    script = 'mount -t tmpfs -o size=1g tmpfs "$1" && cp -a "$2" "$1/home" && echo ready && exec sleep 1000'
    holder = subprocess.Popen(
        ["unshare", "-m", "sh", "-c", script, "sh", str(place), str(installed.home)], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    try:
        if holder.stdout.readline() != "ready\n":
            pytest.skip("no private mounts here")
        prefix = ("nsenter", "-t", str(holder.pid), "-m")
        there = replace(installed, home=place / "home", checkout=own_checkout, prefix=prefix)
        yield there.with_environment(PERDURE_OFFLINE="1"), Path(f"/proc/{holder.pid}/root{place}/home")
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()


def resize(there: Installation, free_bytes: int) -> None:
    """Leave so many bytes on the home's filesystem."""
    used = int(there.run(["df", "--output=used", "-B1", there.home.parent]).succeeded().out.split()[1])
    there.run(["mount", "-o", f"remount,size={used + free_bytes}", there.home.parent]).succeeded()


FILLER = """
import pathlib, sys
_filler = pathlib.Path(sys.prefix).parents[3] / "filler"
if not _filler.exists():
    try:
        with _filler.open("wb", buffering=0) as _file:
            while _file.write(bytes(1 << 16)):
                pass
    except OSError:
        pass
"""
"""A plugin that fills the disk when it is imported, which is after the build and before the seal."""


@pytest.mark.proves("publication-no-space")
def test_a_full_disk_keeps_the_old_generation_and_the_next_attempt_works(
    small_disk: tuple[Installation, Path],
) -> None:
    """Case 95: told beforehand where it can be known, and survived where it comes in the middle."""
    there, seen = small_disk
    there.pm("install", "--checkout", there.checkout).succeeded()
    seen_there = replace(there, home=seen)
    old, generations = seen_there.generation, seen_there.generations
    edit(there, "app/perdure/api/tools.py", "\nBIGGER = True\n")

    resize(there, 20 << 20)
    answer = there.pm("install", "--json")
    assert (answer.code, answer.error["code"], answer.error["state"]) == (9, "no-space", "unchanged")
    needed, free = answer.error["context"]["needed"], answer.error["context"]["free"]
    assert isinstance(needed, int)
    assert isinstance(free, int)
    assert needed > free
    assert str(there.home) in answer.error["summary"]
    assert (seen_there.generation, seen_there.generations) == (old, generations)

    resize(there, 400 << 20)
    edit(there, "plugins/facts/perdure_facts/__init__.py", FILLER)
    answer = there.pm("install", "--json")
    assert (answer.code, answer.error["code"]) == (9, "no-space"), answer
    assert (seen_there.generation, seen_there.generations) == (old, generations)
    there.perdure("plugins", "--check").succeeded()  # on the full disk

    there.run(["truncate", "-s", "0", there.home / "filler"]).succeeded()
    assert there.pm("install", "--json").succeeded().json["status"] == "ok"
    there.perdure("plugins", "--check").succeeded()


@pytest.mark.proves("publication-no-space")
@pytest.mark.parametrize(
    "megabytes", [60, pytest.param(10, marks=pytest.mark.slow), pytest.param(90, marks=pytest.mark.slow)]
)
def test_a_disk_that_is_too_small_for_the_first_installation_is_told(
    small_disk: tuple[Installation, Path], megabytes: int, wheels: Path
) -> None:
    """While uv is unpacked, while the runtime is built, and before the app."""
    there, seen = small_disk
    there.run(["rm", "-rf", there.home]).succeeded()
    resize(there, megabytes << 20)
    answer = there.up("--wheelhouse", wheels)
    assert (answer.code, answer.error["code"]) == (9, "no-space"), answer
    assert not (seen / "profiles" / "default" / "current").exists()
    resize(there, 500 << 20)
    there.up("--wheelhouse", wheels).succeeded()


@pytest.mark.proves("publication-no-permission")
@pytest.mark.unprivileged
def test_a_home_of_somebody_else_can_be_used_and_not_changed(
    installed: Installation, unprivileged_user: UnprivilegedUser, wheels: Path
) -> None:
    """Case 54."""
    if not IS_ROOT:
        pytest.skip("needs a second user to own the home")
    reachable = [path for path in interpreters((3, 11), (3, 14)) if is_reachable(path, unprivileged_user)]
    if not reachable:
        pytest.skip("no Python that every user can start")
    folder = unprivileged_user.folder
    checkout = folder / "checkout"
    shutil.copytree(installed.checkout, checkout)
    version = interpreters((3, 11), (3, 14))[reachable[0]][:2]
    if version != interpreters((3, 11), (3, 14))[installed.python][:2]:
        pytest.skip("the wheels at hand are for another Python")
    home = folder / "home"
    owner = replace(installed, home=home, checkout=checkout)
    folder.chmod(0o755)
    os.chown(folder, 0, 0)
    owner.up("--wheelhouse", wheels, "--python", reachable[0]).succeeded()
    before = fingerprint(home)
    environment = plain_environment({"HOME": str(folder)})

    def ask(*words: str | Path) -> subprocess.CompletedProcess[str]:
        return unprivileged_user.run([str(word) for word in words], environment=environment, cwd=folder)

    assert ask(home / "bin" / "perdure", "--version").returncode == 0
    assert ask(home / "bin" / "perdure", "plugins", "--check").returncode == 0
    assert ask(home / "bin" / "perdure-pm", "status").returncode == 0
    for words in (("install",), ("self", "rebuild"), ("config", "set", "install.lazy", "false")):
        refused = ask(home / "bin" / "perdure-pm", *words, "--json")
        answer = json.loads(refused.stdout)
        assert (refused.returncode, answer["errors"][0]["code"]) == (1, "home-unusable"), answer
        assert str(home) in answer["errors"][0]["summary"]
    refused = ask(reachable[0], checkout / "pm" / "bootstrap.py", "--home", folder / "new", "--json", "up")
    answer = json.loads(refused.stdout)
    assert (refused.returncode, answer["errors"][0]["code"]) == (1, "home-unusable"), answer
    assert answer["errors"][0]["summary"] == f"{folder} cannot be written by this user"
    assert not (folder / "new").exists()
    assert differences(before, fingerprint(home)) == []


def is_reachable(python: Path, user: UnprivilegedUser) -> bool:
    """Return whether the user can start an interpreter."""
    try:
        return user.run([str(python), "-I", "-c", "import ssl, json"]).returncode == 0
    except OSError:
        return False


SHIM = """
#include <errno.h>
int flock(int handle, int operation) { (void)handle; (void)operation; %s }
"""


@pytest.mark.proves("publication-locks")
@pytest.mark.platforms("linux")
@pytest.mark.parametrize(
    ("body", "reason"),
    [("errno = ENOLCK; return -1;", "No locks available"), ("return 0;", "the same lock was granted twice")],
    ids=["no locks", "locks that do not lock"],
)
def test_a_filesystem_without_working_locks_is_refused(
    own: Installation, new_home: Path, tmp_path: Path, body: str, reason: str
) -> None:
    """Case 113."""
    if shutil.which("gcc") is None:
        pytest.skip("no gcc to stand in for such a filesystem")
    source = tmp_path / "shim.c"
    source.write_text(SHIM % body, encoding="ascii")
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", tmp_path / "shim.so", source], check=True)
    shimmed = own.with_environment(LD_PRELOAD=str(tmp_path / "shim.so"))
    LocalFilesystem().remove_tree(own.runtime_path / "venv")
    before = fingerprint(own.home, without=("mutex",))
    for answer in (shimmed.pm("install", "--json"), replace(shimmed, home=new_home).up("--offline")):
        assert (answer.code, answer.error["code"]) == (1, "no-kernel-locks")
        assert reason in answer.error["summary"]
        assert "--home DIR" in answer.error["hint"]
    assert differences(before, fingerprint(own.home, without=("mutex",))) == []
    assert [path.name for path in new_home.iterdir() if path.name != "mutex"] == []
