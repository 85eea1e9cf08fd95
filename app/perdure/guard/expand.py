"""From a word of the tree to the arguments that it becomes.

Owns: brace, tilde and parameter expansion, field splitting and globs, over values that may be open. Does not own:
what a command substitution prints (the interpreter hands that in). Globs are not matched against a file system: they
stay patterns.
"""

from __future__ import annotations

import re
from typing import Protocol

from perdure.domain.effect import MOST_SPELLINGS, Hole, Pattern, Piece, Spelling, Text
from perdure.guard import braces, values
from perdure.guard.late import late
from perdure.guard.operators import changed
from perdure.guard.state import State
from perdure.guard.tree import (
    Channel,
    ExtendedPattern,
    Literal,
    Number,
    Output,
    Parameter,
    Part,
    Script,
    Word,
)
from perdure.guard.values import Value

_MOST_PIECES = 400
_SPECIAL = late(r"[*?\[{~]")


class Substitutions(Protocol):
    """What expansion needs of the interpreter."""

    fallible: bool
    """Set where something was expanded that may be an error, after which a command prints nothing."""

    def counted(self, value: Value) -> None:
        """Note a text that may be counted with."""
        ...

    def problem(self, reason: str) -> None:
        """Note that something here cannot be understood."""
        ...

    def printed(self, body: Script, state: State) -> Value:
        """Return what commands print, interpreted on a copy of the state."""
        ...

    def channel(self, part: Channel, state: State) -> Value:
        """Return the path of a process substitution, its commands interpreted on a copy of the state."""
        ...


_Way = tuple[tuple[Spelling, ...], Spelling | None]
"""The fields that are complete, and the one that is being made; None where none has begun."""


def fields(word: Word, state: State, machine: Substitutions) -> list[Value]:
    """Return the arguments that a word becomes."""
    parts = word.parts
    if len(parts) == 1 and isinstance(only := parts[0], Literal) and (only.quoted or not _SPECIAL.search(only.text)):
        return [values.text(only.text)]
    result: list[Value] = []
    for alternative in braces.expanded(parts):
        result += _fields(alternative, state, machine)
    return result


def value(word: Word, state: State, machine: Substitutions, *, assigned: bool = False) -> Value:
    """Return a word as one value: neither split nor matched, as in an assignment or a here-document."""
    result = values.EMPTY
    for number, part in enumerate(word.parts):
        if isinstance(part, Literal):
            if part.quoted:
                piece = values.text(part.text)
            elif assigned:
                piece = _tildes(part.text, state, first=number == 0, last=number == len(word.parts) - 1)
            else:
                piece = _tilde(part.text, state, alone=len(word.parts) == 1) if number == 0 else values.text(part.text)
        elif isinstance(part, Parameter) and _is_list(part):
            listed = _list(part, state, machine)
            piece = (
                values.unknown(f"${part.name}") if listed is None else values.between(listed, _separator(part, state))
            )
        else:
            piece = _single(part, state, machine)
        result = values.joined(result, piece)
    return result


def _fields(parts: tuple[Part, ...], state: State, machine: Substitutions) -> list[Value]:
    ways: list[_Way] = [((), None)]
    lost = False
    for number, part in enumerate(parts):
        if isinstance(part, Literal):
            if part.quoted:
                addition = values.text(part.text)
            else:
                text = part.text
                addition = (
                    _tilde(text, state, alone=len(parts) == 1) if number == 0 and text[:1] == "~" else values.text(text)
                )
                addition = tuple(_matched(pieces, state) for pieces in addition)
                if "[" in text and _open_bracket(parts[number:]):
                    addition = _loose("[…]")
            ways = _appended(ways, addition)
        elif isinstance(part, Parameter) and _is_list(part):
            ways = _listed(ways, part, state, machine)
        elif getattr(part, "quoted", True) or isinstance(part, ExtendedPattern):
            ways = _appended(ways, _single(part, state, machine))
        else:
            ways = _split(ways, _single(part, state, machine), state)
        if len(ways) > MOST_SPELLINGS or len(ways[0][1] or ()) > _MOST_PIECES:
            # Nothing is known of the word any more; commands in what is left of it run all the same.
            ways, lost = [((), None)], True
    if lost:
        return [_loose("")]
    finished = [done if current is None else (*done, current) for done, current in ways]
    if "dotglob" in state.options or state.variables.get("GLOBIGNORE"):
        return (
            [values.union(*(_with_dots(values.merged(way[0])) for way in finished if way))]
            if all(len(way) == 1 for way in finished)
            else [_with_dots(values.merged(field)) for way in finished for field in way]
        )
    if len(finished) == 1:
        return [(values.merged(pieces),) for pieces in finished[0]]
    # Ways of different lengths are laid over one another: every field of every way is somewhere in the result, and a
    # field that is not there in every way may be empty.
    columns = max(len(way) for way in finished)
    return [
        values.union(tuple(values.merged(way[column]) if column < len(way) else () for way in finished))
        for column in range(columns)
    ]


