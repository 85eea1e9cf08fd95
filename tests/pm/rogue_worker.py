"""Workers that do not keep to the protocol, one per word on the command line; standard library only.

Each reads like a real one where it must, so that a test sees exactly one thing go wrong.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any


def say(**frame: Any) -> None:
    sys.stdout.write(json.dumps(frame) + "\n")
    sys.stdout.flush()


def greet(**more: Any) -> dict[str, Any]:
    say(**{"type": "hello", "v": 1, "versions": [1], "pid": os.getpid(), **more})
    request: dict[str, Any] = json.loads(sys.stdin.readline())
    return request


def receipt(request: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": "r", "operation": request["operation"], "correlation": request["correlation"], **more}


def result(request: dict[str, Any], **more: Any) -> None:
    frame = {
        "type": "result",
        "id": request["id"],
        "status": "ok",
        "data": {},
        "error": None,
        "receipt": receipt(request),
        "obligations": [],
    }
    say(**{**frame, **more})


def main(mode: str) -> None:
    if mode == "other-version":
        greet(v=7, versions=[6, 7])
    elif mode == "no-hello":
        say(type="progress", id="x", stage="s", message="m", done=None, total=None)
        time.sleep(60)
    elif mode == "silent":
        child = subprocess.Popen(["/bin/sh", "-c", "exec sleep 300"], start_new_session=True)
        sys.stderr.write(f"{child.pid}\n")
        sys.stderr.flush()
        signal.pause()
    elif mode == "early":
        sys.stderr.write("cannot import something\n")
        sys.exit(3)
    elif mode == "killed":
        greet()
        os.kill(os.getpid(), signal.SIGKILL)
    else:
        WAYS[mode](greet())


def talk_garbage(request: dict[str, Any]) -> None:
    sys.stdout.write("Traceback: this is not a frame\n")
    sys.stdout.flush()
    time.sleep(60)


def talk_too_much(request: dict[str, Any]) -> None:
    try:
        while True:
            sys.stdout.write("x" * 65536)
    except BrokenPipeError:
        os._exit(1)


def answer_another_with_progress(request: dict[str, Any]) -> None:
    say(type="progress", id="another", stage="s", message="m", done=None, total=None)
    time.sleep(60)


def be_newer(request: dict[str, Any]) -> None:
    say(type="weather", id=request["id"], sky="blue")
    result(request, data={"fine": True}, extra="ignored")


def ask_unasked(request: dict[str, Any]) -> None:
    say(type="callback", id=request["id"], call=1, name="before_publish", payload={}, deadline=60)
    time.sleep(60)


def linger(request: dict[str, Any]) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    result(request, data={"pid": os.getpid()})
    time.sleep(300)


def stop_half_way(request: dict[str, Any]) -> None:
    sys.stdout.write('{"type": "resu')
    sys.stdout.flush()


WAYS: dict[str, Callable[[dict[str, Any]], None]] = {
    "garbage": talk_garbage,
    "half": stop_half_way,
    "huge": talk_too_much,
    "lingering": linger,
    "newer": be_newer,
    "other-correlation": lambda request: result(request, receipt=receipt(request, correlation="somebody else's")),
    "other-id": lambda request: result({**request, "id": "another"}, receipt=None),
    "other-operation": lambda request: result(request, receipt=receipt(request, operation="uninstall")),
    "other-progress": answer_another_with_progress,
    "unasked-callback": ask_unasked,
}


if __name__ == "__main__":
    main(sys.argv[1])
