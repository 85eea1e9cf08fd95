"""What printing commands print.

Owns: `echo` and `printf` over values that may be open. Does not own: where it goes.
"""

from __future__ import annotations

import re

from perdure.domain.effect import Pattern, Spelling, Text
from perdure.guard import values
from perdure.guard.late import late
from perdure.guard.values import Value

_ESCAPE = late(
    r"\\(?:([abeEfnrtv\\\"'])|0?([0-7]{1,3})|x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|(c))"
)
_LETTERS = {"a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_FORMAT = late(r"%(?:%|[-+ #0]*(?:\*|\d+)?(?:\.(?:\*|\d+)?)?(?:\([^)]*\))?[A-Za-z])")
_MOST_ROUNDS = 64


def unescaped(text: str) -> str:
    """Return a text with the escapes of ``echo -e`` and ``printf`` replaced."""

    def replace(match: re.Match[str]) -> str:
        letter, octal, hexadecimal, short, long, _ = match.groups()
        if letter:
            return _LETTERS.get(letter, letter)
        if octal:
            return chr(int(octal, 8) & 0xFF)
        number = int(hexadecimal or short or long or "0", 16)
        return chr(number) if number <= 0x10FFFF else ""

    stop = re.search(r"(?<!\\)(?:\\\\)*\\c", text)
    return _ESCAPE.sub(replace, text[: stop.end() - 2] if stop else text)


def echoed(arguments: list[Value], *, both: bool) -> Value:
    """Return what `echo` prints; `both`: in a shell whose `echo` may or may not read escapes."""
    newline, escapes = True, False
    while arguments and (option := values.known(arguments[0])) is not None and re.fullmatch(r"-[neE]+", option):
        newline = newline and "n" not in option
        escapes = escapes or "e" in option
        arguments = arguments[1:]
    arguments = [_printable(word) for word in arguments]
    plain = values.joined(*[item for word in arguments for item in (values.text(" "), word)][1:])
    if escapes or both:
        read = tuple(_unescaped(pieces) for pieces in plain)
        plain = read if escapes else values.union(plain, read)
    return values.joined(plain, values.text("\n")) if newline else plain


def _printable(word: Value) -> Value:
    """Return a word as text: a glob may be several names with blanks between."""
    return tuple((values.Names("*"),) if any(type(piece) is Pattern for piece in pieces) else pieces for pieces in word)


def _unescaped(pieces: Spelling) -> Spelling:
    return values.merged(tuple(Text(unescaped(piece.text)) if isinstance(piece, Text) else piece for piece in pieces))


def formatted(form: Value, arguments: list[Value]) -> Value:
    """Return what `printf` prints."""
    pattern = values.known(form)
    if pattern is None:
        return values.unknown("printf")
    parts: list[str | None] = []  # texts, and None in front of each directive
    at = 0
    for match in _FORMAT.finditer(pattern):
        parts += [unescaped(pattern[at : match.start()]), None, match[0]]
        at = match.end()
    parts.append(unescaped(pattern[at:]))
    arguments = [_printable(word) for word in arguments]
    takes = any(part is None and parts[number + 1] != "%%" for number, part in enumerate(parts))
    result = values.EMPTY
    rest = list(arguments)
    for round_number in range(_MOST_ROUNDS):
        position = 0
        while position < len(parts):
            part = parts[position]
            if part is None:
                result = values.joined(result, _directive(parts[position + 1] or "", rest))
                position += 2
            else:
                result = values.joined(result, values.text(part))
                position += 1
        if not rest or not takes:
            return result
        if round_number == _MOST_ROUNDS - 1:
            break
    return values.unknown("printf")


def _directive(directive: str, rest: list[Value]) -> Value:
    """Return what one directive becomes, with the next of the arguments."""
    if directive == "%%":
        return values.text("%")
    if "*" in directive:
        rest[:] = rest[1:]
    argument = rest.pop(0) if rest else values.EMPTY
    kind, plain = directive[-1], len(directive) == 2
    if kind == "s" and plain:
        return argument
    if kind == "b" and plain:
        return tuple(_unescaped(pieces) for pieces in argument)
    known = values.known(argument)
    if re.search(r"\d{4}", directive):  # nobody wants so many blanks
        known = None
    if known is None:
        return ((values.DIGITS,),) if kind in "diuxXo" else values.unknown("printf")
    if kind == "s" and "*" not in directive:
        return values.text(directive % known if "(" not in directive else known)
    if kind == "d" and re.fullmatch(r"-?\d+", known) and "*" not in directive:
        return values.text(directive % int(known))
    if kind == "c":
        return values.text(known[:1])
    return ((values.DIGITS,),) if kind in "diuxXoeEfgG" else values.unknown("printf")