def _with_dots(pieces: Spelling) -> Value:
    """Return what a glob is that also finds names with a dot in front."""
    hidden: list[Piece] = []
    for number, piece in enumerate(pieces):
        before = pieces[number - 1] if number else Text("/")
        if type(piece) is Pattern and isinstance(before, Text) and before.text.endswith("/"):
            hidden.append(Text("."))
        hidden.append(piece)
    return values.union((pieces,), (values.merged(tuple(hidden)),))


def _appended(ways: list[_Way], addition: Value) -> list[_Way]:
    return [(done, (current or ()) + pieces) for done, current in ways for pieces in addition]


def _listed(ways: list[_Way], part: Parameter, state: State, machine: Substitutions) -> list[_Way]:
    """Append ``"$@"`` and the like: a field for each element."""
    listed = _list(part, state, machine)
    if listed is None:
        return _appended(ways, _loose(f"${part.name}"))
    if not part.quoted:
        for number, item in enumerate(listed):
            if number:
                ways = [(done if current is None else (*done, current), None) for done, current in ways]
            ways = _split(ways, item, state)
            if len(ways) > MOST_SPELLINGS:  # they multiply with each element
                break
        return ways
    if not listed:  # `"$@"` without any is no field at all
        return [(done, current or None) for done, current in ways]
    for number, item in enumerate(listed):
        if number:
            ways = [((*done, current or ()), None) for done, current in ways]
        ways = _appended(ways, item)
        if len(ways) > MOST_SPELLINGS:
            break
    return ways


def _split(ways: list[_Way], addition: Value, state: State) -> list[_Way]:
    """Append a value that is not quoted: split at blanks, its glob characters alive."""
    separators = state.variables.get("IFS", values.text(" \t\n"))
    known = values.known(separators) if separators is not None else " \t\n"
    if known is None:
        return _appended(ways, _loose("IFS"))
    result: list[_Way] = []
    for pieces in addition:
        split = _split_pieces(pieces, known)
        for done, current in ways:
            fields_done, field = list(done), current
            for number, part in enumerate(split):
                if number:
                    if field is not None:
                        fields_done.append(field)
                    field = None
                if part is not None:
                    field = (field or ()) + _matched(part, state)
            result.append((tuple(fields_done), field))
    return result


def _split_pieces(pieces: Spelling, separators: str) -> list[Spelling | None]:
    """Return the stretches between separators; None for an empty one at an end, which only ends a field."""
    stretches: list[list[Piece]] = [[]]
    if not separators:
        return [pieces or None]
    pattern = f"[{re.escape(separators)}]+"
    for piece in pieces:
        if not isinstance(piece, Text):
            stretches[-1].append(values.Loose(piece.name) if type(piece) is Hole else piece)
            if isinstance(piece, values.Names):
                stretches.append([piece])
            continue
        head, *rest = re.split(pattern, piece.text)
        if head:
            stretches[-1].append(Text(head))
        stretches += [[Text(part)] if part else [] for part in rest]
    return [tuple(stretch) if stretch else None for stretch in stretches]


def _matched(pieces: Spelling, state: State) -> Spelling:
    """Return pieces with the glob characters of their texts as patterns."""
    if "noglob" in state.options:
        return pieces
    result: list[Piece] = []
    for piece in pieces:
        result += values.globbed(piece.text) if isinstance(piece, Text) else (piece,)
    return tuple(result)


def _loose(name: str) -> Value:
    """Return what any number of words may come of."""
    return ((values.Loose(name),),)


