"""Whether a sealed generation can be started as it is.

Owns: the quick check that comes before a selection: sizes, links and the interpreter. Does not own: the deep one, nor
any repair.
"""

from __future__ import annotations

import os

from perdure_pm.model.errors import IntegrityFault, PerdureError
from perdure_pm.store.generations import Generation, load_files
from perdure_pm.store.inventory import find_size_changes
from perdure_pm.store.layout import Layout


def find_damage(layout: Layout, generation: Generation) -> str:
    """Return what keeps the generation from starting, or an empty string (10 ms for 5,000 files)."""
    try:
        findings = find_size_changes(generation.path, load_files(layout, generation.identity))
    except PerdureError as error:
        return error.summary
    if findings:
        return str(findings[0])
    return "" if os.access(generation.python, os.X_OK) else f"its interpreter {generation.python} does not run"


def require_sound(layout: Layout, generation: Generation) -> None:
    """Return when the generation can be started.

    Raises:
        IntegrityFault: it cannot.
    """
    damage = find_damage(layout, generation)
    if damage:
        raise IntegrityFault(
            f"generation {generation.identity} is damaged: {damage}",
            hint="choose another: perdure-pm history",
            context={"generation": generation.identity, "damage": damage},
        )
