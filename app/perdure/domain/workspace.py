"""What a tool may do to files and start as code, without deciding about it itself.

Owns: what a plugin's tool is handed to act on an agent's behalf, and the values that come back. Does not own: doing it
(tools/workspace), or whether it may be done (guard, approvals). Paths are absolute, or count from the directory that
the agent works in.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from perdure.domain.record import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FileText:
    """Lines of a text file."""

    path: str
    """The file that was read, absolute, links followed."""
    text: str
    """Exactly as it stands there, line ends included."""
    first: int
    """The number of the first line of `text`, counted from 1."""
    lines: int
    """How many lines the whole file has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """A text in a file, and what is to stand there instead."""

    old: str
    new: str
    every: bool = False
    """Whether it is replaced wherever it stands; else it has to stand there once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """Edits of one file, in order."""

    path: str
    edits: tuple[Edit, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What was done to one file."""

    path: str
    """Absolute."""
    what: str
    """``created``, ``written``, ``moved`` or ``deleted``."""
    diff: str = ""
    """Unified; empty where there is none, or it is too long to show."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedFile:
    """One entry of a directory."""

    name: str
    kind: str
    """``file``, ``directory``, ``link`` or ``other``."""
    size: int
    """In bytes; 0 for what is no file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeResult:
    """What came of running code."""

    exit_code: int
    stdout: str
    stderr: str
    ended: str
    """``exited``, ``signalled``, ``timed-out`` or ``interrupted``."""


class Workspace(Protocol):
    """The files and the interpreter that an agent works with, behind the guard and the approvals.

    Every call raises `ToolFailed` where it may not or cannot be done; then nothing was changed.
    """

    def read(self, path: str, *, first: int = 1, lines: int = 2000) -> FileText:
        """Return lines of a text file."""
        ...

    def entries(self, path: str) -> Sequence[ListedFile]:
        """Return what lies in a directory, by name."""
        ...

    def write(self, path: str, text: str) -> Change:
        """Have a file hold exactly this text; missing directories are made."""
        ...

    def patch(self, patches: Sequence[Patch]) -> Sequence[Change]:
        """Have texts in files replaced: in all of them, or in none where one does not fit."""
        ...

    def move(self, source: str, target: str) -> Change:
        """Have a file, a link or a directory called something else; nothing is replaced."""
        ...

    def delete(self, path: str, *, below: bool = False) -> Change:
        """Have a file, a link or a directory gone; one that is not empty only with `below`."""
        ...

    def run_python(self, code: str, *, seconds: float = 120.0) -> CodeResult:
        """Run code in an interpreter of its own."""
        ...
