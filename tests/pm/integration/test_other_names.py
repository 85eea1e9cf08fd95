"""Hard links from outside of the home: doctor names them, and repair leaves the home files that nobody else has."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from perdure_pm.ops.doctor import examine
from perdure_pm.ops.other_names import find_linked
from perdure_pm.store.inventory import find_site_packages
from tests.pm.bench import Bench
from tests.pm.damage import flip, problems

pytestmark = pytest.mark.platforms("linux", "darwin")

FILES: dict[str, Callable[[Bench], Path]] = {
    "a module": lambda bench: find_site_packages(bench.current.environment) / "gadget" / "__init__.py",
    "the record": lambda bench: bench.current.path / "record.json",
    "the list of plugins": lambda bench: bench.current.path / "boot.json",
    "a launcher": lambda bench: bench.layout.bin / "fakehost",
    "the pointer": lambda bench: bench.layout.pointer("default"),
    "the profile's configuration": lambda bench: bench.config,
    "the kept record": lambda bench: bench.layout.kept_record(bench.current.identity),
}


def link(bench: Bench, outside: Path) -> dict[str, Path]:
    """Have each of these files a name outside, and return those names."""
    outside.mkdir()
    found = {}
    for number, (name, place) in enumerate(FILES.items()):
        found[name] = outside / str(number)
        os.link(place(bench), found[name])
    return found


@pytest.mark.proves("pm-names-own", "doctor-names-it", "repair-mends-it")
def test_a_name_outside_is_named_and_leads_nowhere_after_a_repair(bench: Bench, tmp_path: Path) -> None:
    bench.add("gadget")
    assert problems(bench.layout) == []
    names = link(bench, tmp_path / "outside")
    before = {name: (place(bench).read_bytes(), place(bench).stat()) for name, place in FILES.items()}
    found = {each["code"]: each for each in examine(bench.layout, "default", deep=True)["problems"]}
    problem = found["linked-outside"]
    assert (problem["hint"], len(problem["files"])) == ("perdure-pm repair", len(FILES))
    dry = bench.call("repair", bench.context(dry_run=True)).data["problems"]
    assert "linked-outside" in [each["code"] for each in dry]
    outcome = bench.call("repair")
    assert (outcome.status, len(outcome.data["separated"])) == ("ok", len(FILES))
    assert not any("still has a name" in notice for notice in outcome.obligations)
    assert outcome.data["rebuilt"] == []
    for name, other in names.items():
        now = FILES[name](bench)
        content, status = before[name]
        assert now.read_bytes() == content, name
        assert (now.stat().st_mode, now.stat().st_mtime_ns) == (status.st_mode, status.st_mtime_ns), name
        assert not now.samefile(other), name
        other.chmod(0o644)
        other.write_text("harmed")
    assert problems(bench.layout) == []
    assert bench.start().returncode == 0
    assert bench.call("repair").status == "noop"


@pytest.mark.proves("pm-names-own")
def test_what_the_home_shares_with_itself_stays_shared(bench: Bench, tmp_path: Path) -> None:
    bench.add("gadget")
    module = FILES["a module"](bench)
    (bench.layout.uv_cache / "twin").parent.mkdir(parents=True, exist_ok=True)
    os.link(module, bench.layout.uv_cache / "twin")
    assert find_linked(bench.layout) == []
    folder = module.parent
    folder.chmod(0o555)
    os.link(module, tmp_path / "outside")
    assert bench.call("repair").status == "ok"
    assert module.samefile(bench.layout.uv_cache / "twin")
    assert not module.samefile(tmp_path / "outside")
    assert folder.stat().st_mode & 0o777 == 0o555


@pytest.mark.proves("pm-names-own", "repair-mends-it")
def test_what_was_harmed_by_such_a_name_is_rebuilt_and_has_it_no_more(bench: Bench, tmp_path: Path) -> None:
    bench.add("gadget")
    module = FILES["a module"](bench)
    os.link(module, tmp_path / "outside")
    flip(tmp_path / "outside", 3)
    assert problems(bench.layout) == ["generation-damaged", "linked-outside"]
    assert bench.call("repair").data["rebuilt"]
    assert problems(bench.layout) == []
    assert not FILES["a module"](bench).samefile(tmp_path / "outside")
