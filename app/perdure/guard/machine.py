"""What interpreting a text keeps: the effects found, the places not understood, and the budget.

Owns: recording, and the interface that commands need of the interpreter. Does not own: control flow (interpret), what
single commands do (builtins, programs). Effects are kept once, in the order in which they were found.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from perdure.domain.effect import (
    Act,
    Certainty,
    Effect,
    Hole,
    NotAnalysable,
    Pattern,
    Piece,
    Span,
    Spelling,
    Text,
    Word,
)
from perdure.domain.record import dataclass
from perdure.guard import values
from perdure.guard.found import Found
from perdure.guard.late import late
from perdure.guard.session import Session
from perdure.guard.state import State
from perdure.guard.tree import NOWHERE, Channel, Command, Script
from perdure.guard.values import Value

MOST_STEPS = 20_000
MOST_EFFECTS = 1_000
DEEPEST = 8
"""How often code in a string may hold code in a string."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is known after a command, by how it ended; None where it cannot end that way."""

    success: State | None
    failure: State | None


class OverBudgetError(Exception):
    """Interpreting takes too long."""


class Machine(ABC):
    """One reading of one text."""

    def __init__(
        self, session: Session, parse: Callable[[str, float], Script], *, posix: bool, deadline: float
    ) -> None:
        self.session = session
        self.parse = parse
        self.posix = posix
        """Whether the shell may be another one than bash."""
        self.effects: dict[Effect, None] = {}
        self.problems: dict[NotAnalysable, None] = {}
        self.certainty = Certainty.DEFINITE
        self.conditions = 0
        """How many conditions stand between the beginning and here."""
        self.span = NOWHERE
        self.depth = 0
        self.fallible = False
        """Whether something was met that may end the process without a word: an error in an expansion, a signal."""
        self._nested = False
        self._steps = 0
        self._deadline = deadline

    @property
    def seconds_left(self) -> float:
        """How much time there is."""
        return self._deadline - time.monotonic()

    def step(self, weight: int = 1) -> None:
        """Count some work.

        Raises:
            OverBudgetError: It is too much.
        """
        self._steps += weight
        if self._steps > MOST_STEPS or len(self.effects) > MOST_EFFECTS:
            raise OverBudgetError
        if (weight > 1 or self._steps % 64 == 0) and time.monotonic() > self._deadline:
            raise OverBudgetError

    def emit(
        self,
        act: Act,
        operand: Value,
        state: State,
        *,
        by: str,
        certainty: Certainty | None = None,
        recursive: bool = False,
        through_link: bool = False,
        only_below: bool = False,
        spares_ignored: bool = False,
        names: tuple[Value, ...] = (),
        spared: tuple[Value, ...] = (),
        arguments: tuple[Value, ...] = (),
    ) -> None:
        """Note an effect."""
        self.step()
        for pieces in operand:
            if len(pieces) == 1 and isinstance(member := pieces[0], Found):
                self.emit(
                    act,
                    (member.root,),
                    state,
                    by=by,
                    certainty=weaker(
                        certainty or Certainty.DEFINITE,
                        Certainty.CONDITIONAL if member.conditional else Certainty.DEFINITE,
                    ),
                    recursive=True,
                    through_link=through_link,
                    only_below=member.below,
                    names=member.names,
                    spared=(*spared, *member.pruned, *(() if recursive else member.spared)),
                    arguments=arguments,
                )
                operand = tuple(other for other in operand if other is not pieces)
                if not operand:
                    return
        if act is not Act.RUN:
            operand = values.union(*(_seen(pieces, state.directories) for pieces in operand)) if operand else operand
            operand = tuple(pieces for pieces in operand if pieces)  # no program does anything to ""
            if not operand:
                return
        effect = Effect(
            act=act,
            operand=_word(operand),
            directories=tuple(_word((path,)) for path in state.directories),
            certainty=weaker(self.certainty, certainty or Certainty.DEFINITE),
            recursive=recursive,
            through_link=through_link,
            only_below=only_below,
            spares_ignored=spares_ignored,
            names=tuple(_word(name) for name in names),
            spared=tuple(_word(name) for name in spared),
            arguments=tuple(_word(argument) for argument in arguments),
            assigned=self._inherited(state) if act is Act.RUN else (),
            by=by,
            span=self.span,
        )
        self.effects[effect] = None

    def _inherited(self, state: State) -> tuple[str, ...]:
        """Return the variables that the text has set and that a program gets; one that was unset is none."""
        assigned = {name for name, value in state.variables.items() if value is not None}
        if not assigned and not state.arrays:
            return ()
        passed = state.exported | self.session.environment.keys() | {"PATH"}
        return tuple(sorted(passed & (assigned | state.arrays.keys())))

    def problem(self, reason: str) -> None:
        """Note that something here cannot be understood."""
        self.problems[NotAnalysable(reason, self.span)] = None

    def counted(self, value: Value) -> None:
        """Note a text that may be counted with somewhere: arithmetic runs the commands in a subscript of a name."""
        for pieces in value:
            if _SUBSCRIPT.search("".join(piece.text if isinstance(piece, Text) else "\0" for piece in pieces)):
                self.problem("a subscript in a text holds a command, which runs when the text is counted with")

    @contextmanager
    def at(self, span: Span) -> Iterator[None]:
        """Let what is found belong to a place; inside code in a string that place is the string's."""
        before = self.span
        if not self._nested:
            self.span = span
        try:
            yield
        finally:
            self.span = before

    @contextmanager
    def under(self, certainty: Certainty) -> Iterator[None]:
        """Let what is found be no surer than this."""
        before = self.certainty
        self.certainty = weaker(before, certainty)
        self.conditions += certainty is not Certainty.DEFINITE
        try:
            yield
        finally:
            self.certainty = before
            self.conditions -= certainty is not Certainty.DEFINITE

    @contextmanager
    def nested(self) -> Iterator[bool]:
        """Enter code in a string; yields whether that is still allowed."""
        before = self._nested
        self._nested = True
        self.depth += 1
        try:
            yield self.depth <= DEEPEST
        finally:
            self.depth -= 1
            self._nested = before

    @abstractmethod
    def process(self, script: Script, state: State) -> State:
        """Interpret a process of its own to its end, and return what is known then. The state is used up."""

    @abstractmethod
    def run(self, command: Command, state: State) -> Outcome:
        """Interpret one command."""

    @abstractmethod
    def call(self, arguments: list[Value], state: State, *, external: bool = False) -> Outcome:
        """Interpret a command by its words; `external`: only programs, neither functions nor builtins."""

    @abstractmethod
    def code(self, text: Value, state: State, *, what: str) -> Outcome:
        """Interpret code in a string in this shell."""

    def write(self, path: str, content: Value, state: State, *, appends: bool) -> None:
        """Note what a file holds now."""
        held = state.files.get(path)
        if appends:
            content = values.joined(held if held is not None else values.unknown(path), content)
        if self.certainty is not Certainty.DEFINITE:
            content = values.union(held if held is not None else values.unknown(path), content)
        state.files[path] = content

    def contents(self, path: str | None, state: State) -> Value:
        """Return what a file holds, as far as it is known."""
        if path is None:
            return values.unknown("a file")
        if path in {"/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"} and state.stdin is not None:
            return state.stdin
        if path in state.files:
            return state.files[path]
        found = self.session.probe.script(path)
        return values.text(found) if found is not None else values.unknown(path)

    @abstractmethod
    def program(self, name: str, arguments: list[Value], state: State) -> None:
        """Note what a program does that is alike on every system; the first of the arguments is its name."""

    @abstractmethod
    def cmd_code(self, text: Value, state: State, what: str) -> None:
        """Interpret code for cmd.exe in a process of its own."""

    @abstractmethod
    def powershell_code(self, text: Value, state: State, what: str) -> None:
        """Interpret code for PowerShell in a process of its own."""

    @abstractmethod
    def knows(self, program: str) -> bool:
        """Return whether it is known what a program does."""

    def own_shell(self, code: Value, state: State, what: str) -> None:
        """Interpret code in a shell that a program starts."""
        self.shell(code, state.copy(), positionals=(), name=values.text("sh"), what=what)

    @abstractmethod
    def local(self, state: State, items: list[str | None]) -> None:
        """Note that names are those of the function that runs."""

    @abstractmethod
    def leave(self, state: State) -> None:
        """Let the process end here."""

    @abstractmethod
    def come_back(self, state: State) -> None:
        """Let the function or the sourced script end here."""

    @abstractmethod
    def escape(self, state: State) -> None:
        """Let the loop end here, or this round of it."""

    @abstractmethod
    def printed(self, body: Script, state: State) -> Value:
        """Return what commands print, without the newlines at the end."""

    @abstractmethod
    def channel(self, part: Channel, state: State) -> Value:
        """Return the path of a process substitution."""

    @abstractmethod
    def shell(
        self, text: Value, state: State, *, positionals: tuple[Value, ...] | None, name: Value, what: str
    ) -> Outcome:
        """Interpret code in a string in a shell of its own."""


