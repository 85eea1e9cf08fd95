"""The file that proposals are kept in: who may read it, what is wrong with it, and what another program did to it."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from perdure.domain.errors import StoreBusy, StoreDamaged, StoreNewer, StoreUnavailable
from perdure.domain.outcome import Cause, Execution, Status
from perdure.domain.proposal import Answer, new_id
from perdure.store.database import Database
from perdure.store.living import Process, is_alive, this_process
from perdure.store.schema import APPLICATION_ID, CURRENT, STEPS, Step
from perdure.store.sqlite import SqliteStore
from tests.app.store.proposals import NOW, OPERATOR, SECOND, proposal, store_in

SCHEMAS = sorted((Path(__file__).parent / "schemas").glob("*.sql"))
YES = Answer(approve=True)
LATER = NOW + SECOND


def raw(path: Path) -> sqlite3.Connection:
    """Return another program's connection."""
    return sqlite3.connect(path, isolation_level=None)


@pytest.mark.platforms("linux", "darwin")
@pytest.mark.proves("store-private")
def test_the_file_and_those_beside_it_are_for_the_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "state" / "default"
    before = os.umask(0)
    try:
        store = store_in(folder)
        store.submit(proposal(), "w")
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert modes == dict.fromkeys(("approvals.db", "approvals.db-wal", "approvals.db-shm"), 0o600)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    store.close()
    (folder / "approvals.db").chmod(0o644)
    store_in(folder).close()
    assert stat.S_IMODE((folder / "approvals.db").stat().st_mode) == 0o600


@pytest.mark.proves("store-payload-once", "store-terminal-final", "audit-append-only", "approval-single-use")
def test_the_database_itself_refuses_what_no_writer_may_do(tmp_path: Path) -> None:
    store, made, other = store_in(tmp_path), proposal(), proposal("other")
    store.submit(made, "w")
    store.submit(other, "v")
    store.answer(made.id, YES, OPERATOR, LATER)
    assert store.begin(made.id, "w", "run", LATER)
    store.executed(made.id, 1, LATER)
    connection = raw(tmp_path / "approvals.db")
    for statement in (
        "UPDATE proposals SET payload = x'00'",
        "UPDATE proposals SET expires = expires + 1",
        "UPDATE proposals SET status = 'declined' WHERE status = 'approved'",
        "UPDATE proposals SET execution = 'not-started' WHERE execution = 'executed'",
        "UPDATE proposals SET execution = 'executed' WHERE status = 'pending'",
        "UPDATE proposals SET status = 'granted' WHERE status = 'pending'",
        "DELETE FROM proposals",
        "UPDATE audit SET said = '{}'",
        "DELETE FROM audit",
    ):
        with pytest.raises(sqlite3.IntegrityError):
            connection.execute(statement)
    connection.close()
    assert store.get(other.id).life.status is Status.PENDING
    store.close()


@pytest.mark.proves("store-payload-whole")
@pytest.mark.parametrize(
    "data",
    [b"", b"\xff\xfe", b"{}", b'{"form": 1}', b"[" * 100_000],
    ids=["empty", "no-text", "object", "form", "deep"],
)
@pytest.mark.parametrize("digest", [True, False], ids=["digest-too", "payload-only"])
def test_a_payload_that_was_tampered_with_is_an_error_and_changes_nothing(
    tmp_path: Path, data: bytes, digest: bool
) -> None:
    import hashlib

    store, made = store_in(tmp_path), proposal()
    store.submit(made, "w")
    connection = raw(tmp_path / "approvals.db")
    connection.execute("DROP TRIGGER proposals_are_written_once")
    connection.execute("UPDATE proposals SET payload = ?", (data,))
    if digest:
        connection.execute("UPDATE proposals SET payload_sha256 = ?", (hashlib.sha256(data).hexdigest(),))
    for call in (
        lambda: store.get(made.id),
        store.entries,
        lambda: store.answer(made.id, YES, OPERATOR, LATER),
        lambda: store.leave(made.id, "w", Cause.TURN_ENDED, LATER),
    ):
        with pytest.raises(StoreDamaged, match=made.id):
            call()
    assert connection.execute("SELECT status, execution FROM proposals").fetchall() == [("pending", "not-started")]
    connection.close()
    store.close()


@pytest.mark.proves("audit-chained")
@pytest.mark.parametrize(
    ("statement", "fault"),
    [
        ("UPDATE audit SET said = '{}' WHERE seq = 2", "row 2 is not what was written"),
        ("UPDATE audit SET at = at + 1 WHERE seq = 3", "row 3 is not what was written"),
        ("DELETE FROM audit WHERE seq = 2", "row 2 is missing"),
        ("UPDATE audit SET seq = 9 WHERE seq = 4", "row 4 is missing"),
        ("INSERT INTO audit SELECT 5, at, event, subject, said, previous, hash FROM audit WHERE seq = 1", "row 5"),
    ],
)
def test_what_was_done_to_the_audit_trail_is_found(tmp_path: Path, statement: str, fault: str) -> None:
    store = store_in(tmp_path)
    for number in range(4):
        store.submit(proposal(f"rm -r {number}"), new_id())
    assert store.audit_faults() == []
    connection = raw(tmp_path / "approvals.db")
    for trigger in ("audit_is_not_rewritten", "audit_is_kept"):
        connection.execute(f"DROP TRIGGER {trigger}")
    connection.execute(statement)
    connection.close()
    assert any(each.startswith(fault) for each in store.audit_faults())
    store.close()


