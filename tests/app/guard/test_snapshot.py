"""What a verdict keeps of the filesystem is what the filesystem says, asked in whatever order."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest

from perdure.guard.probe import LONGEST_KEPT, Machine, Snapshot

pytestmark = pytest.mark.platforms("linux", "darwin")

NAMES = ("a", "b", "f", "gone", "link", "far", "up", "loop", "..")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    top = tmp_path.resolve()
    (top / "a" / "b").mkdir(parents=True)
    (top / "f").write_text("", encoding="utf-8")
    for name, target in (("link", "a"), ("far", str(top / "a" / "b")), ("loop", "loop"), ("a/b/up", "../..")):
        (top / name).symlink_to(target)
    return top


@pytest.mark.proves("guard-compare")
def test_paths_lead_where_they_lead(tree: Path) -> None:
    kept = Snapshot(Machine())
    paths = ["/".join((str(tree), *names)) for count in range(1, 5) for names in itertools.product(NAMES, repeat=count)]
    for ask in (kept, Snapshot(Machine())):
        for path in paths if ask is kept else reversed(paths):
            assert ask.real(path) == os.path.realpath(path)
    for path in paths[:200]:
        assert (kept.link(path), kept.identity(path)) == (Machine().link(path), Machine().identity(path))


def test_a_verdict_keeps_what_it_saw_first_and_nothing_of_endless_paths(tree: Path) -> None:
    kept, place = Snapshot(Machine()), str(tree / "f")
    before = kept.identity(place)
    (tree / "f").unlink()
    assert (kept.identity(place), Machine().identity(place)) == (before, None)
    long = str(tree) + "/x" * LONGEST_KEPT
    assert kept.real(long) == long
    assert kept.identity(long) is None
    assert long not in kept._real
    assert long not in kept._identities
