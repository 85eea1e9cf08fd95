"""The tree of a shell script: what both readers make of a text, and all that is interpreted.

Owns: the kinds of nodes. Does not own: how a text becomes a tree (the readers), what a tree does (interpret). Quotes
and escapes are gone: a part says whether it was quoted. An unquoted literal still holds its glob characters, braces
and tilde, because what they mean depends on where the word stands.
"""

from __future__ import annotations

from typing import TypeAlias

from perdure.domain.effect import Span
from perdure.domain.record import dataclass

NOWHERE = Span(0, 0)


@dataclass(frozen=True, slots=True)
class Literal:
    """Characters; unquoted ones may still be a glob, a brace expansion or a tilde."""

    text: str
    quoted: bool


@dataclass(frozen=True, slots=True)
class Parameter:
    """The value of a variable, a positional or a special parameter, changed by an operator."""

    name: str
    quoted: bool
    operator: str = ""
    """Empty, what stands behind the name (``:-``, ``#``, ``//``, ``:``, ``^^``, ``@``), or ``length`` or ``names``."""
    arguments: tuple[Word, ...] = ()
    index: Word | None = None
    indirect: bool = False


@dataclass(frozen=True, slots=True)
class Output:
    """What a command substitution prints."""

    body: Script
    quoted: bool


@dataclass(frozen=True, slots=True)
class Channel:
    """A process substitution: a path that leads to or from a command."""

    body: Script
    reads: bool
    """Whether the word is read from, as in ``<(…)``."""


@dataclass(frozen=True, slots=True)
class Number:
    """The result of an arithmetic expansion."""

    words: tuple[Word, ...]
    """The operands, which may hold substitutions."""
    quoted: bool


@dataclass(frozen=True, slots=True)
class ExtendedPattern:
    """An extended glob, as in ``+(a|b)``."""

    text: str


Part: TypeAlias = Literal | Parameter | Output | Channel | Number | ExtendedPattern


@dataclass(frozen=True, slots=True)
class Word:
    """Parts without a blank between them. No part at all is the empty word."""

    parts: tuple[Part, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Assignment:
    """A value for a name."""

    name: str
    value: Word | None
    """None: only named, as in ``export A``."""
    append: bool = False
    index: Word | None = None
    elements: tuple[tuple[Word | None, Word], ...] | None = None
    """The index and value of each element, where an array is assigned."""


@dataclass(frozen=True, slots=True)
class Redirect:
    """Where a descriptor leads."""

    operator: str
    target: Word
    descriptor: str = ""
    document: Word | None = None
    """The text of a here-document."""


@dataclass(frozen=True, slots=True)
class Simple:
    """Assignments, a command and its arguments, in this order."""

    assignments: tuple[Assignment, ...]
    words: tuple[Word, ...]
    redirects: tuple[Redirect, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Declaration:
    """``export``, ``declare``, ``local`` and the like, whose arguments may be assignments."""

    keyword: str
    items: tuple[Assignment | Word, ...]
    redirects: tuple[Redirect, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Pipe:
    """Two commands, the output of the first being the input of the second."""

    left: Command
    right: Command


@dataclass(frozen=True, slots=True)
class Chain:
    """The second command runs by how the first one ended."""

    left: Command
    right: Command
    on_success: bool
    """``&&`` where true, else ``||``."""


@dataclass(frozen=True, slots=True)
class Negation:
    """A command whose success counts as failure."""

    command: Command


@dataclass(frozen=True, slots=True)
class Aside:
    """A command in a process of its own whose end nobody waits for: ``&`` or ``coproc``."""

    command: Command


@dataclass(frozen=True, slots=True)
class Group:
    """Commands in braces, or in parentheses in a process of their own."""

    body: Script
    subshell: bool


@dataclass(frozen=True, slots=True)
class Redirected:
    """A compound command with redirects."""

    command: Command
    redirects: tuple[Redirect, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Branch:
    """``if``: the conditions with their bodies in order, then the ``else``."""

    arms: tuple[tuple[Script, Script], ...]
    otherwise: Script


@dataclass(frozen=True, slots=True)
class Loop:
    """``while`` and ``until``."""

    condition: Script
    body: Script


@dataclass(frozen=True, slots=True)
class ForEach:
    """``for NAME in WORDS`` and ``select``."""

    name: str
    words: tuple[Word, ...] | None
    """None: the positional parameters."""
    body: Script


@dataclass(frozen=True, slots=True)
class Case:
    """``case``: every arm's patterns, its body, and whether the next arm may follow."""

    word: Word
    arms: tuple[tuple[tuple[Word, ...], Script, bool], ...]


@dataclass(frozen=True, slots=True)
class Function:
    """The definition of a function."""

    name: str
    body: Command


@dataclass(frozen=True, slots=True)
class Expression:
    """``[[ … ]]``, ``(( … ))``, ``let`` and the head of a counting loop: words that are only looked at."""

    words: tuple[Word, ...]
    assigned: tuple[str, ...] = ()
    """Variables that get a number."""


Command: TypeAlias = (
    Simple
    | Declaration
    | Pipe
    | Chain
    | Negation
    | Aside
    | Group
    | Redirected
    | Branch
    | Loop
    | ForEach
    | Case
    | Function
    | Expression
)
Script: TypeAlias = tuple[Command, ...]


class UnreadableError(Exception):
    """A reader does not understand the text; `reason` is for people, `span` says where, in bytes."""

    def __init__(self, reason: str, span: Span) -> None:
        super().__init__(reason)
        self.reason = reason
        self.span = span
