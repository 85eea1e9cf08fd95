"""Whether a file that the jail holds has another name, in a place that it does not hold.

A read-only mount holds a path. A hard link that somebody made before, outside of every jail, is another path to the
same bytes and the same mode. PM links files of a generation with its cache and with other generations, all of which
lie in the home and are held; so there is a foreign name exactly where a file has more names than the home has of it.

Owns: counting these, and noticing without counting that nothing was linked since. Does not own: what is done about a
foreign name (tools.confinement), nor taking it away (`perdure-pm repair`). Keeps: jail-names-counted.

Making a link changes a file's time of change and its number of links, and nothing that could be asked for less. So one
flat look at every file of a root tells that the last count still holds; only where one differs is the home counted
anew. Byte code does not count, nor do the files that are there to be locked: nothing is read from those. Of what lies
outside of the home only files are looked at that are roots themselves, such as the interpreter (docs/adr/0045).
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import time
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from perdure.domain.record import dataclass, field
from perdure.guard.roots import HOME, Root
from perdure.jail.mounts import is_within
from perdure.own_writers import claim

SCHEMA = 1
_WRITER = claim("held-names")
_BYTE_CODE = "__pycache__"
_FIELDS = 3
"""Numbers that are kept of each file: its time of change, its inode, and how many names it has."""


@dataclass(slots=True, kw_only=True)
class _Count:
    """What one count saw."""

    files: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    folders: dict[str, int] = field(default_factory=dict)
    """With the time of change: nothing was added to one that has the same."""
    foreign: list[str] = field(default_factory=list)
    """One name of each file that has another one elsewhere."""

    def still_holds(self) -> bool:
        """Return whether every file and directory is as it was counted."""
        look = os.lstat
        try:
            for path, (changed, inode, names) in self.files.items():
                now = look(path)
                if now.st_ctime_ns != changed or now.st_ino != inode or now.st_nlink != names:
                    return False
            return all(look(path).st_mtime_ns == changed for path, changed in self.folders.items())
        except OSError:
            return False


@dataclass(slots=True, kw_only=True)
class Names:
    """The names of what one home's jail holds."""

    roots: Callable[[], Sequence[Root]]
    """Says what is protected now."""
    home: str
    kept: Path | None = None
    """Where the last count is kept; None where it is for this process alone."""
    _last: tuple[str, _Count] | None = field(default=None, init=False)

    def find_foreign(self) -> tuple[str, ...]:
        """Return the held files that can be reached by another name, one name of each; in order."""
        home, roots = os.path.realpath(self.home), self.roots()
        held = _sort_out(roots, home)
        asked = json.dumps([home, held.trees, held.single, held.outside])
        last = self._last or (None if self.kept is None else _load(self.kept))
        if last is not None and last[0] == asked and last[1].still_holds():
            count = last[1]
        else:
            count = _count(held)
            # PM may have been at work meanwhile, which makes and removes names; what is there twice is there.
            if count.foreign:
                before = set(count.foreign)
                count = _count(held)
                count.foreign = [path for path in count.foreign if path in before]
            if self.kept is not None:
                _save(self.kept, asked, count)
        self._last = asked, count
        secret = (path for root in roots if root.secret for path in _linked_state(root.path))
        return tuple(sorted({*count.foreign, *secret}))

    def find_changed(self, since: int) -> tuple[str, ...]:
        """Return the files of the last count that had been changed since then, which nobody did by a held name.

        A command may have taken its way in away before anybody could count. Where PM was at work meanwhile, which alone
        changes these, nothing can be told.

        Args:
            since: nanoseconds, from `now`.
        """
        home = os.path.realpath(self.home)
        receipts = f"{home}/receipts"
        if self._last is None or _names(f"{receipts}/unfinished") or _changed(receipts) >= since:
            return ()
        files = self._last[1].files
        return tuple(sorted(path for path, each in files.items() if each[0] >= since and not _is_apps(path, home)))


def now() -> int:
    """Return the time, in nanoseconds, by the clock that files are stamped with."""
    clock = getattr(time, "CLOCK_REALTIME_COARSE", None)
    return time.time_ns() if clock is None else time.clock_gettime_ns(clock)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    """What is looked at; all without links."""

    home: str
    trees: list[str]
    """Directories of the home, none in another."""
    single: list[str]
    """Files beside these."""
    outside: list[str]
    """Held directories that are not the home's."""


def _sort_out(roots: Sequence[Root], home: str) -> _Held:
    folders, files = set[str](), set[str]()
    for root in roots:
        if not root.secret:
            real = os.path.realpath(root.path)
            (folders if os.path.isdir(real) else files).add(real)
    trees = [path for path in folders if path != home and is_within(path, home)]
    trees = sorted(path for path in trees if not any(path != other and is_within(path, other) for other in trees))
    return _Held(
        home=home,
        trees=trees,
        single=sorted(path for path in files if not any(is_within(path, tree) for tree in trees)),
        outside=sorted(path for path in folders if not is_within(path, home)),
    )


