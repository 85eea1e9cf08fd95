"""Quotes and escapes: the text that is left when they have been read.

Owns: escapes inside and outside quotes, and ``$'…'``. Does not own: where a quotation begins and ends (the readers).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from perdure.guard.late import late
from perdure.guard.tree import Literal, Part

_ESCAPE = late(r"\\(.)", re.DOTALL)
_ANSI = late(r"\\(?:([abeEfnrtv\\'\"?])|x([0-9a-fA-F]{1,2})|([0-7]{1,3})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|c(.))")
_ANSI_LETTERS = dict(zip("abeEfnrtv\\'\"?", "\a\b\x1b\x1b\f\n\r\t\v\\'\"?", strict=True))


def joined(parts: list[Part]) -> list[Part]:
    """Return the parts with neighbours that are quoted alike in one piece, as the fast reader makes them."""
    joined: list[Part] = []
    for part in parts:
        last = joined[-1] if joined else None
        if isinstance(part, Literal) and isinstance(last, Literal) and part.quoted == last.quoted:
            joined[-1] = Literal(last.text + part.text, part.quoted)
        else:
            joined.append(part)
    return joined


def unescape(raw: str, escapable: str) -> str:
    """Return quoted text without the escapes that count inside quotes, and without continued lines."""

    def replace(match: re.Match[str]) -> str:
        if match[1] == "\n":
            return ""
        return match[1] if match[1] in escapable else match[0]

    return _ESCAPE.sub(replace, raw) if "\\" in raw else raw


def unquoted(raw: str) -> Iterable[Literal]:
    """Yield unquoted text, an escaped character being quoted."""
    at = 0
    for match in _ESCAPE.finditer(raw):
        if match.start() > at:
            yield Literal(raw[at : match.start()], quoted=False)
        if match[1] != "\n":
            yield Literal(match[1], quoted=True)
        at = match.end()
    if at < len(raw):
        yield Literal(raw[at:], quoted=False)


def ansi(raw: str) -> str:
    """Return the text of ``$'…'``."""

    def replace(match: re.Match[str]) -> str:
        letter, hexadecimal, octal, short, long, control = match.groups()
        if letter:
            return _ANSI_LETTERS[letter]
        if control:
            return chr(ord(control.upper()) & 0x1F)
        if octal:
            return chr(int(octal, 8) & 0xFF)
        number = int(hexadecimal or short or long, 16)
        return chr(number) if number <= 0x10FFFF else "\ufffd"

    return _ANSI.sub(replace, raw).partition("\x00")[0]
