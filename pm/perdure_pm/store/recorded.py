"""What a generation's record says of its host, plugins and packages, and how two sets of packages differ.

Owns: reading that off a record. Does not own: the record's form (store.generations), or what a resolution says
(ops.packages_of).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from perdure_pm.store.generations import Generation


def compare_packages(before: dict[str, str], after: dict[str, str]) -> list[dict[str, str | None]]:
    """Return the packages that were added, removed or moved, by name, with both versions."""
    return [
        {"name": name, "from": before.get(name), "to": after.get(name)}
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    ]


def recorded_versions(generation: Generation | None) -> dict[str, str]:
    """Return name → version of what a generation holds."""
    return {} if generation is None else {entry["name"]: entry["version"] for entry in generation.record["packages"]}


def moved_names_of(generation: Generation | None) -> list[dict[str, str | int | None]]:
    """Return where the plugins of a generation use names that moved; nothing for a record that does not say."""
    recorded = None if generation is None else generation.record.get("moved_names")
    wanted = {"distribution": str, "file": str, "line": int, "old": str, "until": str, "text": str}
    return [
        use
        for use in (recorded if isinstance(recorded, list) else ())
        if isinstance(use, dict) and all(isinstance(use.get(key), kind) for key, kind in wanted.items())
    ]


def say_use(use: Mapping[str, Any]) -> str:
    """Return one recorded use in words."""
    return f"{use['file']}:{use['line']}: {use['text']}"


def selection_of(generation: Generation) -> tuple[str, ...]:
    """Return the entries that a generation was built for."""
    return tuple(
        generation.record.get("selection", [plugin["distribution"] for plugin in generation.record["plugins"]])
    )


def read_source(source: str) -> dict[str, str | list[str]]:
    """Return the keys of config.yaml that name the host of a release or a record: a checkout, or what `text` said."""
    try:
        data = json.loads(source)
        requirement, wheel, beside = data["requirement"], data["wheel"], data["with"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return {"host.checkout": source}
    found = {"host.requirement": requirement, "host.wheel": wheel, "host.with": beside}
    return {name: value for name, value in found.items() if value}
