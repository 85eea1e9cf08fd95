"""Whether this process was started by a run: what a run starts answers for nobody and grants itself nothing.

Owns: telling it, by the marker that every run is given, and by the processes above this one. Does not own: what is
refused then (cli). Keeps: approvals-not-from-inside.

A process may drop the marker from its environment, but not the one that runs commands from above it: whatever a run
starts stays below that, also where its own parent has ended. Where there is no `/proc`, only the marker is seen.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

RUN_VARIABLE = "PERDURE_RUN"
"""Holds the run's id in everything that is started for it."""
_MOST_ANCESTORS = 256


def run_above(environ: Mapping[str, str]) -> str | None:
    """Return the id of the run that this process belongs to, None where it belongs to none."""
    found = environ.get(RUN_VARIABLE)
    if found is not None:
        return found
    above = iter(_ancestors(os.getpid()))
    next(above, None)
    return next((run for pid in above if (run := _marker(pid) or _runner(pid)) is not None), None)


def _ancestors(pid: int) -> Iterator[int]:
    """Yield a process and those above it."""
    for _ in range(_MOST_ANCESTORS):
        if pid <= 0:
            return
        yield pid
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                # The name stands in parentheses and may hold anything.
                pid = int(file.read().rpartition(b")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            return


def _marker(pid: int) -> str | None:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            entries = file.read().split(b"\0")
    except OSError:  # another user's, or gone
        return None
    mark = f"{RUN_VARIABLE}=".encode()
    return next((entry[len(mark) :].decode(errors="replace") for entry in entries if entry.startswith(mark)), None)


def _runner(pid: int) -> str | None:
    """Return a name for the run where a process is Perdure itself, which starts nothing but runs and plugins."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = [word.decode(errors="replace") for word in file.read().split(b"\0")]
    except OSError:
        return None
    if not os.path.basename(words[0]).startswith(("python", "pypy")):
        return None
    for number, word in enumerate(words[1:], start=1):
        if word.startswith("-") and word.endswith("m"):
            return f"process {pid}" if words[number + 1 : number + 2] == ["perdure"] else None
        if not word.startswith("-"):
            return f"process {pid}" if os.path.basename(word) == "perdure" else None
    return None
