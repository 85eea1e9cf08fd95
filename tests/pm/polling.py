"""Waiting for what another process does, with a bound: the only place where pm's tests sleep."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

SECONDS = 30.0
"""Generous: the machine may be busy, and a passing test never waits for it."""


def wait_until(happened: Callable[[], object], what: str, seconds: float = SECONDS) -> None:
    """Return as soon as `happened` says so; fail with `what` otherwise."""
    until = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < until, f"not within {seconds:g} seconds: {what}"
        time.sleep(0.02)


def read_when_written(path: Path) -> str:
    """Return the text of a file that another process writes in one piece, ending with a newline."""
    wait_until(lambda: path.exists() and path.read_text().endswith("\n"), f"{path} is written")
    return path.read_text()
