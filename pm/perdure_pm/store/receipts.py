"""Receipts: what every operation left behind, refusals and no-ops included.

Owns: the form of a receipt, writing it before the operation and finishing it after, closing those of dead writers,
and reading them. Does not own: what an operation puts into one, nor which ones are kept (model.retention). Nothing ever
triggers an action from a receipt; they are for people and for callers. Invariants: receipt-before-work,
receipt-dead-writer-closed, receipt-damage-named, receipt-cost-bounded.

Those that are not finished are found by a marker each, a directory of the receipt's name in ``receipts/unfinished``:
what an operation has to read does not grow with what others left. It is made before the receipt and removed after it
was finished, so a crash between leaves a marker too many, never one too few. It is not flushed by itself: where a power
loss takes one away, the next collection, which reads all receipts, closes that receipt.

Standard library only, Python 3.9: bootstrap writes one when it refuses.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NamedTuple

from perdure_pm.model.errors import NoSpace, PerdureError
from perdure_pm.ports import Filesystem
from perdure_pm.store.layout import Layout
from perdure_pm.store.reading import read_regular

SCHEMA = 1
MAX_BYTES = 16 << 20
_NAME = re.compile(r"\d{8}T\d{6}\.\d{6}Z-[0-9a-f]{8}\.json")
STATUSES = ("started", "ok", "noop", "refused", "failed", "cancelled", "interrupted")


class Writer(NamedTuple):
    """The process that writes a receipt, known again after its number went to another process."""

    pid: int
    boot_id: str
    process_start: str | None


@dataclass(frozen=True)
class Receipt:
    """The outcome of one operation; `started` while it runs."""

    id: str
    operation: str
    correlation: str
    """The caller's own id of what it asked for."""
    started: str
    """UTC, ISO 8601 with microseconds and Z."""
    pid: int
    boot_id: str
    process_start: str | None
    finished: str | None = None
    status: str = "started"
    data: Mapping[str, Any] = field(default_factory=dict)
    error: Mapping[str, Any] | None = None
    """As on the wire (`wire.encode_error`)."""
    obligations: tuple[str, ...] = ()
    """What the operation could not finish itself and a person should do."""

    @property
    def writer(self) -> Writer:
        return Writer(self.pid, self.boot_id, self.process_start)

    @property
    def name(self) -> str:
        """The file's name: sorting names sorts by time."""
        return f"{self.started.replace('-', '').replace(':', '')}-{self.id[:8]}.json"

    def to_json(self) -> dict[str, Any]:
        """Return the object that stands in the file and in a `result` frame."""
        return {"schema": SCHEMA, **asdict(self), "obligations": list(self.obligations)}


class Unreadable(NamedTuple):
    """A file among the receipts that is none."""

    path: Path
    reason: str


def open_receipt(
    filesystem: Filesystem,
    layout: Layout,
    *,
    operation: str,
    correlation: str,
    writer: Writer,
    now: datetime,
    frees: bool = False,
) -> Receipt:
    """Write a durable receipt that says `started`, before anything else is done, and return it.

    With `frees` the operation makes room: then a full disk, which it is to help against, keeps its receipt from being
    written until it has finished, and not the operation from beginning.

    Raises:
        HomeUnusable, NoSpace: it cannot be written; then the operation must not begin.
    """
    receipt = Receipt(
        id=os.urandom(16).hex(),
        operation=operation,
        correlation=correlation,
        started=stamp(now),
        pid=writer.pid,
        boot_id=writer.boot_id,
        process_start=writer.process_start,
    )
    try:
        filesystem.make_directories(layout.unfinished / Path(receipt.name).stem)
        _write(filesystem, layout, receipt)
    except PerdureError as fault:
        _remove_marker(filesystem, layout, receipt.name)
        if not (frees and isinstance(fault, NoSpace)):
            raise
    return receipt


def finish(
    filesystem: Filesystem,
    layout: Layout,
    receipt: Receipt,
    *,
    status: str,
    now: datetime,
    data: Mapping[str, Any] | None = None,
    error: Mapping[str, Any] | None = None,
    obligations: Sequence[str] = (),
) -> Receipt:
    """Write the outcome over the `started` receipt and return it."""
    finished = replace(
        receipt,
        status=status,
        finished=stamp(now),
        data=dict(data or {}),
        error=error,
        obligations=tuple(obligations),
    )
    _write(filesystem, layout, finished)
    _remove_marker(filesystem, layout, finished.name)
    return finished


def close_interrupted(
    filesystem: Filesystem,
    layout: Layout,
    *,
    now: datetime,
    still_runs: Callable[[int, str, str | None], bool],
    among: Sequence[Receipt] | None = None,
) -> list[Receipt]:
    """Say `interrupted` in every receipt whose writer died before it finished it, and return those.

    A writer that only *looks* dead from here (another process namespace on the same home) writes its own outcome over
    this one later, so a wrong guess heals itself.

    Args:
        filesystem: where it is written.
        layout: the home.
        now: aware.
        still_runs: whether a writer lives.
        among: where to look, instead of at those that are marked as unfinished.
    """
    return [
        finish(filesystem, layout, receipt, status="interrupted", now=now, data=receipt.data)
        for receipt in (_load_marked(filesystem, layout) if among is None else among)
        if receipt.status == "started" and not still_runs(*receipt.writer)
    ]


