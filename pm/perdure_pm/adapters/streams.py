"""The standard streams of a command, which may be closed, full, or without a reader.

Owns: writing data and talk so that neither becomes a defect. Does not own: the words. Keeps: cli-streams-survive:
whoever reads no more is no failure, data that could not be written is one, talk that nobody takes changes nothing.

Standard library only, Python 3.9.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TextIO

from perdure_pm.model.errors import EXIT_FAILED


def open_descriptors() -> None:
    """Have descriptors 0 to 2 open, so that no file of ours gets such a number."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def write_data(text: str, exit_code: int, *, lost: str = "state: unchanged") -> int:
    """Write data to standard output and return the exit code: a reader that went away is no failure, a full disk is.

    Args:
        text: the data.
        exit_code: how the command ended.
        lost: told where the data could not be written: what was done all the same.
    """
    if sys.stdout is None or not text:
        return exit_code
    try:
        sys.stdout.write(text if text.endswith("\n") else text + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        _silence(sys.stdout)
    except OSError as error:
        _silence(sys.stdout)
        write_talk(f"error: standard output cannot be written: {error.strerror or error}\n  {lost}")
        return exit_code or EXIT_FAILED
    return exit_code


def write_talk(text: str, *, end: str = "\n") -> None:
    """Write to standard error; where nobody listens the exit code still says how it went."""
    if sys.stderr is None:
        return
    try:
        sys.stderr.write(text + end)
        sys.stderr.flush()
    except (OSError, ValueError):
        with contextlib.suppress(OSError, ValueError):
            _silence(sys.stderr)


def _silence(stream: TextIO) -> None:
    """Have the interpreter's own flush at exit go nowhere, where it would fail again and change the exit code."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)
