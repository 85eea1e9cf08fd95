"""Which Python a home is built on: an old one brings in a newer one, a shared one is left alone, a named one counts."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from perdure_pm.adapters.filesystem import LocalFilesystem
from tests.system.machine import Installation, fingerprint, interpreters, plain_environment


@pytest.fixture(scope="session")
def old_python() -> Path:
    """A Python that is new enough for bootstrap.py and too old for PM."""
    found = interpreters((3, 9), (3, 10))
    if not found:
        pytest.skip("no Python 3.9 or 3.10 on this machine")
    return min(found, key=lambda path: found[path])


@pytest.mark.proves("system-old-python")
def test_with_an_old_python_a_newer_one_is_brought_into_the_home(
    installed: Installation,
    warm_home: Path,
    downloads: Path,
    old_python: Path,
    scratch_user: dict[str, str],
    network_environment: Mapping[str, str],
) -> None:
    """Nothing lands beside it: not in ~/.local/bin, not in uv's shared directory."""
    there = replace(installed, home=warm_home, python=old_python, environment=scratch_user)
    there.with_environment(**network_environment).up("--python-downloads", downloads).succeeded()
    record = json.loads((there.runtime_path / "record.json").read_bytes())
    assert record["inputs"]["python"]["version"].startswith("3.13.")
    brought = Path(record["inputs"]["python"]["path"])
    assert brought.is_relative_to(warm_home / "python"), "by its real path, not through a link that uv moves"
    assert not brought.is_symlink()
    generation = json.loads((there.generation_path / "record.json").read_bytes())
    assert generation["interpreter"]["path"] == str(brought)
    there.perdure("plugins", "--check").succeeded()
    before = fingerprint(warm_home, without=("receipts", "mutex", "mutex.json"))
    there.up("--offline").succeeded()  # now without the list: the Python is there
    assert before == fingerprint(warm_home, without=("receipts", "mutex", "mutex.json"))
    # The launcher finds the home's own Python when PM's environment is gone and the PATH has none.
    LocalFilesystem().remove_tree(there.runtime_path / "venv")
    rescued = there.with_environment(PATH="/nowhere", PERDURE_OFFLINE="1")
    rescued.pm("status", "--json").succeeded()


@pytest.mark.proves("system-old-python")
def test_an_old_python_without_a_way_to_a_newer_one_is_told_so(
    installed: Installation, warm_home: Path, old_python: Path, scratch_user: dict[str, str]
) -> None:
    there = replace(installed, home=warm_home, python=old_python, environment=scratch_user)
    answer = there.up("--offline")
    assert answer.code == 1
    assert answer.error["code"] == "interpreter-missing"
    assert "3.11 or newer" in answer.error["summary"]
    assert "--python PATH" in answer.error["hint"]
    assert not (warm_home / "pm" / "current").exists()


@pytest.mark.proves("system-old-python")
def test_a_python_that_is_named_and_too_old_is_refused(
    installed: Installation, warm_home: Path, old_python: Path
) -> None:
    answer = replace(installed, home=warm_home).up("--offline", "--python", old_python)
    assert (answer.code, answer.error["code"]) == (1, "interpreter-missing")
    answer = replace(installed, home=warm_home).up("--offline", "--python", "no-such-python")
    assert (answer.code, answer.error["code"]) == (1, "interpreter-missing")


@pytest.mark.slow
@pytest.mark.proves("system-shared-python")
def test_an_interpreter_that_uv_shares_is_not_built_on(
    installed: Installation,
    warm_home: Path,
    tmp_path: Path,
    downloads: Path,
    uv: Path,
    network_environment: Mapping[str, str],
) -> None:
    """Case 88: uv may take it away at any time; another is brought into the home instead."""
    shared = tmp_path / "data" / "uv" / "python"
    environment = plain_environment({"XDG_DATA_HOME": str(tmp_path / "data")})
    there = replace(installed, home=warm_home, environment=environment)
    command: list[str | Path] = [
        uv,
        "python",
        "install",
        "--no-bin",
        "--no-config",
        "--python-downloads-json-url",
        downloads,
    ]
    there.run([*command, "--install-dir", shared, "3.13"]).succeeded()
    (python,) = shared.glob("cpython-3.13.*/bin/python3.13")
    other = replace(there, python=python).with_environment(**network_environment)
    other.up("--python-downloads", downloads).succeeded()
    taken = json.loads((there.runtime_path / "record.json").read_bytes())["inputs"]["python"]["path"]
    assert Path(taken).is_relative_to(warm_home / "python")
    other.up("--offline", "--python", python).succeeded()  # who names it gets it
    taken = json.loads((there.runtime_path / "record.json").read_bytes())["inputs"]["python"]["path"]
    assert taken == os.path.realpath(python)