_SUBSCRIPT = late(r"\w\[[^\]\[\n]*(?:\$[({]|`)")
_THROUGH_PROC = late(r"/+proc/+[^/]+/+(?:task/+[^/]+/+)?(root|cwd)(?=/|$)")
_ANY_NUMBER = "719304258163"
_PLACEHOLDERS = {values.DIGITS: _ANY_NUMBER, values.FRESH: f"x{_ANY_NUMBER}x"}
_PLACEHOLDER = late(f"(x{_ANY_NUMBER}x)|{_ANY_NUMBER}")
_ORDER = (Certainty.DEFINITE, Certainty.POSSIBLE, Certainty.CONDITIONAL)


def weaker(one: Certainty, other: Certainty) -> Certainty:
    """Return the less sure of two."""
    return one if one is other else max(one, other, key=_ORDER.index)


def _word(value: Value) -> Word:
    """Return a value as an argument of an effect, in which what was found is a hole below its directory."""
    if len(value) == 1 and _plain(value[0]) is value[0]:
        return Word(value)
    return Word(tuple(_plain(pieces) for pieces in value))


def _plain(pieces: Spelling) -> Spelling:
    if len(pieces) == 1 and isinstance(only := pieces[0], Text) and _ANY_NUMBER not in only.text:
        return pieces
    if any(isinstance(piece, Text) and _ANY_NUMBER in piece.text for piece in pieces):
        pieces = _unnumbered(pieces)
    if not any(isinstance(piece, Found | values.Name) for piece in pieces):
        return pieces
    first = pieces[0]
    start = (*first.root, Text("/")) if isinstance(first, Found) else ()
    return values.merged((*start, *map(_own, pieces)))


