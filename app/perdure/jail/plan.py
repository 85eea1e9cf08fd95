"""What the jail makes of the protected roots: which paths are read-only, pinned, hidden.

Owns: that decision, a pure function of the roots, the home and the mounts. Does not own: telling a kernel (bubblewrap,
seatbelt). Keeps: jail-holds-roots: no root can be changed, moved or replaced by name from inside, nor can a parent of
it be moved away.

Three facts stand behind it. A read-only mount protects a path, not an inode: a hard link to a file in it that somebody
made before, in a place that can be written to, leads past it. PM links files of a generation with its cache and with
other generations, so all of the home is read-only that PM writes, also what the guard lets a command delete. A mount
cannot be put onto a symbolic link: the links among the roots are held where they lie in something read-only, and are
named where they do not. And a directory that something is mounted on cannot be renamed or removed, which is why each
parent of a root is mounted onto itself.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache

from perdure.domain.record import dataclass
from perdure.guard.probe import Probe
from perdure.guard.roots import HOME, Root
from perdure.jail.mounts import Mount, is_within, other_names


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is done about each path; all are absolute and without links, and each kind is in order."""

    pinned: tuple[str, ...]
    """Directories above a root, which stay where they are."""
    read_only: tuple[str, ...]
    """With all that is in them; none lies in another."""
    writable: tuple[str, ...]
    """Directories in something read-only that are somebody else's."""
    hidden: tuple[str, ...]
    """Directories that are empty inside."""
    emptied: tuple[str, ...]
    """Files that are empty inside."""
    loose: tuple[str, ...]
    """Links among the roots that no mount can hold."""


def make_plan(roots: Sequence[Root], home: str, probe: Probe, mounts: Sequence[Mount]) -> Plan:
    """Return what a jail does about these roots.

    Args:
        roots: what is protected now. One that does not exist is held by its parent, where that is read-only.
        home: the home around them, which need not exist.
        probe: asks the filesystem.
        mounts: all mounts of this machine.
    """
    links, held, secret = set[str](), set[str](), set[str]()
    real = cache(probe.real)  # most roots lie in the same few directories
    for root in roots:
        path = _spelled(root.path, real)
        if probe.link(path) is not None:
            links.add(path)
            path = real(path)
        if probe.identity(path) is not None:
            (secret if root.secret else held).add(path)
    own = real(home)
    writable = list[str]()
    if own != "/" and any(is_within(path, own) for path in (*held, *secret)):
        held.add(own)
        writable = [path for path in _strangers(own, probe) if not _meets(path, (*held - {own}, *secret))]
    held = set(_outermost(held))
    for names in (held, secret):
        names |= {other for path in names for other in other_names(path, mounts)}
    places = {mount.place for mount in mounts}
    read_only = _outermost(held)
    above = {folder for path in (*read_only, *secret) for folder in _folders_above(path)}
    return Plan(
        pinned=tuple(sorted(folder for folder in above - places if not _inside_any(folder, read_only))),
        read_only=tuple(read_only),
        writable=tuple(sorted(writable)),
        hidden=tuple(sorted(path for path in secret if probe.is_directory(path))),
        emptied=tuple(sorted(path for path in secret if not probe.is_directory(path))),
        loose=tuple(sorted(link for link in links if not _inside_any(posixpath.dirname(link), read_only))),
    )


def _spelled(path: str, real: Callable[[str], str]) -> str:
    """Return a path whose directories are no links; its last component may be one, and is meant itself."""
    folder, name = posixpath.split(posixpath.normpath(path))
    return posixpath.join(real(folder), name) if name else folder


def _strangers(home: str, probe: Probe) -> Iterator[str]:
    """Yield the directories in the home that its layout does not know."""
    documented = {entry.pattern.partition("/")[0] for entry in HOME}
    for name in probe.names(home):
        path = posixpath.join(home, name)
        if name not in documented and probe.link(path) is None and probe.is_directory(path):
            yield path


def _outermost(paths: Iterable[str]) -> list[str]:
    found = list[str]()
    for path in sorted(paths, key=lambda each: each.count("/")):
        if not _inside_any(path, found):
            found.append(path)
    return sorted(found)


def _inside_any(path: str, folders: Iterable[str]) -> bool:
    return any(is_within(path, folder) for folder in folders)


def _meets(path: str, others: Iterable[str]) -> bool:
    return any(is_within(path, other) or is_within(other, path) for other in others)


def _folders_above(path: str) -> Iterator[str]:
    while (path := posixpath.dirname(path)) != "/":
        yield path
