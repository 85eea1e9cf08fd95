"""The one class through which PM changes files.

Owns: durability (temp in the same directory, fsync, rename, fsync directory, and the directories on the way to it that
are new), read-only trees, removal that never follows links. Does not own: which files (store, ops).

Standard library only, Python 3.9.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import itertools
import os
import re
import shutil
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

from perdure_pm.model.errors import HomeUnusable, NoSpace, PerdureError

_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{12}\.tmp", re.DOTALL)


class LocalFilesystem:
    """The local filesystem, as `ports.Filesystem` asks."""

    def __init__(self) -> None:
        self._new: set[Path] = set()
        """Directories that were made here and whose names nothing has flushed since."""

    def make_directories(self, path: Path) -> None:
        with explained(path):
            # What lies above a directory that is there is there too.
            missing = list(itertools.takewhile(lambda folder: not os.path.lexists(folder), (path, *path.parents)))
            path.mkdir(parents=True, exist_ok=True)
            # Not flushed yet: most of what is made is scratch, or is flushed as a whole before it is sealed.
            self._new.update(missing)

    def write_durable(self, path: Path, data: bytes, *, mode: int = 0o644) -> None:
        temporary = path.with_name(f".{path.name}.{os.urandom(6).hex()}.tmp")
        with explained(path):
            try:
                handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), mode)
                with os.fdopen(handle, "wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(temporary, path)  # a link in that place is replaced, and what it leads to keeps its bytes
            except BaseException:
                with contextlib.suppress(OSError):
                    temporary.unlink()
                raise
            self._keep_name(path)

    def append_durable(self, path: Path, data: bytes) -> None:
        # A link in its place is an error, and a pipe is too, instead of something to wait for.
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        flags |= sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))
        with explained(path):
            there = path.exists()
            handle = os.open(path, flags, 0o644)
            with os.fdopen(handle, "ab", buffering=0) as file:
                file.write(data)
                os.fsync(file.fileno())
            if not there:
                self._keep_name(path)

    def copy_file(self, source: Path, target: Path) -> None:
        with explained(target):
            shutil.copyfile(source, target)
            shutil.copymode(source, target)

    def link_files(self, *links: tuple[str | Path, str | Path]) -> None:
        for source, target in links:
            try:
                os.link(source, target)
            except OSError:
                with explained(Path(target)):
                    shutil.copy2(source, target)

    def rename(self, source: Path, target: Path) -> None:
        with explained(target):
            os.rename(source, target)
            self._keep_name(target)
            if source.parent != target.parent:
                sync_directory(source.parent)

    def remove_tree(self, path: Path) -> None:
        with explained(path):
            _remove(path)

    def make_read_only(self, tree: Path) -> None:
        with explained(tree):
            # Bottom up: a directory loses its write bit after its members did.
            for folder, _, names in os.walk(tree, topdown=False):
                for name in names:
                    _drop_write_bits(os.path.join(folder, name))
                _drop_write_bits(folder)

    def flush(self, path: Path) -> None:
        with explained(path):
            flush_filesystem(path)
            self._new.clear()

    def _keep_name(self, path: Path) -> None:
        """Have the name of `path` on the disk, and those of the new directories through which it is reached.

        A file whose bytes and name are flushed is lost all the same with a directory above it whose name is not; that
        journals happen to keep the order is not promised by anything but some filesystems.
        """
        sync_directory(path.parent)
        for folder in (path.parent, *path.parent.parents):
            if folder not in self._new:
                return
            try:
                sync_directory(folder.parent)
            except PermissionError:  # a directory of others, in which this user may make things and not look
                flush_filesystem(folder)
            self._new.discard(folder)

    def free_bytes(self, path: Path) -> int:
        while not path.exists():
            path = path.parent
        with explained(path):
            return shutil.disk_usage(path).free


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn an operating system error into the error that names the path and the way out."""
    try:
        yield
    except OSError as error:
        raise explain(error, path) from error


