"""Brace expansion: one word of the tree becomes several.

Owns: lists and sequences in braces. Does not own: what becomes of the words (expand). What would become too many words
is one that is not known.
"""

from __future__ import annotations

from itertools import pairwise

from perdure.guard.late import late
from perdure.guard.tree import Literal, Parameter, Part, Word

_MOST_BRACES = 256
_SEQUENCE = late(r"(-?\d+)\.\.(-?\d+)(?:\.\.(-?\d+))?|([A-Za-z])\.\.([A-Za-z])(?:\.\.(-?\d+))?")


def expanded(parts: tuple[Part, ...]) -> list[tuple[Part, ...]]:
    """Return the words that brace expansion makes of one, in order; the word itself where there is none."""
    if not _any_braces(parts):
        return [parts]
    # Characters that count are those of unquoted literals; everything else is one opaque symbol.
    symbols: list[str | Part] = []
    for part in parts:
        if isinstance(part, Literal) and not part.quoted:
            symbols += part.text
        else:
            symbols.append(part)
    expanded = _expand_braces(symbols, [0])
    return [_parts(symbols) for symbols in expanded] if expanded is not None else [(Parameter("{…}", quoted=True),)]


def in_word(word: Word) -> bool:
    """Return whether a word may be subject to brace expansion."""
    return _any_braces(word.parts)


def _any_braces(parts: tuple[Part, ...]) -> bool:
    return any(isinstance(part, Literal) and not part.quoted and "{" in part.text for part in parts)


def _expand_braces(symbols: list[str | Part], count: list[int]) -> list[list[str | Part]] | None:
    """Return the alternatives of a word in symbols; None where there are too many."""
    for start, symbol in enumerate(symbols):
        if symbol != "{":
            continue
        found = _closing(symbols, start)
        if found is None:
            continue
        end, commas = found
        inside = symbols[start + 1 : end]
        choices = _choices(inside, [comma - start - 1 for comma in commas])
        if choices is None:
            continue
        rest = _expand_braces(symbols[end + 1 :], count)
        if rest is None:
            return None
        result = []
        for choice in choices:
            inner = _expand_braces(choice, count) if len(commas) else [choice]
            if inner is None:
                return None
            for middle in inner:
                count[0] += len(rest)
                if count[0] > _MOST_BRACES:
                    return None
                result += [[*symbols[:start], *middle, *tail] for tail in rest]
        return result
    return [symbols]


def _closing(symbols: list[str | Part], start: int) -> tuple[int, list[int]] | None:
    """Return where a brace closes, and the commas between that belong to it."""
    depth = 0
    commas: list[int] = []
    for at in range(start, len(symbols)):
        symbol = symbols[at]
        if symbol == "{":
            depth += 1
        elif symbol == "}":
            depth -= 1
            if depth == 0:
                return at, commas
        elif symbol == "," and depth == 1:
            commas.append(at)
    return None


def _choices(inside: list[str | Part], commas: list[int]) -> list[list[str | Part]] | None:
    if commas:
        edges = [-1, *commas, len(inside)]
        return [inside[left + 1 : right] for left, right in pairwise(edges)]
    plain = "".join(symbol for symbol in inside if isinstance(symbol, str))
    match = _SEQUENCE.fullmatch(plain) if len(plain) == len(inside) else None
    if match is None:
        return None
    if match[1]:
        first, last, width = int(match[1]), int(match[2]), max(len(match[1]), len(match[2]))
        padded = any(text.lstrip("-").startswith("0") and len(text.lstrip("-")) > 1 for text in (match[1], match[2]))
    else:
        first, last, width, padded = ord(match[4]), ord(match[5]), 0, False
    step = abs(int(match[3] or match[6] or 1)) or 1
    if abs(last - first) // step >= _MOST_BRACES:
        return [[Parameter("{…}", quoted=True)]]
    numbers = range(first, last + 1, step) if first <= last else range(first, last - 1, -step)
    if match[1]:
        return [list(str(number).zfill(width) if padded else str(number)) for number in numbers]
    return [[chr(number)] for number in numbers]


def _parts(symbols: list[str | Part]) -> tuple[Part, ...]:
    parts: list[Part] = []
    for symbol in symbols:
        if isinstance(symbol, str):
            last = parts[-1] if parts else None
            if isinstance(last, Literal) and not last.quoted:
                parts[-1] = Literal(last.text + symbol, quoted=False)
            else:
                parts.append(Literal(symbol, quoted=False))
        else:
            parts.append(symbol)
    return tuple(parts)
