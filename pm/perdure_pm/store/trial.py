"""A generation on trial: selected, but not kept unless it is confirmed.

Owns: profiles/<name>/trial. Does not own: judging it (ops.trial). While the file exists, the launcher runs PM first.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime

from perdure_pm.model.errors import IntegrityFault
from perdure_pm.ports import Filesystem
from perdure_pm.store.layout import Layout
from perdure_pm.store.pointer import damaged, read_plain

SCHEMA = 1
FORMAT = "%Y-%m-%dT%H:%M:%SZ"
MAX_BYTES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What is on trial."""

    generation: str
    previous: str
    """What is selected again when the trial fails."""
    deadline: datetime
    """Aware, in UTC."""
    starts: int = 0
    """Starts so far that nobody confirmed."""


def load_trial(layout: Layout, profile: str) -> Trial | None:
    """Return the profile's trial, or None.

    Raises:
        IntegrityFault: the file is not what PM wrote.
    """
    path = layout.trial(profile)
    data = read_plain(layout, path, MAX_BYTES)
    if data is None:
        return None
    try:
        value = json.loads(data)
        if value["schema"] != SCHEMA:
            raise ValueError(f"schema {value['schema']}")
        return Trial(
            generation=str(value["generation"]),
            previous=str(value["previous"]),
            deadline=datetime.strptime(value["deadline"], FORMAT).replace(tzinfo=UTC),
            starts=int(value["starts"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        fault: IntegrityFault = damaged(path, str(error))
        raise fault from error


def save_trial(filesystem: Filesystem, layout: Layout, profile: str, trial: Trial) -> None:
    """Have the trial on the disk."""
    value = {
        "schema": SCHEMA,
        "generation": trial.generation,
        "previous": trial.previous,
        "deadline": trial.deadline.strftime(FORMAT),
        "starts": trial.starts,
    }
    filesystem.make_directories(layout.profile(profile))
    filesystem.write_durable(layout.trial(profile), json.dumps(value).encode() + b"\n")


def clear_trial(filesystem: Filesystem, layout: Layout, profile: str) -> None:
    """Have no trial."""
    filesystem.remove_tree(layout.trial(profile))
