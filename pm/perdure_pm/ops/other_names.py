"""Hard links of the home's files that lie outside of the home, and how the home gets files of its own again.

PM links files of generations with each other and with the cache, all inside the home. A name outside, which a backup,
a program that merges equal files, or a person made, is a way to change such a file past everything that keeps the
home: it is read-only by path in a jail (perdure/jail) and for a protected host, and the other path is not.

Owns: finding such files, and giving them bytes that nobody else has. Does not own: whether the bytes are right
(soundness), nor what is kept below state/ (PM never writes there). Keeps: pm-names-own: after a repair no file of the
home has a name outside, and each has the bytes, mode and time that it had.

Byte code does not count, as for the guard; nor do files that are there to be locked: a copy would be another lock.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from perdure_pm.model.errors import PerdureError
from perdure_pm.ops.context import Context
from perdure_pm.store.layout import Layout

_BESIDE = ("cache", "test", "store/trash")
"""Where names count and files do not: what nothing runs from is made anew by those who need it."""
_BYTE_CODE = "__pycache__"
_LOCKED = frozenset({"lease", ".lock", "mutex"})
_OWN = ("bin", "config.yaml", "pm", "profiles", "python", "receipts", "store", "tools")


@dataclass(slots=True, kw_only=True)
class Linked:
    """One file that has names outside."""

    places: list[str] = field(default_factory=list)
    """Its names in what PM keeps, in order."""
    copies: list[str] = field(default_factory=list)
    """Its names beside that, in the cache for example."""
    links: int = 0
    """How many names it has altogether."""

    @property
    def outside(self) -> int:
        """How many of them are not in the home."""
        return self.links - len(self.places) - len(self.copies)


def find_linked(layout: Layout) -> list[Linked]:
    """Return the files of the home that have a name outside, by their first name."""
    found: dict[tuple[int, int], Linked] = {}
    for path in _files([str(layout.home / name) for name in _OWN], without=_places(layout)):
        if os.path.basename(path) not in _LOCKED:
            with contextlib.suppress(OSError):
                seen = os.lstat(path)
                if stat.S_ISREG(seen.st_mode) and seen.st_nlink > 1:
                    linked = found.setdefault((seen.st_dev, seen.st_ino), Linked(links=seen.st_nlink))
                    linked.places.append(path)
    if any(linked.outside for linked in found.values()):
        for path in _files(_places(layout)):
            with contextlib.suppress(OSError):
                seen = os.lstat(path)
                if (linked_too := found.get((seen.st_dev, seen.st_ino))) is not None:
                    linked_too.copies.append(path)
    return sorted((each for each in found.values() if each.outside > 0), key=lambda each: each.places[0])


def find_foreign(layout: Layout) -> list[Linked]:
    """Return the same, where two looks agree: an operation makes and removes names while one looks."""
    first = {each.places[0] for each in find_linked(layout)}
    return [each for each in find_linked(layout) if each.places[0] in first] if first else []


def say_foreign(found: list[Linked]) -> str:
    """Return in one line what is wrong."""
    first = f"{found[0].places[0]} has {_count(found[0].outside)} outside of the home"
    more = "" if len(found) == 1 else f", and so have {len(found) - 1} more files"
    return f"{first}{more}: whatever writes there changes what is installed"


def separate(context: Context) -> tuple[list[str], list[str]]:
    """Have no file of the home share its bytes with a name outside; the caller holds the mutex.

    Returns:
        The first name of each file that has bytes of its own now, and what could not be done.
    """
    done, notices = [], []
    found = find_linked(context.layout)
    for number, linked in enumerate(found):
        context.reporter.progress("repair", "having files of the home's own", done=number, total=len(found))
        try:
            _separate(context, linked)
            done.append(linked.places[0])
        except (PerdureError, OSError) as error:
            notices.append(f"{linked.places[0]} still has a name outside of the home: {error}")
    return done, notices


def _separate(context: Context, linked: Linked) -> None:
    filesystem, scratch = context.filesystem, context.layout.scratch
    filesystem.make_directories(scratch)
    draft = scratch / f"own-{os.urandom(6).hex()}"
    first, *others = [Path(path) for path in (*linked.places, *linked.copies)]
    try:
        seen = os.lstat(first)
        filesystem.copy_file(first, draft)
        os.utime(draft, ns=(seen.st_atime_ns, seen.st_mtime_ns))
        filesystem.flush(draft)
        # A crash between two of these leaves some names with the bytes of before: the next repair goes on.
        _replace(context, draft, first)
        for other in others:
            filesystem.link_files((first, draft))
            _replace(context, draft, other)
    finally:
        filesystem.remove_tree(draft)


def _replace(context: Context, draft: Path, target: Path) -> None:
    """Have a name mean another file; the mode of its directory, which may be read-only, stays."""
    mode = stat.S_IMODE(os.lstat(target.parent).st_mode)
    os.chmod(target.parent, mode | stat.S_IWUSR | stat.S_IXUSR)
    try:
        context.filesystem.rename(draft, target)
    finally:
        os.chmod(target.parent, mode)


def _places(layout: Layout) -> list[str]:
    return [str(layout.home / name) for name in _BESIDE]


def _files(tops: list[str], *, without: list[str] | None = None) -> Iterator[str]:
    """Yield what is no directory in these; links are not followed, and what cannot be read has nothing in it."""
    for top in tops:
        if os.path.isdir(top) and not os.path.islink(top):
            for folder, folders, names in os.walk(top):
                folders[:] = [
                    name for name in folders if name != _BYTE_CODE and f"{folder}/{name}" not in (without or ())
                ]
                yield from (f"{folder}/{name}" for name in names)
        else:
            yield top


def _count(number: int) -> str:
    return "another name" if number == 1 else f"{number} other names"
