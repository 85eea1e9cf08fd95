"""Effects: what a command line would do, as far as its text tells.

Owns: the values that reading produces and judging consumes. Does not own: how a text is read (guard), which paths are
protected, what follows from an effect. Unknown is a value of its own: nothing here turns it into empty.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias

from perdure.domain.record import dataclass


@dataclass(frozen=True, slots=True)
class Text:
    """Characters that stand for themselves."""

    text: str


@dataclass(frozen=True, slots=True)
class Pattern:
    """One unquoted piece of a glob that the shell may match against names: `*`, `?`, `[a-z]`, `**`."""

    text: str


@dataclass(frozen=True, slots=True)
class Hole:
    """Characters that nobody can know from the text: any number of them, also none, also slashes."""

    name: str = ""
    """What would fill it, such as ``$HOME`` or ``$(…)``, for people."""


Piece: TypeAlias = Text | Pattern | Hole
Spelling: TypeAlias = tuple[Piece, ...]
"""One way a word may come out: its pieces in order. An empty tuple is the empty word."""

MOST_SPELLINGS = 32
"""A word with more ways to come out has a hole instead."""


@dataclass(frozen=True, slots=True)
class Word:
    """One argument as the shell would pass it on."""

    spellings: tuple[Spelling, ...]
    """All the ways it may come out, at least one and at most `MOST_SPELLINGS`."""

    @property
    def known(self) -> str | None:
        """The text, where there is one way to come out and nothing open in it."""
        if len(self.spellings) != 1:
            return None
        pieces = self.spellings[0]
        if len(pieces) == 1:  # as most are
            return first.text if isinstance(first := pieces[0], Text) else None
        texts = [piece.text for piece in pieces if isinstance(piece, Text)]
        return "".join(texts) if len(texts) == len(pieces) else None

    @property
    def unknown(self) -> bool:
        """Whether some way to come out has no known character at all."""
        return any(pieces and all(isinstance(piece, Hole) for piece in pieces) for pieces in self.spellings)


class Act(StrEnum):
    """What happens to an operand."""

    DELETE = "delete"
    EMPTY = "empty"  # truncated, shredded, filled with zeros: the name stays
    MOVE = "move"  # the source of a rename
    OVERWRITE = "overwrite"  # the name gets other content, or becomes a link to something else
    CHANGE = "change"  # written in place: appended to, edited, patched
    MAKE = "make"  # a name comes to be where there was none, or its times change
    PERMIT = "permit"  # mode, owner, attributes
    CLOSE = "close"  # a directory that nobody comes through any more
    READ = "read"
    MOUNT = "mount"  # something is mounted over it or unmounted
    FORK = "fork"  # a function starts itself again in a process of its own, whatever happens: it never ends
    RUN = "run"  # a program is started; the operand is its name as it was written


class Certainty(StrEnum):
    """How sure the text is that it happens."""

    DEFINITE = "definite"
    POSSIBLE = "possible"  # in a branch, a loop, behind && or ||, in a function that may not be called
    CONDITIONAL = "conditional"  # the program decides by what it finds, so that meeting a root is a question


@dataclass(frozen=True, slots=True)
class Span:
    """Where in the text that was read, in bytes; of code in a string, the place of the string."""

    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """One thing that one command does to one operand."""

    act: Act
    operand: Word
    """As the command gets it: a relative path counts from one of `directories`."""
    directories: tuple[Word, ...]
    """The directories in which the command may run; an unknown one is a word with a hole."""
    certainty: Certainty
    recursive: bool = False
    """Whether everything below a directory is meant too."""
    through_link: bool = False
    """Whether a link named by the operand is followed: what it leads to is acted on, not the link."""
    only_below: bool = False
    """Whether the operand itself stays and only what is in it is acted on, as with ``find DIR -mindepth 1 -delete``."""
    names: tuple[Word, ...] = ()
    """Where not empty: only members whose names match one of these are acted on, as with ``find DIR -name '*.pyc'``."""
    spared: tuple[Word, ...] = ()
    """Members whose names match one of these are left alone, as with ``git clean -e .venv``."""
    spares_ignored: bool = False
    """Whether what git ignores is left alone, as by ``git clean`` without ``-x``."""
    arguments: tuple[Word, ...] = ()
    """For `Act.RUN`: everything after the program's name."""
    assigned: tuple[str, ...] = ()
    """For `Act.RUN`: the variables in the program's environment that the text has set."""
    by: str
    """The command that does it, as a person would name it, such as ``git clean``."""
    span: Span


@dataclass(frozen=True, slots=True)
class NotAnalysable:
    """A place that no reader understands, or that would take too long."""

    reason: str
    """A whole sentence's worth for a person, without a full stop."""
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What one reader made of a text."""

    reader: str
    """``fast``, ``shfmt``, or ``none``."""
    effects: tuple[Effect, ...]
    not_analysable: tuple[NotAnalysable, ...] = ()
