"""The programs of external plugins, started for as long as a tool runs and ended with everything they started.

Owns: starting and ending them, and telling which of them ended by themselves. Does not own: which there are
(domain/boot), what each is and in which environment it runs (the generation's external.py, which is PM's: the app runs
it and shares no code with it). Keeps: app-external-ends-with-it.

What a program says goes to standard error: standard output is the app's own answer. Each is told to end with this
process however that ends, where the kernel has a way for that; a descendant that left its group is found by its
parents.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from perdure.domain.plugin import PluginFailure
from perdure.domain.record import dataclass
from perdure.installation import Installation

GRACE_SECONDS = 2.0
"""How long a program may take to end after it was asked to."""
_PROC = "/proc"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Started:
    name: str
    process: "subprocess.Popen[bytes]"


@contextlib.contextmanager
def running(installation: Installation, names: Sequence[str], failures: list[PluginFailure]) -> Iterator[None]:
    """Have the programs run in the block; what cannot be started, or fails before it ends, is among the failures."""
    started: list[_Started] = []
    try:
        for name in names:
            begun = _start(installation, name)
            if isinstance(begun, PluginFailure):
                failures.append(begun)
            else:
                started.append(begun)
        yield
    finally:
        for item in started:
            code = item.process.poll()
            if code:
                failures.append(_failure(item.name, f"it ended with {code} by itself"))
        _end(started)


def _start(installation: Installation, name: str) -> _Started | PluginFailure:
    program = None if installation.generation is None else installation.generation / "external.py"
    if program is None or not program.is_file() or sys.platform == "win32":
        return _failure(name, f"it cannot be started: there is no {program}")
    try:
        process = subprocess.Popen(
            [str(installation.executable), "-I", str(program), "--with-parent", name],
            stdin=subprocess.DEVNULL,
            stdout=2,
            # A group of its own, so that ending it ends what it has started, and a person's interrupt is the app's.
            start_new_session=True,
        )
    except OSError as error:
        return _failure(name, f"it cannot be started: {error.strerror or error}")
    return _Started(name=name, process=process)


def _end(started: Sequence[_Started]) -> None:
    """Have none of the programs left, nor anything that they started."""
    # Before the first one ends: who has no parent any more is nobody's descendant.
    beside = [(pid, _born(pid)) for item in started for pid in _descendants(item.process.pid)]
    for item in started:
        _signal_group(item.process.pid, signal.SIGTERM)
    deadline = time.monotonic() + GRACE_SECONDS
    for item in started:
        with contextlib.suppress(subprocess.TimeoutExpired):
            item.process.wait(max(0.0, deadline - time.monotonic()))
    for item in started:
        _signal_group(item.process.pid, signal.SIGKILL)
        item.process.wait()
    for pid, born in beside:
        if born is not None and _born(pid) == born:  # a number may have been given out anew
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)


def _signal_group(group: int, number: int) -> None:
    with contextlib.suppress(OSError):
        os.killpg(group, number)


def _descendants(root: int) -> list[int]:
    """Return every process that `root`, or one of these, started and that still runs; none where nothing tells."""
    children: dict[int, list[int]] = {}
    with contextlib.suppress(OSError):
        for name in os.listdir(_PROC):
            fields = _read_stat(int(name)) if name.isdigit() else None
            if fields is not None:
                children.setdefault(int(fields[1]), []).append(int(name))
    found: list[int] = []
    waiting = [root]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def _born(pid: int) -> str | None:
    fields = _read_stat(pid)
    return None if fields is None else fields[19]


def _read_stat(pid: int) -> list[str] | None:
    """Return the fields behind the name of a process, which may hold anything: state, parent, and so on."""
    try:
        fields = Path(_PROC, str(pid), "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return fields if len(fields) > 19 else None


def _failure(name: str, summary: str) -> PluginFailure:
    return PluginFailure(plugin=name, stage="program", summary=summary)