@pytest.mark.proves("system-shared-python", "interpreter-comes-back")
def test_what_uv_removed_for_everybody_is_brought_into_the_home_and_the_same_runs_on_it(
    own: Installation,
    tmp_path: Path,
    downloads: Path,
    uv: Path,
    scratch_user: dict[str, str],
    network_environment: Mapping[str, str],
) -> None:
    """Cases 74 and 88: PM never notices; a host that was put there by name is rebuilt from its record."""
    shared = tmp_path / "shared"
    there = replace(own, environment={**scratch_user, **network_environment})
    options: list[str | Path] = ["--no-config", "--cache-dir", tmp_path / "cache"]
    listed: list[str | Path] = ["--python-downloads-json-url", downloads]
    there.run([uv, "python", "install", "--no-bin", *options, *listed, "--install-dir", shared, "3.13"]).succeeded()
    (python,) = shared.glob("cpython-3.13.*/bin/python3.13")
    there.pm("install", "--python", python).succeeded()
    assert there.pm("python", "list", "--json").json["data"]["interpreters"][-1]["own"] is False
    before = json.loads((there.generation_path / "record.json").read_bytes())
    there.run([uv, "python", "uninstall", *options, "--install-dir", shared, "--all"]).succeeded()
    assert not python.exists()
    told = there.perdure("--version")
    assert (told.code, "its interpreter is gone" in told.err) == (1, True)
    assert there.pm("doctor", "--json").code == 3
    mending = there.with_environment(PERDURE_PYTHON_DOWNLOADS=str(downloads), PERDURE_OFFLINE="1")
    mending.pm("repair", "--json").succeeded()
    after = json.loads((there.generation_path / "record.json").read_bytes())
    assert Path(after["interpreter"]["path"]).is_relative_to(there.home / "python")
    for name in ("packages", "requirements", "plugins", "selection"):
        assert after[name] == before[name]
    there.perdure("plugins", "--check").succeeded()
    there.pm("doctor", "--deep").succeeded()
    assert there.pm("install", "--json").succeeded().json["status"] == "noop"


@pytest.mark.proves("system-no-python")
@pytest.mark.parametrize("lazy", [True, False])
def test_without_any_python_uv_brings_one_in(
    lazy: bool,
    installed: Installation,
    warm_home: Path,
    downloads: Path,
    scratch_user: dict[str, str],
    network_environment: Mapping[str, str],
    without_python: tuple[str, ...],
) -> None:
    """The last rung: every Python is gone, PM's runtime too; a person's `repair` may, and what nobody asked for not."""
    there = replace(installed, home=warm_home, environment={**scratch_user, **network_environment})
    there.up().succeeded()
    LocalFilesystem().remove_tree(there.runtime_path / "venv")
    words = ("status",) if lazy else ("repair", "--json")
    variables = {"PATH": "/usr/bin:/bin", "PERDURE_PYTHON_DOWNLOADS": str(downloads), "PERDURE_NO_LAZY": "1"}
    ended = replace(there, prefix=without_python).with_environment(**variables).pm(*words)
    if lazy:
        assert ended.code == 1
        assert "no Python of at least 3.9" in ended.err
        assert not (warm_home / "python").exists()
        return
    ended.succeeded()
    (anew,) = ended.json["data"]["anew"]
    assert anew["profile"] == "default", "what ran on the interpreter that is gone was installed anew on the new one"
    record = json.loads((there.runtime_path / "record.json").read_bytes())
    assert record["inputs"]["python"]["version"].startswith("3.13.")
    assert Path(record["inputs"]["python"]["path"]).is_relative_to(warm_home / "python")


@pytest.mark.proves("system-own-python-moves")
def test_a_home_with_its_own_python_works_after_it_was_moved(
    installed: Installation,
    warm_home: Path,
    downloads: Path,
    scratch_user: dict[str, str],
    network_environment: Mapping[str, str],
) -> None:
    """Case 114: one step, without network, and every launcher and generation works."""
    there = replace(installed, home=warm_home, environment={**scratch_user, **network_environment})
    there.up("--python", "3.13", "--python-downloads", downloads).succeeded()
    assert list((warm_home / "python").glob("cpython-3.13*"))
    moved = warm_home.with_name("moved")
    warm_home.rename(moved)
    try:
        gone = replace(there, home=moved, environment={**scratch_user, "PERDURE_OFFLINE": "1"})
        gone.pm("repair", "--json").succeeded()
        gone.perdure("plugins", "--check").succeeded()
        gone.pm("doctor", "--deep", "--json").succeeded()
        record = json.loads((gone.generation_path / "record.json").read_bytes())
        assert Path(record["interpreter"]["path"]).is_relative_to(moved / "python")
    finally:
        moved.rename(warm_home)
