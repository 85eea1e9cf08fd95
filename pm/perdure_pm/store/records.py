"""Copies of the records of generations that were committed, beside the generations.

Owns: store/records. Does not own: a generation's own record (store.generations). A copy is what a generation is rebuilt
from where its directory is gone or its own record damaged, and the sign that it was committed once: what was only built
has none, and is never chosen by a repair.

Keeps: pm-committed-records-kept.
"""

from __future__ import annotations

import json
from typing import Any

from perdure_pm.model.errors import IntegrityFault
from perdure_pm.model.identity import parse_generation_number
from perdure_pm.ports import Filesystem
from perdure_pm.store.generations import MAX_BYTES, find_record_problem
from perdure_pm.store.layout import Layout
from perdure_pm.store.pointer import read_plain

SUFFIX = ".json"


def keep_record(filesystem: Filesystem, layout: Layout, identity: str) -> None:
    """Have a copy of a committed generation's record; one that is there stays."""
    path = layout.kept_record(identity)
    if path.is_file():
        return
    data = read_plain(layout, layout.generation(identity) / "record.json", MAX_BYTES)
    if data is None:
        return  # a generation that is gone cannot be copied any more; a repair says so
    filesystem.make_directories(layout.records)
    # A copy and no link: what damages the one's bytes in place must not damage the other's.
    filesystem.write_durable(path, data, mode=0o444)


def load_kept_record(layout: Layout, identity: str) -> dict[str, Any] | None:
    """Return the copy of a generation's record, or None where there is none that can be used."""
    try:
        data = read_plain(layout, layout.kept_record(identity), MAX_BYTES)
        record = None if data is None else json.loads(data)
    except (IntegrityFault, ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and not find_record_problem(record, identity) else None


def find_last_committed(layout: Layout, profile: str) -> str | None:
    """Return the id of the newest generation that was ever committed for a profile, as far as is known."""
    for identity in list_kept_records(layout):
        record = load_kept_record(layout, identity)
        if record is not None and record["profile"] == profile:
            return identity
    return None


def list_kept_records(layout: Layout) -> list[str]:
    """Return the ids of the generations that were committed, the newest first."""
    try:
        names = [path.name.removesuffix(SUFFIX) for path in layout.records.iterdir()]
    except OSError:
        return []
    known = [(parse_generation_number(name) or 0, name) for name in names if parse_generation_number(name) is not None]
    return [name for _, name in sorted(known, reverse=True)]
