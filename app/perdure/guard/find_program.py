"""`find`: what it selects, and what is done to that.

Owns: the expression, as far as names, paths and actions go, and its answer to what may be found (found).
Does not own: what other programs do with that.
"""

from __future__ import annotations

from dataclasses import dataclass

from perdure.domain.effect import Act, Hole, Pattern, Piece, Text
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

    def also(self, other: _Selection) -> _Selection:
        """Return what both let through, or more."""
        return _Selection(
            self.names if self.names is not None else other.names,
            self.paths if self.paths is not None else other.paths,
            self.conditional or other.conditional,
        )

    def either(self, other: _Selection) -> _Selection:
        """Return what one of them lets through."""
        names = (*self.names, *other.names) if self.names is not None and other.names is not None else None
        paths = (*self.paths, *other.paths) if self.paths is not None and other.paths is not None else None
        return _Selection(names, paths, self.conditional and other.conditional)


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
        selection = self._either()
        if not self.acted:
            self._print(selection)

    def _next(self) -> str | None:
        return values.known(self.words[self.at]) if self.at < len(self.words) else None

    def _value(self) -> Value:
        self.at += 1
        value = self.words[self.at] if self.at < len(self.words) else values.EMPTY
        self.at += 1
        return value

    def _either(self) -> _Selection:
        result = self._all()
        while self._next() in {"-o", "-or", ","}:
            comma = self._next() == ","
            self.at += 1
            right = self._all()
            result = right if comma else result.either(right)
        return result

    def _all(self) -> _Selection:
        result = _ANYTHING
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
            inner = self._either_after(before)
            if self._next() == ")":
                self.at += 1
            return inner
        if text in {"!", "-not"}:
            self.at += 1
            self._primary(before)
            return _ANYTHING
        if text in {"-name", "-iname"}:
            return _Selection(names=(_pattern(self._value(), folded=text == "-iname"),))
        if text in {"-path", "-wholename", "-ipath", "-iwholename"}:
            return _Selection(paths=(_open_path(self._value()),))
        if text == "-delete":
            self.at += 1
            self.acted = True
            self._emit(before)
            return _ANYTHING
        if text in _EXEC:
            self._exec(before)
            return _ANYTHING
        if text in {"-fprint", "-fprint0", "-fls", "-fprintf"}:
            self.machine.emit(Act.OVERWRITE, self._value(), self.state, by=f"find {text}", through_link=True)
            return _ANYTHING
        if text in {"-print", "-print0", "-ls", "-printf"}:
            self.acted = True
            self._print(before)
        if text == "-files0-from" or text is None:
            self.roots.append(values.unknown("find"))
        if text in _TESTS_WITH_VALUE:
            self._value()
        else:
            self.at += 1
        return _Selection(conditional=text in _CONDITIONAL_TESTS)

    def _either_after(self, before: _Selection) -> _Selection:
        """Read a group; actions inside it also depend on what stands before it."""
        result = before.also(self._all_after(before))
        combined = result
        while self._next() in {"-o", "-or", ","}:
            self.at += 1
            combined = combined.either(before.also(self._all_after(before)))
        return combined

    def _all_after(self, before: _Selection) -> _Selection:
        result = before
        while self.at < len(self.words) and self._next() not in {"-o", "-or", ",", ")"}:
            if self._next() in {"-a", "-and"}:
                self.at += 1
                continue
            self.machine.step()
            result = result.also(self._primary(result))
        return result

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
