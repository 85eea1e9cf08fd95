"""Import statements as text: their parts, their comments, and writing them anew.

Owns: splitting one `from` import into several with nothing lost, and where a statement stands on its lines. Does not
own: what goes where (migrate).

Keeps: compat-migrate-keeps-text.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Sequence
from dataclasses import dataclass, field

from perdure_compat.source import Source

_PRAGMA = re.compile(r"#\s*(noqa|type:|pylint:|isort:|pragma:|fmt:|pyright:|mypy:|ruff:|nosec)", re.IGNORECASE)


@dataclass(slots=True)
class Part:
    """One name of a `from` import with the comments that belong to it."""

    text: str
    above: list[str] = field(default_factory=list)
    beside: str = ""


@dataclass(slots=True)
class Place:
    """Where a statement stands."""

    start: int
    end: int
    alone: bool
    """Whether its lines hold nothing else but a comment."""
    indent: str
    comment: str
    """What stands beside its last line."""


def place_of(source: Source, statement: ast.stmt) -> Place:
    """Return where a statement stands."""
    start, end = source.start(statement), source.end(statement)
    before = source.text[source.line_start(start) : start]
    after = source.text[end : source.line_end(end)]
    comment = after.strip() if after.strip().startswith("#") else ""
    alone = not before.strip() and (not after.strip() or bool(comment))
    return Place(start, end, alone, before if not before.strip() else "", comment)


def module_span(source: Source, statement: ast.ImportFrom) -> tuple[int, int]:
    """Return from where to where the module is written in a `from` import, dots included."""
    start = source.start(statement)
    tokens = _tokens(source.text[start : source.end(statement)])
    at = next(index for index, (kind, text, _, _) in enumerate(tokens) if kind == tokenize.NAME and text == "import")
    return start + tokens[1][2], start + tokens[at - 1][3]


def parts_of(source: Source, statement: ast.ImportFrom) -> list[Part]:
    """Return the names of a `from` import, each with its comments; texts are as written."""
    parts = [Part(source.text[source.start(alias) : source.end(alias)]) for alias in statement.names]
    ends = [source.end(alias) for alias in statement.names]
    begin = source.start(statement)
    for kind, text, at, _ in _tokens(source.text[begin : source.end(statement)]):
        if kind != tokenize.COMMENT:
            continue
        offset = begin + at
        index = sum(end <= offset for end in ends)
        if index and source.line_of(ends[index - 1]) == source.line_of(offset):
            parts[index - 1].beside = text
        elif index < len(parts):
            parts[index].above.append(text)
        else:
            parts[-1].beside = f"{parts[-1].beside}  {text}".strip()
    return parts


def write_from(
    module: str, parts: Sequence[Part], *, several_lines: bool, indent: str, newline: str, comment: str
) -> str:
    """Return a `from` import of these names, on several lines where it was so or where a name has comments."""
    beside = f"  {comment}" if comment else ""
    if not several_lines or (len(parts) == 1 and not parts[0].above and not parts[0].beside):
        return f"from {module} import {', '.join(part.text for part in parts)}{beside}"
    step = "\t" if indent.startswith("\t") else "    "
    lines = [f"from {module} import ("]
    for part in parts:
        lines += [f"{indent}{step}{above}" for above in part.above]
        lines.append(f"{indent}{step}{part.text},{f'  {part.beside}' if part.beside else ''}")
    return newline.join([*lines, f"{indent}){beside}"])


def comment_for(comment: str, *, first: bool) -> str:
    """Return which comment a statement gets that was split off: one for tools holds for all, one for people once."""
    return comment if first or _PRAGMA.match(comment) else ""


def _tokens(text: str) -> list[tuple[int, str, int, int]]:
    """Return kind, text, start and end of each token of one statement, which may stand anywhere in its file."""
    starts = [0]
    for line in re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z", text):
        starts.append(starts[-1] + len(line))
    lines = io.StringIO(text.replace("\r\n", "\n").replace("\r", "\n")).readline
    return [
        (token.type, token.string, starts[token.start[0] - 1] + token.start[1], starts[token.end[0] - 1] + token.end[1])
        for token in tokenize.generate_tokens(lines)
        if token.type in {tokenize.NAME, tokenize.OP, tokenize.COMMENT}
    ]
