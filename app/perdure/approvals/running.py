"""Where runs go on: which namespaces of processes have one just now.

Owns: the files that say so, held as long as a run goes on, whatever becomes of who holds them. Does not own: what
follows for whoever wants to answer (ancestry). Keeps: approvals-not-from-inside: a run that makes a namespace of its
own, in which nothing of what started it is seen, is told by the run that goes on outside of it.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from perdure.own_writers import claim

_NAME = "running-in-"
_WRITER = claim("runs-going-on")


@contextlib.contextmanager
def going_on(folder: Path | None, namespace: int | None) -> Iterator[None]:
    """Return a block during which a run goes on in a namespace, as others see it.

    Args:
        folder: the profile's state; None where there is none.
        namespace: of this process; None where there is no such thing.
    """
    descriptor = None if folder is None or namespace is None else _hold(folder, namespace)
    try:
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def elsewhere(state: Path, namespace: int) -> bool:
    """Return whether a run of any profile goes on in another namespace than this; forget where none does any more."""
    return any(_is_held(path) for path in state.glob(f"*/{_NAME}*.lock") if path.name != f"{_NAME}{namespace}.lock")


def _hold(folder: Path, namespace: int) -> int | None:
    import fcntl

    path = folder / f"{_NAME}{namespace}.lock"
    # What cannot be kept here is no reason not to run: the record of the run is asked for that.
    with contextlib.suppress(OSError):
        while True:
            with _WRITER.writing():
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.stat(path), os.fstat(descriptor)):
                    return descriptor
            os.close(descriptor)  # it was just forgotten
    return None


def _is_held(path: Path) -> bool:
    if sys.platform == "win32":
        return False
    import fcntl

    try:
        with _WRITER.writing():
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError:
        return True  # whoever may not look cannot say that there is none
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Nobody runs in that namespace, which is as good as gone.
        with _WRITER.writing():
            path.unlink(missing_ok=True)
    except BlockingIOError:
        return True
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False
