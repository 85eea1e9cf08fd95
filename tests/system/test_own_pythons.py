"""The Pythons that PM keeps in a home: brought in, built on, and never taken from under what needs them."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import tarfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.system.machine import Installation, differences, fingerprint


@pytest.fixture
def own_pythons(own: Installation, downloads: Path, scratch_user: dict[str, str]) -> Installation:
    """The home, for a user who has nothing, with a list that offers one Python and no network."""
    variables = {**scratch_user, "PERDURE_PYTHON_DOWNLOADS": str(downloads), "PERDURE_OFFLINE": "1"}
    return replace(own, environment=variables)


@pytest.fixture
def archive(downloads: Path) -> Path:
    """The archive that the list offers."""
    (entry,) = json.loads(downloads.read_bytes()).values()
    return Path(str(entry["url"]).removeprefix("file://"))


def listed(installation: Installation) -> dict[str, dict[str, Any]]:
    """Return what `python list` says of each interpreter in the home, by its version."""
    found = installation.pm("python", "list", "--json").succeeded().json["data"]["interpreters"]
    return {entry["version"]: entry for entry in found if entry["own"]}


@pytest.mark.proves("python-own-place")
@pytest.mark.parametrize("how", ["version", "archive"])
def test_a_python_lands_in_the_home_and_nowhere_else(
    own_pythons: Installation, archive: Path, without_network: tuple[str, ...], how: str
) -> None:
    """By version from a list, or from an archive; that nothing lands beside it, the fixture of the user asserts."""
    there = replace(own_pythons, prefix=without_network)
    if how == "archive":
        there = replace(there, environment={**there.environment, "PERDURE_PYTHON_DOWNLOADS": ""})
    before = fingerprint(there.home, without=("python", "receipts", "cache", "mutex", "mutex.json"))
    asked = "3.13" if how == "version" else str(archive)
    assert there.pm("python", "install", asked, "--dry-run", "--json").succeeded().json["data"]["dry_run"] is True
    assert listed(there) == {}
    answer = there.pm("python", "install", asked, "--json").succeeded().json["data"]
    path = Path(answer["path"])
    assert path == path.resolve()
    assert path.is_relative_to(there.home / "python")
    assert answer["version"].startswith("3.13.")
    assert [entry["used_by"] for entry in listed(there).values()] == [[]]
    assert not os.stat(path.parent.parent).st_mode & 0o222, "complete, and read-only"
    there.run([path, "-I", "-c", "import ssl, sqlite3, sysconfig, zlib"]).succeeded()
    assert there.pm("python", "install", asked, "--json").succeeded().json["status"] == "noop"
    assert differences(before, fingerprint(there.home, without=("python", "receipts", "cache", "mutex"))) == []
    there.pm("python", "uninstall", "3.13").succeeded()
    assert listed(there) == {}
    assert [name for name in os.listdir(there.home / "python") if not name.startswith(".")] == []


@pytest.mark.proves("python-needed-stays")
def test_the_host_moves_to_a_python_once_and_that_stays_as_long_as_anything_needs_it(
    own_pythons: Installation, network_environment: Mapping[str, str]
) -> None:
    """Case 70: a new interpreter is one rebuild, with the same plugins; going back needs the old one, which stays."""
    there = own_pythons.with_environment(**{"PERDURE_OFFLINE": "0", **network_environment})
    plugins = there.pm("plugin", "list", "--json").succeeded().json["data"]
    there.pm("python", "install", "3.13").succeeded()
    there.pm("config", "set", "host.python", "3.13").succeeded()
    first = there.generation
    moved = there.pm("install", "--json").succeeded()
    assert there.generation == moved.json["data"]["generation"] != first
    assert there.pm("install", "--json").succeeded().json["status"] == "noop", "once"
    record = json.loads((there.generation_path / "record.json").read_bytes())
    assert record["interpreter"]["version"].startswith("3.13.")
    there.perdure("plugins", "--check").succeeded()
    assert there.pm("plugin", "list", "--json").succeeded().json["data"]["plugins"] == plugins["plugins"]
    (used,) = listed(there).values()
    assert used["used_by"] == [{"kind": "generation", "name": there.generation, "selected": True}]

    refused = there.pm("python", "uninstall", "3.13", "--json")
    assert (refused.code, refused.error["code"]) == (7, "busy")
    assert there.generation in refused.error["summary"]
    there.pm("collect").succeeded()  # what the refusal names
    there.pm("rollback").succeeded()
    refused = there.pm("python", "uninstall", "3.13", "--json")
    assert (refused.code, moved.json["data"]["generation"] in refused.error["summary"]) == (7, True), "kept, so needed"
    there.pm("self", "rebuild", "--python", "3.13").succeeded()
    refused = there.pm("python", "uninstall", used["path"], "--json")
    assert "PM's runtime" in refused.error["summary"]
    assert refused.error["summary"].count("selected") == 1
    there.pm("doctor", "--deep").succeeded()


def test_what_cannot_be_had_or_removed_is_told_by_its_name(own_pythons: Installation, tmp_path: Path) -> None:
    member = tmp_path / "python3"
    member.write_bytes(b"\x7fELF of another world")
    member.chmod(0o755)
    names = {"foreign": "python/bin/python3", "escaping": "python/../../python3", "empty": "other/python3"}
    for archive, name in names.items():
        with tarfile.open(tmp_path / archive, "w") as file:
            file.add(member, name)
    cases: list[tuple[tuple[str | Path, ...], str, str]] = [
        (("install", "3.99"), "interpreter-missing", "3.99"),
        (("install", "3.9"), "interpreter-missing", "Python 3.9 was asked for"),
        (("install", "python3"), "usage", "python3"),
        (("install", "./gone.tar.gz"), "usage", "gone.tar.gz"),
        (("install", tmp_path / "empty"), "usage", "no Python"),
        (("install", tmp_path / "foreign"), "interpreter-missing", "does not run on this machine"),
        (("install", tmp_path / "escaping"), "integrity", "climbs out"),
        (("uninstall", "3.13"), "usage", "keeps no Python 3.13"),
        (("uninstall", "/usr/bin/python3"), "usage", "/usr/bin/python3"),
    ]
    for words, code, says in cases:
        answer = own_pythons.pm("python", *words, "--json")
        assert (answer.code != 0, answer.error["code"]) == (True, code), words
        assert says in answer.error["summary"]
        assert answer.error["hint"]
    left = own_pythons.home / "python"
    assert [name for name in (os.listdir(left) if left.is_dir() else []) if not name.startswith(".")] == []


@pytest.mark.proves("python-own-place")
@pytest.mark.parametrize(
    "after", [1.2, *(pytest.param(at, marks=pytest.mark.slow) for at in (0.4, 0.8, 1.6, 2.0, 3.0))]
)
def test_a_killed_installation_is_finished_by_the_next(own_pythons: Installation, after: float) -> None:
    """What it left is never built on, and is replaced as a whole."""
    command = [str(own_pythons.home / "bin" / "perdure-pm"), "python", "install", "3.13"]
    with subprocess.Popen(
        command,
        env=dict(own_pythons.environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        time.sleep(after)
        os.killpg(process.pid, signal.SIGKILL)
    own_pythons.pm("doctor").succeeded()
    answer = own_pythons.pm("python", "install", "3.13", "--json").succeeded()
    (found,) = listed(own_pythons).values()
    assert (found["path"], found["unfinished"]) == (answer.json["data"]["path"], False)
    own_pythons.run([found["path"], "-I", "-c", "import ssl, sysconfig"]).succeeded()


@pytest.mark.proves("python-damage-mended")
@pytest.mark.parametrize(
    ("damage", "deep"), [("it cannot start", ()), pytest.param("one byte", ("--deep",), marks=pytest.mark.slow)]
)
def test_a_damaged_python_of_the_home_is_named_and_brought_in_again(
    own_pythons: Installation, damage: str, deep: tuple[str, ...]
) -> None:
    """As it was installed, in the same place, so what was built on it runs on."""
    there = own_pythons
    there.pm("python", "install", "3.13").succeeded()
    (python,) = listed(there).values()
    library = Path(python["path"]).parent.parent / "lib" / "python3.13"
    before = fingerprint(library / "json", without=("__pycache__",))
    module = library / ("encodings" if damage == "it cannot start" else "json") / "__init__.py"
    module.parent.chmod(0o755)
    module.chmod(0o644)
    if damage == "it cannot start":
        module.unlink()
    else:
        module.write_bytes(module.read_bytes().replace(b"a", b"b", 1))
    problems = there.pm("doctor", *deep, "--json").json["data"]["problems"]
    assert [problem["code"] for problem in problems] == ["interpreter-damaged"]
    assert module.parent.name in problems[0]["summary"]
    assert there.with_environment(PERDURE_PYTHON_DOWNLOADS="").pm("repair").code == 0, "what needs it not goes on"
    assert there.pm("doctor", *deep).code == 3, "there was nothing to bring it in from, and that was said"
    assert there.pm("repair", "--json").succeeded().json["data"]["interpreters"] == [python["version"]]
    assert listed(there) == {python["version"]: python}
    assert fingerprint(library / "json", without=("__pycache__",)) == before
    there.pm("doctor", "--deep").succeeded()
    assert there.pm("repair", "--json").succeeded().json["status"] == "noop"


@pytest.mark.slow
@pytest.mark.proves("python-needed-stays")
@pytest.mark.parametrize("seed", range(3))
def test_no_sequence_of_commands_changes_what_pm_runs_from(own_pythons: Installation, seed: int) -> None:
    """Case 103: installs, removals, conflicts, collections and refusals in any order; every byte of PM stays."""
    there = own_pythons
    chance = random.Random(seed)  # noqa: S311 - the same sequences each time
    commands: list[tuple[str, ...]] = [
        ("python", "install", "3.13"),
        ("python", "uninstall", "3.13"),
        ("python", "uninstall", str(there.python)),
        ("install", "--python", "3.13"),
        ("install", "--python", str(there.python)),
        ("plugin", "remove", "perdure-facts"),
        ("plugin", "add", "perdure-facts"),
        ("plugin", "add", "no-such-plugin-anywhere"),
        ("rollback",),
        ("collect", "--keep", "0"),
        ("self", "rollback"),
        ("repair",),
    ]
    parts = ("pm/runtimes", "pm/seed", "tools")
    before = {part: fingerprint(there.home / part) for part in parts}
    for words in chance.choices(commands, k=14):
        answer = there.pm(*words, "--json")
        assert answer.code in {0, 1, 2, 4, 6, 7}, (words, answer.err)
        for part in parts:
            assert differences(before[part], fingerprint(there.home / part)) == [], words
        there.perdure("--version").succeeded()
    there.pm("doctor", "--deep").succeeded()
