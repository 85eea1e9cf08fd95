"""Receipts: what every operation left behind, refusals and no-ops included.

Owns: the form of a receipt, writing it before the operation and finishing it after, closing those of dead writers,
and reading them. Does not own: what an operation puts into one. Nothing ever triggers an action from a receipt; they
are for people and for callers. Invariants: receipt-before-work, receipt-dead-writer-closed, receipt-damage-named.

Standard library only, Python 3.9: bootstrap writes one when it refuses.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NamedTuple

from perdure_pm.ports import Filesystem
from perdure_pm.store.layout import Layout
from perdure_pm.store.reading import read_regular

SCHEMA = 1
MAX_BYTES = 16 << 20
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
    filesystem: Filesystem, layout: Layout, *, operation: str, correlation: str, writer: Writer, now: datetime
) -> Receipt:
    """Write a durable receipt that says `started`, before anything else is done, and return it.

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
    filesystem.make_directories(layout.receipts)
    _write(filesystem, layout, receipt)
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
    return finished


def close_interrupted(
    filesystem: Filesystem, layout: Layout, *, now: datetime, still_runs: Callable[[int, str, str | None], bool]
) -> list[Receipt]:
    """Say `interrupted` in every receipt whose writer died before it finished it, and return those.

    A writer that only *looks* dead from here (another process namespace on the same home) writes its own outcome over
    this one later, so a wrong guess heals itself.
    """
    found, _ = load_all(layout)
    return [
        finish(filesystem, layout, receipt, status="interrupted", now=now, data=receipt.data)
        for receipt in found
        if receipt.status == "started" and not still_runs(*receipt.writer)
    ]


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
