"""Which plugins sat out when a profile was published last: kept for whoever asks without resolving.

Owns: the file. Does not own: who sits out (ops.sitting_out). It decides nothing alone: where it is gone, the next
publication finds the same again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from perdure_pm.model.choice import SitOut
from perdure_pm.model.errors import IntegrityFault
from perdure_pm.ports import Filesystem
from perdure_pm.store.layout import Layout
from perdure_pm.store.pointer import read_plain

SCHEMA = 1
MAX_BYTES = 1 << 20


def load_sit_outs(layout: Layout, profile: str) -> tuple[SitOut, ...]:
    """Return what sat out when the profile was published last; nothing where that cannot be read: it is found again."""
    try:
        data = json.loads(read_plain(layout, layout.sit_outs(profile), MAX_BYTES) or b"{}")
        return tuple(
            SitOut(
                entry=str(item["entry"]),
                reason=str(item["reason"]),
                because={str(name): str(value) for name, value in item["because"].items()},
            )
            for item in data.get("sit_outs", ())
        )
    except (IntegrityFault, ValueError, KeyError, TypeError, AttributeError):
        return ()


def save_sit_outs(filesystem: Filesystem, layout: Layout, profile: str, sit_outs: Sequence[SitOut]) -> None:
    """Have it on the disk what sits out, for whoever asks without resolving; a no-op where it says so already."""
    path = layout.sit_outs(profile)
    if tuple(sit_outs) == load_sit_outs(layout, profile):
        return
    if not sit_outs:
        filesystem.remove_tree(path)
        return
    items = [{"entry": item.entry, "reason": item.reason, "because": dict(item.because)} for item in sit_outs]
    filesystem.make_directories(path.parent)
    filesystem.write_durable(path, json.dumps({"schema": SCHEMA, "sit_outs": items}, indent=1).encode())
