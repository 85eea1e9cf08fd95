"""Which generations are kept: the rule, as laws over arbitrary homes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure_pm.model.retention import NEWEST, YOUNG, Candidate, decide_kept

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Everything that the rule looks at."""

    generations: tuple[Candidate, ...]
    current: frozenset[str]
    previous: frozenset[str]
    pinned: frozenset[str]
    named: frozenset[str]
    leased: frozenset[str]
    newest: int

    @property
    def held(self) -> frozenset[str]:
        return self.current | self.previous | self.pinned | self.named | self.leased

    def decide(self, now: datetime = NOW) -> Mapping[str, tuple[str, ...]]:
        return decide_kept(
            self.generations,
            current=self.current,
            previous=self.previous,
            pinned=self.pinned,
            named=self.named,
            leased=self.leased,
            now=now,
            newest=self.newest,
        )


def _age(now: datetime, candidate: Candidate) -> timedelta:
    return now - candidate.touched


@st.composite
def facts(draw: st.DrawFn) -> Facts:
    numbers = draw(st.lists(st.integers(1, 10**6), unique=True, max_size=14))
    # Around a day in either direction, where a clock that was set back puts what was made before it.
    ages = st.integers(-3 * 86400, 3 * 86400) | st.sampled_from([86399, 86400, 86401, 0, -1])
    generations = tuple(
        Candidate(identity=f"{number}-{number:012x}", number=number, touched=NOW - timedelta(seconds=draw(ages)))
        for number in numbers
    )
    # A pin or a pointer may also name what is not there any more.
    names = st.frozensets(st.sampled_from([*(item.identity for item in generations), "99-00000000gone"]), max_size=3)
    return Facts(
        generations=generations,
        current=draw(names),
        previous=draw(names),
        pinned=draw(names),
        named=draw(names),
        leased=draw(names),
        newest=draw(st.integers(0, 8)),
    )


def _fresh(generations: Collection[Candidate], newest: int) -> set[str]:
    return {item.identity for item in sorted(generations, key=lambda item: -item.number)[:newest]}


@pytest.mark.proves("collect-never-takes-used")
@given(facts())
def test_nothing_current_previous_pinned_named_leased_or_young_goes(given_facts: Facts) -> None:
    kept = given_facts.decide()
    held = given_facts.held
    for candidate in given_facts.generations:
        if candidate.identity in held or _age(NOW, candidate) < YOUNG:
            assert kept[candidate.identity], candidate


@pytest.mark.proves("collect-never-takes-used")
@given(facts())
def test_the_newest_never_go_whatever_else_is_true(given_facts: Facts) -> None:
    kept = given_facts.decide()
    assert all(kept[name] for name in _fresh(given_facts.generations, given_facts.newest))


@pytest.mark.proves("collect-takes-the-rest")
@given(facts())
def test_everything_that_nothing_holds_goes(given_facts: Facts) -> None:
    kept = given_facts.decide()
    assert set(kept) == {item.identity for item in given_facts.generations}
    held = given_facts.held
    fresh = _fresh(given_facts.generations, given_facts.newest)
    for candidate in given_facts.generations:
        needed = candidate.identity in held | fresh or _age(NOW, candidate) < YOUNG
        assert bool(kept[candidate.identity]) is needed, candidate


@pytest.mark.proves("collect-never-takes-used")
@given(facts(), st.integers(0, 10 * 365 * 86400))
def test_a_clock_that_was_set_back_lets_nothing_go_that_stayed_before(given_facts: Facts, back: int) -> None:
    before, after = given_facts.decide(), given_facts.decide(NOW - timedelta(seconds=back))
    assert {name for name, reasons in before.items() if reasons} <= {name for name, reasons in after.items() if reasons}


def test_the_reasons_are_told_in_words() -> None:
    candidate = Candidate(identity="1-000000000001", number=1, touched=NOW)
    name = frozenset([candidate.identity])
    told = decide_kept(
        [candidate], current=name, previous=name, pinned=name, named=name, leased=name, now=NOW, newest=NEWEST
    )
    assert told == {
        candidate.identity: (
            "current",
            "previous",
            "pinned",
            "named",
            "in use",
            "one of the newest 5",
            "used less than 24 h ago",
        )
    }
