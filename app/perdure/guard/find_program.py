"""`find`: what it selects, and what is done to that.

Owns: the expression, as far as names, paths and actions go, and its answer to what may be found (found).
Does not own: what other programs do with that.
"""

from __future__ import annotations

from dataclasses import replace

from perdure.domain.effect import Act, Hole, Pattern, Piece, Text
from perdure.domain.record import dataclass
from perdure.guard import values
from perdure.guard.found import Found
from perdure.guard.machine import Machine
from perdure.guard.state import State
from perdure.guard.values import Value

_TESTS_WITH_VALUE = frozenset(
    [
        "-amin",
        "-anewer",
        "-atime",
        "-cmin",
        "-cnewer",
        "-context",
        "-ctime",
        "-fstype",
        "-gid",
        "-group",
        "-ilname",
        "-inum",
        "-links",
        "-lname",
        "-maxdepth",
        "-mmin",
        "-mtime",
        "-newer",
        "-perm",
        "-regextype",
        "-samefile",
        "-size",
        "-type",
        "-uid",
        "-used",
        "-user",
        "-xtype",
        "-regex",
        "-iregex",
        "-printf",
        "-newermt",
        "-newerct",
    ]
)
_CONDITIONAL_TESTS = frozenset(
    {"-xtype", "-lname", "-ilname", "-samefile", "-inum", "-newer", "-empty", "-fstype", "-perm"}
)
_EXEC = frozenset({"-exec", "-execdir", "-ok", "-okdir"})


@dataclass(frozen=True, slots=True)
class _Selection:
    """What an expression lets through: None stands for any name."""

    names: tuple[Value, ...] | None = None
    paths: tuple[Value, ...] | None = None
    conditional: bool = False
    prunes: tuple[Value, ...] = ()
    """What it does not go into."""
    pruned: tuple[Value, ...] = ()
    """What alternatives before it do not go into."""
    spared: tuple[Value, ...] = ()
    """Directories whose members it leaves out."""

    def also(self, other: _Selection) -> _Selection:
        """Return what both let through, or more."""
        return _Selection(
            self.names if self.names is not None else other.names,
            self.paths if self.paths is not None else other.paths,
            self.conditional or other.conditional,
            (*self.prunes, *other.prunes),
            self.pruned or other.pruned,
            (*self.spared, *other.spared),
        )

    def either(self, other: _Selection) -> _Selection:
        """Return what one of them lets through."""
        names = (*self.names, *other.names) if self.names is not None and other.names is not None else None
        paths = (*self.paths, *other.paths) if self.paths is not None and other.paths is not None else None
        both = tuple(name for name in self.spared if name in other.spared)
        return _Selection(names, paths, self.conditional and other.conditional, spared=both)


_ANYTHING = _Selection()


