"""Approvals in the process of a test.

Owns: approvals over a real store, and channels that do what a test says. Does not own: any assertion.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path

import anyio

from perdure.approvals.service import Approvals
from perdure.domain.proposal import Answer, Entry
from tests.app.store.proposals import NOW, store_in


class Clock:
    """A clock that a test moves, and a wall that goes its own way."""

    def __init__(self) -> None:
        """Begin at the tests' now."""
        self.seconds = 0.0
        self.wall = NOW

    def now(self) -> dt.datetime:
        """Return what the wall's clock says."""
        return self.wall

    def monotonic(self) -> float:
        """Return the seconds that went by."""
        return self.seconds

    def pass_by(self, seconds: float) -> None:
        """Have time go by."""
        self.seconds += seconds
        self.wall += dt.timedelta(seconds=seconds)


def approvals_in(folder: Path, clock: Clock | None = None) -> Approvals:
    """Return approvals with a connection of their own."""
    at = clock or Clock()
    return Approvals(open_store=lambda: store_in(folder), now=at.now, monotonic=at.monotonic)


class Script:
    """A channel that shows by noting, and then does what it was made with."""

    def __init__(self, act: Callable[[Entry], Answer] | None = None) -> None:
        """Do nothing for ever unless told."""
        self.shown: list[Entry] = []
        self._act = act
        self.up = anyio.Event()

    async def ask(self, entry: Entry) -> Answer:
        """Note it, and act."""
        self.shown.append(entry)
        self.up.set()
        if self._act is None:
            await anyio.sleep_forever()
            raise AssertionError("it sleeps for ever")
        return self._act(entry)
