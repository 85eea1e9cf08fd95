"""Texts in, texts out: exact replacements, and the diff that a person is shown.

Owns: when an edit fits, and how a difference is shown within bounds. Does not own: files (files). It is pure. Keeps:
files-edits-exact.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from perdure.domain.workspace import Edit

LONGEST_DIFF = 64 * 1024
_MOST_LINES = 20_000
"""Comparing takes longer than linear time: beyond this there is no diff, and that is said."""


class EditUnfit(ValueError):
    """An edit does not fit the text; the text says which one and why."""


def apply_edits(text: str, edits: Sequence[Edit]) -> str:
    """Return the text with each edit made in what the ones before it left.

    Line ends of an edit follow those of the text, where these are all of one kind.

    Raises:
        EditUnfit: what is to be replaced is not there, or more than once.
    """
    crlf = "\r\n" in text and "\n" not in text.replace("\r\n", "")
    for number, edit in enumerate(edits, start=1):
        old, new = (_with_crlf(part) if crlf else part for part in (edit.old, edit.new))
        if not old:
            raise EditUnfit(f"edit {number}: there is no empty text to replace")
        at = text.find(old)
        if at < 0:
            raise EditUnfit(f"edit {number}: what it replaces is not in the file{_nearest(text, old)}")
        # Also where the second one begins within the first, as `aa` in `aaa`.
        if not edit.every and text.find(old, at + 1) >= 0:
            raise EditUnfit(f"edit {number}: what it replaces is there more than once; give more around it, or `every`")
        text = text.replace(old, new)
    return text


def show_diff(old: str, new: str, path: str) -> str | None:
    """Return the unified diff, or None where it is too long to be read or to be made."""
    before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    if len(before) + len(after) > _MOST_LINES:
        return None
    lines: list[str] = []
    length = 0
    for line in difflib.unified_diff(before, after, f"a{path}", f"b{path}"):
        shown = line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
        length += len(shown)
        if length > LONGEST_DIFF:
            return None
        lines.append(shown)
    return "".join(lines)


def _with_crlf(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")


def _nearest(text: str, old: str) -> str:
    """Return where the first line of what was looked for does stand, for a message."""
    first = old.splitlines()[0].strip()
    at = next((number for number, line in enumerate(text.splitlines(), start=1) if first and first in line), None)
    return "" if at is None else f"; its first line is like line {at}"
