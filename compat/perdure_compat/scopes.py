"""Scopes, and what the names in them are bound to.

Owns: Python's rules of which binding a name means. Does not own: filling them from code (reading).
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field

from perdure_compat.source import Source


@dataclass(frozen=True, slots=True)
class Context:
    """Under which conditions a piece of code runs."""

    function: bool = False
    guarded: bool = False
    """In a `try` that forgives a failed import, or in what is done then."""
    typing: bool = False
    """For type checkers only."""
    conditional: bool = False
    body: tuple[ast.stmt, ...] = ()
    """The statements among which it stands."""


@dataclass(slots=True, eq=False)
class Scope:
    """A module, class, function or comprehension, and what it binds."""

    kind: str
    parent: Scope | None
    bindings: dict[str, list[Binding]] = field(default_factory=dict)
    outside: dict[str, Scope] = field(default_factory=dict)
    """Names that `global` or `nonlocal` gives to another scope."""

    def lookup(self, name: str) -> list[Binding]:
        """Return what may be bound to a name that is used here, or nothing for a builtin."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.outside:
                return scope.outside[name].bindings.get(name, [])
            # A class's names are not seen from the functions in it. In its body a name that it binds as well is the
            # one from outside until then.
            if name in scope.bindings and scope.kind == "class" and scope is self:
                return [*scope.bindings[name], *(scope.parent.lookup_around(name) if scope.parent is not None else [])]
            if name in scope.bindings and scope.kind != "class":
                return scope.bindings[name]
            scope = scope.parent
        return []

    def lookup_around(self, name: str) -> list[Binding]:
        """Return what is bound to a name for code inside this scope: a class's own names are not."""
        if self.kind == "class":
            return self.parent.lookup_around(name) if self.parent is not None else []
        return self.lookup(name)


@dataclass(slots=True, eq=False)
class Binding:
    """One place that binds a name; an import has `dotted`, anything else none."""

    scope: Scope
    name: str
    line: int
    dotted: tuple[str, ...] = ()
    statement: ast.Import | ast.ImportFrom | None = None
    alias: ast.alias | None = None
    context: Context = Context()
    outside: bool = False
    """Whether a `global` or `nonlocal` gives the name to another scope than the one where this stands."""
    references: list[Reference] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Reference:
    """A name or an attribute chain that begins with a name: `a`, `a.b.c`."""

    scope: Scope
    context: Context
    root: str
    attributes: tuple[str, ...]
    place: tuple[Source, int, Sequence[ast.expr]]
    """The text that the nodes are of, where that begins in the file, and the nodes: the root, then each attribute."""
    stored: bool = False

    @property
    def start(self) -> int:
        """Where it begins in the file."""
        source, at, nodes = self.place
        return at + source.start(nodes[0])

    @property
    def ends(self) -> tuple[int, ...]:
        """Where the root ends, and then each attribute."""
        source, at, nodes = self.place
        return tuple(at + source.end(node) for node in nodes)

    @property
    def starts(self) -> tuple[int, ...]:
        """Where what ends there begins: an attribute's is before the bracket of a root in brackets."""
        source, at, nodes = self.place
        return tuple(at + source.start(node) for node in nodes)


@dataclass(slots=True, eq=False)
class AttributeCall:
    """`getattr(a.b, "name")` and its like."""

    target: Reference
    literal: ast.Constant
    context: Context


@dataclass(slots=True, eq=False)
class Text:
    """A text that is a dotted name and nothing else."""

    literal: ast.Constant
    looked_up: bool
    """Whether a function takes it that looks up names."""
    context: Context
    by: str = ""
    """The last name of that function."""
