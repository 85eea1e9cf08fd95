"""The mutex of a home: one kernel lock, so that a holder's death frees it and no stale file ever blocks.

Owns: taking, waiting, naming the holder, refusing a filesystem whose locks do not work. Does not own: what is done
under it. Standard library only, Python 3.9.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from perdure_pm.adapters.filesystem import explained
from perdure_pm.model.errors import Busy, NoKernelLocks
from perdure_pm.store.layout import Layout
from perdure_pm.store.reading import read_regular

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

POLL_SECONDS = 0.05
TELL_SECONDS = 1.0
HOLDER_BYTES = 4096


@contextlib.contextmanager
def held(
    layout: Layout,
    operation: str,
    *,
    wait: bool = True,
    on_wait: Callable[[str], None] = lambda _holder: None,
) -> Iterator[None]:
    """Hold the home's mutex.

    While it is not free, `on_wait` is called with the holder's description, every second anew: a wait is no silence.

    Raises:
        Busy: `wait` is false and another process holds it.
        NoKernelLocks: the filesystem has no locks, or grants the same lock twice.
        HomeUnusable: the lock file cannot be made.
    """
    with explained(layout.home):
        layout.home.mkdir(parents=True, exist_ok=True)
    handle = _take(layout, wait=wait, on_wait=on_wait)
    try:
        _require_exclusive(layout.mutex)
        # Who holds it is for people only; nothing decides by it, so a plain write is enough. What lies there is taken
        # away first: a link would be written through, and a pipe would wait for a reader.
        with contextlib.suppress(OSError):
            layout.mutex_holder.unlink()
        with contextlib.suppress(OSError):
            since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            layout.mutex_holder.write_text(
                json.dumps({"pid": os.getpid(), "operation": operation, "since": since}), encoding="utf-8"
            )
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                layout.mutex_holder.unlink()
    finally:
        os.close(handle)


def _take(layout: Layout, *, wait: bool, on_wait: Callable[[str], None]) -> int:
    """Return an open descriptor that holds the lock of the file that stands at the mutex's path now."""
    tell_at = 0.0
    while True:
        with explained(layout.mutex):
            handle = os.open(layout.mutex, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o644)
        try:
            while not _try(handle, layout.mutex):
                holder = describe_holder(layout)
                if not wait:
                    raise Busy(
                        f"another operation is running: {holder}",
                        hint="run the same command without --no-wait to wait for it",
                        context={"holder": holder},
                    )
                if time.monotonic() >= tell_at:
                    on_wait(holder)
                    tell_at = time.monotonic() + TELL_SECONDS
                time.sleep(POLL_SECONDS)
            # An uninstall that was waited for took the file away: its lock protects nothing any more.
            if _is_at(handle, layout.mutex):
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def _is_at(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except FileNotFoundError:
        return False


def describe_holder(layout: Layout) -> str:
    """Return who holds the mutex in words, as far as is known."""
    try:
        data = json.loads(read_regular(layout.mutex_holder, HOLDER_BYTES))
        return f"{data['operation']} (process {data['pid']}, since {data['since']})"
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return "an operation that has not said its name yet"


def _try(handle: int, path: Path) -> bool:
    try:
        if sys.platform == "win32":
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in {errno.EAGAIN, errno.EACCES, errno.EDEADLK}:
            return False
        raise _no_locks(path, error.strerror or str(error)) from error
    return True


def _require_exclusive(path: Path) -> None:
    """Refuse a filesystem that grants a second exclusive lock while the first is held."""
    second = os.open(path, os.O_RDWR)
    try:
        if _try(second, path):
            raise _no_locks(path, "the same lock was granted twice")
    finally:
        os.close(second)


def _no_locks(path: Path, reason: str) -> NoKernelLocks:
    return NoKernelLocks(
        f"the filesystem of {path} has no working kernel locks: {reason}",
        hint="choose a home on a local filesystem with --home DIR",
        context={"path": str(path)},
    )
