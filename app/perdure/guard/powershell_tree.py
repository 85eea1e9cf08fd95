"""The tree of a PowerShell script: what its reader makes of a text.

Owns: the kinds of nodes. Does not own: how a text becomes a tree (powershell_reader), or what a tree does (powershell).
"""

from __future__ import annotations

from typing import TypeAlias

from perdure.domain.record import dataclass


@dataclass(frozen=True, slots=True)
class Quoted:
    """A string or a bare word, in parts; a bare word's text may still be a glob."""

    parts: tuple[str | Node, ...]
    bare: bool = False


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable, in lower case and without a scope; those of a drive keep it: ``env:x``."""

    name: str
    splat: bool = False


@dataclass(frozen=True, slots=True)
class Inner:
    """``(…)``, ``$(…)`` or ``@(…)``: what the statements give."""

    body: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """A script block: code that something may run."""

    body: tuple[Node, ...]
    parameters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Table:
    """``@{…}``."""

    items: tuple[tuple[str, Node], ...]


@dataclass(frozen=True, slots=True)
class Kind:
    """A type in brackets, in lower case."""

    name: str


@dataclass(frozen=True, slots=True)
class Member:
    """A property, or a method where there are arguments."""

    of: Node
    name: Node
    arguments: tuple[Node, ...] | None
    static: bool


@dataclass(frozen=True, slots=True)
class Index:
    """``x[y]``."""

    of: Node
    index: Node


@dataclass(frozen=True, slots=True)
class Binary:
    """Two operands and an operator, in lower case; a comma makes a list."""

    operator: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Unary:
    """An operator in front, or a type that the operand is made into."""

    operator: str
    operand: Node


@dataclass(frozen=True, slots=True)
class Option:
    """A parameter of a command, in lower case; its value where that is written with a colon."""

    name: str
    value: Node | None = None


@dataclass(frozen=True, slots=True)
class Command:
    """A command and its arguments; `call` is ``&``, ``.`` or nothing; redirects as operator and target."""

    head: Node
    arguments: tuple[Node, ...]
    call: str = ""
    redirects: tuple[tuple[str, Node], ...] = ()


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Commands and expressions of which each gives to the next."""

    elements: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Chain:
    """The right one runs by how the left one ended."""

    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Assign:
    """An assignment; of one to a property the target is a `Member`."""

    target: Node
    operator: str
    value: Node


@dataclass(frozen=True, slots=True)
class Branches:
    """Bodies of which any may run: `if`, `switch`, `try`; conditions are looked at first."""

    conditions: tuple[Node, ...]
    bodies: tuple[tuple[Node, ...], ...]
    always: tuple[Node, ...] = ()
    """What runs whatever happened: `finally`; or, of `try`, its own body."""


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop; `name` gets each of the items where there is one."""

    name: str
    items: Node | None
    conditions: tuple[Node, ...]
    body: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Function:
    """The definition of a function."""

    name: str
    block: Block


Node: TypeAlias = (
    Quoted
    | Variable
    | Inner
    | Block
    | Table
    | Kind
    | Member
    | Index
    | Binary
    | Unary
    | Option
    | Command
    | Pipeline
    | Chain
    | Assign
    | Branches
    | Loop
    | Function
)