def as_folder(path: Path) -> None:
    path.mkdir()


def as_link(path: Path) -> None:
    path.symlink_to(path.parent / "elsewhere")


def as_pipe(path: Path) -> None:
    os.mkfifo(path)


def as_garbage(path: Path) -> None:
    path.write_bytes(b"not a database at all, and long enough to be read as one\n" * 100)


def as_broken(path: Path) -> None:
    store = store_in(path.parent)
    for number in range(50):
        store.submit(proposal(f"rm -r {number}"), new_id())
    store.close()
    data = bytearray(path.read_bytes())
    data[5000:9000] = b"\xa5" * 4000
    path.write_bytes(data)


def as_foreign(path: Path) -> None:
    connection = raw(path)
    connection.execute("CREATE TABLE songs (title)")
    connection.close()


@pytest.mark.platforms("linux", "darwin")
@pytest.mark.proves("store-faults-named", "store-no-fallback", "store-opens-in-time")
@pytest.mark.parametrize("make", [as_folder, as_link, as_pipe, as_garbage, as_broken, as_foreign])
def test_what_is_no_database_of_ours_is_refused_and_left_as_it_is(tmp_path: Path, make: Callable[[Path], None]) -> None:
    path = tmp_path / "approvals.db"
    make(path)
    before = path.read_bytes() if path.is_file() else None
    began = time.monotonic()
    with pytest.raises(StoreUnavailable) as caught:
        store_in(tmp_path)
    assert time.monotonic() - began < 10
    assert str(path) in caught.value.summary
    assert (path.read_bytes() if path.is_file() else None) == before


@pytest.mark.proves("store-opens-in-time")
def test_a_file_system_that_does_not_answer_is_given_up(tmp_path: Path) -> None:
    class Hanging(Database):
        def _opened(self, steps: tuple[Step, ...]) -> sqlite3.Connection:
            time.sleep(1)
            return super()._opened(steps)

    with pytest.raises(StoreUnavailable, match=r"within 0\.05 s"):
        Hanging(tmp_path / "approvals.db", seconds=0.05)


@pytest.mark.proves("store-faults-named")
def test_a_file_that_somebody_else_holds_is_busy_and_free_again(tmp_path: Path) -> None:
    store_in(tmp_path).close()
    path = tmp_path / "approvals.db"
    connection = raw(path)
    store = SqliteStore(path, "default", database=Database(path, busy=0.05))
    connection.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreBusy, match="another process"):
        store.submit(proposal(), "w")
    assert store.entries() == []
    connection.execute("ROLLBACK")
    connection.close()
    store.submit(proposal(), "w")
    store.close()


def run_on_full_disk(folder: Path, room: int) -> int:
    """Go through a proposal's life with so many pages left, and return how many steps of it were refused."""
    store, made, refused = store_in(folder), proposal(), 0
    store.submit(made, "w")
    with store._database.reading() as connection:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages + room}")
    steps: tuple[Callable[[], object], ...] = (
        lambda: store.submit(proposal("x" * 20_000), "v"),
        lambda: store.answer(made.id, YES, OPERATOR, LATER),
        lambda: store.begin(made.id, "w", "run" + "x" * 6_000, LATER),
        lambda: store.executed(made.id, 1, LATER),
    )
    for step in steps:
        before = store.audit()
        try:
            step()
        except StoreUnavailable as error:
            refused += "full" in error.summary
            assert store.audit() == before
    store.close()
    again = store_in(folder)
    again._alive = lambda process: False
    again.sweep(LATER)
    assert again.audit_faults() == []
    words = {line.event for line in again.audit() if line.subject == made.id}
    life = again.get(made.id).life
    assert (life.status is Status.APPROVED) == ("approved" in words)
    assert life.execution is not Execution.DISPATCHING
    assert (life.execution is Execution.EXECUTED) == ("executed" in words)
    again.close()
    return refused


@pytest.mark.proves("store-faults-named")
def test_a_disk_that_is_full_at_any_write_leaves_every_row_whole(tmp_path: Path) -> None:
    refused = sum(run_on_full_disk(tmp_path / str(room), room) for room in range(12))
    assert refused >= 4


@pytest.mark.platforms("linux", "darwin")
@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="the super-user may write everything")
@pytest.mark.proves("store-faults-named")
def test_a_file_that_may_not_be_written_is_refused(tmp_path: Path) -> None:
    store_in(tmp_path).close()
    (tmp_path / "approvals.db").chmod(0o400)
    with pytest.raises(StoreUnavailable, match=r"approvals\.db"):
        store_in(tmp_path)


