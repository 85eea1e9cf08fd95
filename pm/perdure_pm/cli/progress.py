"""Progress on standard error: nothing within the first second, then a bar on a terminal, else a line for each stage.

Owns: the three ways of showing it. Does not own: what there is to show. NO_COLOR is rich's to honour; rich is imported
only when a bar is drawn.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from perdure_pm.cli.render import write_talk
from perdure_pm.cli.session import Session, is_terminal

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

QUIET_SECONDS = 1.0
"""What ends within this time shows no progress."""


class Progress:
    """Shows how far an operation is; a `ports.Reporter` for those that run in this process."""

    def __init__(self, session: Session, *, quiet: float = QUIET_SECONDS) -> None:
        """Show nothing yet."""
        self._session = session
        self._events = session.events
        self._drawn = not self._events and _can_draw(session.environ)
        self._lock = threading.RLock()
        self._timer = threading.Timer(quiet, self._begin)
        self._timer.daemon = True
        self._begun = False
        self._said = ""
        self._latest: tuple[str, int | None, int | None] | None = None
        self._bar: Bar | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        """Start counting the first second."""
        if not self._events:
            self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the bar away."""
        self._timer.cancel()
        with self._lock:
            self._begun = False
            if self._bar is not None:
                self._bar.stop()
                self._bar = None

    def progress(self, stage: str, message: str, *, done: int | None = None, total: int | None = None) -> None:
        """Note how far it is, and show it once the first second is over."""
        if self._events:
            frame = {"event": "progress", "command": self._session.command, "stage": stage, "message": message}
            _write(json.dumps({**frame, "done": done, "total": total}) + "\n")
            return
        with self._lock:
            self._latest = (message, done, total)
            if self._begun:
                self._show()

    __call__ = progress

    def log(self, line: str) -> None:
        """Pass on a line that the worker printed."""
        with self._lock:
            if self._bar is not None:
                self._bar.console.print(line, markup=False, highlight=False)
            elif self._events:
                write_talk(self._session, "log", line)
            else:
                _write(line + "\n")

    def callback(self, name: str, payload: Mapping[str, Any]) -> None:
        """Nobody on a command line registers one."""

    def heartbeat(self) -> None:
        """Nobody waits for one in this process."""

    def committed(self) -> None:
        """Nothing here can be cancelled half-way."""

    def _begin(self) -> None:
        with self._lock:
            self._begun = True
            self._show()

    def _show(self) -> None:
        if self._latest is None:
            return
        message, done, total = self._latest
        if not self._drawn:
            if message != self._said:
                _write(message + "\n")
                self._said = message
            return
        if self._bar is None or self._task is None:
            self._bar = _make_bar()
            self._task = self._bar.add_task(message, total=None)
            self._bar.start()
        self._bar.update(self._task, description=message, completed=done or 0, total=total)


def _can_draw(environ: Mapping[str, str]) -> bool:
    return is_terminal(sys.stderr) and environ.get("TERM", "") not in {"", "dumb"}


def _make_bar() -> Bar:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TimeElapsedColumn(),
        console=Console(file=sys.stderr, no_color=True if os.environ.get("NO_COLOR") else None),
        transient=True,
    )


def _write(text: str) -> None:
    try:
        if sys.stderr is not None:
            sys.stderr.write(text)
            sys.stderr.flush()
    except OSError:
        pass  # nobody is listening
