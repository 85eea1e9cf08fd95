"""What the kernel itself says of the processes above this one.

Owns: reading `/proc` so that nothing but the kernel's own file system is believed: not one that was mounted over it,
nor a file over one of its files, nor that of other processes. Does not own: what follows from it (ancestry). Where
there is no kernel with a `/proc`, there is nothing to read. Keeps: approvals-not-from-inside.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import struct
from collections.abc import Iterator
from typing import Final, Self

_PROC_MAGIC: Final = 0x9FA0
_OPENAT2: Final = 437
_NO_CROSSING: Final = 0x01 | 0x04
"""``RESOLVE_NO_XDEV``, ``RESOLVE_NO_SYMLINKS``: neither another file system nor another name is gone through."""
FIRST_NAMESPACE: Final = 0xEFFFFFFC
"""The kernel's own number of the namespace of processes that everything else lies in."""
_LARGEST = 4 * 1024 * 1024


class UnseenError(Exception):
    """The kernel does not show it, or what shows it is not the kernel."""

    denied = False
    """Whether it belongs to another user, and that is all."""


def _unseen(path: str, error: int) -> UnseenError:
    found = UnseenError(f"process {path.partition('/')[0]} above this one is not shown")
    found.denied = error in {errno.EACCES, errno.EPERM}
    return found


class KernelProcesses:
    """The processes as the kernel shows them to this one; a context manager."""

    def __init__(self, place: str = "/proc") -> None:
        """Have the kernel's processes at hand.

        Raises:
            UnseenError: what is there is not the kernel's, or shows other processes than this one's.
        """
        self._libc = ctypes.CDLL(None, use_errno=True)
        try:
            self._folder = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise UnseenError(f"{place} cannot be read") from error
        try:
            self._require_kernel(self._folder, place)
            with contextlib.suppress(OSError):
                if os.readlink("self", dir_fd=self._folder) == str(os.getpid()):
                    return
            raise UnseenError(f"{place} shows the processes of another place")
        except UnseenError:
            os.close(self._folder)
            raise

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the kernel's files alone."""
        os.close(self._folder)

    def parent(self, pid: int) -> int:
        """Return the process above one; 0 above the first one of a namespace.

        Raises:
            UnseenError: it is not shown.
        """
        data = self.read(pid, "stat")
        try:
            if int(data.partition(b" ")[0]) != pid:
                raise UnseenError(f"process {pid} is shown as another one")
            # The name stands in parentheses and may hold anything.
            return int(data.rpartition(b")")[2].split()[1])
        except (ValueError, IndexError) as error:
            raise _unseen(str(pid), 0) from error

    def read(self, pid: int, name: str) -> bytes:
        """Return what the kernel says of a process in one of its files.

        Raises:
            UnseenError: it says nothing to this process.
        """
        descriptor = self._open(f"{pid}/{name}", os.O_RDONLY)
        try:
            parts = list[bytes]()
            while data := os.read(descriptor, 65536):
                parts.append(data)
                if sum(map(len, parts)) > _LARGEST:
                    break
            return b"".join(parts)
        except OSError as error:
            raise _unseen(str(pid), error.errno or 0) from error
        finally:
            os.close(descriptor)

    def namespace(self) -> int:
        """Return the number of the namespace of processes that this one is in.

        Raises:
            UnseenError: it is not shown.
        """
        folder = self._open(f"{os.getpid()}/ns", os.O_RDONLY | os.O_DIRECTORY)
        try:
            return int(os.readlink("pid", dir_fd=folder).removeprefix("pid:[").removesuffix("]"))
        except (OSError, ValueError) as error:
            raise UnseenError("the namespace of this process is not shown") from error
        finally:
            os.close(folder)

    def _open(self, path: str, flags: int) -> int:
        how = struct.pack("=QQQ", flags | os.O_CLOEXEC, 0, _NO_CROSSING)
        descriptor = self._libc.syscall(_OPENAT2, self._folder, path.encode(), how, len(how))
        if descriptor >= 0:
            return int(descriptor)
        if (error := ctypes.get_errno()) not in {errno.ENOSYS, errno.EPERM}:
            raise _unseen(path, error)
        # An older kernel, or a container that knows no newer one: each file is asked whose it is.
        try:
            descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=self._folder)
        except OSError as refused:
            raise _unseen(path, refused.errno or 0) from refused
        try:
            self._require_kernel(descriptor, path)
        except UnseenError:
            os.close(descriptor)
            raise
        return descriptor

    def _require_kernel(self, descriptor: int, path: str) -> None:
        buffer = ctypes.create_string_buffer(512)
        # The first member is the kind, a long but on one machine.
        kind = ctypes.c_uint if os.uname().machine == "s390x" else ctypes.c_long
        if self._libc.fstatfs(descriptor, buffer) != 0 or kind.from_buffer(buffer).value != _PROC_MAGIC:
            raise UnseenError(f"{path} is not what the kernel shows")


def above(processes: KernelProcesses, pid: int, most: int) -> Iterator[int]:
    """Yield the processes above one, up to the first of its namespace.

    Raises:
        UnseenError: one of them is not shown, or there are too many.
    """
    for _ in range(most):
        pid = processes.parent(pid)
        if pid == 0:
            return
        yield pid
    raise UnseenError("there are too many processes above this one")
