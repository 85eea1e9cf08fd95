"""Words as Windows passes them on: paths from where a shell is, and command lines made of words.

Owns: both directions. Does not own: the spellings of a path (windows_paths), or what a program does with its words.
"""

from __future__ import annotations

import re

from perdure.domain.effect import Text
from perdure.guard import values, windows_paths
from perdure.guard.state import State
from perdure.guard.values import Value


def place(state: State, path: Value, *, globs: bool) -> Value:
    """Return a path as it is seen from where the shell is."""
    for pieces in path:
        first = pieces[0] if pieces else None
        if isinstance(first, Text) and first.text[1:2] == ":" and f"drive:{first.text[0].lower()}" in state.variables:
            mapped = windows_paths.spelled(state.variables[f"drive:{first.text[0].lower()}"] or values.EMPTY)
            path = values.joined(mapped, values.text("\\"), (values.merged((Text(first.text[2:]), *pieces[1:])),))
            break
    return windows_paths.place(
        path, state.directories, state.session.environment, drives=state.session.probe.drives, globs=globs
    )


def joined(words: list[Value]) -> Value:
    """Return words as one command line of Windows."""
    parts: list[Value] = []
    for word in words:
        quoted = re.search(r'[\s"&|<>^()]', values.known(word) or "") is not None and '"' not in (
            values.known(word) or ""
        )
        quote = values.text('"' if quoted else "")
        parts += [values.text(" "), quote, word, quote]
    return values.joined(*parts[1:]) if parts else values.EMPTY


def place_name(word: Value) -> Value:
    """Return a word as the pattern of a name."""
    return tuple(
        tuple(
            part for piece in pieces for part in (values.globbed(piece.text) if isinstance(piece, Text) else (piece,))
        )
        for pieces in word
    )


def split_words(line: Value) -> list[Value]:
    """Return the words of a command line of Windows."""
    known = values.known(line)
    if known is None:
        return [line]
    return [values.text(word.replace('"', "")) for word in re.findall(r'(?:"[^"]*"?|[^\s"])+', known)]
