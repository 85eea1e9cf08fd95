"""Finding the smallest set that clashes, among many that do not fit together.

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
