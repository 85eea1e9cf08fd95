"""The mounts of this machine, and under which other names a path can be reached through them.

Owns: reading `/proc/self/mountinfo`, and following bind mounts. Does not own: what is done about another name (plan).
Pure. The format is that of proc_pid_mountinfo(5).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from perdure.domain.record import dataclass

_ESCAPED = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """One mount."""

    device: str
    """Which filesystem, as ``major:minor``."""
    root: str
    """Which directory or file of that filesystem is mounted."""
    place: str
    """Where."""


def parse_mounts(text: str) -> tuple[Mount, ...]:
    """Return the mounts that a mountinfo file lists, in its order; a line of another form is left out."""
    found = []
    for line in text.splitlines():
        fields = line.split(" ")
        if len(fields) > 5 and ":" in fields[2]:
            found.append(Mount(device=fields[2], root=_unescaped(fields[3]), place=_unescaped(fields[4])))
    return tuple(found)


def other_names(path: str, mounts: Sequence[Mount]) -> Iterator[str]:
    """Yield where else a path, or a part of what is below it, can be reached.

    Args:
        path: absolute, without links.
        mounts: all of them.
    """
    own = _covering(path, mounts)
    if own is None:
        return
    within = _join(own.root, _below(path, own.place))
    for mount in mounts:
        if mount is own or mount.device != own.device:
            continue
        if is_within(within, mount.root):
            other = _join(mount.place, _below(within, mount.root))
        elif is_within(mount.root, within):
            other = mount.place
        else:
            continue
        # A mount that another one covers cannot be reached by name.
        if not is_within(other, path) and _covering(other, mounts) is mount:
            yield other


def is_within(path: str, folder: str) -> bool:
    """Return whether a path is a directory or lies in it, by its components."""
    return folder in {path, "/"} or path.startswith(folder + "/")


def _covering(path: str, mounts: Sequence[Mount]) -> Mount | None:
    """Return the mount that a path is on: the one at the longest place, of several there the one that came last."""
    best: Mount | None = None
    for mount in mounts:
        if is_within(path, mount.place) and (best is None or len(mount.place) >= len(best.place)):
            best = mount
    return best


def _below(path: str, folder: str) -> str:
    return path[len(folder.rstrip("/")) :].lstrip("/")


def _join(folder: str, name: str) -> str:
    return f"{folder.rstrip('/')}/{name}" if name else folder


def _unescaped(field: str) -> str:
    return _ESCAPED.sub(lambda match: chr(int(match[1], 8)), field) if "\\" in field else field
