"""What interpreting PowerShell keeps, and what its parts need of each other.

Owns: marks that stand for what is no text, and the interface of the interpreter. Does not own: expressions and
statements (powershell), cmdlets, methods (dotnet).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TypeAlias

from perdure.domain.record import dataclass
from perdure.guard import values
from perdure.guard.late import late
from perdure.guard.machine import Machine
from perdure.guard.powershell_tree import Block, Node, Table
from perdure.guard.state import State
from perdure.guard.values import Value

_MARK = late(r"\0(\d+)\0")


@dataclass(frozen=True, slots=True)
class Entries:
    """What a directory holds, as `Get-ChildItem` gives it."""

    folder: Value
    """The directory, as this guard writes paths; or a pattern of names."""
    below: bool
    names: tuple[Value, ...] = ()
    spared: tuple[Value, ...] = ()
    sure: bool = True
    """Whether nothing was left out that only running tells."""


Thing: TypeAlias = Entries | Block | Table


class PowerShell(ABC):
    """One PowerShell process."""

    def __init__(self, machine: Machine) -> None:
        """Begin with nothing known; the machine keeps the effects."""
        self.machine = machine
        self._things: list[Thing] = []

    def keep(self, thing: Thing) -> Value:
        """Return a mark that stands for a thing."""
        if thing not in self._things:
            self._things.append(thing)
        return values.text(f"\0{self._things.index(thing)}\0")

    def thing(self, value: Value) -> Thing | None:
        """Return what a mark stands for."""
        known = values.known(value)
        found = _MARK.fullmatch(known) if known is not None else None
        return self._things[int(found[1])] if found is not None else None

    def each(self, items: list[Value]) -> list[Value]:
        """Return every single thing or text of some values."""
        return [(pieces,) for value in items for pieces in value]

    @abstractmethod
    def variable(self, name: str, state: State) -> Value:
        """Return what a variable holds."""

    @abstractmethod
    def assign(self, name: str, value: Value, state: State) -> None:
        """Set a variable of the shell, or with ``env:`` one of the environment."""

    @abstractmethod
    def value(self, node: Node, state: State) -> Value:
        """Return all that an expression may be, as one value."""

    @abstractmethod
    def evaluate(self, node: Node | None, state: State) -> list[Value]:
        """Return what an expression gives."""

    @abstractmethod
    def block(self, block: Block, state: State, given: list[Value] | None, arguments: list[Value]) -> list[Value]:
        """Interpret a script block with what comes in as ``$_``."""

    @abstractmethod
    def block_of(self, text: Value) -> Value:
        """Return a text that becomes a script block; one that is not known stays open."""

    @abstractmethod
    def text_of_code(self, items: list[Value], state: State, what: str) -> list[Value]:
        """Interpret code that is given as text, in this shell; a script block is code too."""