class _Find:
    """One `find` command line."""

    def __init__(self, machine: Machine, words: list[Value], state: State) -> None:
        self.machine = machine
        self.state = state
        self.words = words
        self.at = 0
        self.roots: list[Value] = []
        self.below = "-mindepth" in [values.known(word) for word in words]
        self.acted = False

    def run(self) -> None:
        """Note what is done to what is found, or print it."""
        while self.at < len(self.words):
            text = values.known(self.words[self.at])
            if text in {"-H", "-L", "-P"} or (text or "").startswith("-O"):
                self.at += 1
            elif text == "-D":
                self.at += 2
            elif text is not None and (text.startswith("-") or text in {"(", "!"}):
                break
            else:
                self.roots.append(self.words[self.at])
                self.at += 1
        self.roots = self.roots or [values.text(".")]
        selection = self._either(_ANYTHING)
        if not self.acted:
            self._print(selection)

    def _next(self) -> str | None:
        return values.known(self.words[self.at]) if self.at < len(self.words) else None

    def _value(self) -> Value:
        self.at += 1
        value = self.words[self.at] if self.at < len(self.words) else values.EMPTY
        self.at += 1
        return value

    def _either(self, before: _Selection) -> _Selection:
        """Read alternatives; what one of them does not go into, those behind it do not see."""
        result = first = self._all(before)
        cut = first.prunes
        while self._next() in {"-o", "-or", ","}:
            comma = self._next() == ","
            self.at += 1
            right = self._all(replace(before, pruned=(*before.pruned, *cut)))
            cut += right.prunes
            result = right if comma else result.either(right)
        return replace(result, prunes=cut)

    def _all(self, before: _Selection) -> _Selection:
        result = before
        while self.at < len(self.words) and self._next() not in {"-o", "-or", ",", ")"}:
            if self._next() in {"-a", "-and"}:
                self.at += 1
                continue
            self.machine.step()
            result = result.also(self._primary(result))
        return result

    def _primary(self, before: _Selection) -> _Selection:
        text = self._next()
        if text == "(":
            self.at += 1
            inner = self._either(before)
            if self._next() == ")":
                self.at += 1
            return inner
        if text in {"!", "-not"}:
            self.at += 1
            return _Selection(spared=_directories(self._primary(before).paths or ()))
        if text in {"-name", "-iname"}:
            return _Selection(names=(_pattern(self._value(), folded=text == "-iname"),))
        if text in {"-path", "-wholename", "-ipath", "-iwholename"}:
            return _Selection(paths=(_open_path(self._value()),))
        if text == "-prune":
            self.at += 1
            return _Selection(prunes=before.paths or before.names or ())
        if text == "-delete":
            self.at += 1
            self.acted = True
            self._emit(before)
            return _ANYTHING
        if text in _EXEC:
            self._exec(before)
            return _ANYTHING
        return self._other(text, before)

    def _other(self, text: str | None, before: _Selection) -> _Selection:
        """Read a test that is not followed, or an action that writes or prints."""
        if text in {"-fprint", "-fprint0", "-fls", "-fprintf"}:
            self.machine.emit(Act.OVERWRITE, self._value(), self.state, by=f"find {text}", through_link=True)
            return _ANYTHING
        if text in {"-print", "-print0", "-ls", "-printf"}:
            self.acted = True
            if text == "-printf":
                self.state.output = values.joined(self.state.output, values.unknown("find -printf"))
            else:
                self._print(before)
        if text == "-files0-from" or text is None:
            self.roots.append(values.unknown("find"))
        if text in _TESTS_WITH_VALUE:
            self._value()
        else:
            self.at += 1
        return _Selection(conditional=text in _CONDITIONAL_TESTS)

    def _members(self, selection: _Selection) -> list[Value]:
        """Return what stands for the members that an expression lets through."""
        if selection.paths is not None:
            return [*selection.paths]
        return [
            (
                (
                    Found(
                        "found",
                        root=pieces,
                        below=self.below,
                        names=selection.names or (),
                        pruned=selection.pruned,
                        spared=selection.spared,
                        conditional=selection.conditional,
                    ),
                ),
            )
            for root in self.roots
            for pieces in root
        ]

    def _emit(self, selection: _Selection) -> None:
        for member in self._members(selection):
            self.machine.emit(Act.DELETE, member, self.state, by="find -delete")

    def _print(self, selection: _Selection) -> None:
        for member in self._members(selection):
            self.state.output = values.joined(self.state.output, member, values.text("\n"))

    def _exec(self, selection: _Selection) -> None:
        self.acted = True
        self.at += 1
        command: list[Value] = []
        while self.at < len(self.words):
            text = values.known(self.words[self.at])
            if text == ";" or (text == "+" and command and values.known(command[-1]) == "{}"):
                self.at += 1
                break
            command.append(self.words[self.at])
            self.at += 1
        for member in self._members(selection):
            child = self.state.copy()
            child.stdin = None
            self.machine.call([_put(word, member) for word in command], child, external=True)
            self.state.output = child.output


def _put(word: Value, member: Value) -> Value:
    """Return a word with what was found in the place of ``{}``."""
    text = values.known(word)
    if text is None or "{}" not in text:
        return word
    parts = text.split("{}")
    return values.joined(*[item for part in parts for item in (member, values.text(part))][1:])


def _pattern(value: Value, *, folded: bool) -> Value:
    """Return the pattern of ``-name`` as a value."""
    result = []
    for pieces in value:
        text = values.spelled(pieces)
        if text is None:
            result.append(pieces)
            continue
        if folded:
            text = "".join(f"[{letter.lower()}{letter.upper()}]" if letter.isalpha() else letter for letter in text)
        result.append(values.globbed(text))
    return tuple(result)


def _directories(paths: tuple[Value, ...]) -> tuple[Value, ...]:
    """Return the directories of which patterns such as ``*/NAME/*`` mean all members."""
    found: list[Value] = []
    for value in paths:
        for pieces in value:
            last = pieces[-2] if len(pieces) > 1 and isinstance(pieces[-1], Hole) else None
            if isinstance(last, Text) and last.text.endswith("/"):
                found.append((values.merged((*pieces[:-2], Text(last.text.rstrip("/")))),))
    return tuple(found)


def _open_path(value: Value) -> Value:
    """Return the pattern of ``-path``, whose stars cross slashes."""
    pieces: list[Piece] = []
    for piece in value[0]:
        if isinstance(piece, Text):
            pieces += [Hole("*") if isinstance(part, Pattern) else part for part in values.globbed(piece.text)]
        else:
            pieces.append(piece)
    return (values.merged(tuple(pieces)),)


def run(machine: Machine, _name: str, words: list[Value], state: State) -> None:
    """Note what is done to what is found, or print it."""
    _Find(machine, words, state).run()
