"""Waiting for a started command to end, whatever ends it, and having nothing of it left.

Owns: reading its streams meanwhile, its time, a signal that is sent to this process, and the code that it ends with.
Does not own: starting it (terminal), or finding and ending processes (processes). Keeps: exec-output-bounded,
exec-tree-ended.
"""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator

import anyio
from anyio.abc import ByteReceiveStream, Process

from perdure.domain.record import dataclass, field
from perdure.tools import processes
from perdure.tools.capture import Capture

EXIT_TIMED_OUT = 124

_GRACE_SECONDS = 2.0
_DRAIN_SECONDS = 1.0
_CHUNK = 64 * 1024


@dataclass(slots=True)
class Ending:
    """How a command ended, and what was left of it."""

    how: str = "exited"
    signal: int | None = None
    killed: list[int] = field(default_factory=list)
    survivors: list[int] = field(default_factory=list)


async def attend(
    process: Process,
    seconds: float,
    stdout: Capture,
    stderr: Capture,
    signals: AsyncIterator[signal.Signals],
    *,
    jailed: bool,
) -> Ending:
    """Wait for a command to end, reading what it writes meanwhile, and have nothing of it left whatever happens."""
    ending = Ending()
    try:
        async with anyio.create_task_group() as readers:
            ends = anyio.Event(), anyio.Event()
            readers.start_soon(_read, process.stdout, stdout, ends[0])
            readers.start_soon(_read, process.stderr, stderr, ends[1])
            await _wait(process, seconds, ending, signals, jailed=jailed)
            # What it left behind may hold the streams open for ever.
            ending.killed, ending.survivors = await processes.end_all(process)
            with anyio.move_on_after(_DRAIN_SECONDS):
                for end in ends:
                    await end.wait()
            readers.cancel_scope.cancel()
    except BaseException:
        with anyio.CancelScope(shield=True):
            await processes.end_all(process)
        raise
    return ending


async def _read(stream: ByteReceiveStream | None, capture: Capture, ended: anyio.Event) -> None:
    try:
        while stream is not None:
            capture.feed(await stream.receive(_CHUNK))
    except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
        pass
    finally:
        ended.set()


async def _wait(
    process: Process, seconds: float, ending: Ending, signals: AsyncIterator[signal.Signals], *, jailed: bool
) -> None:
    """Have the command end: by itself, when its time is over, or because this process is told to end."""

    async def watch(scope: anyio.CancelScope) -> None:
        async for number in signals:
            ending.signal = int(number)
            scope.cancel()
            return

    with anyio.move_on_after(seconds) as waiting:
        async with anyio.create_task_group() as watchers:
            watchers.start_soon(watch, waiting)
            await process.wait()
            watchers.cancel_scope.cancel()
    if process.returncode is None:
        ending.how = "timed-out" if ending.signal is None else "interrupted"
        processes.ask_to_end(process, ending.signal or signal.SIGTERM, jailed=jailed)
        with anyio.move_on_after(_GRACE_SECONDS):
            await process.wait()
    elif process.returncode < 0:
        ending.how = "signalled"


def exit_code_of(process: Process, ending: Ending) -> int:
    """Return the code that a run is said to have ended with."""
    if ending.how == "timed-out":
        return EXIT_TIMED_OUT
    if ending.signal is not None:
        return 128 + ending.signal
    code = process.returncode or 0
    return 128 - code if code < 0 else code
