"""The second filesystem: the local one, with one fault at the Nth effect.

Owns: counting effects, the kinds of fault, and what a power loss takes with it. Does not own: what must hold after one.
An effect is a call that changes the disk; looking at free space is none.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from perdure_pm.adapters.filesystem import LocalFilesystem, explain

FAIL = "fail"
"""The effect does not happen: no permission. The next one works."""
LATE = "late"
"""The effect happens, and is said to have failed: what a failing flush after a rename looks like."""
FULL = "full"
"""The effect finds no space. The next one works."""
STAYS_FULL = "stays-full"
"""From this effect on, nothing that needs space works."""
STOP = "stop"
"""The process dies before the effect: nothing happens any more, also no tidying up."""
LOSE = "lose"
"""As stop, and what was written since the last flush is empty afterwards."""
LOSE_NAMES = "lose-names"
"""As stop, and what was written since the last flush is not there afterwards, nor any new directory that no flush of
the one it lies in has kept, with all that is in it."""
KINDS = (FAIL, LATE, FULL, STAYS_FULL, STOP, LOSE, LOSE_NAMES)
DEATHS = frozenset({STOP, LOSE, LOSE_NAMES})

NEEDS_SPACE = frozenset({"make_directories", "write_durable", "append_durable", "copy_file", "link_files", "flush"})


Stamp = tuple[int, int, int]
"""Inode, size and time of the last change, in ns."""


@contextlib.contextmanager
def _flushed() -> Iterator[set[Path]]:
    """Tell which directories are flushed in the block, by the system call itself."""
    found: set[Path] = set()
    call = os.fsync

    def listen(fd: Any) -> None:
        call(fd)
        path = Path(os.readlink(f"/proc/self/fd/{fd}"))
        if path.is_dir():
            found.add(path)

    os.fsync = listen
    try:
        yield found
    finally:
        os.fsync = call


class Stopped(BaseException):
    """The process died here."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One fault."""

    kind: str
    at: int
    """The number of the effect, from 1."""