def explain(error: OSError, path: Path) -> PerdureError:
    """Return the error of PM for `error`, met while writing at `path`."""
    # Of two names the second is the target: that of a rename, or of a copy.
    place = next((name for name in (error.filename2, error.filename) if isinstance(name, str)), str(path))
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        missing, hint = name_shortage(path)
        return NoSpace(f"no {missing} left while writing {place}", hint=hint, context={"path": place})
    hint = _HINTS.get(error.errno or 0, "correct that, or choose another home with --home DIR")
    return HomeUnusable(
        f"cannot write {place}: {error.strerror or error}",
        hint=hint.format(place=_find_obstacle(place)),
        context={"path": place, "errno": errno.errorcode.get(error.errno or 0, "")},
    )


def _find_obstacle(place: str) -> str:
    """Return what lies in the way of writing `place`: that itself, or the file where a directory above it belongs."""
    above = next((folder for folder in Path(place).parents if os.path.lexists(folder)), None)
    return place if above is None or above.is_dir() else str(above)


def name_shortage(path: Path) -> tuple[str, str]:
    """Return what a full filesystem lacks, and what to do: bytes, or inodes, of which most have a fixed number."""
    nearest = path
    while not nearest.exists() and nearest != nearest.parent:
        nearest = nearest.parent
    with contextlib.suppress(OSError, AttributeError):  # Windows has no such call
        found = os.statvfs(nearest)
        if found.f_files and not found.f_favail:
            what = (
                f"delete files on the filesystem of {nearest}: it has bytes left, and no inodes, which every file needs"
            )
            return "inodes", f"{what}; then run the same command again"
    return "space", f"free some space on the filesystem of {path}, then run the same command again"


def is_temporary(name: str) -> bool:
    """Return whether a file of that name is one that `write_durable` had begun and a crash kept from its place."""
    return _TEMPORARY.fullmatch(name) is not None


_HINTS = {
    **dict.fromkeys(
        (errno.EACCES, errno.EPERM, errno.EROFS),
        "give this user write permission there, or choose another home with --home DIR",
    ),
    **dict.fromkeys(
        (errno.EISDIR, errno.ENOTDIR, errno.EEXIST, errno.ENOTEMPTY, errno.ELOOP, errno.ENXIO),
        "move what lies at {place} away: PM keeps something else there",
    ),
    errno.ENAMETOOLONG: "choose a home with a shorter path with --home DIR",
}


def sync_directory(path: Path) -> None:
    """Make the names in `path` durable; a platform without directory handles (Windows) has no such call."""
    if sys.platform == "win32":
        return
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def flush_filesystem(path: Path) -> None:
    """Flush the whole filesystem that holds `path`.

    On Linux with syncfs (measured on 5,000 files: 0.3-1.6 s against 11 s for an fsync per file), else with sync.
    """
    if sys.platform.startswith("linux"):
        library = ctypes.CDLL(None, use_errno=True)
        handle = os.open(path, os.O_RDONLY)
        try:
            if library.syncfs(handle) != 0:
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number), str(path))
        finally:
            os.close(handle)
    elif hasattr(os, "sync"):
        os.sync()


def _drop_write_bits(path: str) -> None:
    mode = os.lstat(path).st_mode
    if not stat.S_ISLNK(mode) and mode & 0o222:
        os.chmod(path, stat.S_IMODE(mode) & ~0o222)


def _remove(path: Path) -> None:
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(mode):
        path.unlink()
        return
    for folder, _, _ in os.walk(path):
        with contextlib.suppress(OSError):  # one that cannot be changed keeps its members, and only those
            os.chmod(folder, 0o700)  # a read-only directory does not give its members up
    shutil.rmtree(path, ignore_errors=True)  # what can go goes, also where one member cannot
    if os.path.lexists(path):
        shutil.rmtree(path)  # raises, and says why