def _open_bracket(parts: tuple[Part, ...]) -> bool:
    """Return whether a bracket of the first part closes in a later one, so that quoted characters are in its set."""
    first = parts[0]
    rest = first.text.rpartition("[")[2] if isinstance(first, Literal) else ""
    return "]" not in rest and any(
        isinstance(part, Literal) and not part.quoted and "]" in part.text for part in parts[1:]
    )


def _tilde(text: str, state: State, *, alone: bool) -> Value:
    """Return the start of a word with its tilde replaced, where its name ends in this part."""
    if not text.startswith("~"):
        return values.text(text)
    name, slash, rest = text[1:].partition("/")
    if not slash and not alone:
        return values.text(text)
    return values.joined(_home(name, state), values.text(slash + rest))


def _tildes(text: str, state: State, *, first: bool, last: bool) -> Value:
    """Return a piece of an assigned value with the tildes at its start and behind colons replaced."""
    if "~" not in text:
        return values.text(text)
    result = values.EMPTY
    entries = text.split(":")
    for number, entry in enumerate(entries):
        begins = first or number > 0
        ends = last or number < len(entries) - 1
        colon = values.text(":") if number else values.EMPTY
        result = values.joined(result, colon, _tilde(entry, state, alone=ends) if begins else values.text(entry))
    return result


def _home(name: str, state: State) -> Value:
    session = state.session
    if name == "":
        return state.variable("HOME") or values.union(values.text(session.home), values.unknown("~"))
    if name == "+":
        return state.directories
    if name == "-":
        return state.variable("OLDPWD") or values.unknown("~-")
    if name == session.user:
        return values.text(session.home)
    if name == session.home.rpartition("/")[2]:  # most likely; a name that nobody has stays as it is
        return values.union(values.text(session.home), values.text(f"~{name}"))
    if name == "root":
        return values.text("/root")
    return values.unknown(f"~{name}")


def _single(part: Part, state: State, machine: Substitutions) -> Value:
    """Return the value of a part that is not a list."""
    if isinstance(part, Parameter):
        return parameter(part, state, machine)
    if isinstance(part, Output):
        return machine.printed(part.body, state)
    if isinstance(part, Channel):
        return machine.channel(part, state)
    if isinstance(part, Number):
        for word in part.words:
            fields(word, state, machine)
        machine.fallible = True  # a division by zero, a word that is no number
        return ((values.DIGITS,),)
    if isinstance(part, ExtendedPattern):
        # What it excludes or repeats is not worth knowing: any name at all.
        return ((Pattern("*"),),) if "/" not in part.text else values.unknown(part.text)
    return values.text(part.text)


def _is_list(part: Parameter) -> bool:
    """Return whether a parameter stands for several fields."""
    if part.operator in {"length", "names"} or part.indirect:
        return False
    if part.name == "@" or (part.name == "*" and not part.quoted):
        return True
    index = _index_text(part)
    return index == "@" or (index == "*" and not part.quoted)


def _index_text(part: Parameter) -> str | None:
    if part.index is None:
        return None
    return "".join(item.text for item in part.index.parts if isinstance(item, Literal))


def _list(part: Parameter, state: State, machine: Substitutions) -> list[Value] | None:
    """Return the elements that a parameter stands for; None where they are not known."""
    if part.name in {"@", "*"}:
        items: list[Value] | None = list(state.positionals) if state.positionals is not None else None
    elif part.name in state.arrays:
        elements = state.arrays[part.name]
        items = list(elements.values()) if elements is not None else None
    else:
        scalar = state.variable(part.name)
        items = [scalar] if scalar is not None and part.name in state.variables else None
    if items is None or not part.operator:
        return items
    if part.operator == ":" and part.arguments:
        numbers = [values.known(value(word, state, machine)) for word in part.arguments]
        if any(number is None or not number.strip().isdigit() for number in numbers):
            return None
        start = int(numbers[0] or 0)
        if part.name in {"@", "*"}:
            items = [state.name or values.unknown("$0"), *items]
        return items[start:] if len(numbers) == 1 else items[start : start + int(numbers[1] or 0)]
    arguments = [_pattern(word, state, machine) for word in part.arguments]
    if part.operator in {"-", ":-", "=", ":=", "+", ":+", "?", ":?"}:
        return items if items and part.operator not in {"+", ":+"} else None
    return [changed(item, part.operator, arguments) for item in items]


