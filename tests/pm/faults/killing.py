"""A worker that runs an operation as the command line's does, to be killed at a chosen moment.

Owns: starting the worker, its request, its frames, and SIGKILL to it alone or to its whole tree. Does not own: when.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from perdure_pm import wire
from perdure_pm.adapters import processes
from perdure_pm.adapters.worker_process import WORKER_ENTRY
from perdure_pm.store.layout import Layout
from tests.pm.fake_host import Workshop
from tests.pm.faults.performing import Task, arguments_of

LIMIT_SECONDS = 120.0


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run of a worker."""

    seconds: float
    """From the request to its end."""
    stages: tuple[str, ...]
    """The stages that it told of, each once, in order."""
    finished: bool
    """Whether it gave its result before it ended."""


def run_worker(
    workshop: Workshop, layout: Layout, task: Task, *, kill_at: Callable[[float, str], bool], whole_tree: bool
) -> Run:
    """Start a worker, have it perform `task`, and kill it as soon as `kill_at(seconds, stage)` says so.

    Args:
        workshop: what the home was made from.
        layout: the home.
        task: what it is asked.
        kill_at: asked with the seconds since the request and the last stage, at each frame and every few milliseconds.
        whole_tree: whether its children are killed in the same moment; else they notice its death.
    """
    worker = subprocess.Popen(
        [sys.executable, *WORKER_ENTRY, "--home", layout.home],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={"PATH": os.defpath, "HOME": str(layout.home.parent)},
        start_new_session=True,
    )
    assert worker.stdin is not None
    assert worker.stdout is not None
    stages: list[str] = []
    left, finished = b"", False

    def listen() -> None:
        nonlocal left, finished
        *lines, left = (left + (worker.stdout.read() or b"" if worker.stdout is not None else b"")).split(b"\n")
        for frame in map(json.loads, lines):
            finished = finished or frame["type"] == "result"
            stage = frame.get("stage", frame["type"])
            if stage not in stages and stage != "heartbeat":
                stages.append(stage)

    try:
        worker.stdout.readline()  # hello
        worker.stdin.write(_request(workshop, task))
        worker.stdin.flush()
        begun = time.monotonic()
        os.set_blocking(worker.stdout.fileno(), False)
        while worker.poll() is None:
            passed = time.monotonic() - begun
            assert passed < LIMIT_SECONDS
            listen()
            if kill_at(passed, stages[-1] if stages else ""):
                if whole_tree:
                    processes.kill_tree(worker.pid)
                else:
                    worker.send_signal(signal.SIGKILL)
                break
            select.select([worker.stdout], [], [], 0.001)
        else:
            listen()  # a worker ends as soon as its result is out
        seconds = time.monotonic() - begun
    finally:
        worker.kill()
        worker.communicate()
    return Run(seconds=seconds, stages=tuple(stages), finished=finished)


def _request(workshop: Workshop, task: Task) -> bytes:
    index = workshop.newer_index if task.newer else workshop.index
    return wire.encode(
        "request",
        v=wire.VERSION,
        id="1",
        correlation="1",
        operation=task.operation,
        arguments={**arguments_of(workshop, task), "settings": {"wheelhouse": str(index)}},
        deadline=None,
        idle_deadline=None,
        callbacks=[],
        packages=[],
    )
