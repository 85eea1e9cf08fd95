"""Names that a search finds: what stands for them until something is done to them.

Owns: the hole that stands for "a member of this directory with such a name" and its way back to a directory and
names, so that ``find DIR -name X | xargs rm`` says the same as ``find DIR -name X -delete``. Does not own: the search
(file_programs).
"""

from __future__ import annotations

from perdure.domain.effect import Hole, Piece, Spelling, Text
from perdure.domain.record import dataclass
from perdure.guard import values
from perdure.guard.values import Value


@dataclass(frozen=True, slots=True)
class Found(Hole):
    """A hole that some member of a directory fills, or the directory itself."""

    root: Spelling = ()
    below: bool = False
    """Whether the directory itself is not among them."""
    names: tuple[Value, ...] = ()
    """Where not empty: the names that they may have."""
    pruned: tuple[Value, ...] = ()
    """Names that the search does not go into."""
    spared: tuple[Value, ...] = ()
    """Names of directories whose members are not among them, though they themselves may be."""
    conditional: bool = False
    """Whether they have more in common than the search's words say."""


def items(text: Value, *, whole: bool, plain: bool = False) -> list[Value]:
    """Return the arguments that a text makes for a program that reads them.

    Args:
        text: what is read.
        whole: whether lines are the arguments, or what stands between blanks.
        plain: whether quotes and backslashes are characters like others; else they are read as `xargs` does.
    """
    result: list[Value] = []
    for pieces in text:
        current: list[Piece] = []
        quote = ""
        begun = False
        for piece in pieces:
            if not isinstance(piece, Text):
                current.append(piece)
                begun = True
                continue
            characters = iter(piece.text)
            for character in characters:
                if not quote and character in ("\n\0" if whole else " \t\n\0"):
                    _finish(current, result, begun=begun)
                    current, begun = [], False
                elif plain or character not in "'\"\\":
                    current.append(Text(character))
                    begun = True
                elif character == "\\" and not quote:
                    current.append(Text(next(characters, "")))
                    begun = True
                elif quote in {"", character}:
                    quote = "" if quote else character
                    begun = True
                else:
                    current.append(Text(character))
        _finish(current, result, begun=begun)
    return list(dict.fromkeys(result))


def _finish(current: list[Piece], result: list[Value], *, begun: bool) -> None:
    if begun:
        result.append((values.merged(tuple(current)),))