ELSEWHERE = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from tests.app.store.proposals import OPERATOR, NOW, SECOND, store_in
from perdure.domain.proposal import Answer
store = store_in(Path(sys.argv[1]))
store.answer(sys.argv[3], Answer(approve=True), OPERATOR, NOW + SECOND)
store.close()
"""


@pytest.mark.proves("store-locks-kept")
def test_a_second_connection_of_this_process_takes_nothing_from_the_first(tmp_path: Path, checkout: Path) -> None:
    store, made = store_in(tmp_path), proposal()
    store.submit(made, "w")
    # As the grants are read while a question is open.
    store_in(tmp_path).close()
    subprocess.run([sys.executable, "-c", ELSEWHERE, str(tmp_path), str(checkout), made.id], check=True)
    assert store.get(made.id).life.status is Status.APPROVED
    assert store.begin(made.id, "w", "run", LATER)
    store.executed(made.id, 4711, LATER)
    again = store_in(tmp_path)
    assert again.get(made.id).life.execution is Execution.EXECUTED
    again.close()
    store.close()


@pytest.mark.proves("store-newer-refused")
def test_a_schema_from_the_future_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    store.submit(proposal(), "w")
    store.close()
    connection = raw(tmp_path / "approvals.db")
    connection.execute(f"PRAGMA user_version = {CURRENT + 1}")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    before = (tmp_path / "approvals.db").read_bytes()
    with pytest.raises(StoreNewer, match=f"schema {CURRENT + 1}"):
        store_in(tmp_path)
    assert (tmp_path / "approvals.db").read_bytes() == before


@pytest.mark.proves("store-migrations-forward")
@pytest.mark.parametrize("dump", SCHEMAS, ids=lambda path: path.stem)
def test_every_released_schema_opens_with_its_rows(tmp_path: Path, dump: Path) -> None:
    connection = raw(tmp_path / "approvals.db")
    connection.executescript(dump.read_text(encoding="utf-8"))
    connection.close()
    store = store_in(tmp_path)
    approved, pending = store.entries()
    assert (approved.life.execution, approved.life.run) == (Execution.EXECUTED, "run-1")
    assert (pending.proposal.operation.script, pending.life.status) == ("rm -r other", Status.PENDING)
    assert [grant.rule_key for grant in store.grants()] == ["delete"]
    assert store.audit_faults() == []
    assert store.answer(pending.proposal.id, Answer(approve=False), OPERATOR, LATER).life.status is Status.DECLINED
    store.close()


@pytest.mark.proves("store-migrations-forward")
def test_every_schema_has_its_rows_kept_here() -> None:
    assert [path.stem for path in SCHEMAS] == [f"schema-{number}" for number in range(1, CURRENT + 1)]


@pytest.mark.proves("store-migrations-forward")
def test_a_later_step_keeps_the_rows_and_one_that_fails_changes_nothing(tmp_path: Path) -> None:
    store, made = store_in(tmp_path), proposal()
    store.submit(made, "w")
    store.close()
    path = tmp_path / "approvals.db"
    good = Step(
        tables=("CREATE TABLE notes (proposal TEXT) STRICT",),
        columns=("ALTER TABLE notes ADD COLUMN text TEXT",),
        indexes=("CREATE INDEX notes_text ON notes (text)",),
    )
    bad = Step(tables=good.tables, indexes=("CREATE INDEX none ON nothing (nothing)",))
    with pytest.raises(StoreUnavailable, match="nothing"):
        Database(path, steps=(*STEPS, bad))
    assert store_in(tmp_path).get(made.id).proposal == made
    Database(path, steps=(*STEPS, good)).close()
    connection = raw(path)
    assert connection.execute("PRAGMA user_version").fetchone() == (CURRENT + 1,)
    assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
    assert connection.execute("SELECT id FROM proposals").fetchall() == [(made.id,)]
    connection.close()


@pytest.mark.proves("store-owners-told")
@pytest.mark.platforms("linux")
def test_a_number_that_was_given_away_is_not_the_process_that_had_it() -> None:
    own = this_process()
    assert is_alive(own)
    assert not is_alive(Process(pid=own.pid, born=own.born + "1"))
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert child.stdin is not None
    from perdure.store.living import born

    seen = Process(pid=child.pid, born=born(child.pid))
    assert is_alive(seen)
    child.stdin.close()
    # Ended and not yet waited for: it runs nothing any more.
    deadline = time.monotonic() + 10
    while is_alive(seen) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not is_alive(seen)
    child.wait()
    assert not is_alive(Process(pid=0, born=""))


@pytest.mark.proves("store-no-fallback")
def test_a_folder_that_cannot_be_made_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("in the way")
    with pytest.raises(StoreUnavailable, match="state"):
        store_in(tmp_path / "state" / "default")
