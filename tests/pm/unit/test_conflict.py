"""The search for the smallest set that clashes, over a question that only counts."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from perdure_pm.ops.conflict import BudgetSpent, Counted, Found, find_clashes, find_smallest

MANY = tuple(f"part-{number}" for number in range(32))


def without(*clashes: Sequence[str]) -> Counted:
    """A question that answers no for whatever holds one of the clashes whole."""
    return Counted(lambda subset: not any(set(clash) <= set(subset) for clash in clashes), budget=1000)


@pytest.mark.proves("plugins-smallest-clash")
@pytest.mark.parametrize(("clash", "most"), [(("part-7",), 9), (("part-3", "part-29"), 16), (MANY[10:13], 20)])
def test_the_smallest_clash_among_many_is_found_in_a_few_trials(clash: tuple[str, ...], most: int) -> None:
    fits = without(clash)
    assert find_smallest(MANY, fits) == (clash, True)
    assert fits.asked <= most


@pytest.mark.proves("plugins-smallest-clash")
@pytest.mark.parametrize(("clash", "most"), [(("part-7",), 1), (("part-3", "part-29"), 3), (MANY[10:13], 5)])
def test_a_handful_of_trials_is_enough_where_the_resolver_named_them(clash: tuple[str, ...], most: int) -> None:
    fits = without(clash)
    assert find_smallest(MANY, fits, suspects=clash) == (clash, True)
    assert fits.asked <= most


@pytest.mark.proves("plugins-smallest-clash")
def test_wrong_suspects_cost_one_trial() -> None:
    right, wrong = without(("part-3", "part-29")), without(("part-3", "part-29"))
    assert find_smallest(MANY, right) == find_smallest(MANY, wrong, suspects=["part-1", "part-2", "unknown"])
    assert wrong.asked == right.asked + 1


@pytest.mark.proves("plugins-smallest-clash")
def test_what_is_found_clashes_and_nothing_smaller_does() -> None:
    chance = random.Random(5)  # noqa: S311 - no secret
    for _ in range(200):
        entries = MANY[: chance.randint(1, 32)]
        size = min(4, len(entries))
        clashes = [tuple(chance.sample(entries, chance.randint(1, size))) for _ in range(chance.randint(1, 3))]
        fits = without(*clashes)
        suspects = chance.sample(entries, chance.randint(0, len(entries)))
        found, shown = find_smallest(entries, fits, suspects)
        assert shown
        assert not fits(found)
        assert all(fits([other for other in found if other != entry]) for entry in found)


@pytest.mark.proves("plugins-smallest-clash")
def test_a_spent_budget_leaves_a_set_that_clashes_and_says_that_it_may_not_be_the_smallest() -> None:
    fits = Counted(without(("part-3", "part-29")).question, budget=3)
    assert find_smallest(MANY, fits) == (MANY, False)
    assert fits.asked == 3
    with pytest.raises(BudgetSpent):
        fits(["something else"])
    fits = Counted(without(("part-3", "part-29")).question, budget=1)
    assert find_smallest(MANY, fits, suspects=["part-3", "part-29"]) == (("part-3", "part-29"), False)


@pytest.mark.parametrize("entries", [("alone",), ("one", "two")])
def test_few_need_few(entries: tuple[str, ...]) -> None:
    fits = without(entries)
    assert find_smallest(entries, fits) == (entries, True)
    assert fits.asked == (0 if len(entries) == 1 else 2)


def named(clashes: Sequence[Sequence[str]], entries: Sequence[str]) -> list[str]:
    """What a resolver says of entries that do not fit: the first clash among them."""
    return next((list(clash) for clash in clashes if set(clash) <= set(entries)), [])


@pytest.mark.proves("plugins-every-clash-told")
def test_independent_clashes_are_each_found() -> None:
    clashes = (("part-3", "part-29"), ("part-7",), ("part-8", "part-30"))
    fits = without(*clashes)
    found, whole = find_clashes(MANY, fits, lambda rest: named(clashes, rest), most=4)
    assert found == tuple(Found(entries=clash, smallest=True) for clash in clashes)
    assert whole
    assert fits.asked <= 10


@pytest.mark.proves("plugins-every-clash-told")
def test_more_clashes_than_are_looked_for_are_said_to_be_more() -> None:
    clashes = [(f"part-{number}",) for number in range(5)]
    found, whole = find_clashes(MANY, without(*clashes), lambda rest: named(clashes, rest), most=4)
    assert ([clash.entries for clash in found], whole) == (clashes[:4], False)
    spent = Counted(without(*clashes).question, budget=1)
    assert find_clashes(MANY, spent, lambda rest: named(clashes, rest), most=4)[1] is False


@pytest.mark.proves("plugins-every-clash-told")
def test_what_is_left_beside_every_clash_that_was_found_fits() -> None:
    chance = random.Random(7)  # noqa: S311 - no secret
    for _ in range(200):
        clashes = [tuple(chance.sample(MANY, chance.randint(1, 3))) for _ in range(chance.randint(1, 4))]
        fits = without(*clashes)
        found, whole = find_clashes(MANY, fits, lambda rest: chance.sample(list(rest), min(2, len(rest))), most=32)
        taken = [entry for clash in found for entry in clash.entries]
        assert whole
        assert len(taken) == len(set(taken)), "no entry is in two of them"
        assert fits([entry for entry in MANY if entry not in taken])
        assert not any(fits(clash.entries) for clash in found)
