"""The terminal as a channel: a question on stderr, an answer from the keyboard.

Owns: what is shown there and which words answer. Does not own: what comes of an answer (approvals). Keeps:
prompt-never-declines-for-you: an empty line, the end of the input and Ctrl-C are no answer, and what was typed before
the question stands there answers nothing.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import sys
from collections.abc import Callable

import anyio

from perdure.approvals.display import question, visible
from perdure.approvals.service import ChannelFailed
from perdure.domain.outcome import Cause, Scope
from perdure.domain.proposal import Answer, Default, Entry
from perdure.domain.record import dataclass

_MOST_LINE = 64 * 1024
_MOST_SHOWN = 40
_WORDS = {
    "o": Scope.ONCE,
    "once": Scope.ONCE,
    "s": Scope.SESSION,
    "session": Scope.SESSION,
    "a": Scope.ALWAYS,
    "always": Scope.ALWAYS,
}


def parse_answer(line: str) -> Answer | None:
    """Return what a line says; None where it says nothing of it."""
    word, _, rest = line.strip().partition(" ")
    if word.lower() in ("d", "decline"):
        return Answer(approve=False, reason=rest.strip() or None)
    scope = _WORDS.get(word.lower())
    return None if scope is None or rest else Answer(approve=True, scope=scope)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminal:
    """A person at a terminal."""

    talk: Callable[[str], None]
    """Writes a line where the person reads it."""
    now: Callable[[], dt.datetime]
    descriptor: int = 0

    async def ask(self, entry: Entry) -> Answer:
        """Show a proposal and return the answer that is typed."""
        self._forget()
        self.talk(f"{question_of(entry, self.now())}\n\n{_words_for(entry)}")
        rest = b""
        while True:
            await anyio.wait_readable(self.descriptor)
            data = os.read(self.descriptor, 4096)
            if not data:
                raise ChannelFailed(Cause.SURFACE_CLOSED, "the input ended without an answer")
            *lines, rest = (rest + data)[-_MOST_LINE:].split(b"\n")
            for line in lines:
                answer = parse_answer(line.decode(errors="replace"))
                if answer is not None:
                    return answer
                self.talk(_not_an_answer(line.decode(errors="replace")) + _words_for(entry))

    def _forget(self) -> None:
        """Have what was typed ahead answer nothing."""
        if sys.platform != "win32":
            import termios

            with contextlib.suppress(termios.error):
                termios.tcflush(self.descriptor, termios.TCIFLUSH)


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """Nobody here: the question is answered in another terminal."""

    talk: Callable[[str], None]
    command: Callable[..., str]
    """Returns a command line of this installation."""

    async def ask(self, entry: Entry) -> Answer:
        """Say where it can be answered, and wait until it is."""
        identity = entry.proposal.id
        self.talk(f"waiting for an answer to {identity}: look at it with {self.command('approvals', 'show', identity)}")
        await anyio.sleep_forever()
        raise AssertionError("it sleeps for ever")


def question_of(entry: Entry, now: dt.datetime) -> str:
    """Return everything that a person reads of a proposal at this moment."""
    asked = entry.proposal
    return question(asked.display, asked.id, asked.pinned.risk, asked.expires, now)


def _not_an_answer(line: str) -> str:
    """Return what is said of words that answer nothing: neither yes nor no is guessed."""
    said = line.strip()
    if not said:
        return ""
    shown = visible(said if len(said) <= _MOST_SHOWN else f"{said[:_MOST_SHOWN]}…")
    return f"`{shown}` is no answer, and nothing is decided. "


def _words_for(entry: Entry) -> str:
    pinned = entry.proposal.pinned
    *first, last = (scope.value for scope in pinned.scopes)
    scopes = f"{', '.join(first)} or {last}" if first else last
    default = "; without an answer it is not run" if pinned.default is Default.DENY else ""
    return f"Type {scopes} to approve, or decline [reason]{default}:"
