"""Which generations and which receipts are kept, and why.

Owns: the rules, as pure functions. Does not own: finding the facts (ops.collect), moving and deleting.

Keeps: collect-never-takes-used: what is current, previous, pinned, labelled, leased, among the newest or was selected
less than a day ago is kept, whatever else is true. receipt-retention: what a receipt needs to stay.
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
    named: Collection[str],
    leased: Collection[str],
    now: datetime,
    newest: int = NEWEST,
) -> Mapping[str, tuple[str, ...]]:
    """Return the reasons to keep each generation by its id; an empty tuple means that it may go.

    Args:
        generations: every sealed generation.
        current: what a profile selects.
        previous: what a profile selected before.
        pinned: what a person pinned.
        named: what a person gave a label.
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
                ("named", name in named),
                ("in use", name in leased),
                (f"one of the newest {newest}", name in fresh),
                # A clock that was set back must not make everything old: what lies in the future is young.
                ("used less than 24 h ago", now - candidate.touched < YOUNG),
            )
            if holds
        ]
        kept[name] = tuple(reasons)
    return kept


NEWEST_RECEIPTS = 200
"""How many of the newest receipts are kept in any case."""

RECEIPT_AGE = timedelta(days=30)
"""How long every receipt is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OldReceipt:
    """One receipt that is old enough to be looked at, as far as the rule looks at it."""

    name: str
    """Sorts by time."""
    finished: bool
    selected: str | None
    """The generation that it says was selected, where the operation succeeded."""


def find_old_receipts(moments: Mapping[str, datetime], *, now: datetime) -> tuple[str, ...]:
    """Return the names that are neither among the newest nor young, oldest first: only these have to be read.

    Args:
        moments: when each began, by its name, which sorts by time; aware.
        now: aware.
    """
    ranked = sorted(moments)
    return tuple(name for name in ranked[: max(0, len(ranked) - NEWEST_RECEIPTS)] if now - moments[name] > RECEIPT_AGE)


def decide_receipts(old: Collection[OldReceipt], *, kept: Collection[str]) -> tuple[str, ...]:
    """Return the names of the old receipts that may go, oldest first.

    Of a generation that is kept the oldest and the newest that selected it stay: how it came to be, and what put it to
    use last. So what stays is bounded by the number of generations, however often they take turns.

    Args:
        old: what `find_old_receipts` named.
        kept: the generations that are there.
    """
    ranked = sorted(old, key=lambda receipt: receipt.name)
    telling = [receipt for receipt in ranked if receipt.selected in kept and receipt.selected is not None]
    first = {receipt.selected: receipt.name for receipt in reversed(telling)}
    last = {receipt.selected: receipt.name for receipt in telling}
    held = {*first.values(), *last.values()}
    return tuple(receipt.name for receipt in ranked if receipt.finished and receipt.name not in held)
