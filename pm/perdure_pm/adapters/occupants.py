"""Which processes run from a directory.

Owns: looking through /proc, at what is executed, mapped or named on the command line: a venv's `exe` is the base
interpreter, so one of these alone is not enough. Does not own: what is done about them. Elsewhere than on Linux nothing
is found, and that is said.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupant:
    """A process that runs from the directory."""

    pid: int
    command: str


def can_tell() -> bool:
    """Return whether this platform shows what other processes run from."""
    return sys.platform.startswith("linux")


def find_occupants(folder: Path, *, beside: frozenset[int] = frozenset()) -> list[Occupant]:
    """Return the processes that run from `folder`, without those numbered in `beside`.

    Other users' processes do not show what they map; their command line is all that counts for them.
    """
    if not can_tell():
        return []
    prefix = os.fsencode(os.path.join(os.path.realpath(folder), ""))
    found = []
    for pid in sorted(int(name) for name in os.listdir("/proc") if name.isdecimal()):
        if pid in beside:
            continue
        words = _read(f"/proc/{pid}/cmdline").rstrip(b"\0").split(b"\0")
        if any(prefix in text for text in _traces(pid, words)):
            found.append(Occupant(pid=pid, command=b" ".join(words[:3]).decode(errors="replace")))
    return found


def _traces(pid: int, words: list[bytes]) -> Iterator[bytes]:
    """Yield, cheapest first, whatever names files that a process runs from: program, interpreter, script, maps."""
    yield from (word for word in words[:3] if word.startswith(b"/"))
    with contextlib.suppress(OSError):
        yield os.readlink(b"/proc/%d/exe" % pid)
    yield _read(f"/proc/{pid}/maps")


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""
