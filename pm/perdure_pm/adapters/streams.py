"""The standard streams of a command, which may be closed, full, or without a reader.

Owns: writing data and talk so that neither becomes a defect. Does not own: the words. Keeps: cli-streams-survive:
whoever reads no more is no failure, data that could not be written is one, talk that nobody takes changes nothing.

Standard library only, Python 3.9.
"""

from __future__ import annotations

import contextlib
import os
import sys

from perdure_pm.model.errors import EXIT_FAILED


def open_descriptors() -> None:
    """Have descriptors 0 to 2 open, so that no file of ours gets such a number."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def write_data(text: str, exit_code: int) -> int:
    """Write data to standard output and return the exit code: a reader that went away is no failure, a full disk is."""
    if sys.stdout is None or not text:
        return exit_code
    try:
        sys.stdout.write(text if text.endswith("\n") else text + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        _silence()
    except OSError as error:
        _silence()
        write_talk(f"error: standard output cannot be written: {error.strerror or error}\n  state: unchanged")
        return exit_code or EXIT_FAILED
    return exit_code


def write_talk(text: str, *, end: str = "\n") -> None:
    """Write to standard error; where nobody listens the exit code still says how it went."""
    with contextlib.suppress(OSError, ValueError):
        if sys.stderr is not None:
            sys.stderr.write(text + end)
            sys.stderr.flush()


def _silence() -> None:
    """Have the interpreter's own flush at exit go nowhere, where it would fail a second time."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)
