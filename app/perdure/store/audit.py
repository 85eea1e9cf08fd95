"""The audit trail: one row for everything that changed, each bound to the one before it.

Owns: the rows, and checking that none was changed, left out or put in between. Does not own: when something is worth a
row (sqlite, in the same transaction as the change). Keeps: audit-append-only, audit-chained.

Whoever may write the file may also cut off its end: nothing inside a file can show that. The last hash, kept elsewhere,
does; `perdure approvals audit` prints it.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator, Mapping

from perdure.domain.json_value import JsonValue
from perdure.store.port import Line

BEGIN = "0" * 64


def append(connection: sqlite3.Connection, at: int, event: str, subject: str, said: Mapping[str, JsonValue]) -> None:
    """Have one more row, in the transaction that is open."""
    last = connection.execute("SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1").fetchone() or (0, BEGIN)
    seq, text = int(last[0]) + 1, json.dumps(said, sort_keys=True)
    row = (seq, at, event, subject, text, last[1])
    connection.execute("INSERT INTO audit VALUES (?, ?, ?, ?, ?, ?, ?)", (*row, _hash(row)))


def lines(connection: sqlite3.Connection, last: int | None = None) -> Iterator[Line]:
    """Yield the rows in order, the `last` ones of them where that is given."""
    query = "SELECT seq, at, event, subject, said, hash FROM audit ORDER BY seq DESC LIMIT ?"
    for seq, at, event, subject, said, code in reversed(connection.execute(query, (last or -1,)).fetchall()):
        yield Line(seq=seq, at=at, event=event, subject=subject, said=json.loads(said), hash=code)


def faults(connection: sqlite3.Connection) -> list[str]:
    """Return where the chain is broken; nothing where it is whole."""
    found, previous, expected = [], BEGIN, 1
    query = "SELECT seq, at, event, subject, said, previous, hash FROM audit ORDER BY seq"
    for *row, code in connection.execute(query):
        if row[0] != expected:
            found.append(f"row {expected} is missing")
        if row[5] != previous:
            found.append(f"row {row[0]} does not follow the one before it")
        if _hash(tuple(row)) != code:
            found.append(f"row {row[0]} is not what was written")
        previous, expected = code, row[0] + 1
    return found


def _hash(row: tuple[object, ...]) -> str:
    return hashlib.sha256(json.dumps(row).encode()).hexdigest()
