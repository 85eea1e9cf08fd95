"""The schema of approvals.db, as the steps that lead to it.

Owns: the migrations, forward only, each in one transaction with the number it leads to. Does not own: what is written
into the tables (sqlite). Keeps: store-migrations-forward, store-newer-refused, and, by triggers that hold for every
writer: store-terminal-final, store-payload-once, audit-append-only.

A step that was released is never changed. Within one step tables come first, then columns, then indexes: an index over
a column that an older database lacks would fail before the column is there.
"""

from __future__ import annotations

import sqlite3

from perdure.domain.record import dataclass

APPLICATION_ID = 0x50524456
"""Marks the file as ours ("PRDV"): a database of something else is not written to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What leads from one number to the next."""

    tables: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    indexes: tuple[str, ...] = ()
    """Indexes and triggers."""


_FIRST = Step(
    tables=(
        """CREATE TABLE proposals (
    id TEXT PRIMARY KEY,
    profile TEXT NOT NULL,
    session TEXT NOT NULL,
    parent TEXT,
    batch TEXT,
    owner TEXT NOT NULL,
    digest TEXT NOT NULL,
    created INTEGER NOT NULL,
    expires INTEGER NOT NULL,
    payload BLOB NOT NULL,
    payload_sha256 TEXT NOT NULL,
    status TEXT NOT NULL DEFAULT 'pending'
        CHECK (status IN ('pending', 'approved', 'declined', 'expired', 'cancelled')),
    scope TEXT,
    cause TEXT,
    reason TEXT,
    answered_by TEXT,
    answered_via TEXT,
    settled INTEGER,
    execution TEXT NOT NULL DEFAULT 'not-started' CHECK (execution IN
        ('not-started', 'dispatching', 'executed', 'failed-to-start', 'blocked', 'unknown-after-crash')),
    execution_reason TEXT,
    run TEXT,
    runner_pid INTEGER,
    runner_born TEXT
) STRICT""",
        """CREATE TABLE waiters (
    id TEXT PRIMARY KEY,
    proposal TEXT NOT NULL REFERENCES proposals (id),
    pid INTEGER NOT NULL,
    born TEXT NOT NULL,
    joined INTEGER NOT NULL,
    left_at INTEGER,
    cause TEXT
) STRICT""",
        """CREATE TABLE grants (
    id TEXT PRIMARY KEY,
    profile TEXT NOT NULL,
    rule_key TEXT,
    argv_template TEXT,
    cwd_prefix TEXT,
    path_prefix TEXT,
    principal TEXT NOT NULL,
    session TEXT,
    created INTEGER NOT NULL,
    expires INTEGER,
    uses_left INTEGER CHECK (uses_left >= 0),
    revoked INTEGER,
    granted_by TEXT NOT NULL,
    CHECK ((rule_key IS NULL) <> (argv_template IS NULL))
) STRICT""",
        """CREATE TABLE audit (
    seq INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    event TEXT NOT NULL,
    subject TEXT NOT NULL,
    said TEXT NOT NULL,
    previous TEXT NOT NULL,
    hash TEXT NOT NULL
) STRICT""",
    ),
    indexes=(
        "CREATE INDEX proposals_open ON proposals (profile, session, digest) WHERE status = 'pending'",
        "CREATE INDEX proposals_due ON proposals (expires) WHERE status = 'pending'",
        "CREATE INDEX proposals_dispatching ON proposals (execution) WHERE execution = 'dispatching'",
        "CREATE INDEX waiters_of ON waiters (proposal) WHERE left_at IS NULL",
        "CREATE INDEX grants_live ON grants (profile, session) WHERE revoked IS NULL",
        """CREATE TRIGGER proposals_are_written_once
BEFORE UPDATE OF id, profile, session, parent, batch, owner, digest, created, expires, payload, payload_sha256
ON proposals BEGIN SELECT RAISE(ABORT, 'a proposal is never rewritten'); END""",
        """CREATE TRIGGER a_settled_proposal_stays_so
BEFORE UPDATE OF status, scope, cause, reason, answered_by, answered_via, settled ON proposals
WHEN OLD.status <> 'pending' BEGIN SELECT RAISE(ABORT, 'a settled proposal stays so'); END""",
        """CREATE TRIGGER an_ended_execution_stays_so
BEFORE UPDATE OF execution, execution_reason, run ON proposals
WHEN OLD.execution NOT IN ('not-started', 'dispatching')
BEGIN SELECT RAISE(ABORT, 'an ended execution stays so'); END""",
        """CREATE TRIGGER nothing_runs_unless_approved
BEFORE UPDATE OF execution ON proposals
WHEN NEW.execution IN ('dispatching', 'executed', 'failed-to-start', 'unknown-after-crash')
    AND NEW.status <> 'approved'
BEGIN SELECT RAISE(ABORT, 'nothing runs unless it was approved'); END""",
        """CREATE TRIGGER proposals_are_kept BEFORE DELETE ON proposals
BEGIN SELECT RAISE(ABORT, 'a proposal is kept'); END""",
        """CREATE TRIGGER audit_is_not_rewritten BEFORE UPDATE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit trail is only appended to'); END""",
        """CREATE TRIGGER audit_is_kept BEFORE DELETE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit trail is only appended to'); END""",
    ),
)

_STANDING = Step(
    tables=(
        """CREATE TABLE standing (
    profile TEXT NOT NULL,
    place TEXT NOT NULL,
    line TEXT NOT NULL,
    PRIMARY KEY (profile, place, line)
) STRICT""",
    ),
)

STEPS: tuple[Step, ...] = (_FIRST, _STANDING)
"""The step at index N leads from schema N to N + 1; 0 is an empty file."""
CURRENT = len(STEPS)


def migrate(connection: sqlite3.Connection, steps: tuple[Step, ...] = STEPS) -> None:
    """Have the database be of the last schema; `connection` is in no transaction, and leaves none.

    Raises:
        SchemaNewer: a later version of Perdure has written it.
        SchemaForeign: it is not ours.
        sqlite3.Error: it cannot be done; the database is as it was.
    """
    number = number_of(connection, len(steps))
    if number == len(steps):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have been faster.
        number = number_of(connection, len(steps))
        for step in steps[number:]:
            for statement in (*step.tables, *step.columns, *step.indexes):
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {len(steps)}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


class SchemaNewer(Exception):
    """The database is of a schema that this version does not know."""


class SchemaForeign(Exception):
    """The database is something else's."""


def number_of(connection: sqlite3.Connection, known: int = CURRENT) -> int:
    """Return the schema that the database is of; nothing is written.

    Raises:
        SchemaNewer: it is above the `known` one.
        SchemaForeign: it is not ours.
    """
    number = int(connection.execute("PRAGMA user_version").fetchone()[0])
    mark = int(connection.execute("PRAGMA application_id").fetchone()[0])
    if number > known and mark == APPLICATION_ID:
        raise SchemaNewer(str(number))
    foreign = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] if mark != APPLICATION_ID else 0
    if foreign:
        raise SchemaForeign(str(number))
    return number
