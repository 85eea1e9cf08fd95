"""Values: all that a text may come out as.

Owns: joining, splitting and naming of values. Does not own: how the shell comes to them (expand). A value has at
least one spelling and at most `MOST_SPELLINGS`; whatever would have more is a hole, and nothing turns a hole into
something known.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import TypeAlias

from perdure.domain.effect import MOST_SPELLINGS, Hole, Pattern, Piece, Spelling, Text, Word
from perdure.domain.record import dataclass
from perdure.guard.late import late

Value: TypeAlias = tuple[Spelling, ...]

EMPTY: Value = ((),)


@dataclass(frozen=True, slots=True)
class Name(Pattern):
    """One name that fits the pattern, where a glob of the shell may become several."""


@dataclass(frozen=True, slots=True)
class Names(Hole):
    """Several names, with blanks or newlines between."""


@dataclass(frozen=True, slots=True)
class Loose(Hole):
    """Characters without quotes around them, which a shell makes any number of words of."""


DIGITS = Name("[0-9]*")
"""Stands for a number: it has no slash and no dot in front."""
FRESH = Name("[0-9A-Za-z]*")
"""Stands for the letters and digits with which `mktemp` makes a name that nobody has."""
NAME: Value = ((Name("*"),),)
"""Some name without a slash."""
_GLOB = late(r"\*+|\?|\[[!^]?\]?(?:\[[:.=][^\]/]*[:.=]\]|[^\]/])*\]")
_MOST_PIECES = 400
_MOST_CHARACTERS = 20_000


def text(known: str) -> Value:
    """Return the value with one spelling, which is known."""
    return ((Text(known),),) if known else EMPTY


def unknown(name: str = "") -> Value:
    """Return a value of which nothing is known."""
    return ((Hole(name),),)


def known(value: Value) -> str | None:
    """Return the text of a value with one spelling that is known, else None."""
    return spelled(value[0]) if len(value) == 1 else None


def spelled(pieces: Spelling) -> str | None:
    """Return the text of a spelling without anything open, else None."""
    if len(pieces) == 1 and isinstance(first := pieces[0], Text):
        return first.text
    if all(isinstance(piece, Text) for piece in pieces):
        return "".join(piece.text for piece in pieces if isinstance(piece, Text))
    return None


def texts(value: Value) -> list[str] | None:
    """Return every text of a value that is a finite set of them, else None."""
    found = [spelled(pieces) for pieces in value]
    return [item for item in found if item is not None] if None not in found else None


def union(*values: Value) -> Value:
    """Return the value that may be any of these."""
    if len(values) == 1 and len(values[0]) == 1:
        return values[0]
    spellings = tuple(dict.fromkeys(pieces for value in values for pieces in value))
    return spellings if len(spellings) <= MOST_SPELLINGS else unknown()


def joined(*values: Value) -> Value:
    """Return the values behind one another."""
    result: Value = EMPTY
    for value in values:
        if len(result) == len(value) == 1:  # as most are
            result = (merged(result[0] + value[0]),)
            continue
        if len(result) * len(value) > MOST_SPELLINGS:
            return unknown()
        result = tuple(dict.fromkeys(merged(left + right) for left in result for right in value))
    return result


def merged(pieces: Spelling) -> Spelling:
    """Return the pieces with neighbouring texts in one, and no empty one; of too many nothing is known."""
    result: list[Piece] = []
    for piece in pieces:
        last = result[-1] if result else None
        if isinstance(piece, Text):
            if not piece.text:
                continue
            if isinstance(last, Text):
                if len(last.text) + len(piece.text) > _MOST_CHARACTERS:
                    return (Hole(),)
                result[-1] = Text(last.text + piece.text)
                continue
        elif isinstance(piece, Hole) and isinstance(last, Hole):
            result[-1] = last if isinstance(last, Names | Loose) and type(piece) is Hole else piece
            continue
        result.append(piece)
    return tuple(result) if len(result) <= _MOST_PIECES else (Hole(),)


def shown(value: Value) -> str:
    """Return the value for people."""
    return " or ".join(
        "".join(f"<{piece.name or '?'}>" if isinstance(piece, Hole) else piece.text for piece in pieces)
        for pieces in value
    )


@lru_cache(maxsize=1024)
def globbed(unquoted: str) -> Spelling:
    """Return unquoted text with its glob characters as patterns."""
    pieces: list[Piece] = []
    at = 0
    for match in _GLOB.finditer(unquoted):
        # A set with a class in it is any one character.
        pieces += [Text(unquoted[at : match.start()]), Pattern("?" if "[:" in match[0] else match[0])]
        at = match.end()
    pieces.append(Text(unquoted[at:]))
    return merged(tuple(pieces))


def single(value: Value) -> Value:
    """Return a value that may be several names as one of them."""
    return tuple(tuple(Name(piece.text) if type(piece) is Pattern else piece for piece in pieces) for pieces in value)


def several(value: Value) -> bool:
    """Return whether a value may be several words: a glob, or something that was not quoted and is not known."""
    return any(type(piece) is Pattern or isinstance(piece, Hole) for pieces in value for piece in pieces)


def placed(arguments: list[Value]) -> tuple[Value, ...]:
    """Return arguments by their place: behind one that may be several, every place may hold any of the rest."""
    for number, argument in enumerate(arguments):
        if several(argument):
            rest = [single(item) for item in arguments[number:]]
            return (*arguments[:number], *([union(*rest, EMPTY)] * len(rest)))
    return tuple(arguments)


def between(words: Iterable[Value], separator: Value) -> Value:
    """Return words as one text; one that may be no word or several leaves nothing known."""
    result: list[Value] = []
    for word in words:
        if any(isinstance(piece, Hole) for pieces in word for piece in pieces):
            return unknown("$*")
        result += [separator, word] if result else [word]
    return joined(*result)


def as_word(value: Value) -> Word:
    """Return the value as an argument."""
    return Word(value)


def lines(value: Value) -> list[Value] | None:
    """Return the lines of a text that is known up to its holes, each as a value; None where a hole may hide one."""
    if len(value) != 1:
        found = texts(value)
        if found is None:
            return None
        split = [item.split("\n") for item in found]
        return [text(line) for part in split for line in part if line]
    result: list[list[Piece]] = [[]]
    for piece in value[0]:
        if isinstance(piece, Text):
            head, *rest = piece.text.split("\n")
            result[-1].append(Text(head))
            result += [[Text(line)] for line in rest]
        elif type(piece) in {Hole, Loose, Names}:
            return None
        else:  # a name that a glob or a search finds is on one line
            result[-1].append(piece)
    return [(merged(tuple(line)),) for line in result if merged(tuple(line))]


def absolute(path: Value, directories: Value) -> Value:
    """Return a path as seen from a directory, with ``.`` and ``..`` resolved by text where that is possible."""
    result = []
    for pieces in path:
        first = pieces[0] if pieces else Text("")
        if (isinstance(first, Text) and first.text.startswith("/")) or isinstance(first, Hole):
            result.append(normal(pieces))
        else:
            result += [normal(merged((*start, Text("/"), *pieces))) for start in directories]
    return union(tuple(result))


def normal(pieces: Spelling) -> Spelling:
    """Return a path without ``.``, ``..`` and doubled slashes, as ``cd`` keeps it; open pieces stay as they are."""
    whole = spelled(pieces)
    if whole is None:
        return pieces
    parts: list[str] = []
    for part in whole.split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in {"", "."}:
            parts.append(part)
    return (Text("/" + "/".join(parts)),)


def base(path: Spelling) -> Spelling:
    """Return the last component of a path."""
    result: list[Piece] = []
    trimmed = list(path)
    while trimmed and isinstance(last := trimmed[-1], Text) and last.text.endswith("/"):
        stripped = last.text.rstrip("/")
        trimmed[-1:] = [Text(stripped)] if stripped else []
    for piece in reversed(trimmed):
        if isinstance(piece, Text) and "/" in piece.text:
            result.insert(0, Text(piece.text.rpartition("/")[2]))
            return merged(tuple(result))
        result.insert(0, piece)
        if isinstance(piece, Hole):
            break
    return merged(tuple(result))


def starts_with(value: Value, prefix: str) -> bool:
    """Return whether some spelling may start with the characters."""
    return any(
        not pieces
        or isinstance(first := pieces[0], Hole)
        or (isinstance(first, Text) and first.text.startswith(prefix))
        for pieces in value
    )


def every(values: Iterable[Value]) -> Value:
    """Return the value that may be any of these, the empty one where there is none."""
    collected = list(values)
    return union(*collected) if collected else EMPTY
