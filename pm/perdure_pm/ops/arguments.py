"""Reading the arguments of an operation, which came over a wire and can be anything.

Owns: the checks of type. Does not own: what an argument means.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from perdure_pm.model.errors import UsageFault


def read_text(arguments: Mapping[str, Any], name: str) -> str | None:
    """Return a text that may be absent."""
    value = arguments.get(name)
    if value is not None and not isinstance(value, str):
        raise UsageFault(f"{name} must be text, is {type(value).__name__}")
    return value


def read_texts(arguments: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """Return a list of at least one text."""
    value = arguments.get(name)
    if not isinstance(value, list) or not value or not all(isinstance(item, str) for item in value):
        raise UsageFault(f"{name} must be a list of at least one text")
    return tuple(value)


def read_flag(arguments: Mapping[str, Any], name: str) -> bool:
    """Return a truth value; false where it is absent."""
    value = arguments.get(name)
    if value is not None and not isinstance(value, bool):
        raise UsageFault(f"{name} must be true or false, is {value!r}")
    return value is True


def read_number(arguments: Mapping[str, Any], name: str, default: int) -> int:
    """Return a whole number of at least 0."""
    value = arguments.get(name)
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise UsageFault(f"{name} must be a whole number of at least 0, is {value!r}")
    return value


def read_duration(arguments: Mapping[str, Any], name: str) -> timedelta | None:
    """Return a positive number of seconds as a duration; None where it is absent."""
    value = arguments.get(name)
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value <= 366 * 86400:
        raise UsageFault(f"{name} must be a number of seconds, is {value!r}")
    return timedelta(seconds=value)
