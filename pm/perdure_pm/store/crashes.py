"""What our app noted of plugins that ended it while it loaded them, and leaves out since then.

Owns: reading the notes, and removing those of plugins that a person brings back. Does not own: writing them: the app
does, with the same names (`perdure/crash_notes.py`); the two share no code. A note is for one version of a plugin: the
app loads another one in spite of it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from dataclasses import dataclass

from perdure_pm.model.errors import IntegrityFault
from perdure_pm.model.identity import normalise_distribution
from perdure_pm.ports import Filesystem
from perdure_pm.store.layout import Layout
from perdure_pm.store.pointer import read_plain

SUFFIX = ".json"
MAX_BYTES = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Crash:
    """One plugin that the app leaves out."""

    distribution: str
    """Normalised."""
    version: str
    during: str
    """What the app was doing with it, in words."""
    at: str
    """UTC."""


def load_crashes(layout: Layout, profile: str) -> list[Crash]:
    """Return the notes by distribution; what cannot be read is none."""
    folder = layout.crashes(profile)
    found: list[Crash] = []
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(SUFFIX))
    except OSError:
        return []
    for name in names:
        try:
            data = json.loads(read_plain(layout, folder / name, MAX_BYTES) or b"null")
            distribution, version = str(data["distribution"]), str(data["version"])
            crash = Crash(
                distribution=normalise_distribution(distribution),
                version=version,
                during=str(data["during"]),
                at=str(data["at"]),
            )
        except (IntegrityFault, ValueError, KeyError, TypeError, RecursionError):
            continue
        if crash.distribution + SUFFIX == name:
            found.append(crash)
    return found


def clear_crashes(filesystem: Filesystem, layout: Layout, profile: str, names: Collection[str]) -> tuple[str, ...]:
    """Have no note on the distributions of these normalised names, and return those that had one."""
    noted = tuple(crash.distribution for crash in load_crashes(layout, profile) if crash.distribution in names)
    for name in noted:
        filesystem.remove_tree(layout.crashes(profile) / f"{name}{SUFFIX}")
    return noted
