"""Grants in a SQLite file.

Owns: the rows of the tables `grants` and `standing` (what was noted of the operator's own file), with theirs of the
audit trail. Does not own: what a grant covers, or that file (approvals). Keeps: audit-standing-told,
grants-transactional: a grant that was revoked or used up counts for no call that begins afterwards.
"""

from __future__ import annotations

import datetime as dt
import sqlite3
from collections.abc import Collection, Mapping, Sequence

from perdure.domain.grant import Grant
from perdure.domain.json_value import JsonValue
from perdure.store import audit
from perdure.store.database import Database
from perdure.store.port import StandingLine

_NAMES = (
    *("id", "profile", "rule_key", "argv_template", "cwd_prefix", "path_prefix", "principal", "session"),
    *("created", "expires", "uses_left", "revoked", "granted_by"),
)
_TIMES = ("created", "expires", "revoked")
_SELECT = f"SELECT {', '.join(_NAMES)} FROM grants"  # noqa: S608  # names of columns
_LIVE = "revoked IS NULL AND (expires IS NULL OR expires > ?) AND (uses_left IS NULL OR uses_left > 0)"


class SqliteGrants:
    """The grants of one profile."""

    def __init__(self, database: Database, profile: str) -> None:
        """Know the open file."""
        self._database = database
        self._profile = profile

    def live_grants(self, profile: str, session: str, now: dt.datetime) -> Sequence[Grant]:
        query = f"{_SELECT} WHERE profile = ? AND (session IS NULL OR session = ?) AND {_LIVE} ORDER BY rowid"
        with self._database.reading() as connection:
            return [_grant(row) for row in connection.execute(query, (profile, session, millis(now)))]

    def grants(self) -> Sequence[Grant]:
        with self._database.reading() as connection:
            return [
                _grant(row)
                for row in connection.execute(f"{_SELECT} WHERE profile = ? ORDER BY rowid", (self._profile,))
            ]

    def add_grant(self, grant: Grant) -> None:
        with self._database.writing() as connection:
            self._add(connection, grant)

    def revoke_grant(self, grant: str, now: dt.datetime) -> bool:
        with self._database.writing() as connection:
            done = connection.execute(
                "UPDATE grants SET revoked = ? WHERE id = ? AND profile = ? AND revoked IS NULL",
                (millis(now), grant, self._profile),
            ).rowcount
            if done:
                audit.append(connection, millis(now), "revoked", grant, {})
            return bool(done)

    def use_grant(self, grant: str, now: dt.datetime) -> bool:
        with self._database.writing() as connection:
            # NULL stays NULL: a grant without a number of uses is not counted.
            done = connection.execute(
                f"UPDATE grants SET uses_left = uses_left - 1 WHERE id = ? AND profile = ? AND {_LIVE}",  # noqa: S608  # a constant
                (grant, self._profile, millis(now)),
            ).rowcount
            return bool(done)

    def note_standing(self, lines: Collection[StandingLine], now: dt.datetime, said: Mapping[str, JsonValue]) -> None:
        wanted = {(each.place, each.line) for each in lines}
        with self._database.reading() as connection:
            # Nearly always nothing has changed, and nobody is kept waiting for that.
            if self._noted(connection) == wanted:
                return
        with self._database.writing() as connection:
            known = self._noted(connection)
            for event, changed in (("line-removed", known - wanted), ("line-added", wanted - known)):
                for place, line in sorted(changed):
                    row = (self._profile, place, line)
                    if event == "line-added":
                        connection.execute("INSERT INTO standing (profile, place, line) VALUES (?, ?, ?)", row)
                    else:
                        connection.execute("DELETE FROM standing WHERE profile = ? AND place = ? AND line = ?", row)
                    audit.append(connection, millis(now), event, place, {"line": line, **said})

    def _noted(self, connection: sqlite3.Connection) -> set[tuple[str, str]]:
        rows = connection.execute("SELECT place, line FROM standing WHERE profile = ?", (self._profile,))
        return {(str(place), str(line)) for place, line in rows}

    def _add(self, connection: sqlite3.Connection, grant: Grant) -> None:
        values = [getattr(grant, name) for name in _NAMES]
        row = [millis(value) if isinstance(value, dt.datetime) else value for value in values]
        marks = ", ".join("?" * len(_NAMES))
        connection.execute(f"INSERT INTO grants ({', '.join(_NAMES)}) VALUES ({marks})", row)  # noqa: S608  # names of columns
        audit.append(
            connection,
            millis(grant.created),
            "granted",
            grant.id,
            {"covers": grant.shown(), "session": grant.session, "by": grant.granted_by},
        )


def _grant(row: tuple[object, ...]) -> Grant:
    values = dict(zip(_NAMES, row, strict=True))
    for name in _TIMES:
        value = values[name]
        values[name] = at_of(value) if isinstance(value, int) else None
    return Grant(**values)  # type: ignore[arg-type]  # the schema is STRICT: each column holds its type


def millis(at: dt.datetime) -> int:
    """Return a time as the tables hold it: milliseconds since 1970, UTC."""
    return round(at.timestamp() * 1000)


def at_of(value: int) -> dt.datetime:
    """Return the time that a table holds."""
    return dt.datetime.fromtimestamp(value / 1000, dt.UTC)
