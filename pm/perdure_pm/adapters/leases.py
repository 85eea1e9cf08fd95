"""Which generations processes still run from.

Owns: trying the kernel lock on a generation's `lease`, and looking through the processes for those that hold none (a
child that closed its descriptors, or a program that is not Python). Does not own: what is done about it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from perdure_pm.adapters.occupants import Occupant, find_occupied
from perdure_pm.store.layout import Layout


def is_leased(generation: Path) -> bool:
    """Return whether a living process holds the generation's lease; a dead one's is gone with it."""
    if sys.platform == "win32":
        return True  # no way to tell: kept, and said so in docs/reference/platforms.md
    import fcntl

    try:
        handle = os.open(generation / "lease", os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False


def find_users(layout: Layout) -> dict[str, list[Occupant]]:
    """Return the processes that run from each generation, as far as the platform tells; a lease may know of more."""
    return find_occupied(layout.generations)
