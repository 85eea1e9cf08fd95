"""A generation on trial: selected, but not kept unless it is confirmed.

Owns: profiles/<name>/trial. Does not own: judging it (ops.trial). While the file exists, the launcher runs PM first.
"""

from __future__ import annotations

import dataclasses
import json
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from perdure_pm.model.errors import IntegrityFault
from perdure_pm.ports import Filesystem
from perdure_pm.store.layout import Layout
from perdure_pm.store.pointer import damaged, read_plain

SCHEMA = 1
FORMAT = "%Y-%m-%dT%H:%M:%SZ"
MAX_BYTES = 4096
MAX_DEPTH = 12
"""How many trials may wait below the one that runs; what is beyond fits into MAX_BYTES no more."""


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
    replaced: Trial | None = None
    """What was on trial when this one was written: until the pointer moves to this one it still is, and it is again
    when the pointer moves back."""


def put_on_top(trial: Trial, running: Trial | None) -> Trial:
    """Return `trial` with what is on trial now below it, each generation once; what is left out is gone past."""
    waiting: list[Trial] = []
    while running is not None:
        waiting.append(dataclasses.replace(running, replaced=None))
        running = running.replaced
    again = [place for place, entry in enumerate(waiting) if entry.generation == trial.generation]
    for place in [*reversed(again), *range(len(waiting) - len(again) - 1, MAX_DEPTH - 1, -1)]:
        gone = waiting.pop(place)
        if place and waiting[place - 1].previous == gone.generation:
            waiting[place - 1] = dataclasses.replace(waiting[place - 1], previous=gone.previous)
    below: Trial | None = None
    for entry in reversed(waiting):
        below = dataclasses.replace(entry, replaced=below)
    return dataclasses.replace(trial, replaced=below)


def find_ways_back(trial: Trial | None) -> list[str]:
    """Return every generation that may be selected when the trial, or what waits below it, fails."""
    found = []
    while trial is not None:
        found.append(trial.previous)
        trial = trial.replaced
    return found


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
        return _parse(json.loads(data))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        fault: IntegrityFault = damaged(path, str(error))
        raise fault from error


def show_trial(trial: Trial) -> dict[str, Any]:
    """Return what people are told of a trial, as JSON values."""
    return {"generation": trial.generation, "until": trial.deadline.strftime(FORMAT), "previous": trial.previous}


def save_trial(filesystem: Filesystem, layout: Layout, profile: str, trial: Trial) -> None:
    """Have the trial on the disk."""
    filesystem.make_directories(layout.profile(profile))
    filesystem.write_durable(layout.trial(profile), json.dumps(_to_json(trial)).encode() + b"\n")


def clear_trial(filesystem: Filesystem, layout: Layout, profile: str) -> None:
    """Have no trial, also after a power loss: what was confirmed must not be on trial again."""
    path = layout.trial(profile)
    if os.path.lexists(path):
        gone = path.with_name(f".{path.name}.{os.urandom(6).hex()}.tmp")  # a collection knows the form
        filesystem.rename(path, gone)  # flushes the directory, which a removal does not
        filesystem.remove_tree(gone)


def _parse(value: Any) -> Trial:
    if value["schema"] != SCHEMA:
        raise ValueError(f"schema {value['schema']}")
    replaced = value.get("replaced")
    return Trial(
        generation=str(value["generation"]),
        previous=str(value["previous"]),
        deadline=datetime.strptime(value["deadline"], FORMAT).replace(tzinfo=UTC),
        starts=int(value["starts"]),
        replaced=None if replaced is None else _parse(replaced),
    )


def _to_json(trial: Trial) -> dict[str, object]:
    value: dict[str, object] = {
        "schema": SCHEMA,
        "generation": trial.generation,
        "previous": trial.previous,
        "deadline": trial.deadline.strftime(FORMAT),
        "starts": trial.starts,
    }
    if trial.replaced is not None:
        value["replaced"] = _to_json(trial.replaced)
    return value
