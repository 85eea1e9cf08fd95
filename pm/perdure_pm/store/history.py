"""What each profile selected, and when: one JSON line for each change of its pointer.

Owns: appending and reading. Does not own: the pointer (store.pointer). A line that a crash cut off is skipped: the
pointer and the records say what is selected, the history only what was.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

from perdure_pm.model.identity import parse_generation_number
from perdure_pm.ports import Filesystem
from perdure_pm.store.layout import Layout
from perdure_pm.store.reading import open_regular, read_regular

MAX_BYTES = 64 << 20
TRIAL_FAILED = "trial-failed"
REPAIR = "repair"
"""Operations whose lines tell of no change that a person asked for."""
FORMAT = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """One change of a profile's pointer."""

    at: datetime
    """Aware, in UTC."""
    generation: str
    before: str | None
    """What was selected until then."""
    operation: str
    choice: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    """The profile's plugins and what of them was disabled, as its configuration said then; None where it is not known:
    a generation alone does not tell, because profiles share it and what is disabled is no part of it."""


def append_selection(filesystem: Filesystem, layout: Layout, profile: str, selection: Selection) -> None:
    """Have the change at the end of the profile's history."""
    path = layout.history(profile)
    line: dict[str, object] = {
        "at": selection.at.strftime(FORMAT),
        "generation": selection.generation,
        "from": selection.before,
        "operation": selection.operation,
    }
    if selection.choice is not None:
        line |= {"plugins": selection.choice[0], "disabled": selection.choice[1]}
    # A line that a crash cut off must not swallow this one.
    start = b"" if _ends_clean(path) else b"\n"
    filesystem.append_durable(path, start + json.dumps(line).encode() + b"\n")


def load_history(layout: Layout, profile: str) -> list[Selection]:
    """Return the profile's changes, oldest first; lines that are none are left out."""
    try:
        return list(_parse(read_regular(layout.history(profile), MAX_BYTES)))
    except OSError:
        return []


@lru_cache(maxsize=2)
def _parse(text: bytes) -> tuple[Selection, ...]:
    """Return the changes in the bytes of a history; an operation asks about the same ones several times."""
    found = []
    for line in text.decode("utf-8", "replace").splitlines():
        try:
            data = json.loads(line)
            at = datetime.fromisoformat(data["at"])  # a tenth of what strptime takes
            if at.tzinfo != UTC:
                continue
            generation, before = data["generation"], data.get("from")
            named = [name for name in (generation, before) if name is not None]
            if all(isinstance(name, str) and parse_generation_number(name) is not None for name in named):
                operation = str(data.get("operation", "install"))
                found.append(
                    Selection(
                        at=at, generation=generation, before=before, operation=operation, choice=_read_choice(data)
                    )
                )
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
    return tuple(found)


def find_choice(history: Sequence[Selection], generation: str) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Return what the profile's configuration said when it selected the generation last; None where nobody knows."""
    return next((entry.choice for entry in reversed(history) if entry.generation == generation), None)


def _read_choice(data: dict[str, object]) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    plugins, disabled = data.get("plugins"), data.get("disabled")
    if not isinstance(plugins, list) or not isinstance(disabled, list):
        return None
    if not all(isinstance(entry, str) for entry in (*plugins, *disabled)):
        return None
    return tuple(plugins), tuple(disabled)


def find_previous(history: Sequence[Selection], selected: str | None) -> str | None:
    """Return what was selected before `selected`, or None where that is not known.

    A crash between the pointer and its line leaves a pointer that the last line does not name: then what that line
    selected is what went before. What a repair rebuilt is the same as what it was rebuilt from, which is no way back;
    neither is what a trial rejected: it was never kept.
    """
    if history and history[-1].generation != selected:
        return history[-1].generation
    wanted = selected
    for entry in reversed(history):
        if entry.generation != wanted or entry.operation == TRIAL_FAILED:
            continue
        if entry.operation != REPAIR or entry.before is None:
            return entry.before
        wanted = entry.before
    return None


def _ends_clean(path: Path) -> bool:
    try:
        with open_regular(path) as file:
            file.seek(0, 2)
            if file.tell() == 0:
                return True
            file.seek(-1, 2)
            return file.read(1) == b"\n"
    except FileNotFoundError:
        return True
