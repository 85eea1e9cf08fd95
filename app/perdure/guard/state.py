"""The state of a shell while its text is interpreted.

Owns: what a shell remembers between commands, copying it for a process of its own, and joining what two branches left.
Does not own: what changes it. A name that was never mentioned is not empty but unknown.
"""

from __future__ import annotations

from dataclasses import replace

from perdure.domain.record import dataclass, field
from perdure.guard import values
from perdure.guard.session import Session
from perdure.guard.tree import Command
from perdure.guard.values import Value

_NUMBERS = frozenset(
    [
        "?",
        "#",
        "$",
        "!",
        "RANDOM",
        "SRANDOM",
        "SECONDS",
        "LINENO",
        "UID",
        "EUID",
        "PPID",
        "BASHPID",
        "EPOCHSECONDS",
        "COLUMNS",
        "LINES",
        "SHLVL",
        "BASH_SUBSHELL",
        "OPTIND",
    ]
)


@dataclass(slots=True)
class State:
    """What one shell process knows."""

    session: Session
    directories: Value
    """Where the shell may be: absolute paths."""
    variables: dict[str, Value | None] = field(default_factory=dict)
    """What the text has set; None where it has unset the name."""
    arrays: dict[str, dict[str, Value] | None] = field(default_factory=dict)
    """Elements by index; None where they are not known."""
    functions: dict[str, tuple[Command, ...]] = field(default_factory=dict)
    """All the bodies that a name may have."""
    aliases: dict[str, str] = field(default_factory=dict)
    positionals: tuple[Value, ...] | None = None
    """``$1`` and so on; None where they are not known."""
    name: Value | None = None
    """``$0``."""
    exported: frozenset[str] = frozenset()
    """Variables that a program is given too, beside those that the shell itself was given."""
    odd: frozenset[str] = frozenset()
    """Names that hold something else than they are assigned: references, lower case, numbers."""
    options: frozenset[str] = frozenset()
    """What ``set`` and ``shopt`` switched on, as far as it changes how words come out."""
    files: dict[str, Value] = field(default_factory=dict)
    """What the text has written into files, by absolute path; one for all processes, as the disk is."""
    traps: tuple[Value, ...] = ()
    """Code that runs when this process ends."""
    stack: tuple[Value, ...] = ()
    stdin: Value | None = None
    """What can be read; None where that is not known."""
    output: Value = values.EMPTY
    """What was printed, in front of a pipe or inside a substitution."""
    tainted: bool = False
    """Whether code that is not known ran in this shell, so that any name may be set."""

    def copy(self) -> State:
        """Return a state of its own."""
        return replace(
            self,
            variables=self.variables.copy(),
            arrays=self.arrays.copy(),
            functions=self.functions.copy(),
            aliases=self.aliases.copy(),
        )

    def variable(self, name: str) -> Value | None:
        """Return a variable's value; None where it is certainly not set."""
        if name in self.arrays:
            elements = self.arrays[name]
            return values.unknown(f"${name}") if elements is None else elements.get("0", values.EMPTY)
        if name in self.variables:
            return self.variables[name]
        if name in _NUMBERS:
            return ((values.DIGITS,),)
        if name == "PWD":
            return self.directories
        if name == "HOME":
            return values.text(self.session.environment.get("HOME", self.session.home))
        if name == "IFS":
            return values.text(" \t\n")
        if name.isdigit():
            return self.positional(int(name))
        if not self.tainted:
            if name in self.session.environment:
                return values.text(self.session.environment[name])
            if self.session.complete and name not in _SET_BY_THE_SHELL:
                return None
        return values.unknown(f"${name}")

    def positional(self, number: int) -> Value | None:
        """Return ``$1`` and so on."""
        if number == 0:
            return self.name if self.name is not None else values.unknown("$0")
        if self.positionals is None:
            return values.unknown(f"${number}")
        return self.positionals[number - 1] if number <= len(self.positionals) else values.EMPTY

    def assign(self, name: str, value: Value, *, append: bool = False) -> None:
        """Set a variable."""
        if name in self.odd:
            value = values.unknown(f"${name}")
        elif append:
            value = values.joined(self.variable(name) or values.EMPTY, value)
        if name in self.arrays:
            elements = self.arrays[name]
            self.arrays[name] = None if elements is None else {**elements, "0": value}
        else:
            self.variables[name] = value

    def within(self) -> State:
        """Return the state of a shell that this one starts: it has the variables that are exported, and no others."""
        child = self.copy()
        if "allexport" not in self.options:
            kept = self.exported | self.session.environment.keys()
            child.variables = {name: held for name, held in self.variables.items() if name in kept}
        child.functions, child.aliases, child.arrays, child.options, child.traps = {}, {}, {}, frozenset(), ()
        child.output = values.EMPTY
        return child

    def forget(self) -> None:
        """Let every name be unknown: code that nobody has read ran in this shell."""
        self.tainted = True
        self.variables = dict.fromkeys(self.variables, values.unknown())
        self.arrays = dict.fromkeys(self.arrays)
        self.functions = {}


