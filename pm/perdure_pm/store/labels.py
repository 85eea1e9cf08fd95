"""What people pinned and named: generations that collection leaves alone.

Owns: store/labels.json. Does not own: which generations there are. A pin is a hold without a name; a label is a name
that `rollback` and `diff` take in place of an id.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from perdure_pm.model.errors import IntegrityFault, UsageFault
from perdure_pm.model.identity import parse_generation_number
from perdure_pm.ports import Filesystem
from perdure_pm.store.layout import Layout
from perdure_pm.store.pointer import read_plain

SCHEMA = 1
MAX_BYTES = 1 << 20
_LABEL = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True)
class Labels:
    """The contents of the file."""

    pinned: frozenset[str] = frozenset()
    named: Mapping[str, str] = field(default_factory=dict)
    """Label → generation."""

    @property
    def held(self) -> frozenset[str]:
        """Every generation that is pinned or named."""
        return self.pinned | frozenset(self.named.values())


def parse_label(name: str) -> str:
    """Return `name`, which can be told from a number and an id.

    Raises:
        UsageFault: it cannot.
    """
    if not _LABEL.fullmatch(name) or parse_generation_number(name) is not None:
        raise UsageFault(f"{name!r} cannot be a label: a letter, then up to 63 letters, digits and ._-")
    return name


def load_labels(layout: Layout) -> Labels:
    """Return the labels; a home without the file has none.

    Raises:
        IntegrityFault: the file is not what PM wrote; collection must not guess what was pinned.
    """
    data = read_plain(layout, layout.labels, MAX_BYTES)
    if data is None:
        return Labels()
    try:
        value = json.loads(data)
        if not isinstance(value, dict):
            raise TypeError("it does not hold an object")
        if value["schema"] != SCHEMA:
            raise ValueError(f"schema {value['schema']}")
        pinned = frozenset(str(name) for name in value["pinned"])
        return Labels(pinned, {str(label): str(name) for label, name in value["labels"].items()})
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise IntegrityFault(
            f"{layout.labels} is damaged: {error}",
            hint=f"delete {layout.labels}, then pin again what is to be kept",
            context={"path": str(layout.labels)},
        ) from error


def load_names(layout: Layout, wanted: str) -> Mapping[str, str]:
    """Return the labels that `wanted` may be one of.

    A number and an id can be told from every label: they name a generation also where the file is damaged, for going
    back must work all the more then.

    Raises:
        IntegrityFault: `wanted` can be a label, and the file is not what PM wrote.
    """
    return load_labels(layout).named if _LABEL.fullmatch(wanted) else {}


def save_labels(filesystem: Filesystem, layout: Layout, labels: Labels) -> None:
    """Have the labels on the disk."""
    value = {"schema": SCHEMA, "pinned": sorted(labels.pinned), "labels": dict(sorted(labels.named.items()))}
    filesystem.make_directories(layout.store)
    filesystem.write_durable(layout.labels, json.dumps(value, indent=1).encode())
