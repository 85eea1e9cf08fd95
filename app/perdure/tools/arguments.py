"""Turns what was typed into a tool's arguments.

Owns: `--arg name=value` and `--json-args`. Does not own: whether the result fits the tool's schema (dispatch).
"""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import cast

from perdure.domain.errors import UsageFault
from perdure.domain.json_value import JsonValue


def parse_arguments(
    pairs: Sequence[str], document: str | None, parameters: Mapping[str, JsonValue]
) -> dict[str, JsonValue]:
    """Return the arguments that `pairs` and `document` give together.

    A value in `pairs` is read as JSON where it is JSON of a type that the tool's schema takes for that name, and is
    text otherwise; so `limit=5` is a number and `path=5` is text.

    Args:
        pairs: `name=value` each.
        document: a JSON object, or None.
        parameters: the tool's schema.

    Raises:
        UsageFault: a pair has no `=`, a name comes twice, or the document is no JSON object.
    """
    given = {} if document is None else _parse_document(document)
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise UsageFault(f"--arg takes name=value, not {pair!r}", context={"argument": pair})
        if name in given:
            raise UsageFault(f"argument {name!r} is given twice", context={"argument": name})
        given[name] = _parse_value(text, _types(parameters, name))
    return given


def read_document(given: str | None) -> str | None:
    """Return the document that is given, or what standard input holds: one argument of a command line is short.

    Raises:
        UsageFault: standard input is no text.
    """
    if given != "-":
        return given
    try:
        return sys.stdin.buffer.read().decode()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageFault(f"standard input cannot be read as JSON: {error}") from error


def _parse_document(document: str) -> dict[str, JsonValue]:
    try:
        given: object = json.loads(document, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise UsageFault(f"--json-args is not JSON: {error}") from error
    if not isinstance(given, dict):
        raise UsageFault("--json-args must be a JSON object")
    return cast("dict[str, JsonValue]", given)


def _parse_value(text: str, types: frozenset[str] | None) -> JsonValue:
    try:
        value = cast("JsonValue", json.loads(text, parse_constant=_refuse_constant))
    except (ValueError, RecursionError):
        return text
    if types is None or types & _types_of(value) or "string" not in types:
        return value
    return text


def _types(parameters: Mapping[str, JsonValue], name: str) -> frozenset[str] | None:
    """Return the JSON types that the schema declares for an argument, or None where it declares none."""
    properties = parameters.get("properties")
    declared = properties.get(name) if isinstance(properties, Mapping) else None
    types = declared.get("type") if isinstance(declared, Mapping) else None
    if isinstance(types, str):
        return frozenset({types})
    return frozenset(map(str, types)) if isinstance(types, Sequence) else None


def _types_of(value: JsonValue) -> frozenset[str]:
    if value is None:
        return frozenset({"null"})
    if isinstance(value, bool):
        return frozenset({"boolean"})
    if isinstance(value, int):
        return frozenset({"number", "integer"})
    if isinstance(value, float):
        return frozenset({"number", "integer"} if value.is_integer() else {"number"})
    if isinstance(value, str):
        return frozenset({"string"})
    return frozenset({"object"} if isinstance(value, Mapping) else {"array"})


def _refuse_constant(name: str) -> JsonValue:
    # Python's reader takes NaN and Infinity, which JSON does not have.
    raise ValueError(f"{name} is not JSON")
