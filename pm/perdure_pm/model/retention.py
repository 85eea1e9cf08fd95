"""Which generations are kept, and why.

Owns: the rule, as a pure function. Does not own: finding the facts (ops.collect), moving and deleting.

Keeps: collect-never-takes-used: what is current, previous, pinned, labelled, leased, among the newest or was selected
less than a day ago is kept, whatever else is true.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

NEWEST = 5
"""How many of the newest generations are kept in any case."""

YOUNG = timedelta(hours=24)
"""How long a generation stays after it was built or deselected: a launcher may have read the pointer just before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One generation, as far as the rule looks at it."""

    identity: str
    number: int
    touched: datetime
    """When it was built, or last stopped being selected by a profile, whichever is later; aware."""


def decide_kept(
    generations: Collection[Candidate],
    *,
    current: Collection[str],
    previous: Collection[str],
    pinned: Collection[str],
    leased: Collection[str],
    now: datetime,
    newest: int = NEWEST,
) -> Mapping[str, tuple[str, ...]]:
    """Return the reasons to keep each generation by its id; an empty tuple means that it may go.

    Args:
        generations: every sealed generation.
        current: what a profile selects.
        previous: what a profile selected before.
        pinned: what a person pinned or labelled.
        leased: what a process runs from.
        now: aware.
        newest: how many of the newest stay in any case.
    """
    ranked = sorted(generations, key=lambda candidate: candidate.number, reverse=True)
    fresh = {candidate.identity for candidate in ranked[:newest]}
    kept: dict[str, tuple[str, ...]] = {}
    for candidate in ranked:
        name = candidate.identity
        reasons = [
            reason
            for reason, holds in (
                ("current", name in current),
                ("previous", name in previous),
                ("pinned", name in pinned),
                ("in use", name in leased),
                (f"one of the newest {newest}", name in fresh),
                # A clock that was set back must not make everything old: what lies in the future is young.
                ("used less than 24 h ago", now - candidate.touched < YOUNG),
            )
            if holds
        ]
        kept[name] = tuple(reasons)
    return kept
