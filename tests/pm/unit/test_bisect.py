"""The search for culprits: right for every pair among many, in about as many tries as halvings."""

from __future__ import annotations

import itertools
import math

import pytest

from perdure_pm.ops.bisect import Tried, find_lone
from perdure_pm.ops.conflict import find_smallest

ENTRIES = tuple(f"plugin-{number}" for number in range(30))


def tries_of(*groups: frozenset[str]) -> Tried:
    """Return tries that fail where one of the groups is whole."""
    return Tried(lambda subset: not any(group <= set(subset) for group in groups), budget=1000)


@pytest.mark.proves("plugins-bisect")
def test_every_lone_culprit_is_found_by_halving() -> None:
    for culprit in ENTRIES:
        works = tries_of(frozenset({culprit}))
        assert not works(ENTRIES)
        assert find_lone(ENTRIES, works) == culprit
        assert works.asked <= 2 + math.ceil(math.log2(len(ENTRIES)))


@pytest.mark.proves("plugins-bisect")
def test_of_two_lone_culprits_one_is_found_and_then_the_other() -> None:
    for first, second in itertools.combinations(ENTRIES, 2):
        works = tries_of(frozenset({first}), frozenset({second}))
        found = find_lone(ENTRIES, works)
        assert found in {first, second}
        rest = tuple(entry for entry in ENTRIES if entry != found)
        assert {found, find_lone(rest, works)} == {first, second}
        assert works.asked <= 2 * (2 + math.ceil(math.log2(len(ENTRIES))))


@pytest.mark.proves("plugins-bisect")
def test_every_pair_that_fails_only_together_is_found_as_that() -> None:
    for pair in itertools.combinations(ENTRIES, 2):
        works = tries_of(frozenset(pair))
        assert not works(ENTRIES)
        assert find_lone(ENTRIES, works) is None
        assert find_smallest(ENTRIES, works) == (pair, True)
        assert works.asked <= 2 + 5 * math.ceil(math.log2(len(ENTRIES)))


def test_nothing_is_found_where_nothing_fails() -> None:
    works = tries_of()
    assert works(ENTRIES)
    assert find_lone(ENTRIES, works) is None
    assert find_lone((), works) is None
    assert works.asked == 1
