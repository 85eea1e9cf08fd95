"""What a profile's configuration said when it was published last, and which plugins sat out: for whoever asks later.

Owns: the file. Does not own: who sits out (ops.sitting_out), the configuration (store.config). It decides nothing
alone: it counts for a configuration of the same bytes only, and where it is gone, the next publication finds the same
again.

A look at a hundred plugins must be quick. Reading YAML and requirements takes longer than all the rest of it, so their
names are kept here, and this module imports neither.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perdure_pm.model.errors import IntegrityFault
from perdure_pm.ports import Filesystem
from perdure_pm.store.layout import Layout
from perdure_pm.store.pointer import read_plain

if TYPE_CHECKING:
    from perdure_pm.model.choice import Choice, SitOut

SCHEMA = 1
MAX_BYTES = 4 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """What the file says."""

    config: str
    """sha256 of the configuration's bytes, in hex."""
    plugins: tuple[tuple[str, str], ...]
    """Entries with their normalised names, disabled ones included."""
    disabled: frozenset[str]
    """Normalised names."""
    sit_outs: tuple[Mapping[str, Any], ...]
    """``name``, ``entry``, ``reason``, ``because``."""


def load_published(layout: Layout, profile: str) -> Published | None:
    """Return what was written last; None where that cannot be read."""
    try:
        data = json.loads(read_plain(layout, layout.published(profile), MAX_BYTES) or b"null")
        if data["schema"] != SCHEMA:
            return None
        return Published(
            config=str(data["config"]),
            plugins=tuple((str(entry), str(name)) for entry, name in data["plugins"]),
            disabled=frozenset(str(name) for name in data["disabled"]),
            sit_outs=tuple(
                {
                    **{key: str(item[key]) for key in ("name", "entry", "reason")},
                    "because": {str(name): str(value) for name, value in item["because"].items()},
                }
                for item in data["sit_outs"]
            ),
        )
    except (IntegrityFault, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def load_sit_outs(layout: Layout, profile: str) -> tuple[SitOut, ...]:
    """Return what sat out when the profile was published last; nothing where that is not known: it is found again."""
    from perdure_pm.model.choice import SitOut  # knows requirements

    published = load_published(layout, profile)
    return tuple(
        SitOut(entry=item["entry"], reason=item["reason"], because=item["because"])
        for item in (() if published is None else published.sit_outs)
    )


def save_published(
    filesystem: Filesystem, layout: Layout, profile: str, text: str, choice: Choice, sit_outs: Sequence[SitOut]
) -> None:
    """Have it on the disk what a configuration with this text says, and what sits out; a no-op where it is there."""
    from perdure_pm.model.choice import names_of
    from perdure_pm.model.requirement import requirement_name

    data = {
        "schema": SCHEMA,
        "config": hashlib.sha256(text.encode()).hexdigest(),
        "plugins": [[entry, requirement_name(entry)] for entry in choice.plugins],
        "disabled": sorted(names_of(choice.disabled)),
        "sit_outs": [{**item.to_json(), "because": dict(item.because)} for item in sit_outs],
    }
    path, new = layout.published(profile), json.dumps(data, indent=1).encode()
    try:
        if read_plain(layout, path, MAX_BYTES) == new:
            return
    except IntegrityFault:
        filesystem.remove_tree(path)
    filesystem.make_directories(path.parent)
    filesystem.write_durable(path, new)
