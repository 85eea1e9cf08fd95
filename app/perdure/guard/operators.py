"""What the operators of a parameter expansion make of a value.

Owns: prefix and suffix removal, replacement, slices, case, on texts that are known. Does not own: default values, which
depend on whether a name is set (expand). A value that is not known stays unknown.
"""

from __future__ import annotations

import re
from functools import lru_cache

from perdure.domain.effect import Pattern, Spelling, Text
from perdure.guard import values
from perdure.guard.late import late
from perdure.guard.values import Value

_MOST_TRIES = 2_000_000
"""What has more ways to match than this is not tried: nobody writes that, and it would take minutes."""
_INTEGER = late(r"\s*(-?\d+)\s*")


def changed(value: Value, operator: str, arguments: list[Value]) -> Value:
    """Return the value after an operator such as ``#``, ``%%``, ``//``, ``:`` or ``^^``."""
    known = [values.known(argument) for argument in arguments]
    result: list[Spelling] = []
    for pieces in value:
        text = values.spelled(pieces)
        if operator in {"#", "##", "%", "%%"} and text is None and known and known[0] is not None:
            result.append(_trimmed(pieces, operator, known[0]))
            continue
        if text is None or any(item is None for item in known):
            return values.unknown("${…}")
        after = _apply(text, operator, [item for item in known if item is not None])
        if after is None:
            return values.unknown("${…}")
        result.append((Text(after),) if after else ())
    return values.union(tuple(result))


def _apply(text: str, operator: str, arguments: list[str]) -> str | None:
    """Return a known text after an operator; None where that is not modelled."""
    if operator in {"#", "##", "%", "%%"}:
        return _without(text, operator, arguments[0])
    if operator in {"/", "//"}:
        return _replaced(text, arguments[0], arguments[1], every=operator == "//")
    if operator == ":":
        return _slice(text, arguments)
    if operator in {"^^", ",,"} and not "".join(arguments):
        return text.upper() if operator == "^^" else text.lower()
    if operator in {"^", ","} and not "".join(arguments):
        return (text[:1].upper() if operator == "^" else text[:1].lower()) + text[1:]
    if operator == "@" and arguments in (["U"], ["L"]):
        return text.upper() if arguments == ["U"] else text.lower()
    return None


def _trimmed(pieces: Spelling, operator: str, pattern: str) -> Spelling:
    """Return an open spelling after a removal that only touches its known end, or a hole."""
    edge = pieces[-1] if operator.startswith("%") else pieces[0]
    if pattern in {"/", "/*", "*/"} and isinstance(edge, Text):
        shorter = _without(edge.text, operator, pattern)
        if operator in {"#", "%"} and shorter is not None and shorter != edge.text:
            return values.merged((*pieces[:-1], Text(shorter)) if operator == "%" else (Text(shorter), *pieces[1:]))
    return values.unknown("${…}")[0]


def _without(text: str, operator: str, pattern: str) -> str | None:
    matcher = compiled(pattern)
    if matcher is None or _takes_long(text, pattern):
        return None
    prefix = operator.startswith("#")
    lengths = range(len(text) + 1)
    for length in reversed(lengths) if len(operator) == 2 else lengths:
        part = text[:length] if prefix else text[len(text) - length :]
        if matcher.fullmatch(part):
            return text[length:] if prefix else text[: len(text) - length]
    return text


def _replaced(text: str, pattern: str, other: str, *, every: bool) -> str | None:
    if "&" in other or "\\" in other:
        return None
    anchor = pattern[:1] if pattern[:1] in {"#", "%"} and not every else ""
    matcher = compiled(pattern[len(anchor) :])
    if matcher is None or _takes_long(text, pattern):
        return None
    if not pattern[len(anchor) :]:
        return {"#": other + text, "%": text + other}.get(anchor, text)
    expression = matcher.pattern
    if anchor:
        expression = rf"\A(?:{expression})" if anchor == "#" else rf"(?:{expression})\Z"
    return re.sub(expression, lambda _: other, text, count=0 if every else 1, flags=re.DOTALL)


def _takes_long(text: str, pattern: str) -> bool:
    """Return whether matching goes through too many ways: each star multiplies them by the text's length."""
    ways = 1
    for _ in range(pattern.count("*") + 1):
        ways *= len(text)
        if ways > _MOST_TRIES:
            return True
    return False


def _slice(text: str, arguments: list[str]) -> str | None:
    numbers = [int(match[1]) for item in arguments if (match := _INTEGER.fullmatch(item))]
    if len(numbers) != len(arguments) or not numbers:
        return None
    start = numbers[0] if numbers[0] >= 0 else max(len(text) + numbers[0], 0)
    if len(numbers) == 1:
        return text[start:]
    return text[start : start + numbers[1]] if numbers[1] >= 0 else text[start : len(text) + numbers[1]]


@lru_cache(maxsize=256)
def compiled(pattern: str) -> re.Pattern[str] | None:
    """Return a glob as a regular expression in which ``*`` crosses slashes; None where it is not modelled."""
    if "\\" in pattern or "(" in pattern or "[:" in pattern:
        return None
    expression = ""
    for piece in values.globbed(pattern):
        if isinstance(piece, Text):
            expression += re.escape(piece.text)
        elif isinstance(piece, Pattern):
            if piece.text.startswith("["):
                inner = piece.text[1:-1]
                negated = inner[:1] in {"!", "^"}
                expression += f"[{'^' if negated else ''}{re.escape(inner[negated:]).replace(chr(92) + '-', '-')}]"
            else:
                expression += ".*" if piece.text.startswith("*") else "."
    try:
        return re.compile(expression, re.DOTALL)
    except re.error:
        return None
