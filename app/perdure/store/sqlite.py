"""Proposals in a SQLite file.

Owns: the lifecycle of a proposal, as transitions that compare and set, each with its row of the audit trail in the
same transaction. Does not own: who may answer (approvals), the file (database), grants (grants). Keeps:
store-one-winner, store-terminal-final, store-payload-once, store-expiry-enforced, store-boot-true, approval-single-use,
approval-orphan-not-run.

A crash between two transactions leaves a row in one of the states that `sweep` knows: dispatching, whose runner is
gone and of which nobody knows whether its process started; or approved, whose waiters are gone before one claimed it.
"""

from __future__ import annotations

import datetime as dt
import functools
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from perdure.domain.errors import ProposalSettled, ProposalUnknown, StoreDamaged, StoreUnavailable
from perdure.domain.grant import Grant
from perdure.domain.json_value import JsonValue
from perdure.domain.operation import Surface
from perdure.domain.outcome import Cause, Execution, Scope, Status
from perdure.domain.proposal import ORPHAN, Answer, Answerer, Entry, Lifecycle, Proposal
from perdure.store import audit
from perdure.store.database import Database
from perdure.store.grants import SqliteGrants, at_of, millis
from perdure.store.living import Process, is_alive, this_process
from perdure.store.payload import PayloadCorrupt, dump, load
from perdure.store.port import Line, SessionSeen, Swept

_LIFE = (
    "status, scope, cause, reason, answered_by, answered_via, settled, execution, execution_reason, run, runner_pid, "
    "runner_born"
)
_COLUMNS = f"id, payload, payload_sha256, {_LIFE}"
_STATUSES: Mapping[object, Status] = {each.value: each for each in Status}
_EXECUTIONS: Mapping[object, Execution] = {each.value: each for each in Execution}
_OPEN = [Status.PENDING.value, *[None] * 6, Execution.NOT_STARTED.value, *[None] * 4]
"""The columns of `_LIFE` of a proposal to which nothing has happened yet."""
_UNRUN = (Execution.NOT_STARTED.value, Execution.DISPATCHING.value)