def _own(piece: Piece) -> Piece:
    if isinstance(piece, Found):
        return Hole(piece.name)
    return Pattern(piece.text) if isinstance(piece, values.Name) else piece


def numbered(pieces: Spelling) -> Spelling:
    """Return code with what nobody writes in the place of a number or a fresh name that is not known."""
    return tuple(
        Text(_PLACEHOLDERS[piece]) if type(piece) is values.Name and piece in _PLACEHOLDERS else piece
        for piece in pieces
    )


def _unnumbered(pieces: Spelling) -> Spelling:
    """Return a word of such code with its numbers and fresh names not known again."""
    result: list[Piece] = []
    for piece in pieces:
        if isinstance(piece, Text) and _ANY_NUMBER in piece.text:
            at = 0
            for match in _PLACEHOLDER.finditer(piece.text):
                stands_for = values.FRESH if match[1] else values.DIGITS
                result += [Text(piece.text[at : match.start()]), Pattern(stands_for.text)]
                at = match.end()
            result.append(Text(piece.text[at:]))
        else:
            result.append(piece)
    return values.merged(tuple(result))


def _seen(path: Spelling, directories: Value) -> Value:
    """Return a path through ``/proc`` as what it leads to: the process that uses it, or any other, is somewhere."""
    written = "".join(piece.text if isinstance(piece, Text) else "\0" for piece in path)
    if "proc" not in written or (match := _THROUGH_PROC.match(written)) is None:
        return (path,)
    length = match.end()
    rest: list[Piece] = []
    for piece in path:
        size = len(piece.text) if isinstance(piece, Text) else 1
        if isinstance(piece, Text):
            rest.append(Text(piece.text[length:]))
        elif length <= 0:
            rest.append(piece)
        length = max(length - size, 0)
    places = values.text(
        "/" if match.end() == sum(len(piece.text) for piece in path if isinstance(piece, Text)) else ""
    )
    if match[1] == "cwd":
        places = directories
    return values.joined(places, (values.merged(tuple(rest)),))
