"""The cache pruned: what repairing and going back need stays, and nothing behind a link is touched."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from perdure_pm.adapters.filesystem import LocalFilesystem
from perdure_pm.adapters.uv_cache import find_cached
from perdure_pm.model.errors import IntegrityFault
from tests.pm.bench import Bench
from tests.system.machine import fingerprint

pytestmark = pytest.mark.platforms("linux", "darwin")

HALF_BUILT = "9-00000000dead"


def cached(bench: Bench) -> list[str]:
    """Return the distributions of which the cache holds a wheel."""
    found = (f"{entry.name} {entry.version}" for entry in find_cached(bench.layout.uv_cache) if entry.version)
    return sorted(set(found))


def offline(bench: Bench) -> None:
    """Have nothing but the cache to install from."""
    bench.network = replace(bench.network, offline=True)


@pytest.mark.proves("collect-cache-keeps-needed")
def test_the_cache_is_pruned_to_what_repair_and_rollback_need_without_a_network(locked: Bench) -> None:
    """Case 99: what only an index could give again stays for every generation that is there."""
    first = locked.current.identity
    locked.add("part-0")
    second = locked.add("pinion>=1.5")
    locked.call("plugin-remove", names=["pinion", "part-0"])
    locked.add("part-1")
    for identity in (first, second):
        locked.call("pin", generation=identity)
    locked.pass_time(days=3)
    assert locked.call("collect", locked.context(dry_run=True), keep=0, cache=True).data["cache"] == {"removed": []}
    assert locked.call("collect", keep=0, cache=True).data["cache"]["removed"] == []  # the pinned one has them
    locked.call("pin", generation=second, remove=True)
    locked.call("collect", keep=0)
    assert "part-0 1.0" in cached(locked), "a collection alone leaves the cache"
    ended = locked.pm("collect", "--keep", "0", "--cache", "--dry-run", "--json").envelope["data"]["cache"]
    assert ended == {"removed": ["part-0 1.0", "pinion 1.5"]}
    assert "part-0 1.0" in cached(locked)
    ended = locked.pm("collect", "--keep", "0", "--cache")
    assert "\nremoved from the cache: part-0 1.0, pinion 1.5; 0.0 MB freed, " in ended.out
    assert cached(locked) == ["fakehost 0.1.0", "fakehost-clock 0.1.0", "part-1 1.0", "sprocket 1.0"]
    again = locked.call("collect", keep=0, cache=True)
    assert (again.status, again.data["cache"]["removed"], again.data["cache"]["freed"]) == ("noop", [], 0)

    offline(locked)
    LocalFilesystem().remove_tree(locked.current.path / "venv" / "lib")
    locked.call("repair")
    assert locked.start().returncode == 0
    locked.call("rollback", to=first)
    assert locked.start().returncode == 0


@pytest.mark.proves("collect-cache-keeps-needed")
def test_what_a_kept_record_of_a_lost_generation_needs_stays_in_the_cache(locked: Bench) -> None:
    locked.add("part-0")
    LocalFilesystem().remove_tree(locked.current.path)
    locked.pass_time(days=3)
    locked.call("collect", keep=0, cache=True)
    offline(locked)
    locked.call("repair")
    assert locked.start().returncode == 0


@pytest.mark.proves("collect-cache-no-link")
@pytest.mark.parametrize("where", ["cache", "cache/uv", "cache/tmp", "cache/uv/archive-v0", "cache/uv/wheels-v"])
def test_a_cache_behind_a_link_is_refused_before_anything_is_removed(bench: Bench, where: str, tmp_path: Path) -> None:
    bench.add("gadget")
    place = bench.layout.home / where
    if where.endswith("-v"):
        (place,) = place.parent.glob(f"{place.name}*")
    place.mkdir(exist_ok=True)
    place.rename(tmp_path / "aside")
    place.symlink_to(tmp_path / "aside")
    (bench.layout.generation(HALF_BUILT) / "venv").mkdir(parents=True)
    before = fingerprint(tmp_path / "aside")
    with pytest.raises(IntegrityFault, match="is a link"):
        bench.call("collect", keep=0, cache=True)
    assert fingerprint(tmp_path / "aside") == before
    assert HALF_BUILT in bench.generations


@pytest.mark.proves("collect-cache-no-link")
def test_a_link_in_the_cache_is_removed_and_what_it_leads_to_is_not(bench: Bench, tmp_path: Path) -> None:
    bench.add("gadget")
    bench.call("rollback")
    mine = tmp_path / "mine"
    (mine / "gadget" / "2.0-py3-none-any").mkdir(parents=True)
    (mine / "note").write_text("mine", encoding="utf-8")
    before = fingerprint(mine)
    (bucket,) = bench.layout.uv_cache.glob("wheels-v*")
    (bucket / "pypi").mkdir(exist_ok=True)
    (bucket / "pypi" / "gadget").symlink_to(mine / "gadget")
    (bucket / "pypi" / "other").mkdir()
    (bucket / "pypi" / "other" / "1.0-py3-none-any").symlink_to(mine)
    (bench.layout.uv_cache / "archive-v0" / "strange").symlink_to(mine)
    (bench.layout.scratch / "left").symlink_to(mine)
    outcome = bench.call("collect", keep=0, cache=True)
    assert "other 1.0" in outcome.data["cache"]["removed"]
    assert fingerprint(mine) == before
    assert not (bench.layout.scratch / "left").is_symlink()


@pytest.mark.proves("collect-cache-keeps-needed")
@pytest.mark.parametrize("how", ["record", "uv"])
def test_where_what_is_needed_cannot_be_told_the_cache_stays_and_that_is_said(bench: Bench, how: str) -> None:
    bench.add("gadget")
    bench.call("plugin-remove", names=["gadget"])
    if how == "record":
        record = bench.layout.generation(bench.generations[0]) / "record.json"
        record.parent.chmod(0o755)
        record.chmod(0o644)
        record.write_text("{")
    else:
        (binary,) = bench.layout.home.glob("tools/uv/*/uv")
        binary.write_text("nonsense", encoding="utf-8")
    before = cached(bench)
    (said,) = bench.call("collect", keep=0, cache=True).obligations
    assert "stays as it is" in said
    assert cached(bench) == before
