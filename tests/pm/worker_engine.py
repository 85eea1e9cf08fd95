"""An engine for tests of the worker: real operations, each of which does one thing that a worker must cope with.

Run by the entry script of `tests/pm/worker_home.py` in a real worker process, through the worker's own `main`.
"""

from __future__ import annotations

import builtins
import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perdure_pm import ports, worker
from perdure_pm.adapters import processes
from perdure_pm.model import errors
from perdure_pm.model.registration import parse_registrations
from perdure_pm.ops.context import Outcome
from perdure_pm.store.layout import Layout

PATIENCE = 1.5
"""The watchdog's patience in tests."""


@dataclass
class World:
    """What these operations need of a context."""

    layout: Layout
    request: worker.Request
    reporter: ports.Reporter


@dataclass(frozen=True)
class Operation:
    function: Callable[[Any, Mapping[str, Any]], Outcome]
    mutating: bool = True
    frees: bool = False


def echo(world: World, arguments: Mapping[str, Any]) -> Outcome:
    world.reporter.progress("echo", str(arguments.get("message", "")), done=1, total=2)
    return Outcome(
        status=str(arguments.get("status", "ok")),
        data={"arguments": dict(arguments), "environment": dict(os.environ), "group": os.getpgrp(), "pid": os.getpid()},
        obligations=("restart it",),
    )


def look(world: World, arguments: Mapping[str, Any]) -> Outcome:
    return Outcome(status="ok", data={"stdin": sys.stdin.read(), "isolated": sys.flags.isolated})


def chatter(world: World, arguments: Mapping[str, Any]) -> Outcome:
    """Write to stdout in every way there is."""
    print("from print")
    os.write(1, b"from descriptor 1\n")
    library = ctypes.CDLL(None)
    library.printf(b"from printf\n")
    library.fflush(None)
    sys.__stdout__.write("from the first stdout\n")  # type: ignore[union-attr]
    sys.__stdout__.flush()  # type: ignore[union-attr]
    subprocess.run([sys.executable, "-c", "print('from a child')"], check=True)
    return Outcome(status="ok", data={"said": 5})


def leave(world: World, arguments: Mapping[str, Any]) -> Outcome:
    sys.stderr.write("the last words\n")
    sys.stderr.flush()
    os._exit(int(arguments["code"]))


def fail(world: World, arguments: Mapping[str, Any]) -> Outcome:
    kind = str(arguments["kind"])
    values = list(arguments.get("args", ["the message"]))
    if kind == "ours":
        try:
            raise ConnectionError("the wire is cut")
        except ConnectionError as cause:
            raise errors.BuildFailed(
                "it could not be built",
                hint="free the wire",
                context={"package": "facts", "path": Path("/x")},
                retry="later",
                state="rolled-back",
            ) from cause
    if kind == "lazy":
        raise errors.LazyInstallRefused("nobody asked")
    if kind == "json":
        json.loads("{")
    raise getattr(builtins, kind)(*values)


def download(world: World, arguments: Mapping[str, Any]) -> Outcome:
    """Write a file piece by piece, telling of each; clean up on any exception."""
    target = Path(arguments["target"])
    try:
        with target.open("wb") as file:
            for piece in range(1, 100_000):
                file.write(b"x" * 1024)
                world.reporter.progress("download", "more", done=piece, total=100_000)
                time.sleep(0.001)
    except BaseException:
        target.unlink()
        raise
    return Outcome(status="ok")


def family(world: World, arguments: Mapping[str, Any]) -> Outcome:
    """Run a shell with a child in a session of its own and an orphan in another; each writes its number."""
    folder = Path(arguments["folder"])
    script = (
        'cd "$1"; echo $$ > shell; '
        "setsid sh -c 'echo $$ > session; exec sleep 300' & "
        "sh -c 'setsid sh -c \"echo \\$\\$ > orphan; exec sleep 300\" &' ; "
        "sleep 300"
    )
    processes.run(["/bin/sh", "-c", script, "sh", folder], environment=dict(os.environ), directory=folder)
    return Outcome(status="ok")


