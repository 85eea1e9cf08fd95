"""The arguments of cmdlets: parameters cut short, by place or by name, and paths on PowerShell's drives.

Owns: binding, and which of the arguments are files. Does not own: which parameters a cmdlet has (cmdlets.toml), or
what it does (cmdlets). A parameter may be cut short as long as no other one begins so.
"""

from __future__ import annotations

from collections.abc import Callable

from perdure.domain.record import dataclass, field
from perdure.guard import values
from perdure.guard.powershell_files import file
from perdure.guard.powershell_machine import Entries, PowerShell
from perdure.guard.state import State
from perdure.guard.values import Value

_COMMON_VALUED = (
    "erroraction",
    "warningaction",
    "informationaction",
    "errorvariable",
    "outvariable",
    "outbuffer",
    "progressaction",
)
_COMMON = ("verbose", "debug", "whatif", "confirm")
_ALIASED = {
    "args": "argumentlist",
    "cf": "confirm",
    "db": "debug",
    "ea": "erroraction",
    "lp": "literalpath",
    "ov": "outvariable",
    "pspath": "literalpath",
    "s": "recurse",
    "sb": "scriptblock",
    "vb": "verbose",
    "wa": "warningaction",
    "wi": "whatif",
}


@dataclass(frozen=True, slots=True)
class Cmdlet:
    """One cmdlet: parameters with a value, those without, the order of those that need no name, and what it does."""

    name: str
    act: Callable[[PowerShell, Bound, State, list[Value] | None], list[Value]]
    valued: tuple[str, ...] = ()
    switches: tuple[str, ...] = ()
    order: tuple[str, ...] = ()

    def parameter(self, written: str) -> tuple[str, bool]:
        """Return a parameter's whole name, and whether a value follows."""
        own = (*self.valued, *self.order)
        if written in own:
            return written, True
        if written in self.switches:
            return written, False
        # A name that is cut short comes first: `-s` is `-Recurse` only where nothing of its own begins so.
        for names, takes in ((own, True), (self.switches, False), (_COMMON_VALUED, True), (_COMMON, False)):
            fitting = [name for name in names if name.startswith(written)]
            if fitting:
                if "recurse" in self.switches and "recurse".startswith(written):
                    return "recurse", False
                return fitting[0], takes
        name = _ALIASED.get(written, written)
        return name, name in own or name in _COMMON_VALUED


@dataclass(slots=True)
class Bound:
    """The arguments of one call."""

    cmdlet: Cmdlet
    values: dict[str, list[Value]] = field(default_factory=dict)
    switches: set[str] = field(default_factory=set)
    positional: list[list[Value]] = field(default_factory=list)
    unknown: bool = False
    """Whether there may be others."""

    def give(self, name: str, items: list[Value]) -> None:
        """Set a parameter; a switch that is given a value is one that is off where the value says so."""
        if name in self.cmdlet.valued or name in self.cmdlet.order or name in _COMMON_VALUED:
            self.values.setdefault(name, []).extend(items)
        elif items and values.known(items[0]) == "False":
            self.switches.discard(name)
        else:
            self.switches.add(name)

    def get(self, name: str) -> list[Value]:
        """Return a parameter's value, by its name or by its place."""
        if name in self.values:
            return self.values[name]
        free = [each for each in self.cmdlet.order if each not in self.values]
        place = free.index(name) if name in free else len(self.positional)
        return self.positional[place] if place < len(self.positional) else []

    def one(self, name: str) -> Value | None:
        """Return a parameter's value as one value; None where it is not given."""
        items = self.get(name)
        return values.union(*items) if items else None

    def has(self, *names: str) -> bool:
        """Return whether one of these switches is on."""
        return any(name in self.switches for name in names)

    def words(self, state: State) -> tuple[Value, ...]:
        """Return the arguments for the effect of running it, paths as this guard writes them."""
        given = [*self.positional, *self.values.values()]
        texts = [item for items in given for item in items]
        return (
            *(values.text(f"-{name}") for name in sorted(self.switches)),
            *(file(item, state, literal=True) or item for item in texts),
        )


def paths(shell: PowerShell, bound: Bound, state: State, given: list[Value] | None) -> list[tuple[Value, object]]:
    """Return the files that a cmdlet is given, each with what `Get-ChildItem` knows of it, or None."""
    found: list[tuple[Value, object]] = []
    literal = bound.get("literalpath")
    items = literal or bound.get("path") or bound.get("filepath") or (given if given is not None else [])
    for item in shell.each(items):
        thing = shell.thing(item)
        if isinstance(thing, Entries):
            found.append((thing.folder, thing))
        elif thing is None and (path := file(item, state, literal=bool(literal))) is not None:
            found.append((path, None))
    return found
