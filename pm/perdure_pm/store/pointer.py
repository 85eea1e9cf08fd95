"""The one reference that changes: profile → generation.

Owns: reading it with distrust, and writing it, which is the commit of every publication. Does not own: the generation
that it names (store.generations). Keeps: no pointer, whatever its bytes, names a path outside the home; a link in its
place, or on the way to it, is refused.

Standard library only, Python 3.9.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from perdure_pm.model.errors import IntegrityFault, UsageFault
from perdure_pm.model.identity import parse_generation_number, parse_profile
from perdure_pm.ports import Filesystem
from perdure_pm.store.layout import Layout

MAX_BYTES = 64


def load_pointer(layout: Layout, profile: str) -> str | None:
    """Return the id of the generation that `profile` runs, or None where nothing was ever committed.

    Raises:
        IntegrityFault: what stands there is no pointer.
    """
    path = layout.pointer(parse_profile(profile))
    data = read_plain(layout, path, MAX_BYTES)
    if data is None:
        return None
    identity = data.decode("ascii", "replace").strip()
    if parse_generation_number(identity) is None:
        raise damaged(path, "it does not hold a generation's id")
    return identity


def save_pointer(filesystem: Filesystem, layout: Layout, profile: str, identity: str) -> None:
    """Have `profile` run the generation `identity`: the commit.

    Raises:
        IntegrityFault: `identity` is no generation's id, or a link stands in the pointer's place.
    """
    path = layout.pointer(parse_profile(profile))
    if parse_generation_number(identity) is None:
        raise damaged(path, f"{identity!r} is no generation's id and was not written")
    refuse_links(layout, path)
    filesystem.make_directories(path.parent)
    filesystem.write_durable(path, f"{identity}\n".encode("ascii"))


def list_profiles(layout: Layout) -> list[str]:
    """Return the names of the profiles that have a directory."""
    folder = layout.profile("x").parent
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    # Asked one by one: a link to itself among them hides no other profile.
    return [name for name in names if _is_profile(name) and os.path.isdir(folder / name)]


def read_plain(layout: Layout, path: Path, limit: int) -> bytes | None:
    """Return the bytes of a file that PM made inside the home, or None where there is none.

    Raises:
        IntegrityFault: a link stands on the way, it is not a file, cannot be read, or holds more than `limit` bytes.
    """
    refuse_links(layout, path)
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    try:
        handle = os.open(path, flags)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise damaged(path, error.strerror or str(error)) from error
    if not stat.S_ISREG(os.fstat(handle).st_mode):  # before a file object is made, which a directory refuses
        os.close(handle)
        raise damaged(path, "it is not a file")
    with os.fdopen(handle, "rb") as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise damaged(path, f"it is larger than {limit} bytes")
    return data


def refuse_links(layout: Layout, path: Path) -> None:
    """Do nothing where no part of `path` below the home is a link.

    Raises:
        IntegrityFault: one is, or `path` lies outside the home.
    """
    here = layout.home
    try:
        parts = path.relative_to(here).parts
    except ValueError:
        raise damaged(path, "it lies outside the home") from None
    for part in parts:
        here /= part
        if part == ".." or os.path.islink(here):
            raise damaged(
                path,
                f"{here} is a link, and PM makes none there",
                hint=f"remove the link {here}, or put what it leads to in its place; then run the same command again",
            )


def damaged(path: Path, reason: str, *, hint: str = "perdure-pm install") -> IntegrityFault:
    """Return the error for a file of PM's that is not what PM wrote."""
    return IntegrityFault(
        f"{path} is damaged: {reason}",
        hint=hint,
        context={"path": str(path), "reason": reason},
        state="needs-recovery",
    )


def _is_profile(name: str) -> bool:
    try:
        return parse_profile(name) == name
    except UsageFault:
        return False