def parameter(part: Parameter, state: State, machine: Substitutions) -> Value:
    """Return what a parameter stands for, as one value."""
    name = part.name
    if part.operator in {"length", "names"}:
        return ((values.DIGITS,),) if part.operator == "length" else values.unknown(f"${{!{name}}}")
    found = _stored(part, state, machine)
    if part.indirect:
        machine.fallible = True
        target = values.known(found) if found is not None else None
        if target is None or not re.fullmatch(r"[A-Za-z_]\w*|\d+", target):
            return values.unknown(f"${{!{name}}}")
        found = state.variable(target)
    operator = part.operator
    if not operator:
        if found is None:  # only a name that the text itself has unset is empty
            return values.EMPTY if name in state.variables else values.unknown(f"${name}")
        return found
    if operator in {"-", ":-", "=", ":=", "?", ":?", "+", ":+"}:
        return _by_presence(part, found, state, machine)
    base = found if found is not None else values.unknown(f"${name}")
    if operator == ":":
        arguments = [value(word, state, machine) for word in part.arguments]
        for argument in arguments:
            machine.counted(argument)
    else:
        arguments = [_pattern(word, state, machine) for word in part.arguments]
    if operator == "@" and values.text("P") in arguments:
        machine.problem("${…@P}: a text is read as a prompt, and the commands in it run")
    return changed(base, operator, arguments)


def _separator(part: Parameter, state: State) -> Value:
    """Return what stands between elements that become one text: for ``*`` the first character of ``IFS``."""
    if part.name == "@" or _index_text(part) == "@" or "IFS" not in state.variables:
        return values.text(" ")
    known = values.known(state.variables["IFS"] or values.text(" "))
    return values.unknown("IFS") if known is None else values.text(known[:1])


def _pattern(word: Word, state: State, machine: Substitutions) -> Value:
    """Return a pattern of an operator; quoted characters that would be a glob make it unknown."""
    for part in word.parts:
        if getattr(part, "quoted", False):
            text = part.text if isinstance(part, Literal) else values.known(_single(part, state, machine))
            if text is None or re.search(r"[*?\[\\]", text):
                return values.unknown("a pattern")
    return value(word, state, machine) if word.parts else values.EMPTY


def _stored(part: Parameter, state: State, machine: Substitutions) -> Value | None:
    if part.name in {"@", "*"}:
        listed = state.positionals
        if listed is None:
            return values.unknown("$*")
        return values.between(listed, _separator(part, state))
    if part.index is None:
        return state.variable(part.name)
    elements = state.arrays.get(part.name)
    index = _index_text(part)
    if elements is None:
        value(part.index, state, machine)  # for the commands in it
        return values.unknown(f"${{{part.name}[…]}}")
    if index == "*":
        return values.between(elements.values(), _separator(part, state))
    key = values.known(value(part.index, state, machine))
    if key is None or (key not in elements and not key.isdigit()):
        return (
            values.every(elements.values()) if key is not None and elements else values.unknown(f"${{{part.name}[…]}}")
        )
    return elements.get(key, values.EMPTY)


def _by_presence(part: Parameter, found: Value | None, state: State, machine: Substitutions) -> Value:
    """Return what ``-``, ``=``, ``?`` and ``+`` make of a variable that may be set, unset or empty."""
    operator = part.operator
    kind, colon = operator[-1], len(operator) == 2
    present: list[Spelling] = []
    absent = found is None
    for pieces in found or ():
        if pieces == () and colon:
            absent = True
        elif any(isinstance(piece, Hole) for piece in pieces) and values.spelled(pieces) is None:
            present.append(pieces)
            absent = absent or all(isinstance(piece, Hole) for piece in pieces)
        else:
            present.append(pieces)
    other = value(part.arguments[0], state, machine) if part.arguments else values.EMPTY
    if kind == "+":
        return values.union(*([other] if present else []), *([values.EMPTY] if absent else []))
    if kind == "?":
        machine.fallible = True
        return tuple(present) or values.unknown(f"${part.name}")
    result = values.union(tuple(present), *([other] if absent else []))
    if kind == "=" and absent:
        state.assign(part.name, result)
    return result
