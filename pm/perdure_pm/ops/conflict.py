"""Finding the smallest sets that clash, among many that do not fit together.

Owns: the search, over nothing but the question whether a subset fits. Does not own: how a subset is tried (ops.trials)
or what is said about the answer (ops.explanation).

The search is a binary one (QuickXplain, Junker 2004): of n entries of which k clash it asks about 2k·log2(n/k) + 2k
times, and two or three times where what the resolver said already names the ones that clash.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field


class BudgetSpent(Exception):
    """No further trial is to be made."""


@dataclass(slots=True)
class Counted:
    """A question whose answers are kept, and that is asked a limited number of times."""

    question: Callable[[tuple[str, ...]], bool]
    budget: int
    answers: dict[frozenset[str], bool] = field(default_factory=dict)
    asked: int = 0

    def __call__(self, subset: Sequence[str]) -> bool:
        """Return whether the subset fits.

        Raises:
            BudgetSpent: that would be one question too many.
        """
        key = frozenset(subset)
        if key not in self.answers:
            if self.asked >= self.budget:
                raise BudgetSpent
            self.asked += 1
            self.answers[key] = self.question(tuple(subset))
        return self.answers[key]


def find_smallest(
    entries: Sequence[str], fits: Callable[[Sequence[str]], bool], suspects: Sequence[str] = ()
) -> tuple[tuple[str, ...], bool]:
    """Return a subset that does not fit though every smaller part of it does, and whether that was shown.

    Args:
        entries: what does not fit together; nothing of it fits.
        fits: whether a subset does. A subset of one that fits, fits.
        suspects: those that probably clash; wrong ones cost one trial.
    """
    clash = tuple(entries)
    try:
        named = tuple(entry for entry in entries if entry in set(suspects))
        if 0 < len(named) < len(entries) and not fits(named):
            clash = named
        return (_explain((), clash, fits, grown=False) if len(clash) > 1 else clash), True
    except BudgetSpent:
        return clash, False


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One set that clashes."""

    entries: tuple[str, ...]
    smallest: bool
    """Whether every smaller part of it was shown to fit."""


def find_clashes(
    entries: Sequence[str],
    fits: Callable[[Sequence[str]], bool],
    suspects: Callable[[Sequence[str]], Sequence[str]],
    most: int,
) -> tuple[tuple[Found, ...], bool]:
    """Return sets that clash independently of each other, and whether what is in none of them was shown to fit.

    No entry is in two of them, so whatever is to fit lacks at least one entry of each.

    Args:
        entries: what does not fit together; nothing of it fits.
        fits: whether a subset does.
        suspects: those of a subset, which does not fit, that probably clash.
        most: how many sets are searched for.
    """
    found: list[Found] = []
    rest = tuple(entries)
    while True:
        clash, smallest = find_smallest(rest, fits, suspects(rest))
        found.append(Found(entries=clash, smallest=smallest))
        rest = tuple(entry for entry in rest if entry not in clash)
        try:
            if not rest or fits(rest):
                return tuple(found), True
        except BudgetSpent:
            return tuple(found), False
        if len(found) >= most or not smallest:
            return tuple(found), False


def _explain(
    background: tuple[str, ...],
    entries: tuple[str, ...],
    fits: Callable[[Sequence[str]], bool],
    *,
    grown: bool,
) -> tuple[str, ...]:
    """Return the part of `entries` that clashes beside `background`, which has just grown or not."""
    if grown and not fits(background):
        return ()
    if len(entries) == 1:
        return entries
    half = len(entries) // 2
    first, second = entries[:half], entries[half:]
    later = _explain((*background, *first), second, fits, grown=True)
    earlier = _explain((*background, *later), first, fits, grown=bool(later))
    return (*earlier, *later)
