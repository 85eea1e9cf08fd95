"""A client that speaks to a worker frame by frame, also out of turn.

Owns: starting it, and sending and reading frames. Does not own: its home and engine (tests/pm/worker_home), or what is
said.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from perdure_pm import wire
from tests.pm.worker_home import WorkerHome


class Raw:
    """A worker spoken to frame by frame, as a client that has its own ideas would."""

    def __init__(self, home: WorkerHome) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-I", str(home.entry()), "--home", str(home.layout.home)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin, self.stdout = self.process.stdin, self.process.stdout

    def send(self, line: bytes) -> None:
        self.stdin.write(line)
        self.stdin.flush()

    def request(self, operation: str, **more: Any) -> None:
        fields: dict[str, Any] = {
            "v": 1,
            "id": "1",
            "correlation": "c",
            "operation": operation,
            "arguments": {},
            "deadline": None,
            "idle_deadline": None,
            "callbacks": [],
            "packages": [],
        }
        self.send(wire.encode("request", **{**fields, **more}))

    def read(self) -> dict[str, Any]:
        frame = wire.decode(self.stdout.readline(), sender="worker")
        assert frame is not None
        return frame

    def result(self) -> dict[str, Any]:
        while True:
            frame = self.read()
            if frame["type"] == "result":
                self.end()
                return frame

    def end(self) -> int:
        self.process.communicate(timeout=30)
        return self.process.returncode
