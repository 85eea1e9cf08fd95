"""Comments that end in a backslash: for bash they end with their line, mvdan/sh takes the line break into them.

Owns: telling such a comment from the same characters in a quotation or a here-document, and a text in which both
readers see the same. Does not own: running the reader. What a text says before the first comment that the reader
takes too far is read rightly, so they are mended one by one, from the front; whatever is then left that looks like
one and is neither text nor comment leaves the whole text unread.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from perdure.domain.effect import Span
from perdure.guard.late import late
from perdure.guard.tree import UnreadableError

_LIKE_ONE = late(r"(?:^|(?<=[\s;&|()<>`]))#[^\n]*(?<!\\)(?:\\\\)*\\\n", re.MULTILINE)
_MOST = 12
_LITERALS = frozenset({"Lit", "SglQuoted"})


def settled(data: bytes, read: Callable[[bytes], object]) -> object:
    """Return what the reader makes of a text, once every such comment in it ends with its line.

    Args:
        data: the text.
        read: makes the reader's tree of a text.

    Raises:
        UnreadableError: There are too many, or one of them may be something else.
    """
    for _ in range(_MOST):
        tree = read(data)
        alike = [match.start() for match in _LIKE_ONE.finditer(data.decode("latin-1"))]
        if not alike:
            return tree
        comments, literals, backquoted = _noted(tree)
        taken = min((end for start, end in comments if data[start:end].endswith(b"\\\n")), default=None)
        if taken is None:
            if all(_within(start, literals) for start in alike):
                return tree
            break
        if _within(taken - 2, backquoted):  # there a backslash has a meaning before the comment has
            break
        data = data[: taken - 2] + b"." + data[taken - 1 :]
    reason = "it has a line with `#` that ends in a backslash, which readers disagree on"
    raise UnreadableError(reason, Span(0, len(data)))


def _within(offset: int, spans: list[tuple[int, int]]) -> bool:
    return any(start <= offset < end for start, end in spans)


def _noted(tree: object) -> tuple[list[tuple[int, int]], list[tuple[int, int]], list[tuple[int, int]]]:
    """Return where the tree has comments, text that stands for itself, and substitutions in backquotes."""
    comments: list[tuple[int, int]] = []
    literals: list[tuple[int, int]] = []
    backquoted: list[tuple[int, int]] = []
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting += node
        elif isinstance(node, dict):
            span = _offset(node.get("Pos")), _offset(node.get("End"))
            if "Hash" in node:
                comments.append(span)
            elif node.get("Type") in _LITERALS:
                literals.append(span)
            if node.get("Backquotes"):
                backquoted.append(span)
            waiting += node.values()
    return comments, literals, backquoted


def _offset(position: object) -> int:
    offset = position.get("Offset") if isinstance(position, dict) else None
    return offset if isinstance(offset, int) else 0