def list_names(layout: Layout) -> list[str]:
    """Return the file names of receipts, newest first; nothing is opened."""
    return [path.name for path in _files(layout) if moment_of(path.name) is not None]


def load_named(layout: Layout, name: str) -> Receipt | None:
    """Return the receipt of that file name, or None where there is none that can be read."""
    try:
        receipt = parse_receipt(json.loads(read_regular(layout.receipts / name, MAX_BYTES).decode("utf-8")))
    except (OSError, ValueError, RecursionError):
        return None
    return receipt if receipt.name == name else None


def remove(filesystem: Filesystem, layout: Layout, name: str) -> None:
    """Have no receipt of that file name, nor its marker."""
    filesystem.remove_tree(layout.receipts / name)
    _remove_marker(filesystem, layout, name)


def moment_of(name: str) -> datetime | None:
    """Return when the receipt of that file name was begun, aware; None where it is no receipt's name."""
    if not _NAME.fullmatch(name):
        return None
    try:
        return datetime.strptime(name.partition("-")[0], "%Y%m%dT%H%M%S.%fZ").replace(tzinfo=timezone.utc)
    except ValueError:
        return None


def list_markers(layout: Layout) -> list[str]:
    """Return the file names of the receipts that are marked as unfinished."""
    try:
        return [f"{name}.json" for name in sorted(os.listdir(layout.unfinished)) if moment_of(f"{name}.json")]
    except OSError:
        return []


def _load_marked(filesystem: Filesystem, layout: Layout) -> list[Receipt]:
    """Return the unfinished receipts; a marker that a crash left beside a finished one is removed."""
    found = []
    for name in list_markers(layout):
        receipt = load_named(layout, name)
        if receipt is not None and receipt.status == "started":
            found.append(receipt)
        elif receipt is not None or (layout.receipts / name).exists():
            # Finished, or damaged, which reading all of them names. One that is not there yet is just being written.
            _remove_marker(filesystem, layout, name)
    return found


def _remove_marker(filesystem: Filesystem, layout: Layout, name: str) -> None:
    # The outcome is on the disk; a marker that stays is removed by the next operation, and is no failure of this one.
    with contextlib.suppress(PerdureError):
        filesystem.remove_tree(layout.unfinished / Path(name).stem)


def load_all(layout: Layout, limit: int | None = None) -> tuple[list[Receipt], list[Unreadable]]:
    """Return the newest `limit` receipts, newest first, and the files met on the way that are none."""
    found: list[Receipt] = []
    damaged: list[Unreadable] = []
    for path in _files(layout):
        if limit is not None and len(found) >= limit:
            break
        try:
            found.append(parse_receipt(json.loads(read_regular(path, MAX_BYTES).decode("utf-8"))))
        except FileNotFoundError:
            continue
        except (OSError, ValueError, RecursionError) as error:
            damaged.append(Unreadable(path, str(error)))
    return found, damaged


def latest(layout: Layout) -> Receipt | None:
    """Return the newest receipt that can be read. For people: a caller has its own receipt from the worker."""
    found, _ = load_all(layout, 1)
    return found[0] if found else None


def parse_receipt(data: object) -> Receipt:
    """Return the receipt in `data`.

    Raises:
        ValueError: it is none; every fault is named by its field.
    """
    if not isinstance(data, dict):
        raise ValueError("not an object")  # noqa: TRY004 -- the file's contents are wrong, not the caller's types
    if data.get("schema") != SCHEMA:
        raise ValueError(f"schema: {data.get('schema')!r}, and this PM reads {SCHEMA}")
    faults = [f"{name}: missing" for name in _KINDS if name not in data]
    faults += [f"{name}: wrong type" for name, kinds in _KINDS.items() if name in data and not _is(data[name], kinds)]
    if not faults and data["status"] not in STATUSES:
        faults.append(f"status: {data['status']!r} is none of {', '.join(STATUSES)}")
    if not faults and not all(isinstance(item, str) for item in data["obligations"]):
        faults.append("obligations: not all strings")
    if faults:
        raise ValueError("; ".join(faults))
    values = {entry.name: data[entry.name] for entry in fields(Receipt)}
    return Receipt(**{**values, "obligations": tuple(data["obligations"])})


def stamp(moment: datetime) -> str:
    """Return `moment` as a receipt writes it."""
    return moment.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


_KINDS: Mapping[str, tuple[type, ...]] = {
    "id": (str,),
    "operation": (str,),
    "correlation": (str,),
    "started": (str,),
    "finished": (str, type(None)),
    "status": (str,),
    "pid": (int,),
    "boot_id": (str,),
    "process_start": (str, type(None)),
    "data": (dict,),
    "error": (dict, type(None)),
    "obligations": (list,),
}


def _is(value: object, kinds: tuple[type, ...]) -> bool:
    return isinstance(value, kinds) and not isinstance(value, bool)


def _files(layout: Layout) -> Iterator[Path]:
    try:
        names = os.listdir(layout.receipts)
    except OSError:
        return
    for name in sorted(names, reverse=True):
        if name.endswith(".json") and not name.startswith("."):
            yield layout.receipts / name


def _write(filesystem: Filesystem, layout: Layout, receipt: Receipt) -> None:
    text = json.dumps(receipt.to_json(), indent=2, sort_keys=False) + "\n"
    filesystem.write_durable(layout.receipts / receipt.name, text.encode("ascii"))
