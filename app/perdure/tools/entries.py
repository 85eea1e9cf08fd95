"""Entries of directories that are held open, so that what was decided about is what is acted on.

A directory is opened name by name from the top without following a link, and its entries are acted on relative to it:
whoever puts a link in the way after the decision gets an error, not the file behind the link.

Owns: these calls, and a write that is whole or not at all. Does not own: what may be done (workspace). Keeps:
files-checked-again, files-atomic.

Where the system has no such calls (Windows), paths are used as they are, after another look at the entry.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import stat
from collections.abc import Iterator

Stamp = tuple[int, int, int, int]
"""Device, inode, size and time of a file: another one is another file, or other contents."""

_CAN_HOLD = os.open in os.supports_dir_fd and os.rename in os.supports_dir_fd
# O_PATH, where there is one: a directory that may be gone through need not be readable.
_DIRECTORY = sum(getattr(os, name, 0) for name in ("O_DIRECTORY", "O_NOFOLLOW", "O_CLOEXEC", "O_PATH"))


class Folder:
    """A directory that is held open."""

    def __init__(self, path: str, handle: int | None) -> None:
        """Know the directory by its path, and by its descriptor where it has one."""
        self.path = path
        self._handle = handle

    def _at(self, name: str) -> str:
        return name if self._handle is not None else os.path.join(self.path, name)

    def stat(self, name: str) -> os.stat_result | None:
        """Return what the entry itself is, or None where there is none."""
        try:
            return os.stat(self._at(name), dir_fd=self._handle, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def read(self, name: str, most: int) -> tuple[bytes, os.stat_result]:
        """Return at most so many bytes and one more of a regular file, and what it is.

        Raises:
            OSError: it is a link, no regular file, or cannot be read.
        """
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        handle = os.open(self._at(name), flags | getattr(os, "O_CLOEXEC", 0), dir_fd=self._handle)
        with os.fdopen(handle, "rb") as file:
            found = os.fstat(handle)
            if not stat.S_ISREG(found.st_mode):
                raise IsADirectoryError(21, "it is no file" if not stat.S_ISDIR(found.st_mode) else "it is a directory")
            return file.read(most + 1), found

    def replace(self, name: str, data: bytes, *, old: os.stat_result | None) -> None:
        """Have the entry be a file with these bytes; a crash leaves the old one, or one beside it.

        Args:
            name: the entry.
            data: its contents.
            old: what is there, which is looked at again, and whose owner and permissions stay; None where nothing
                may be.

        Raises:
            FileExistsError: something is there, or something else.
        """
        draft = f".{name[:100]}.{secrets.token_hex(6)}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
        handle = os.open(self._at(draft), flags, 0o666 if old is None else 0o600, dir_fd=self._handle)
        try:
            try:
                view = memoryview(data)
                while view:
                    view = view[os.write(handle, view) :]
                if old is not None and hasattr(os, "fchmod"):
                    os.fchmod(handle, _give(handle, old))
                os.fsync(handle)
            finally:
                os.close(handle)
            if old is None:
                self._put(draft, name)
            elif stamp(self.stat(name)) != stamp(old):
                raise FileExistsError(17, "it was changed meanwhile")
            else:
                os.replace(self._at(draft), self._at(name), src_dir_fd=self._handle, dst_dir_fd=self._handle)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(self._at(draft), dir_fd=self._handle)
            raise
        self._flush()

    def _put(self, draft: str, name: str) -> None:
        """Give the draft its name, unless something has it by now."""
        try:
            os.link(self._at(draft), self._at(name), src_dir_fd=self._handle, dst_dir_fd=self._handle)
        except FileExistsError:
            raise
        except OSError:
            # A file system without hard links.
            if self.stat(name) is not None:
                raise FileExistsError(17, "it was made meanwhile") from None
            os.rename(self._at(draft), self._at(name), src_dir_fd=self._handle, dst_dir_fd=self._handle)
        else:
            os.unlink(self._at(draft), dir_fd=self._handle)

    def move(self, name: str, target: Folder, other: str) -> None:
        """Have the entry be another one of the target, where nothing may be.

        Raises:
            FileExistsError: something is there.
            OSError: it is on another disk, or cannot be moved.
        """
        if target.stat(other) is not None:
            raise FileExistsError(17, "something is there already")
        found = self.stat(name)
        if found is None or not stat.S_ISREG(found.st_mode) or not self._link(name, target, other):
            os.rename(self._at(name), target._at(other), src_dir_fd=self._handle, dst_dir_fd=target._handle)
            return
        try:
            os.unlink(self._at(name), dir_fd=self._handle)
        except BaseException:
            # Not a rename instead: of two names of one file it does nothing, and says that it was done.
            with contextlib.suppress(OSError):
                os.unlink(target._at(other), dir_fd=target._handle)
            raise

    def _link(self, name: str, target: Folder, other: str) -> bool:
        """Have the file be there, too, and return whether it could be; unlike a rename this replaces nothing, ever."""
        with contextlib.suppress(PermissionError, NotImplementedError):
            os.link(
                self._at(name),
                target._at(other),
                src_dir_fd=self._handle,
                dst_dir_fd=target._handle,
                follow_symlinks=False,
            )
            return True
        return False

    def delete(self, name: str, *, below: bool) -> None:
        """Have the entry gone, a link itself; with `below` a directory with all that is in it."""
        found = self.stat(name)
        if found is None:
            raise FileNotFoundError(2, "there is no such file")
        if not stat.S_ISDIR(found.st_mode):
            os.unlink(self._at(name), dir_fd=self._handle)
        elif below:
            shutil.rmtree(self._at(name), dir_fd=self._handle)
        else:
            os.rmdir(self._at(name), dir_fd=self._handle)

    def _flush(self) -> None:
        if self._handle is not None:
            with contextlib.suppress(OSError):
                handle = os.open(".", os.O_RDONLY, dir_fd=self._handle)
                try:
                    os.fsync(handle)
                finally:
                    os.close(handle)


def _give(handle: int, old: os.stat_result) -> int:
    """Have a file belong to whom another one belongs to, as far as that is allowed, and return the mode for it.

    What a program may do by its owner's rights is not handed to new contents, as the kernel does not for a write.
    """
    mode = stat.S_IMODE(old.st_mode) & 0o777
    now = os.fstat(handle)
    if (now.st_uid, now.st_gid) == (old.st_uid, old.st_gid):
        return mode
    for owner in (old.st_uid, -1):
        with contextlib.suppress(PermissionError):
            os.fchown(handle, owner, old.st_gid)
            return mode
    # Another group than it was: it gets what everybody has.
    return mode & 0o707 | (mode & 0o007) << 3


@contextlib.contextmanager
def hold(path: str, *, make: bool = False) -> Iterator[Folder]:
    """Hold a directory open, reached without following a link.

    Args:
        path: absolute, as it really is: without links.
        make: whether what is missing on the way is made.

    Raises:
        OSError: a link is on the way, or the directory cannot be opened.
    """
    if not _CAN_HOLD:
        if make:
            os.makedirs(path, exist_ok=True)
        yield Folder(path, None)
        return
    handle = os.open("/", _DIRECTORY)
    try:
        for name in path.split("/"):
            if not name:
                continue
            try:
                inner = os.open(name, _DIRECTORY, dir_fd=handle)
            except FileNotFoundError:
                if not make:
                    raise
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, dir_fd=handle)
                inner = os.open(name, _DIRECTORY, dir_fd=handle)
            os.close(handle)
            handle = inner
        yield Folder(path, handle)
    finally:
        os.close(handle)


def stamp(found: os.stat_result | None) -> Stamp | None:
    """Return by what a file is known again."""
    return None if found is None else (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
