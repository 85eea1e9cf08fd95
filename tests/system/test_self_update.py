"""PM changes itself: a new version beside the old one, the way back, and whatever goes wrong in between."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tarfile
import time
from dataclasses import replace
from pathlib import Path

import pytest

from perdure_pm.adapters.filesystem import LocalFilesystem
from tests.system.machine import Installation, differences, fingerprint

NEWER = "9.8.7"
PM_ITSELF = ("pm/current", "pm/seed/current", "bin/perdure-pm")


@pytest.fixture
def newer(own_checkout: Path) -> Path:
    """A checkout of a newer version, whose launchers differ too."""
    module = own_checkout / "pm" / "perdure_pm" / "__init__.py"
    module.write_text(module.read_text(encoding="utf-8").replace('"0.1.0"', f'"{NEWER}"'), encoding="utf-8")
    for name in ("pm.sh", "host.sh"):
        template = own_checkout / "pm" / "perdure_pm" / "launcher" / name
        template.write_text(f"# of {NEWER}\n{template.read_text(encoding='utf-8')}", encoding="utf-8")
    return own_checkout


@pytest.fixture
def offline(own: Installation) -> Installation:
    """The home, whose caches are all there is to build from."""
    return own.with_environment(PERDURE_OFFLINE="1")


def version(installation: Installation) -> str:
    """Return what PM says of itself."""
    return installation.pm("--version").succeeded().out.split()[-1]


def selected(installation: Installation) -> dict[str, bytes]:
    """Return the bytes of what says which PM runs."""
    return {name: (installation.home / name).read_bytes() for name in PM_ITSELF}


@pytest.mark.proves("self-update-old-or-new", "self-back-without-network")
def test_an_update_is_selected_beside_the_old_version_and_one_step_goes_back(
    offline: Installation, newer: Path, without_network: tuple[str, ...]
) -> None:
    """Case 3; what runs goes on, launchers follow, and the way back needs neither a network nor a build."""
    old, was, before = offline.runtime, version(offline), selected(offline)
    app = fingerprint(offline.generation_path)
    running = [
        offline.runtime_path / "venv" / "bin" / "python",
        "-I",
        "-c",
        "import sys; sys.stdin.read(); import click",
    ]
    with subprocess.Popen(list(map(str, running)), stdin=subprocess.PIPE) as process:
        planned = offline.pm("self", "update", newer, "--dry-run", "--json").succeeded()
        assert (planned.json["data"]["dry_run"], selected(offline)) == (True, before)
        answer = offline.pm("self", "update", newer, "--json").succeeded()
        assert (answer.json["data"]["from"], answer.json["data"]["version"]) == (old, NEWER)
        assert offline.runtime == answer.json["data"]["runtime"] != old
        process.communicate(b"")
    assert process.returncode == 0, "a process of the old version still imports from it"
    assert version(offline) == NEWER
    for command in ("perdure-pm", "perdure"):
        assert f"# of {NEWER}" in (offline.home / "bin" / command).read_text(encoding="utf-8")
    offline.perdure("--version").succeeded()
    offline.pm("doctor", "--deep").succeeded()
    assert offline.pm("self", "update", newer, "--json").succeeded().json["status"] == "noop"
    assert differences(app, fingerprint(offline.generation_path)) == []

    alone = replace(offline, prefix=without_network)
    kept = set(offline.runtimes)
    back = alone.pm("self", "rollback", "--json").succeeded()
    assert back.json["data"]["runtime"] == old
    assert (version(offline), selected(offline), set(offline.runtimes)) == (was, before, kept)
    assert f"# of {NEWER}" not in (offline.home / "bin" / "perdure").read_text(encoding="utf-8")
    alone.pm("doctor", "--deep").succeeded()
    again = alone.pm("self", "update", newer, "--json").succeeded()
    assert (again.json["data"]["runtime"], set(offline.runtimes)) == (answer.json["data"]["runtime"], kept)
    named = alone.pm("self", "rollback", old, "--json").succeeded()
    assert named.json["data"]["runtime"] == old
    said = [(receipt["operation"], receipt["status"]) for receipt in offline.receipts()]
    assert [pair for pair in said if pair[0] != "self-settle"][-5:] == [
        ("self-update", "ok"),
        ("self-update", "noop"),
        ("self-rollback", "ok"),
        ("self-update", "ok"),
        ("self-rollback", "ok"),
    ]


@pytest.mark.proves("self-update-old-or-new")
def test_an_upgrade_of_the_host_says_that_pm_is_another_version_than_its_checkout(
    offline: Installation, newer: Path
) -> None:
    """What it says works as it stands: the checkout that the home was told last is what PM is updated from."""
    said = offline.pm("upgrade", "--checkout", newer, "--yes", "--json").succeeded().json["data"]["obligations"]
    (told,) = [line for line in said if "self update" in line]
    assert str(newer) in told
    assert version(offline) != NEWER
    offline.run(["sh", "-c", told.rpartition(": ")[2]]).succeeded()
    assert version(offline) == NEWER
    again = offline.pm("upgrade", "--yes", "--json").succeeded().json["data"]["obligations"]
    assert [line for line in again if "self update" in line] == []


@pytest.mark.slow
@pytest.mark.proves("self-update-old-or-new")
def test_an_update_from_an_archive_leaves_nothing_of_it(offline: Installation, newer: Path, tmp_path: Path) -> None:
    archive = tmp_path / "perdure.tar.gz"
    with tarfile.open(archive, "w:gz") as file:
        for name in ("pm", "compat"):
            file.add(newer / name, f"perdure-{NEWER}/{name}")
    offline.pm("self", "update", archive).succeeded()
    assert version(offline) == NEWER
    assert not (offline.home / "pm" / "incoming").exists()
    LocalFilesystem().remove_tree(offline.runtime_path / "venv")
    assert version(offline) == NEWER, "its seed rebuilds it without the archive"


@pytest.mark.proves("self-update-old-or-new")
@pytest.mark.parametrize(
    ("place", "text", "says"),
    [
        ("ops/repair.py", "raise ImportError('broken on purpose')\n", "broken on purpose"),
        pytest.param("cli/entry.py", "def root(:\n", "SyntaxError", marks=pytest.mark.slow),
        pytest.param(
            "ops/runtime_build.py", "import nothing_of_that_name\n", "nothing_of_that_name", marks=pytest.mark.slow
        ),
    ],
)
def test_a_version_that_does_not_start_is_never_selected(
    offline: Installation, newer: Path, place: str, text: str, says: str
) -> None:
    """Also where the fault is in a module that only one operation imports, or in the builder itself."""
    (newer / "pm" / "perdure_pm" / place).write_text(text, encoding="utf-8")
    before, runtimes = selected(offline), offline.runtimes
    answer = offline.pm("self", "update", newer, "--json")
    assert (answer.code, answer.error["code"]) == (1, "build-failed")
    assert says in json.dumps(answer.error)
    assert (selected(offline), offline.runtimes) == (before, runtimes)
    offline.pm("doctor", "--deep").succeeded()


def test_what_is_no_source_of_pm_is_told_by_its_name(offline: Installation, tmp_path: Path) -> None:
    folder, incomplete, archive = tmp_path / "folder", tmp_path / "incomplete", tmp_path / "archive.tar"
    folder.mkdir()
    (incomplete / "pm").mkdir(parents=True)
    (incomplete / "pm" / "bootstrap.py").touch()
    with tarfile.open(archive, "w") as file:
        file.add(folder, "folder")
    before = selected(offline)
    for source in (folder, incomplete, archive, tmp_path / "gone"):
        answer = offline.pm("self", "update", source, "--json")
        assert answer.code in {2, 8}
        assert str(source) in answer.error["summary"]
        assert answer.error["hint"]
    config = offline.home / "config.yaml"
    text = config.read_text(encoding="utf-8").replace(str(offline.checkout), str(folder))
    config.write_text(text, encoding="utf-8")
    answer = offline.pm("self", "update", "--json")
    assert (answer.code, "nobody said" in answer.error["summary"]) == (2, True)
    assert selected(offline) == before


@pytest.mark.proves("self-update-old-or-new")
@pytest.mark.parametrize(
    "after", [1.0, *(pytest.param(seconds, marks=pytest.mark.slow) for seconds in (0.2, 0.5, 1.5, 2.0, 2.5, 3.0, 4.0))]
)
def test_a_killed_update_leaves_the_old_version_or_the_new_one(
    offline: Installation, newer: Path, after: float
) -> None:
    """Case 93: the whole tree of processes dies, the builder's too; the next try ends it."""
    was = version(offline)
    command = [str(offline.home / "bin" / "perdure-pm"), "self", "update", str(newer)]
    with subprocess.Popen(
        command,
        env=dict(offline.environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        time.sleep(after)
        os.killpg(process.pid, signal.SIGKILL)
    assert version(offline) in {was, NEWER}
    offline.pm("install", "--json").succeeded()  # waits for nobody: the builder died with who asked for it
    offline.pm("doctor", "--deep").succeeded()
    offline.pm("self", "update", newer).succeeded()
    assert version(offline) == NEWER
    folder = offline.home / "pm" / "runtimes"
    assert [path.name for path in folder.iterdir() if not (path / "record.json").is_file()] == []
    offline.pm("self", "rollback").succeeded()
    assert version(offline) == was


@pytest.mark.proves("self-update-old-or-new")
def test_two_updates_at_once_build_one_runtime(offline: Installation, newer: Path) -> None:
    command = [str(offline.home / "bin" / "perdure-pm"), "self", "update", str(newer), "--json"]
    started = [
        subprocess.Popen(command, env=dict(offline.environment), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(2)
    ]
    answers = [json.loads(process.communicate(timeout=240)[0]) for process in started]
    assert [answer["exit_code"] for answer in answers] == [0, 0]
    assert {answer["data"]["runtime"] for answer in answers} == {offline.runtime}
    assert len(offline.runtimes) == 2


@pytest.mark.proves("self-back-without-network")
@pytest.mark.parametrize(
    "why", ["nothing to build from", pytest.param("lazy installs off", marks=pytest.mark.slow), "a person"]
)
def test_a_damaged_version_that_cannot_be_rebuilt_gives_way_to_the_one_before(
    offline: Installation, newer: Path, why: str
) -> None:
    """Case 93: the previous runtime is used and the damage is reported."""
    was, old = version(offline), offline.runtime
    offline.pm("self", "update", newer).succeeded()
    damaged = offline.runtime
    LocalFilesystem().remove_tree(offline.runtime_path / "venv")
    if why == "a person":
        answer = offline.pm("self", "rollback", "--json").succeeded()
        assert (answer.json["data"]["from"], answer.json["data"]["runtime"]) == (damaged, old)
        assert version(offline) == was
        return
    there = offline
    if why == "nothing to build from":
        LocalFilesystem().remove_tree(offline.home / "cache")
    else:
        there = offline.with_environment(PERDURE_NO_LAZY="1")
    answer = there.pm("status", "--json").succeeded()
    assert answer.json["data"]["pm"]["version"] == was
    assert "cannot be rebuilt" in answer.err
    assert offline.runtime == old
    (receipt,) = [receipt for receipt in offline.receipts() if receipt["operation"] == "rescue"]
    assert receipt["status"] == ("failed" if there is offline else "refused")
    assert receipt["data"] == {"from": damaged, "runtime": old}
    assert there.pm("status").succeeded().err == "", "the second time there is nothing to do"
    there.pm("doctor", "--deep").succeeded()


@pytest.mark.proves("self-update-old-or-new")
def test_a_crash_between_the_runtime_and_its_seed_is_told_and_mended(offline: Installation, newer: Path) -> None:
    seed = offline.home / "pm" / "seed" / "current"
    old = seed.read_bytes()
    offline.pm("self", "update", newer).succeeded()
    new = seed.read_bytes()
    assert new != old
    seed.write_bytes(old)  # what a crash right after the commit leaves
    problems = offline.pm("doctor", "--json").json["data"]["problems"]
    assert [problem["code"] for problem in problems] == ["seed-other"]
    offline.pm("repair").succeeded()
    assert seed.read_bytes() == new
    offline.pm("doctor", "--deep").succeeded()
    offline.pm("self", "rebuild").succeeded()
    assert version(offline) == NEWER
