"""What a profile ran, and how two generations differ: read, never changed.

Owns: the data of `history` and `diff`. Does not own: how it is shown (cli).
"""

from __future__ import annotations

from typing import Any

from perdure_pm.model.errors import IntegrityFault
from perdure_pm.store.generations import Generation, find_generation, list_generations, load_current
from perdure_pm.store.history import FORMAT, load_history
from perdure_pm.store.labels import Labels, load_labels, load_names
from perdure_pm.store.layout import Layout
from perdure_pm.store.pointer import load_pointer
from perdure_pm.store.recorded import compare_packages, recorded_versions, selection_of


def read_history(layout: Layout, profile: str) -> dict[str, Any]:
    """Return the profile's selections, oldest first, and every generation with what is known of it."""
    labels = _labels(layout)
    try:
        selected = load_pointer(layout, profile)
    except IntegrityFault:
        selected = None
    sealed, damaged = list_generations(layout)
    return {
        "profile": profile,
        "selected": selected,
        "selections": [
            {
                "at": entry.at.strftime(FORMAT),
                "generation": entry.generation,
                "from": entry.before,
                "operation": entry.operation,
            }
            for entry in load_history(layout, profile)
        ],
        "generations": [_describe(generation, labels) for generation in sealed],
        "damaged": [{"id": item.identity, "reason": item.reason} for item in damaged],
    }


def compare_generations(layout: Layout, first: str, second: str | None, profile: str) -> dict[str, Any]:
    """Return what changes from the first generation to the second (the selected one where None).

    Raises:
        UsageFault: one of them does not exist.
    """
    before = find_generation(layout, first, load_names(layout, first))
    after = load_current(layout, profile)
    if second is not None:
        after = find_generation(layout, second, load_names(layout, second))
    return {
        "from": before.identity,
        "to": after.identity,
        "host": {"from": _version(before), "to": _version(after)},
        "python": {"from": before.record["interpreter"]["version"], "to": after.record["interpreter"]["version"]},
        "plugins": {
            "removed": [name for name in selection_of(before) if name not in selection_of(after)],
            "added": [name for name in selection_of(after) if name not in selection_of(before)],
        },
        "packages": compare_packages(recorded_versions(before), recorded_versions(after)),
    }


def _describe(generation: Generation, labels: Labels) -> dict[str, Any]:
    record = generation.record
    return {
        "id": generation.identity,
        "created": record["created"],
        "host": {"name": record["host"]["name"], "version": record["host"]["version"]},
        "plugins": list(selection_of(generation)),
        "pinned": generation.identity in labels.pinned,
        "labels": sorted(name for name, target in labels.named.items() if target == generation.identity),
    }


def _version(generation: Generation) -> str:
    return str(generation.record["host"]["version"])


def _labels(layout: Layout) -> Labels:
    try:
        return load_labels(layout)
    except IntegrityFault:
        return Labels()
