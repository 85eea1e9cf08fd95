"""Whether a JSON Schema is one: what a plugin's settings are checked against must itself hold together.

Owns: the keywords of draft 2020-12 that check values, and the types of their arguments. Does not own: checking values
(the app's, with a library made for it), remote references: a schema refers to itself only.

Written out instead of taken from a library: PM would carry a compiled one for the few lines that a manifest needs.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping

from perdure_pm.model.document import Place, describe

TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")

_SCHEMA = frozenset(
    {
        "additionalProperties",
        "unevaluatedProperties",
        "unevaluatedItems",
        "propertyNames",
        "items",
        "contains",
        "not",
        "if",
        "then",
        "else",
    }
)
_SCHEMAS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_MAPPED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_NUMBERS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
_COUNTS = frozenset(
    {
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "minProperties",
        "maxProperties",
        "minContains",
        "maxContains",
    }
)
_TEXTS = frozenset({"title", "description", "format", "pattern", "$comment", "$id", "$schema", "$ref", "$anchor"})
_FLAGS = frozenset({"uniqueItems", "deprecated", "readOnly", "writeOnly"})


def find_schema_problems(schema: object, place: Place) -> Iterator[tuple[Place, str]]:
    """Yield what keeps `schema` from being a JSON Schema of an object, with the place of each problem."""
    if not isinstance(schema, dict):
        yield place, f"must be a JSON Schema, a mapping, is {describe(schema)}"
        return
    if schema.get("type", "object") != "object":
        yield (*place, "type"), f"must be object: settings are named values, is {describe(schema.get('type'))}"
    yield from _find_json_problems(schema, place)
    yield from _walk(schema, place, schema)


def _find_json_problems(value: object, place: Place) -> Iterator[tuple[Place, str]]:
    """Yield what no JSON can hold: dates, which YAML reads without being asked, and numbers that are none."""
    if isinstance(value, dict):
        for key, below in value.items():
            yield from _find_json_problems(below, (*place, str(key)))
    elif isinstance(value, list):
        for index, below in enumerate(value):
            yield from _find_json_problems(below, (*place, index))
    elif isinstance(value, float) and not math.isfinite(value):
        yield place, "is no number that JSON has"
    elif value is not None and not isinstance(value, (str, int, float)):
        yield place, f"is {describe(value)}, which JSON has not; write it in quotes"


def _walk(schema: object, place: Place, top: Mapping[str, object]) -> Iterator[tuple[Place, str]]:
    if isinstance(schema, bool):
        return
    if not isinstance(schema, dict):
        yield place, f"must be a schema: a mapping, true or false, is {describe(schema)}"
        return
    for key, value in schema.items():
        at = (*place, str(key))
        if key in _SCHEMA:
            yield from _walk(value, at, top)
        elif key in _SCHEMAS:
            if not isinstance(value, list) or not value:
                yield at, f"must be a list of schemas, is {describe(value) if value != [] else 'empty'}"
            else:
                for index, below in enumerate(value):
                    yield from _walk(below, (*at, index), top)
        elif key in _MAPPED:
            yield from _walk_mapped(str(key), value, at, top)
        else:
            message = _find_problem(str(key), value, top)
            if message:
                yield at, message


def _walk_mapped(key: str, value: object, place: Place, top: Mapping[str, object]) -> Iterator[tuple[Place, str]]:
    if not isinstance(value, dict):
        yield place, f"must be a mapping of names to schemas, is {describe(value)}"
        return
    for name, below in value.items():
        at = (*place, str(name))
        if key == "patternProperties" and not _is_pattern(str(name)):
            yield at, "is no regular expression"
        yield from _walk(below, at, top)


def _find_problem(key: str, value: object, top: Mapping[str, object]) -> str | None:
    if key == "type":
        named = value if isinstance(value, list) else [value]
        return None if named and all(name in TYPES for name in named) else f"must be one of {', '.join(TYPES)}"
    if key in _NUMBERS:
        fits = isinstance(value, (int, float)) and not isinstance(value, bool)
        return None if fits and (key != "multipleOf" or value > 0) else f"must be a number, is {describe(value)}"  # type: ignore[operator]  # a number, as the first half says
    if key in _COUNTS:
        fits = isinstance(value, int) and not isinstance(value, bool) and value >= 0
        return None if fits else f"must be a whole number from 0, is {describe(value)}"
    if key in _FLAGS:
        return None if isinstance(value, bool) else f"must be true or false, is {describe(value)}"
    if key in _TEXTS:
        return _find_text_problem(key, value, top)
    if key in {"required", "dependentRequired"}:
        lists = list(value.values()) if key == "dependentRequired" and isinstance(value, dict) else [value]
        fits = all(isinstance(names, list) and all(isinstance(name, str) for name in names) for names in lists)
        return None if fits else "must be a list of names of settings"
    if key == "enum" and not isinstance(value, list):
        return f"must be a list of values, is {describe(value)}"
    return None


def _find_text_problem(key: str, value: object, top: Mapping[str, object]) -> str | None:
    if not isinstance(value, str):
        return f"must be text, is {describe(value)}"
    if key == "pattern" and not _is_pattern(value):
        return f"is no regular expression: {value!r}"
    if key == "$ref" and not _is_reference(value, top):
        return f"must refer to a part of this schema, such as #/$defs/NAME, is {value!r}"
    return None


def _is_pattern(text: str) -> bool:
    try:
        re.compile(text)
    except re.error:
        return False
    return True


def _is_reference(text: str, top: Mapping[str, object]) -> bool:
    if not text.startswith("#"):
        return False
    here: object = top
    for part in text[1:].split("/")[1:]:
        if not isinstance(here, dict) or (name := part.replace("~1", "/").replace("~0", "~")) not in here:
            return False
        here = here[name]
    return True
