"""Which processes are still alive, told apart from later ones that got the same number.

Owns: the identity of a process on this machine. Does not own: what follows when one is gone (sqlite). Keeps:
store-owners-told: a number that was given to another process does not keep alive what its first owner left.
"""

from __future__ import annotations

import os
import sys

from perdure.domain.record import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One process."""

    pid: int
    born: str
    """When it started, in whatever unit the system counts; empty where that cannot be told."""


def this_process() -> Process:
    """Return the identity of the process that asks."""
    pid = os.getpid()
    return Process(pid=pid, born=born(pid))


def is_alive(process: Process) -> bool:
    """Return whether it lives. Where that cannot be told it counts as alive: what it waits for expires anyway."""
    if process.pid <= 0:
        return False
    if sys.platform == "linux":
        return born(process.pid) == process.born if process.born else os.path.exists(f"/proc/{process.pid}")
    if sys.platform == "win32":
        return True
    try:
        os.kill(process.pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def born(pid: int) -> str:
    """Return when a process started, with the boot that it belongs to; empty where there is none, or none can say."""
    if sys.platform != "linux":
        return ""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The name stands in parentheses and may hold anything.
            fields = file.read().rpartition(b")")[2].split()
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read(8)
    except (OSError, ValueError):
        return ""
    if len(fields) < 20 or fields[0] in (b"Z", b"X"):
        return ""
    return f"{boot}-{fields[19].decode()}"
