"""A command that is meant to keep running, such as a server: watched for a while, then ended with its tree.

Owns: telling one that stayed from one that ended by itself. Does not own: what that means (ops.verify), nor ending a
tree (processes). Keeps: processes-tree-dies: nothing of it is left, however this ends.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path

from perdure_pm.adapters import processes

SHOWN_BYTES = 4000
"""How much of what it said last is kept."""


def watch(
    command: Sequence[str | PathLike[str]],
    *,
    environment: Mapping[str, str],
    directory: Path,
    seconds: float,
    on_wait: Callable[[], None],
) -> tuple[int, float, str] | None:
    """Return None where `command` still ran after `seconds`; else its exit code, when it ended, and what it said last.

    Args:
        command: the program and its arguments; no shell, and no input.
        environment: the whole environment.
        directory: the working directory.
        seconds: how long it must keep running.
        on_wait: called again and again meanwhile: a server that waits does nothing by which its life could be told.

    Raises:
        OSError: it cannot be started.
    """
    began = time.monotonic()
    child = processes.start(command, environment=environment, directory=directory, bound=True)
    pipes = processes.read_pipes(child)
    said = b""
    try:
        if child.stdin is not None:
            child.stdin.close()
        while child.poll() is None:
            if time.monotonic() - began >= seconds:
                return None
            said += b"".join(chunk for _, chunk in pipes.read(processes.WAKE_SECONDS))
            said = said[-SHOWN_BYTES:]
            on_wait()
        ended = time.monotonic() - began
        said += b"".join(chunk for _, chunk in pipes.read(0.0))
        return child.returncode, ended, said[-SHOWN_BYTES:].decode("utf-8", "replace")
    finally:
        if child.returncode is None:
            processes.kill_tree(child.pid)
        pipes.close()
        child.wait()
