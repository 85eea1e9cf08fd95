"""How bootstrap.py speaks, without any library: progress on standard error, and one answer at the end.

Owns: lines for people, events and objects for programs. Does not own: how perdure-pm speaks (cli).
Standard library only, Python 3.9.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from perdure_pm.adapters import streams


class PlainReporter:
    """Tells of progress on standard error: lines for people, or events for programs."""

    def __init__(self, *, events: bool) -> None:
        self._events = events
        self._last = ""
        self._drawn = False
        self._terminal = sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"

    def progress(self, stage: str, message: str, *, done: int | None = None, total: int | None = None) -> None:
        """Write a new message, and on a terminal how far it is."""
        if self._events:
            frame = {"event": "progress", "stage": stage, "message": message, "done": done, "total": total}
            streams.write_talk(json.dumps(frame))
            return
        if message != self._last:
            self.end()
            streams.write_talk(message)
            self._last = message
        if self._terminal and done is not None and total:
            streams.write_talk(f"\r  {min(100, done * 100 // total)} %", end="")
            self._drawn = True

    def end(self) -> None:
        """Leave a drawn percentage behind."""
        if self._drawn:
            streams.write_talk("\r\x1b[K", end="")
            self._drawn = False

    def callback(self, name: str, payload: dict[str, Any]) -> None:
        """Nobody registered one."""

    def heartbeat(self) -> None:
        """Nobody waits for one."""

    def committed(self) -> None:
        """Nobody cancels but by a signal."""


def write_answer(
    verb: str,
    status: str,
    exit_code: int,
    data: dict[str, Any],
    errors: list[dict[str, Any]],
    *,
    as_json: bool,
    text: str = "",
) -> int:
    """Write an answer, for programs or as `text` for people, and return the exit code."""
    if as_json:
        answer = {
            "schema": 1,
            "command": verb,
            "status": status,
            "exit_code": exit_code,
            "data": data,
            "errors": errors,
        }
        return streams.write_data(json.dumps(answer), exit_code)
    for error in errors:
        streams.write_talk(f"error: {error['summary']}\n  state: {error['state']}")
        if error["hint"]:
            streams.write_talk(f"  try: {error['hint']}")
    return streams.write_data(text, exit_code)
