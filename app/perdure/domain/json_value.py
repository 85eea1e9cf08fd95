"""What a JSON document holds, as a type.

Owns: the alias, and checks that a value of unknown origin is what its type says: plugins are not type-checked. Does
not own: parsing or writing JSON.
"""

import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias

JsonValue: TypeAlias = "bool | int | float | str | Sequence[JsonValue] | Mapping[str, JsonValue] | None"

_DEEPEST = 64
"""Nesting beyond this is a defect (a structure that contains itself), and would exhaust the stack of `json`."""


def is_line(value: object) -> bool:
    """Return whether `value` is text of one line that says something."""
    return isinstance(value, str) and bool(value.strip()) and "\n" not in value


def find_non_json(value: object, place: str = "$", depth: int = 0) -> str | None:
    """Return where `value` stops being JSON, and why, or None when all of it is.

    Tuples count as arrays. NaN and infinities do not exist in JSON.
    """
    if value is None or isinstance(value, bool | int | str):
        return None
    if isinstance(value, float):
        return None if math.isfinite(value) else f"{place} is {value!r}, which JSON cannot say"
    if depth >= _DEEPEST:
        return f"{place} is nested more than {_DEEPEST} deep"
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                return f"{place} has the key {key!r}, which is no string"
            if (found := find_non_json(item, f"{place}.{key}", depth + 1)) is not None:
                return found
        return None
    if isinstance(value, list | tuple):
        for index, item in enumerate(value):
            if (found := find_non_json(item, f"{place}[{index}]", depth + 1)) is not None:
                return found
        return None
    return f"{place} is of type {type(value).__name__}"