class FaultingFilesystem:
    """The local filesystem (ports.Filesystem) with at most one fault."""

    def __init__(self, home: Path, fault: Fault | None = None, *, watched: bool = False) -> None:
        """Have at most one fault below `home`; `watched` for a power loss afterwards (`lose_power`)."""
        self.effects: list[str] = []
        """What happened so far: the call and the path below the home."""
        self.happened = False
        """Whether the fault came."""
        self._inner = LocalFilesystem()
        self._home = home
        self._fault = fault
        self._durable: dict[str, Stamp] = {}
        """What a power loss leaves: the names of files that are on the disk, each with what it holds."""
        self._folders: set[str] = set()
        """The directories whose own names are on the disk; without its name, all that is in one is lost."""
        self._watched = watched or (fault is not None and fault.kind in {LOSE, LOSE_NAMES})
        if self._watched:
            self._know_all()

    # the port

    def make_directories(self, path: Path) -> None:
        if not path.is_dir():  # what exists already is no effect
            self._do("make_directories", path, lambda: self._inner.make_directories(path))

    def write_durable(self, path: Path, data: bytes, *, mode: int = 0o644) -> None:
        self._do("write_durable", path, lambda: self._inner.write_durable(path, data, mode=mode), kept=path)

    def append_durable(self, path: Path, data: bytes) -> None:
        self._do("append_durable", path, lambda: self._inner.append_durable(path, data), kept=path)

    def copy_file(self, source: Path, target: Path) -> None:
        self._do("copy_file", target, lambda: self._inner.copy_file(source, target))

    def link_files(self, *links: tuple[str | Path, str | Path]) -> None:
        self._do("link_files", Path(links[0][1]), lambda: self._inner.link_files(*links))

    def rename(self, source: Path, target: Path) -> None:
        self._do("rename", target, lambda: self._inner.rename(source, target))
        if self._watched:
            self._move(source, target)

    def remove_tree(self, path: Path) -> None:
        if os.path.lexists(path):
            self._do("remove_tree", path, lambda: self._inner.remove_tree(path))

    def make_read_only(self, tree: Path) -> None:
        self._do("make_read_only", tree, lambda: self._inner.make_read_only(tree))

    def flush(self, path: Path) -> None:
        self._do("flush", path, lambda: self._inner.flush(path))
        if self._watched:
            self._know_all()

    def free_bytes(self, path: Path) -> int:
        full = self.happened and self._fault is not None and self._fault.kind == STAYS_FULL
        return 0 if full else self._inner.free_bytes(path)

    # faults

    def die(self) -> NoReturn:
        """Have the process dead from here on, between two effects."""
        self._fault = Fault(kind=STOP, at=0)
        self.happened = True
        raise Stopped

    def _do(self, name: str, path: Path, effect: Callable[[], None], *, kept: Path | None = None) -> None:
        fault = self._fault
        if fault is not None and self.happened and fault.kind in DEATHS:
            raise Stopped
        self.effects.append(f"{name} {os.path.relpath(path, self._home)}")
        now = fault is not None and len(self.effects) == fault.at
        self.happened = self.happened or now
        if fault is not None and now:
            self._break(fault, path, effect)
        elif fault is not None and self.happened and fault.kind == STAYS_FULL and name in NEEDS_SPACE:
            raise explain(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path)), path)
        elif not self._watched:
            effect()
        else:
            with _flushed() as folders:
                effect()
            for folder in folders:
                self._folders |= {str(path) for path in folder.iterdir() if path.is_dir() and not path.is_symlink()}
            if kept is not None and (kept.parent in folders or str(kept) in self._durable):
                self._durable |= self._look_at(kept)

    def _break(self, fault: Fault, path: Path, effect: Callable[[], None]) -> None:
        if fault.kind in DEATHS:
            if fault.kind != STOP:
                self._lose(empty=fault.kind == LOSE)
            raise Stopped
        if fault.kind == LATE:
            effect()
        number = errno.EACCES if fault.kind == FAIL else errno.EIO if fault.kind == LATE else errno.ENOSPC
        raise explain(OSError(number, os.strerror(number), str(path)), path)

    # power loss

    def lose_power(self) -> None:
        """Have gone what no flush has kept, by the strictest reading: also a name in a directory that has none."""
        self._lose(empty=False)

    def _know_all(self) -> None:
        self._durable = self._look()
        self._folders = {
            str(self._home),
            *(os.path.join(at, name) for at, names, _ in os.walk(self._home) for name in names),
        }

    def _look(self) -> dict[str, Stamp]:
        """Return every file of the home, by path."""
        found: dict[str, Stamp] = {}
        for folder, _, names in os.walk(self._home):
            for name in names:
                found |= self._look_at(Path(folder, name))
        return found

    @staticmethod
    def _look_at(path: Path) -> dict[str, Stamp]:
        status = path.lstat()
        return {str(path): (status.st_ino, status.st_size, status.st_mtime_ns)}

    def _move(self, source: Path, target: Path) -> None:
        """Know what was durable by its new name."""
        moved = {path: stamp for path, stamp in self._durable.items() if Path(path).is_relative_to(source)}
        for path, stamp in moved.items():
            del self._durable[path]
            self._durable[str(target / Path(path).relative_to(source))] = stamp
        folders = {path for path in self._folders if Path(path).is_relative_to(source)}
        self._folders -= folders
        self._folders |= {str(target / Path(path).relative_to(source)) for path in folders}

    def _lose(self, *, empty: bool) -> None:
        """Have what is not on the disk yet lost: the bytes of every file that changed, or the names that are new."""
        for folder, names, _ in os.walk(self._home) if not empty else ():
            for name in [name for name in names if os.path.join(folder, name) not in self._folders]:
                names.remove(name)
                os.chmod(folder, 0o755)
                self._inner.remove_tree(Path(folder, name))
        contents = set(self._durable.values())
        lost = [
            Path(path)
            for path, stamp in self._look().items()
            if (stamp not in contents if empty else self._durable.get(path) != stamp)
        ]
        for path in lost:
            path.parent.chmod(0o755)
            if empty and not path.is_symlink():
                path.chmod(0o644)
                os.truncate(path, 0)
            else:
                path.unlink()
