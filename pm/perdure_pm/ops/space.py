"""Room for a generation: asked for before anything is fetched, and explained where it ran out on the way.

Owns: the estimate, at worst, without hard links. Does not own: what frees space (collect).
"""

from __future__ import annotations

from collections.abc import Iterable

from perdure_pm.adapters.filesystem import name_shortage
from perdure_pm.model.errors import NoSpace
from perdure_pm.ops.build import LEFT_BYTES
from perdure_pm.ops.context import Context
from perdure_pm.store.generations import Generation, current_generation, known_inventory
from perdure_pm.store.inventory import FILE_NAME
from perdure_pm.store.layout import Layout

LEAST_BYTES = 184 << 20
"""What a generation of our app may take at worst, where none tells better."""
BLOCK = 4096
"""What the usual filesystems give out at a time."""


def require_space(context: Context, current: Generation | None) -> None:
    """Refuse when a generation like the current one would not fit, were every file a copy."""
    needed = _needed_bytes(context, current)
    free = context.filesystem.free_bytes(context.layout.home)
    if free < needed:
        raise NoSpace(
            f"{context.layout.home} has {free} bytes free; a new generation may need {needed}",
            hint="free some space on that filesystem, then run the same command again",
            context={"path": str(context.layout.home), "free": free, "needed": needed},
        )


def explain_space(context: Context, fault: NoSpace) -> NoSpace:
    """Return the error for space that ran out on the way, with the path and the bytes that are needed."""
    if "needed" in fault.context:
        return fault
    home = context.layout.home
    missing, hint = name_shortage(home)
    if missing == "inodes":
        return NoSpace(
            f"{fault.summary}; {home} has no inodes left", hint=hint, context={"path": str(home), **fault.context}
        )
    free = context.filesystem.free_bytes(home)
    needed = _needed_bytes(context, current_generation(context.layout, context.profile))
    return NoSpace(
        f"{fault.summary}; {home} has {free} bytes free now, and a new generation may need {needed}",
        hint=fault.hint,
        context={"path": str(home), **fault.context, "free": free, "needed": needed},
    )


def estimate_bytes(layout: Layout, current: Generation) -> int:
    """Return what a generation like this one takes where nothing of it is shared with the cache: whole blocks."""
    inventory = known_inventory(layout, current)
    beside = [current.path / name for name in (FILE_NAME, "record.json")]
    sizes = [entry.size for entry in inventory.files.values()]
    sizes += [path.stat().st_size for path in beside if path.is_file()]
    return sum(-(-size // BLOCK) * BLOCK for size in sizes) + BLOCK * len(_folders(inventory.files))


def _folders(names: Iterable[str]) -> set[str]:
    """Return the directories that files need, the one that holds everything as an empty name.

    By hand: a large host has tens of thousands of files, and their paths as objects cost more than resolving.
    """
    found = {""}
    for name in names:
        folder = name.rpartition("/")[0]
        while folder not in found:
            found.add(folder)
            folder = folder.rpartition("/")[0]
    return found


def _needed_bytes(context: Context, current: Generation | None) -> int:
    """Return what must be free for a new generation at worst, and for telling whether it works."""
    estimate = 0 if current is None else estimate_bytes(context.layout, current)
    return (estimate or LEAST_BYTES) + LEFT_BYTES