def _count(held: _Held) -> _Count:
    found = _Count()
    shared: dict[tuple[int, int], list[str]] = {}
    missing: dict[tuple[int, int], int] = {}

    def take(path: str) -> None:
        with contextlib.suppress(OSError):
            seen = os.lstat(path)
            if not stat.S_ISREG(seen.st_mode) or _is_lock(path, held.home):
                return
            found.files[path] = (seen.st_ctime_ns, seen.st_ino, seen.st_nlink)
            if seen.st_nlink > 1:
                key = seen.st_dev, seen.st_ino
                shared.setdefault(key, []).append(path)
                missing[key] = seen.st_nlink - len(shared[key])

    for tree in held.trees:
        for folder, names in _walk(tree):
            with contextlib.suppress(OSError):
                found.folders[folder] = os.lstat(folder).st_mtime_ns
            for name, _ in names:
                take(f"{folder}/{name}")
    for path in held.single:
        if is_within(path, held.home) or _may_write(path):
            take(path)
    if any(missing.values()):
        _seek(shared, missing, held)
    found.foreign = sorted(min(names) for key, names in shared.items() if missing[key] > 0)
    return found


def _seek(shared: dict[tuple[int, int], list[str]], missing: dict[tuple[int, int], int], held: _Held) -> None:
    """Take off what is missing each name that lies in a held place beside the trees."""
    inodes = {inode for _, inode in shared}
    known = {path for names in shared.values() for path in names}
    places = dict.fromkeys(f"{held.home}/{entry.pattern.partition('/')[0]}" for entry in HOME)
    # A file of an interpreter outside may have several names beside each other.
    beside = {folder for path in known if any(is_within(folder := os.path.dirname(path), top) for top in held.outside)}
    for place, deep in (*((place, True) for place in places), *((folder, False) for folder in sorted(beside))):
        for folder, names in _walk(place, held.trees, deep=deep):
            for name, inode in names:
                path = f"{folder}/{name}"
                if inode in inodes and path not in known:
                    with contextlib.suppress(OSError):
                        seen = os.lstat(path)
                        key = seen.st_dev, seen.st_ino
                        if key in missing:
                            missing[key] -= 1
            if not any(missing.values()):
                return


def _walk(top: str, without: Iterable[str] = (), *, deep: bool = True) -> Iterator[tuple[str, list[tuple[str, int]]]]:
    """Yield each directory with the names and inodes of what is in it and no directory; byte code is left out."""
    pending = [top]
    while pending:
        folder = pending.pop()
        if folder in without:
            continue
        names = []
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                if not entry.is_dir(follow_symlinks=False):
                    names.append((entry.name, entry.inode()))
                elif entry.name != _BYTE_CODE and deep:
                    pending.append(entry.path)
        yield folder, names


def _linked_state(place: str) -> Iterator[str]:
    """Yield the files of the app's own state that have another name: none of them is ever linked."""
    folders = [place, *(f"{place}/{name}" for name in _names(place))]
    for path in (place, *(f"{folder}/{name}" for folder in folders for name in _names(folder))):
        with contextlib.suppress(OSError):
            seen = os.lstat(path)
            if stat.S_ISREG(seen.st_mode) and seen.st_nlink > 1:
                yield path


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _changed(folder: str) -> int:
    try:
        return os.stat(folder).st_mtime_ns
    except OSError:
        return 0


def _is_apps(path: str, home: str) -> bool:
    """Return whether a file is one that the app itself writes: notes on plugins, and rules that somebody adds."""
    inner = path[len(home) + 1 :].split("/") if is_within(path, home) else []
    return inner[:1] == ["profiles"] and inner[2:3] in (["crashes"], ["app.yaml"])


def _is_lock(path: str, home: str) -> bool:
    """Return whether a file is there to be locked: nobody reads it."""
    inner = path[len(home) + 1 :].split("/") if is_within(path, home) else []
    return inner == ["mutex"] or (inner[:2] == ["store", "generations"] and inner[3:] == ["lease"])


def _may_write(path: str) -> bool:
    """Return whether this user could change a file, by whatever name; of others' files the kernel keeps it."""
    try:
        return os.geteuid() in {0, os.stat(path).st_uid} or os.access(path, os.W_OK)
    except OSError:
        return False


def _load(path: Path) -> tuple[str, _Count] | None:
    """Return what was asked when the last count was kept, and the count; None where there is none that can be read."""
    try:
        head, _, rest = path.read_bytes().partition(b"\n")
        said = json.loads(head)
        if said["schema"] != SCHEMA:
            return None
        size = 8 * (_FIELDS * said["files"] + said["folders"])
        numbers = array("q", rest[:size])
        names = os.fsdecode(rest[size:]).split("\0")
        files, folders = names[: said["files"]], names[said["files"] :]
        flat = numbers[: _FIELDS * len(files)]
        return said["asked"], _Count(
            files=dict(zip(files, zip(flat[::3], flat[1::3], flat[2::3], strict=True), strict=True)),
            folders=dict(zip(folders, numbers[_FIELDS * len(files) :], strict=True)),
            foreign=[str(each) for each in said["foreign"]],
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _save(path: Path, asked: str, count: _Count) -> None:
    """Have the count kept, where there is a place for it; it is counted anew where there is none."""
    head = {
        "schema": SCHEMA,
        "asked": asked,
        "files": len(count.files),
        "folders": len(count.folders),
        "foreign": count.foreign,
    }
    try:
        numbers = array("q", (number for each in count.files.values() for number in each))
    except OverflowError:
        return  # a filesystem whose inodes have numbers of 64 bits
    numbers.extend(count.folders.values())
    data = json.dumps(head).encode() + b"\n" + numbers.tobytes()
    data += os.fsencode("\0".join([*count.files, *count.folders]))
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    with contextlib.suppress(OSError), _WRITER.writing():
        try:
            draft.write_bytes(data)
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