_SET_BY_THE_SHELL = frozenset(
    [
        "OLDPWD",
        "BASH",
        "BASH_ENV",
        "BASH_SOURCE",
        "BASH_COMMAND",
        "BASH_VERSION",
        "BASHOPTS",
        "DIRSTACK",
        "FUNCNAME",
        "GROUPS",
        "HOSTNAME",
        "HOSTTYPE",
        "MACHTYPE",
        "OSTYPE",
        "PIPESTATUS",
        "REPLY",
        "SHELLOPTS",
        "MAPFILE",
        "COPROC",
        "_",
        "-",
        "@",
        "*",
    ]
)


def join(left: State | None, right: State | None) -> State | None:
    """Return what is known after one of two branches, of which nobody knows which was taken."""
    if left is None or left is right:
        return right
    if right is None:
        return left
    result = left.copy()
    result.directories = values.union(left.directories, right.directories)
    for name in left.variables.keys() | right.variables.keys():
        one, other = left.variable(name), right.variable(name)
        if one != other:
            result.variables[name] = values.union(one or values.EMPTY, other or values.EMPTY)
        else:
            result.variables[name] = one
    for name in left.arrays.keys() | right.arrays.keys():
        if left.arrays.get(name) != right.arrays.get(name):
            result.arrays[name] = None
    for name in right.functions:
        result.functions[name] = tuple(dict.fromkeys((*left.functions.get(name, ()), *right.functions[name])))
    result.aliases |= right.aliases
    result.odd = left.odd | right.odd
    result.exported = left.exported | right.exported
    result.traps = tuple(dict.fromkeys((*left.traps, *right.traps)))
    result.positionals = left.positionals if left.positionals == right.positionals else None
    # What makes words come out as themselves must hold on both ways, what makes more of them on one.
    result.options = (left.options & right.options) | ((left.options | right.options) - {"noglob"})
    result.stack = left.stack if left.stack == right.stack else ()
    result.stdin = left.stdin if left.stdin == right.stdin else None
    result.output = values.union(left.output, right.output)
    result.tainted = left.tainted or right.tainted
    return result


def same(one: State, other: State) -> bool:
    """Return whether two states know the same, as far as words and places go."""
    return (
        one.variables == other.variables
        and one.arrays == other.arrays
        and one.directories == other.directories
        and one.functions == other.functions
        and one.positionals == other.positionals
        and one.output == other.output
        and one.stdin == other.stdin
        and one.files == other.files
        and one.traps == other.traps
        and one.aliases == other.aliases
        and one.options == other.options
        and one.tainted == other.tainted
    )


def widened(before: State, after: State) -> State:
    """Return a state in which all that a loop keeps changing is unknown."""
    result = after.copy()
    for name in after.variables:
        if after.variables[name] != before.variables.get(name):
            result.variables[name] = values.unknown(f"${name}")
    for name in after.arrays:
        if after.arrays[name] != before.arrays.get(name):
            result.arrays[name] = None
    if after.directories != before.directories:
        result.directories = values.unknown("the current directory")
    if after.positionals != before.positionals:
        result.positionals = None
    if after.output != before.output:
        result.output = values.unknown("what a loop prints")
    return result