class SqliteStore(SqliteGrants):
    """The proposals and grants of one profile."""

    def __init__(
        self,
        path: Path,
        profile: str,
        *,
        database: Database | None = None,
        process: Process | None = None,
        alive: Callable[[Process], bool] = is_alive,
    ) -> None:
        """Open the file; see `Database` for what that may raise."""
        super().__init__(database or Database(path), profile)
        self._process = process or this_process()
        self._alive = alive

    def close(self) -> None:
        """Let go of the file."""
        self._database.close()

    def submit(self, proposal: Proposal, waiter: str) -> Entry:
        data, digest = dump(proposal)
        created = millis(proposal.created)
        with self._database.writing() as connection:
            self._expire(connection, created)
            row = connection.execute(
                "SELECT id FROM proposals WHERE status = 'pending' AND profile = ? AND session = ? AND digest = ? "
                "AND batch IS ?",
                (self._profile, proposal.session, proposal.digest, proposal.batch),
            ).fetchone()
            if row is None:
                known = connection.execute("SELECT 1 FROM proposals WHERE id = ?", (proposal.id,)).fetchone()
                if known is not None:
                    raise StoreUnavailable(f"there is a proposal {proposal.id} already", context={"id": proposal.id})
                connection.execute(
                    "INSERT INTO proposals (id, profile, session, parent, batch, owner, digest, created, expires, "
                    "payload, payload_sha256) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    (
                        *(proposal.id, self._profile, proposal.session, proposal.parent, proposal.batch),
                        *(proposal.requester.name, proposal.digest, created, millis(proposal.expires), data, digest),
                    ),
                )
                said: dict[str, JsonValue] = {
                    "session": proposal.session,
                    "requester": proposal.requester.name,
                    "digest": proposal.digest,
                    "payload": digest,
                    "policy": proposal.pinned.policy_version,
                }
                audit.append(connection, created, "proposed", proposal.id, said)
            kept = proposal.id if row is None else str(row[0])
            connection.execute(
                "INSERT INTO waiters (id, proposal, pid, born, joined) VALUES (?, ?, ?, ?, ?)",
                (waiter, kept, self._process.pid, self._process.born, created),
            )
            return self._entry(connection, kept)

    def get(self, proposal: str) -> Entry:
        with self._database.reading() as connection:
            return self._entry(connection, proposal)

    def entries(self, *, status: Status | None = None, most: int | None = None) -> list[Entry]:
        with self._database.reading() as connection:
            rows = connection.execute(
                f"SELECT {_COLUMNS} FROM proposals WHERE profile = ? AND (? IS NULL OR status = ?) "  # noqa: S608  # names of columns
                "ORDER BY created DESC, rowid DESC LIMIT ?",
                (self._profile, status, status, -1 if most is None else most),
            ).fetchall()
            waiting = self._all_waiting(connection)
            return [self._read(row, waiting.get(str(row[0]), 0)) for row in reversed(rows)]

    def answer(
        self, proposal: str, answer: Answer, by: Answerer, now: dt.datetime, grants: Sequence[Grant] = ()
    ) -> Entry:
        at = millis(now)
        with self._database.reading() as connection:
            # Whoever is late does not make the others wait; who wins is decided below.
            before = self._entry(connection, proposal)
        if before.life.status is not Status.PENDING:
            raise _settled(before)
        with self._database.writing() as connection:
            self._expire(connection, at)
            status = Status.APPROVED if answer.approve else Status.DECLINED
            orphan = answer.approve and not self._waiting(connection, proposal)
            done = self._settle(
                connection,
                proposal,
                at,
                status=status,
                scope=answer.scope.value if answer.approve else None,
                reason=_text(answer.reason),
                answered_by=_text(by.principal.name),
                answered_via=by.surface.value,
                **({"execution": Execution.BLOCKED.value, "execution_reason": ORPHAN} if orphan else {}),
            )
            if done:
                for grant in grants if answer.approve else ():
                    self._add(connection, grant)
            entry = self._entry(connection, proposal)
        if not done:
            raise _settled(entry)
        return entry

    def leave(self, proposal: str, waiter: str, cause: Cause | None, now: dt.datetime, why: str | None = None) -> Entry:
        at = millis(now)
        with self._database.writing() as connection:
            left = connection.execute(
                # An answer that was acknowledged is there to be claimed: who has one, still waits.
                "UPDATE waiters SET left_at = ?, cause = ? WHERE id = ? AND proposal = ? AND left_at IS NULL "
                "AND NOT EXISTS (SELECT 1 FROM proposals WHERE proposals.id = waiters.proposal "
                "AND status = 'approved' AND execution = 'not-started')",
                (at, cause, waiter, proposal),
            ).rowcount
            if left and cause is not None:
                audit.append(connection, at, "left", proposal, {"waiter": waiter, "cause": cause.value})
            if left and not self._waiting(connection, proposal):
                status = Status.EXPIRED if cause is None else Status.CANCELLED
                self._settle(connection, proposal, at, status=status, cause=cause, reason=_text(why))
            return self._entry(connection, proposal)

    def expire(self, now: dt.datetime) -> int:
        with self._database.writing() as connection:
            return self._expire(connection, millis(now))

    def cancel_session(self, session: str, cause: Cause, now: dt.datetime) -> list[str]:
        query = """WITH RECURSIVE below (session, own) AS (
    VALUES (?, 1) UNION SELECT proposals.session, 0 FROM proposals JOIN below ON proposals.parent = below.session
    WHERE proposals.profile = ?
) SELECT proposals.id, max(below.own) FROM proposals JOIN below ON proposals.session = below.session
WHERE proposals.status = 'pending' AND proposals.profile = ? GROUP BY proposals.id ORDER BY proposals.rowid"""
        with self._database.writing() as connection:
            found = connection.execute(query, (session, self._profile, self._profile)).fetchall()
            for identity, own in found:
                # A child ends because its parent did; what ended the parent is kept beside it.
                why = None if own else cause.value
                ended = cause if own else Cause.PARENT_ENDED
                self._settle(connection, identity, millis(now), status=Status.CANCELLED, cause=ended, reason=why)
            return [str(identity) for identity, _own in found]

    def cancel_batch(self, batch: str, now: dt.datetime) -> list[str]:
        query = "SELECT id FROM proposals WHERE status = 'pending' AND profile = ? AND batch = ? ORDER BY rowid"
        with self._database.writing() as connection:
            found = [str(row[0]) for row in connection.execute(query, (self._profile, batch))]
            for identity in found:
                self._settle(
                    connection, identity, millis(now), status=Status.CANCELLED, cause=Cause.BATCH_CLOSED, reason=None
                )
            return found

    def begin(self, proposal: str, waiter: str, run: str, now: dt.datetime) -> bool:
        with self._database.writing() as connection:
            done = connection.execute(
                "UPDATE proposals SET execution = 'dispatching', run = ?, runner_pid = ?, runner_born = ? "
                "WHERE id = ? AND profile = ? AND status = 'approved' AND execution = 'not-started' "
                "AND EXISTS (SELECT 1 FROM waiters WHERE waiters.id = ? AND proposal = proposals.id)",
                (run, self._process.pid, self._process.born, proposal, self._profile, waiter),
            ).rowcount
            if done:
                audit.append(connection, millis(now), "dispatching", proposal, {"run": run})
            connection.execute("UPDATE waiters SET left_at = ? WHERE id = ?", (millis(now), waiter))
            return bool(done)

    def executed(self, proposal: str, pid: int, now: dt.datetime) -> None:
        self._end(proposal, Execution.EXECUTED, None, now, {"pid": pid}, of=(Execution.DISPATCHING,))

    def not_started(self, proposal: str, reason: str, now: dt.datetime) -> None:
        self._end(proposal, Execution.FAILED_TO_START, reason, now, {}, of=(Execution.DISPATCHING,))

    def block(self, proposal: str, reason: str, now: dt.datetime) -> bool:
        return self._end(proposal, Execution.BLOCKED, reason, now, {}, of=(Execution.NOT_STARTED,))

    def sweep(self, now: dt.datetime) -> Swept:
        at, unknown, orphaned = millis(now), 0, 0
        with self._database.writing() as connection:
            expired = self._expire(connection, at)
            rows = connection.execute(
                "SELECT id, execution, runner_pid, runner_born FROM proposals WHERE status = 'approved' "
                "AND execution IN (?, ?) AND profile = ?",
                (*_UNRUN, self._profile),
            ).fetchall()
            for identity, execution, pid, born in rows:
                if execution == Execution.DISPATCHING:
                    if self._alive(Process(pid=pid or 0, born=born or "")):
                        continue
                    ended, why, unknown = Execution.UNKNOWN_AFTER_CRASH, None, unknown + 1
                elif self._waiting(connection, identity):
                    continue
                else:
                    ended, why, orphaned = Execution.BLOCKED, ORPHAN, orphaned + 1
                connection.execute(
                    "UPDATE proposals SET execution = ?, execution_reason = ? WHERE id = ?", (ended, why, identity)
                )
                audit.append(connection, at, ended.value, identity, {"reason": why})
        return Swept(expired=expired, unknown=unknown, orphaned=orphaned)

    def sessions(self) -> list[SessionSeen]:
        query = """SELECT session, max(parent), owner, count(*), sum(status = 'pending'), max(created)
FROM proposals WHERE profile = ? GROUP BY session, owner ORDER BY max(created)"""
        with self._database.reading() as connection:
            waiting: dict[str, int] = {}
            rows = connection.execute("SELECT id, session FROM proposals WHERE status = 'pending'").fetchall()
            counts = self._all_waiting(connection)
            for identity, session in rows:
                waiting[session] = waiting.get(session, 0) + counts.get(identity, 0)
            return [
                SessionSeen(
                    session=session,
                    parent=parent,
                    owner=owner,
                    proposals=count,
                    pending=pending,
                    waiting=waiting.get(session, 0),
                    last=at_of(last),
                )
                for session, parent, owner, count, pending, last in connection.execute(query, (self._profile,))
            ]

    def version(self) -> int:
        return self._database.version()

    def audit(self, most: int | None = None) -> list[Line]:
        with self._database.reading() as connection:
            return list(audit.lines(connection, most))

    def audit_faults(self) -> list[str]:
        with self._database.reading() as connection:
            return audit.faults(connection)

    def _end(
        self,
        proposal: str,
        execution: Execution,
        reason: str | None,
        now: dt.datetime,
        said: Mapping[str, JsonValue],
        *,
        of: Iterable[Execution],
    ) -> bool:
        before = [each.value for each in of]
        with self._database.writing() as connection:
            done = connection.execute(
                "UPDATE proposals SET execution = ?, execution_reason = ? WHERE id = ? AND profile = ? "
                "AND status = 'approved' AND execution = ?",
                (execution, _text(reason), proposal, self._profile, *before),
            ).rowcount
            if done:
                audit.append(connection, millis(now), execution.value, proposal, {"reason": _text(reason), **said})
            return bool(done)

    def _expire(self, connection: sqlite3.Connection, at: int) -> int:
        due = connection.execute(
            "SELECT id FROM proposals WHERE status = 'pending' AND expires <= ? ORDER BY rowid", (at,)
        ).fetchall()
        for (identity,) in due:
            self._settle(connection, identity, at, status=Status.EXPIRED)
        return len(due)

    @staticmethod
    def _settle(
        connection: sqlite3.Connection, proposal: str, at: int, *, status: Status, **columns: str | None
    ) -> bool:
        """Have an open proposal settled; False where it was before: the first one wins."""
        values: dict[str, str | int | None] = {"status": status.value, "settled": at, **columns}
        names = ", ".join(f"{name} = ?" for name in values)
        done = connection.execute(
            f"UPDATE proposals SET {names} WHERE id = ? AND status = 'pending'",  # noqa: S608  # names of columns
            (*values.values(), proposal),
        ).rowcount
        if done:
            audit.append(connection, at, status.value, proposal, dict[str, JsonValue](columns))
        return bool(done)

    def _waiting(self, connection: sqlite3.Connection, proposal: str) -> int:
        rows = connection.execute("SELECT pid, born FROM waiters WHERE proposal = ? AND left_at IS NULL", (proposal,))
        return sum(self._alive(Process(pid=pid, born=born)) for pid, born in rows)

    def _all_waiting(self, connection: sqlite3.Connection) -> dict[str, int]:
        """Return how many wait for each proposal; each process is looked at once."""
        alive: dict[tuple[int, str], bool] = {}
        found: dict[str, int] = {}
        for proposal, pid, born in connection.execute("SELECT proposal, pid, born FROM waiters WHERE left_at IS NULL"):
            if (known := alive.get((pid, born))) is None:
                known = alive[pid, born] = self._alive(Process(pid=pid, born=born))
            found[proposal] = found.get(proposal, 0) + known
        return found

    def _entry(self, connection: sqlite3.Connection, proposal: str) -> Entry:
        row = connection.execute(
            f"SELECT {_COLUMNS} FROM proposals WHERE id = ? AND profile = ?",  # noqa: S608  # names of columns
            (proposal, self._profile),
        ).fetchone()
        if row is None:
            raise ProposalUnknown(
                f"there is no proposal {proposal!r} in profile {self._profile}", context={"id": proposal}
            )
        return self._read(row, self._waiting(connection, proposal))

    def _read(self, row: tuple[object, ...], waiting: int) -> Entry:
        identity, data, digest, *life = row
        try:
            proposal = load(data, digest)
            if proposal.id != identity:
                raise PayloadCorrupt("its id is another one")
            if life == _OPEN:
                return Entry(proposal=proposal, life=_open_life(waiting))
            status, scope, cause, reason, by, via, settled, execution, execution_reason, run, *_runner = life
            return Entry(
                proposal=proposal,
                life=Lifecycle(
                    status=_STATUSES[status],
                    scope=None if scope is None else Scope(str(scope)),
                    cause=None if cause is None else Cause(str(cause)),
                    reason=_optional(reason),
                    answered_by=_optional(by),
                    answered_via=None if via is None else Surface(str(via)),
                    settled=at_of(settled) if isinstance(settled, int) else None,
                    execution=_EXECUTIONS[execution],
                    execution_reason=_optional(execution_reason),
                    run=_optional(run),
                    waiters=waiting if status == Status.PENDING else 0,
                ),
            )
        except (ValueError, KeyError) as error:
            raise StoreDamaged(
                f"{self._database.path}: the proposal {identity} is damaged: {error}",
                context={"path": str(self._database.path), "id": str(identity)},
            ) from error


@functools.lru_cache(maxsize=64)
def _open_life(waiting: int) -> Lifecycle:
    """Return the life of an open proposal, which is nearly always the same: a list may have a thousand of them."""
    return Lifecycle(waiters=waiting)


def _settled(entry: Entry) -> ProposalSettled:
    life = entry.life
    how = life.status.value if life.cause is None else f"{life.status.value} ({life.cause.value})"
    return ProposalSettled(
        f"the proposal {entry.proposal.id} is {how} already: this answer resolves nothing",
        context={"id": entry.proposal.id, "status": life.status.value, "cause": life.cause and life.cause.value},
    )


def _optional(value: object) -> str | None:
    return None if value is None else str(value)


def _text(value: str | None) -> str | None:
    """Return what a column of text can hold: what came as bytes that are none is spelled out."""
    return None if value is None else value.encode("utf-8", "backslashreplace").decode()
