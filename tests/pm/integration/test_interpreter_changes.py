"""The interpreter under a generation changes: it is noticed, and one repair has everything right again."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perdure_pm.adapters.interpreter import running_interpreter
from perdure_pm.ops.doctor import examine
from perdure_pm.store.generations import Generation, load_generation
from tests.pm.bench import Bench
from tests.pm.fake_host import STUBS
from tests.system.machine import interpreters

pytestmark = pytest.mark.platforms("linux")


def problems(bench: Bench) -> list[dict[str, Any]]:
    """Return what doctor finds wrong."""
    found = examine(bench.layout, "default", deep=False, environ={})["problems"]
    return [problem for problem in found if problem["code"] not in STUBS]


def set_recorded(bench: Bench, generation: Generation, **changes: str) -> None:
    """Have the records say another interpreter than the one that is there: what a change of that one looks like."""
    for path in (generation.path / "record.json", bench.layout.kept_record(generation.identity)):
        path.parent.chmod(0o755)
        path.chmod(0o644)
        record = json.loads(path.read_bytes())
        record["interpreter"] |= changes
        path.write_text(json.dumps(record), encoding="utf-8")


@pytest.mark.proves("interpreter-change-mended")
def test_another_patch_version_is_told_and_the_same_is_built_for_it_once(bench: Bench) -> None:
    """Case 86: nothing is damaged by that, so the one before stays to go back to."""
    bench.add("gadget", "part-0")
    before = bench.current
    major, minor = running_interpreter().release
    set_recorded(bench, before, version=f"{major}.{minor}.99")
    (problem,) = problems(bench)
    assert (problem["code"], problem["hint"]) == ("interpreter-changed", "perdure-pm repair")
    assert f"{major}.{minor}.99" in problem["summary"]
    listed = bench.pm("plugin", "list", "--json").envelope["data"]
    assert bench.call("repair").status == "ok"
    now = bench.current
    assert now.identity != before.identity
    assert now.record["interpreter"] == running_interpreter().to_json()
    for name in ("requirements", "packages", "plugins", "selection", "wheels"):
        assert now.record[name] == before.record[name]
    assert bench.pm("plugin", "list", "--json").envelope["data"]["plugins"] == listed["plugins"]
    assert (problems(bench), bench.call("repair").status, bench.call("install").status) == ([], "noop", "noop")
    assert bench.call("rollback", to=before.identity).data["generation"] == before.identity


@pytest.mark.proves("interpreter-change-mended")
@pytest.mark.parametrize("verb", ["repair", "install"])
def test_an_interpreter_that_moved_away_is_replaced_by_another_of_its_minor_version(bench: Bench, verb: str) -> None:
    """Cases 70, 74 and 86: its directory is another one now."""
    bench.add("gadget")
    before = bench.current
    gone = bench.layout.home.parent / "gone" / "bin" / "python3"
    set_recorded(bench, before, path=str(gone))
    python = before.environment / "bin" / "python"
    python.parent.chmod(0o755)
    python.unlink()
    python.symlink_to(gone)
    assert bench.start().returncode == 1
    (problem,) = problems(bench)
    assert str(gone) in problem["summary"]
    bench.call(verb)
    assert set(json.loads(bench.start().stdout)["plugins"]) == {"fakehost-clock", "gadget"}
    assert bench.current.record["packages"] == before.record["packages"]
    assert bench.current.record["interpreter"]["path"] == str(running_interpreter().path)
    assert (problems(bench), bench.call(verb).status) == ([], "noop")


@pytest.mark.proves("interpreter-change-mended")
def test_an_upgrade_of_the_machine_to_another_minor_version_is_a_rebuild(bench: Bench, tmp_path: Path) -> None:
    """Case 90: a native module is for the Python before; doctor says rebuild, and a repair does it."""
    other = other_minor()
    bench.add("gadget")
    before = bench.current
    # The path stays and what is there is another Python, as where a distribution replaces its python3.
    place = tmp_path / "usr" / "bin" / "python3"
    place.parent.mkdir(parents=True)
    place.symlink_to(other)
    python = before.environment / "bin" / "python"
    python.parent.chmod(0o755)
    python.unlink()
    python.symlink_to(place)
    set_recorded(bench, before, path=str(place))
    (problem,) = problems(bench)
    assert (problem["code"], problem["hint"]) == ("generation-damaged", "perdure-pm repair")
    assert "was built for Python" in str(problem["files"])
    start = bench.start()
    assert (start.returncode, "was built for Python" in start.stderr) == (1, True)
    bench.call("repair")
    assert set(json.loads(bench.start().stdout)["plugins"]) == {"fakehost-clock", "gadget"}
    assert bench.current.record["packages"] == before.record["packages"]
    assert problems(bench) == []


def other_minor() -> Path:
    """Return a Python of this machine of another minor version than the one that runs the tests, or skip."""
    found = [path for path, version in interpreters((3, 11), (3, 14)).items() if version[:2] != sys.version_info[:2]]
    if not found:
        pytest.skip("this machine has one Python only")
    return found[0]


@pytest.mark.proves("interpreter-change-mended")
def test_what_one_asks_for_by_name_is_not_replaced_by_another(bench: Bench) -> None:
    """`host.python` says which: where that is not there, the refusal names it, and nothing changes."""
    before = bench.current.identity
    assert bench.pm("config", "set", "host.python", "python/none/bin/python3").exit_code == 0
    ended = bench.pm("install", "--json")
    (error,) = ended.envelope["errors"]
    assert (ended.exit_code, error["code"]) == (1, "interpreter-missing")
    assert "python/none/bin/python3" in error["summary"]
    assert bench.current.identity == before
    context = replace(bench.context(), host_python=str(running_interpreter().path))
    assert bench.call("install", context).status == "noop"
    assert load_generation(bench.layout, before).record["interpreter"]["path"] == str(running_interpreter().path)


@pytest.mark.proves("interpreter-change-mended")
@pytest.mark.parametrize("verb", ["install", "uninstall"])
def test_no_python_goes_where_a_link_leads(bench: Bench, tmp_path: Path, verb: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "cpython-3.13.0-linux").mkdir(parents=True)
    bench.layout.interpreters.symlink_to(elsewhere)
    ended = bench.pm("python", verb, "3.13", "--json")
    (error,) = ended.envelope["errors"]
    assert (ended.exit_code, error["code"]) == (8, "integrity")
    assert "HOME/python" in error["summary"]
    assert [path.name for path in elsewhere.iterdir()] == ["cpython-3.13.0-linux"]
