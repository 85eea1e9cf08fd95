"""Reading files that anybody may have put in the place of PM's own.

Owns: opening regular files only, up to a size. Does not own: what a fault means (each reader knows). Keeps: a pipe is
never waited for, a device never read to its end.

Standard library only, Python 3.9.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


def open_regular(path: str | os.PathLike[str]) -> BinaryIO:
    """Return the file at `path`, also through links, opened for reading.

    Raises:
        OSError: it cannot be opened, or is no regular file.
    """
    handle = os.open(path, _FLAGS)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "is not a file", str(path))
    return os.fdopen(handle, "rb")


def read_regular(path: Path, limit: int) -> bytes:
    """Return the bytes of the regular file at `path`, also through links.

    Raises:
        OSError: it cannot be read, is no regular file, or holds more than `limit` bytes.
    """
    with open_regular(path) as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise OSError(errno.EFBIG, f"is larger than {limit} bytes", str(path))
    return data
