"""How answers and errors are written.

Owns: the JSON envelope and the words for people. Does not own: what is answered, nor streams that are closed or full
(adapters.streams). Keeps: cli-one-object: with JSON asked for, standard output is one object, whatever happened.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from perdure_pm.adapters import streams
from perdure_pm.cli.session import PROGRAM, Session, is_terminal, own_home
from perdure_pm.model.errors import PerdureError
from perdure_pm.model.identity import DEFAULT_PROFILE
from perdure_pm.store.layout import Layout
from perdure_pm.store.managed import load_stamp
from perdure_pm.wire import status_of

SCHEMA = 1
_COMMAND = re.compile(rf"(?<![\w./-]){PROGRAM}(?= [a-z-])")
_SHOWN_OUTPUT = 2000
_NAMING = frozenset({"hint", "command", "lines", "obligations"})
"""Keys of JSON objects whose text names commands that a person may run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a verb has to say."""

    status: str = "ok"
    """``ok`` or ``noop``."""
    data: Mapping[str, Any] = field(default_factory=dict)
    text: str = ""
    """For people, on standard output."""
    notices: Sequence[str] = ()
    """For people, on standard error."""
    exit_code: int = 0


def write_answer(session: Session, answer: Answer) -> int:
    """Write an answer and return the exit code."""
    for notice in answer.notices:
        write_talk(session, "notice", notice)
    text = answer.text
    if session.json:
        text = _envelope(session, answer.status, answer.exit_code, _spelled(answer.data, session), [])
    return streams.write_data(text, answer.exit_code, lost=_what_was_done(session, answer))


def _what_was_done(session: Session, answer: Answer) -> str:
    """Return what to say where the answer of a command that worked is lost: it worked all the same."""
    receipt = answer.data.get("receipt")
    if not isinstance(receipt, str) or answer.status != "ok" or session.dry_run:
        return "state: unchanged"
    return true_hint(f"it was done all the same: {PROGRAM} receipts {receipt[:8]}", session) or ""


def write_error(session: Session, error: PerdureError, exit_code: int | None = None) -> int:
    """Write an error and return the exit code."""
    code = error.exit_code if exit_code is None else exit_code
    told = _spelled(error.to_json(), session)
    status = "refused" if status_of(error) == "refused" else "failed"
    if session.json:
        return streams.write_data(_envelope(session, status, code, {}, [told]), code)
    if _events(session):
        streams.write_talk(json.dumps({"event": "error", **told}, default=str))
        return code
    lines = [f"error: {error.summary}"]
    faults = error.context.get("faults")
    if isinstance(faults, (list, tuple)) and len(faults) > 1:
        lines += [f"  {fault}" for fault in faults if str(fault) not in error.summary]
    told_lines = error.context.get("lines")
    if isinstance(told_lines, (list, tuple)):
        lines += [f"  {line}" for line in told["context"]["lines"]]
    output = error.context.get("output")
    if isinstance(output, str) and output.strip():
        lines += [f"  | {line}" for line in output.strip()[-_SHOWN_OUTPUT:].splitlines()]
    lines.append(f"  state: {error.state}")
    if told["hint"]:
        lines.append(f"  try: {told['hint']}")
    streams.write_talk("\n".join(lines))
    return code


def write_talk(session: Session, kind: str, message: str) -> None:
    """Write a line for people to standard error, or an event for programs."""
    if _events(session):
        streams.write_talk(json.dumps({"event": kind, "message": message}))
    else:
        streams.write_talk(message if kind == "progress" else f"{kind}: {message}")


def true_hint(hint: str | None, session: Session) -> str | None:
    """Return a hint whose command works as it stands: the launcher by its path, where PATH does not lead to it."""
    if hint is None or not _COMMAND.search(hint):
        return hint
    try:
        layout, profile = session.layout, session.profile
    except (PerdureError, OSError):
        return hint
    program = spell_program(layout, session.environ)
    if profile != DEFAULT_PROFILE:
        program += f" --profile {profile}"
    return _COMMAND.sub(lambda _: program, hint)


def _spelled(value: Any, session: Session, *, names_command: bool = False) -> Any:
    """Return JSON values with every command that they name as it works from here."""
    if isinstance(value, Mapping):
        return {name: _spelled(part, session, names_command=name in _NAMING) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_spelled(part, session, names_command=names_command) for part in value]
    return true_hint(value, session) if names_command and isinstance(value, str) else value


def spell_program(layout: Layout, environ: Mapping[str, str]) -> str:
    """Return how perdure-pm is called for this home from a shell with these variables.

    A home that was never installed has no launcher: then it is the one of the home that this runtime belongs to.
    """
    launcher = layout.bin / PROGRAM
    folders = environ.get("PATH", "").split(os.pathsep)
    if not launcher.is_file():
        with contextlib.suppress(PerdureError):
            if (stamp := load_stamp(sys.prefix)) is not None:
                return shlex.quote(str(stamp.launcher))
        other = own_home(sys.prefix)
        if other is None or not (other / "bin" / PROGRAM).is_file():
            return PROGRAM
        return f"{shlex.quote(str(other / 'bin' / PROGRAM))} --home {shlex.quote(str(layout.home))}"
    first = next((folder for folder in folders if folder and os.path.isfile(os.path.join(folder, PROGRAM))), None)
    if first is not None and os.path.realpath(os.path.join(first, PROGRAM)) == os.path.realpath(launcher):
        return PROGRAM
    return shlex.quote(str(launcher))


def columns(rows: Sequence[Sequence[str]], head: Sequence[str] = ()) -> str:
    """Return a table: drawn on a terminal, else plain columns that tools can cut."""
    if head and rows and is_terminal(sys.stdout) and os.environ.get("TERM") != "dumb":
        return _draw(rows, head)
    lines = [[name.upper() for name in head], *rows] if head else list(rows)
    widths = [max(len(line[at]) for line in lines) for at in range(len(lines[0]))] if lines else []
    return "\n".join("  ".join(cell.ljust(widths[at]) for at, cell in enumerate(line)).rstrip() for line in lines)


def _draw(rows: Sequence[Sequence[str]], head: Sequence[str]) -> str:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*head, box=SIMPLE_HEAD)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console = Console(file=sys.stdout)
    with console.capture() as capture:
        console.print(table)
    return capture.get().rstrip("\n")


def _envelope(session: Session, status: str, exit_code: int, data: dict[str, Any], errors: list[dict[str, Any]]) -> str:
    whole = {
        "schema": SCHEMA,
        "command": session.command,
        "status": status,
        "exit_code": exit_code,
        "data": data,
        "errors": errors,
    }
    # ASCII only: a path that is not UTF-8 comes out all the same, whatever the terminal's encoding.
    return json.dumps(whole, default=str)


def _events(session: Session) -> bool:
    try:
        return session.events
    except (PerdureError, OSError):  # also a path that counts from a directory which is gone
        return session.flags.get("events") is True
