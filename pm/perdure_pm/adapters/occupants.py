"""Which processes run from a directory.

Owns: looking through /proc, at what is executed, mapped, worked in or named on the command line: a venv's `exe` is the
base interpreter, so one of these alone is not enough. Does not own: what is done about them. Elsewhere than on Linux
nothing is found, and that is said.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupant:
    """A process that runs from the directory."""

    pid: int
    command: str
    words: tuple[bytes, ...] = ()
    """Its command line."""


def can_tell() -> bool:
    """Return whether this platform shows what other processes run from."""
    return sys.platform.startswith("linux")


def find_occupants(folder: Path, *, beside: frozenset[int] = frozenset()) -> list[Occupant]:
    """Return the processes that run from `folder`, without those numbered in `beside`.

    Other users' processes do not show what they map; their command line is all that counts for them.
    """
    prefixes = _prefixes(folder)
    return [occupant for occupant in _processes(beside) if any(_is_in(occupant, prefix) for prefix in prefixes)]


def find_occupied(folder: Path) -> dict[str, list[Occupant]]:
    """Return, for each entry of `folder` that processes run from, who they are: one look at the processes for all."""
    patterns = [re.compile(re.escape(prefix) + rb"([^/\0\n]+)") for prefix in _prefixes(folder)]
    found: dict[str, list[Occupant]] = {}
    for occupant in _processes(frozenset()):
        names = {name for trace in _traces(occupant) for pattern in patterns for name in pattern.findall(trace)}
        for name in names:
            found.setdefault(os.fsdecode(name), []).append(occupant)
    return found


def _prefixes(folder: Path) -> set[bytes]:
    """Return how a path below `folder` may begin: as it is spelled, and as the kernel spells it."""
    return {os.fsencode(os.path.join(path, "")) for path in (os.path.abspath(folder), os.path.realpath(folder))}


def _processes(beside: frozenset[int]) -> Iterator[Occupant]:
    if not can_tell():
        return
    for pid in sorted(int(name) for name in os.listdir("/proc") if name.isdecimal()):
        if pid not in beside:
            words = tuple(_read(f"/proc/{pid}/cmdline").rstrip(b"\0").split(b"\0"))
            yield Occupant(pid=pid, command=b" ".join(words[:3]).decode(errors="replace"), words=words)


def _is_in(occupant: Occupant, prefix: bytes) -> bool:
    return any(prefix in trace for trace in _traces(occupant))


def _traces(occupant: Occupant) -> Iterator[bytes]:
    """Yield, cheapest first, whatever names files that a process runs from: command, program, directory, maps."""
    for word in occupant.words[:3]:
        if word.startswith(b"/"):
            yield word
            # The folder may have been named through a link; the file itself may be one that leads out of the folder.
            folder, name = os.path.split(word)
            yield os.path.join(os.path.realpath(folder), name)
    for name in (b"exe", b"cwd"):
        with contextlib.suppress(OSError):
            # A directory itself is inside it too.
            yield os.readlink(b"/proc/%d/%s" % (occupant.pid, name)) + b"/"
    yield _read(f"/proc/{occupant.pid}/maps")


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""
