"""Reading: from the text of a command line to its effects.

Owns: which reader answers, and that every failure of one is an answer too. Does not own: what follows from the effects.
It never raises for any text, and never takes much longer than the session's budget.
"""

from __future__ import annotations

import time

from perdure.domain.effect import NotAnalysable, Reading, Span
from perdure.guard import fast_reader, shfmt_reader
from perdure.guard.interpret import Interpreter
from perdure.guard.machine import OverBudgetError
from perdure.guard.session import Session
from perdure.guard.state import State
from perdure.guard.tree import Script, UnreadableError
from perdure.guard.values import text as known_text

SHELLS = ("bash", "sh")
OTHER_SHELLS = ("cmd", "powershell", "pwsh")
"""Shells with a reader of their own, which is the only one for them."""
FAULT = "the reader has a fault of its own"
_FOR_READING = 0.6
_ALTOGETHER = 0.9


def read(text: str, shell: str, session: Session) -> Reading:
    """Return what a text does: by the fast reader where that understands all of it, else by the slow one."""
    deadline = time.monotonic() + session.seconds * _ALTOGETHER
    if shell in OTHER_SHELLS:
        return _read_other(text, shell, session, deadline)
    if shell not in SHELLS:
        return _not_analysable(text, f"there is no reader for {shell}")
    script = fast_reader.parse(text)
    if script is not None:
        return _interpreted("fast", script, text, shell, session, deadline)
    return _read_slowly(text, shell, session, deadline)


def read_slowly(text: str, shell: str, session: Session) -> Reading:
    """Return what a text does by the slow reader, also where the fast one would do."""
    if shell in OTHER_SHELLS:
        return read(text, shell, session)
    if shell not in SHELLS:
        return _not_analysable(text, f"there is no reader for {shell}")
    return _read_slowly(text, shell, session, time.monotonic() + session.seconds * _ALTOGETHER)


def _read_slowly(text: str, shell: str, session: Session, deadline: float) -> Reading:
    try:
        # What is left of the time is for following what was read, and for ending the reader where it took too long.
        script = shfmt_reader.parse(text, seconds=session.seconds * _FOR_READING)
    except UnreadableError as error:
        return Reading(reader="none", effects=(), not_analysable=(NotAnalysable(error.reason, error.span),))
    except Exception as error:  # noqa: BLE001  # a fault of the reader is a question to a person, never a pass
        return _not_analysable(text, _fault(error))
    return _interpreted("shfmt", script, text, shell, session, deadline)


def _parse(text: str, seconds: float) -> Script:
    """Return the tree of code in a string."""
    script = fast_reader.parse(text)
    return script if script is not None else shfmt_reader.parse(text, seconds=seconds)


def _interpreted(reader: str, script: Script, text: str, shell: str, session: Session, deadline: float) -> Reading:
    machine = Interpreter(session, _parse, posix=shell != "bash", deadline=deadline)
    state = State(session, known_text(session.directory))
    try:
        machine.process(script, state)
    except Exception as error:  # noqa: BLE001  # a fault of ours is a question to a person, never a pass
        machine.problems[NotAnalysable(_fault(error), _all_of(text))] = None
    return Reading(reader=reader, effects=tuple(machine.effects), not_analysable=tuple(machine.problems))


def _read_other(text: str, shell: str, session: Session, deadline: float) -> Reading:
    """Return what a text for a shell of Windows does."""
    from perdure.guard import cmd_shell, powershell, windows_words

    reader = "cmd" if shell == "cmd" else "powershell"
    machine = Interpreter(session, _parse, posix=False, deadline=deadline)
    state = State(session, known_text(session.directory))
    state.directories = windows_words.place(state, known_text(session.directory), globs=False)
    with machine.at(_all_of(text)), machine.nested():
        machine.depth = 0
        machine.span = _all_of(text)
        try:
            (cmd_shell if reader == "cmd" else powershell).run(machine, text, state)
        except Exception as error:  # noqa: BLE001  # a fault of ours is a question to a person, never a pass
            machine.problems[NotAnalysable(_fault(error), _all_of(text))] = None
    return Reading(reader=reader, effects=tuple(machine.effects), not_analysable=tuple(machine.problems))


def _fault(error: Exception) -> str:
    """Return why following a text ended."""
    if isinstance(error, OverBudgetError):
        return "it takes too long to follow"
    if isinstance(error, RecursionError):
        return "it is nested too deep"
    return f"{FAULT} ({type(error).__name__})"


def _not_analysable(text: str, reason: str) -> Reading:
    return Reading(reader="none", effects=(), not_analysable=(NotAnalysable(reason, _all_of(text)),))


def _all_of(text: str) -> Span:
    return Span(0, len(text.encode("utf-8", "surrogatepass")))