def leave_child(world: World, arguments: Mapping[str, Any]) -> Outcome:
    """End well, but leave a process behind."""
    child = subprocess.Popen(["/bin/sh", "-c", "exec sleep 300"], start_new_session=True)
    return Outcome(status="ok", data={"pid": child.pid})


def hang(world: World, arguments: Mapping[str, Any]) -> Outcome:
    """Say nothing for ever, with children that do nothing either."""
    folder = Path(arguments["folder"])
    for name in ("one", "two"):
        child = subprocess.Popen(["/bin/sh", "-c", "exec sleep 300"], start_new_session=True)
        (folder / f".{name}").write_text(f"{child.pid}\n")
        os.rename(folder / f".{name}", folder / name)
    if arguments.get("deaf"):
        # The whole interpreter stands: no thread runs, no handler is called. Only a kill from outside ends this.
        ctypes.PyDLL(None).sleep(300)
    if arguments.get("native"):
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    time.sleep(300)
    return Outcome(status="ok")


def steady(world: World, arguments: Mapping[str, Any]) -> Outcome:
    """Run a child that works in silence for longer than the idle deadline."""
    code = "import sys, time\nend = time.monotonic() + float(sys.argv[1])\nwhile time.monotonic() < end: pass"
    processes.run(
        [sys.executable, "-c", code, str(arguments["seconds"])],
        environment=dict(os.environ),
        directory=None,
        on_tick=world.reporter.heartbeat,
    )
    return Outcome(status="ok")


def publish(world: World, arguments: Mapping[str, Any]) -> Outcome:
    """Ask, commit, write a pointer, wait to be let go on, tell."""
    world.reporter.callback("before_publish", {"plan": ["one step"]})
    world.reporter.committed()
    pointer = world.layout.home / "pointer"
    pointer.write_text("2\n")
    world.reporter.progress("tidy", "after the commit")
    if "gate" in arguments:
        gate = Path(arguments["gate"])
        while not gate.exists():
            time.sleep(0.01)
        print("still talking after everybody left")
    world.reporter.callback("published", {"pointer": "2"})
    return Outcome(status="ok", data={"pointer": "2"})


def stubborn(world: World, arguments: Mapping[str, Any]) -> Outcome:
    """Swallow every ordinary exception, as a careless operation would, and go on until progress says no."""
    while True:
        try:
            world.reporter.progress("work", "on")
            time.sleep(0.01)
        except Exception:  # noqa: BLE001, S112 -- what is tested
            continue


def large(world: World, arguments: Mapping[str, Any]) -> Outcome:
    return Outcome(status="ok", data={"much": "x" * int(arguments["bytes"])})


def odd(world: World, arguments: Mapping[str, Any]) -> Outcome:
    return Outcome(status="ok", data={"path": Path("/x")})


def packages(world: World, arguments: Mapping[str, Any]) -> Outcome:
    parsed = parse_registrations(list(world.request.packages))
    return Outcome(status="ok", data={"names": [entry.name for entry in parsed]})


OPERATIONS: dict[str, worker.Operation] = {
    "chatter": Operation(chatter),
    "download": Operation(download),
    "echo": Operation(echo),
    "fail": Operation(fail),
    "family": Operation(family),
    "hang": Operation(hang),
    "large": Operation(large),
    "leave": Operation(leave),
    "leave-child": Operation(leave_child),
    "look": Operation(look, mutating=False),
    "odd": Operation(odd),
    "packages": Operation(packages),
    "publish": Operation(publish),
    "steady": Operation(steady),
    "stubborn": Operation(stubborn),
}


def main() -> int:
    return worker.main(operations=OPERATIONS, make_context=World, patience=PATIENCE)  # type: ignore[arg-type]
