"""Names that a search finds: what stands for them until something is done to them.

Owns: the hole that stands for "a member of this directory with such a name" and its way back to a directory and
names, so that ``find DIR -name X | xargs rm`` says the same as ``find DIR -name X -delete``. Does not own: the search
(file_programs).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from perdure.domain.effect import Hole, Pattern, Spelling, Text
from perdure.guard import values
from perdure.guard.values import Value

_BLANK = re.compile(r"[ \t\n\0]+")
_LINE_END = re.compile(r"[\n\0]+")


@dataclass(frozen=True, slots=True)
class Found(Hole):
    """A hole that some member of a directory fills, or the directory itself."""

    root: Spelling = ()
    below: bool = False
    """Whether the directory itself is not among them."""
    names: tuple[Value, ...] = ()
    """Where not empty: the names that they may have."""
    conditional: bool = False
    """Whether they have more in common than the search's words say."""


def items(text: Value, *, whole: bool) -> list[Value]:
    """Return the arguments that a text makes for a program that reads them, by lines (`whole`) or by blanks."""
    result: list[Value] = []
    pattern = _LINE_END if whole else _BLANK
    for pieces in text:
        current: list[Text | Pattern | Hole] = []
        for piece in pieces:
            if isinstance(piece, Text):
                head, *rest = pattern.split(piece.text)
                current.append(Text(head))
                for part in rest:
                    _finish(current, result)
                    current = [Text(part)]
            else:
                current.append(piece)
        _finish(current, result)
    return list(dict.fromkeys(result))


def _finish(current: list[Text | Pattern | Hole], result: list[Value]) -> None:
    pieces = values.merged(tuple(current))
    if pieces:
        result.append((pieces,))
