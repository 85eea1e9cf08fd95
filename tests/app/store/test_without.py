"""A store that cannot be used: what needs no approval runs, what needs one is refused, and the way out works."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from perdure.domain.errors import StoreUnavailable
from perdure.domain.proposal import Answer, Proposal
from perdure.store.database import BUSY_SECONDS
from perdure.store.sqlite import SqliteStore
from tests.app.command_line import envelope_of
from tests.app.conftest import Generation
from tests.app.store.proposals import NOW, OPERATOR, SECOND, proposal, store_in
from tests.app.store.test_file import as_broken, as_folder, as_foreign, as_garbage, as_link, raw

pytestmark = pytest.mark.platforms("linux", "darwin")


def as_later(path: Path) -> None:
    """Have it be of a schema that nobody knows yet."""
    store_in(path.parent).close()
    connection = raw(path)
    connection.execute("PRAGMA user_version = 999")
    connection.close()


def as_cut(path: Path) -> None:
    """Have the second half of it missing."""
    as_broken(path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2 + 100])


def as_stub(path: Path) -> None:
    """Have it end within its first page."""
    store_in(path.parent).close()
    path.write_bytes(path.read_bytes()[:50])


def as_row(path: Path) -> None:
    """Have one open proposal in it that is not what was written."""
    store = store_in(path.parent)
    store.submit(proposal(), "w")
    store.close()
    connection = raw(path)
    connection.execute("DROP TRIGGER proposals_are_written_once")
    connection.execute("UPDATE proposals SET payload = x'7b7d'")
    connection.close()


DAMAGED = "approval-store-damaged"
SHAPES: dict[str, tuple[Callable[[Path], None], str]] = {
    "garbage": (as_garbage, DAMAGED),
    "folder": (as_folder, DAMAGED),
    "later": (as_later, "approval-store-newer"),
}


@pytest.mark.proves("store-marked-state")
@pytest.mark.parametrize("shape", SHAPES)
def test_what_needs_no_approval_runs_and_the_way_out_works(generation: Generation, tmp_path: Path, shape: str) -> None:
    make, code = SHAPES[shape]
    path = generation.home / "state" / "default" / "approvals.db"
    path.parent.mkdir(parents=True)
    make(path)
    (tmp_path / "work" / "build").mkdir(parents=True)
    run = ("exec", "--no-prompt", "--json", "--cwd", str(tmp_path / "work"), "--")
    done = generation.run(*run, "echo", "here")
    assert (envelope_of(done)["data"]["stdout"], done.stderr.count("no grant")) == ("here\n", 0)
    done = generation.run(*run, "rm -r build")
    (error,) = envelope_of(done)["errors"]
    assert (error["code"], str(path) in error["summary"], done.stderr.count("no grant")) == (code, True, 1)
    assert error["summary"].startswith("what needs an approval is refused: ")
    assert error["hint"]
    assert (tmp_path / "work" / "build").exists()
    findings = envelope_of(generation.run("doctor", "--json"))["data"]["findings"]
    (found,) = (each for each in findings if each["code"] == code)
    listed = envelope_of(generation.run("approvals", "list", "--json"))["errors"][0]
    assert (listed["code"], bool(listed["hint"])) == (code, True)
    if code != DAMAGED:
        return
    before = path.read_bytes() if path.is_file() else None
    subprocess.run(["/bin/sh", "-c", found["hint"]], check=True)
    assert envelope_of(generation.run("approvals", "list", "--json"))["data"] == {"proposals": []}
    (aside,) = path.parent.glob("damaged-*")
    assert ((aside / path.name).read_bytes() if before is not None else None) == before
    assert not envelope_of(generation.run("allow", "list", "--json"))["data"]["unreadable"]


@pytest.mark.slow
@pytest.mark.proves("store-marked-state", "store-faults-named")
def test_what_another_process_holds_for_long_keeps_nothing_that_needs_no_approval(
    generation: Generation, tmp_path: Path
) -> None:
    state = generation.home / "state" / "default"
    store_in(state).close()
    holding = raw(state / "approvals.db")
    holding.execute("PRAGMA locking_mode = EXCLUSIVE")
    holding.execute("BEGIN EXCLUSIVE")
    (tmp_path / "build").mkdir()
    run = ("exec", "--no-prompt", "--json", "--cwd", str(tmp_path), "--")
    begun = time.monotonic()
    assert envelope_of(generation.run(*run, "echo", "here"))["data"]["stdout"] == "here\n"
    quick = time.monotonic() - begun
    (error,) = envelope_of(generation.run(*run, "rm -r build"))["errors"]
    assert (error["code"], bool(error["hint"]), (tmp_path / "build").exists()) == ("approval-store-busy", True, True)
    # What had to look waited, and said so; what had not did not.
    assert time.monotonic() - begun > quick + BUSY_SECONDS
    holding.close()
    assert envelope_of(generation.run("approvals", "list", "--json"))["data"] == {"proposals": []}


@pytest.mark.proves("store-marked-state")
def test_lines_of_the_operators_file_are_listed_where_the_store_cannot_be_read(generation: Generation) -> None:
    path = generation.home / "state" / "default" / "approvals.db"
    path.parent.mkdir(parents=True)
    as_garbage(path)
    app_yaml = generation.home / "profiles" / "default" / "app.yaml"
    app_yaml.parent.mkdir(parents=True)
    app_yaml.write_text("command_allowlist: [frobnicate *]\n")
    done = generation.run("allow", "list", "--json")
    listed = envelope_of(done)["data"]
    assert (done.returncode, [each["id"] for each in listed["grants"]]) == (3, ["frobnicate *"])
    assert listed["unreadable"]["code"] == DAMAGED
    assert "damaged" in done.stderr


@pytest.mark.proves("store-marked-state", "store-faults-named")
@pytest.mark.parametrize("make", [as_stub, as_cut, as_later, as_row, as_link, as_foreign])
def test_every_shape_refuses_by_name_and_changes_nothing(tmp_path: Path, make: Callable[[Path], None]) -> None:
    path = tmp_path / "approvals.db"
    make(path)
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(StoreUnavailable) as caught:
        store_in(tmp_path).entries()
    assert str(path) in caught.value.summary
    assert (path.read_bytes() if path.is_file() else None) == before


def as_nothing(path: Path) -> None:
    path.write_bytes(b"")


def without_shared(path: Path) -> None:
    store, twin = store_in(path.parent), path.with_name("kept")
    store.submit(proposal("rm -r other"), "v")
    shutil.copy(path, twin)
    shutil.copy(f"{path}-wal", f"{twin}-wal")
    store.close()
    twin.rename(path)
    Path(f"{twin}-wal").rename(f"{path}-wal")
    Path(f"{path}-shm").unlink(missing_ok=True)


def with_foreign_shared(path: Path) -> None:
    without_shared(path)
    Path(f"{path}-shm").write_bytes(b"\xa5" * 32768)


def with_foreign_journal(path: Path) -> None:
    Path(f"{path}-wal").write_bytes(b"not a journal at all\n" * 1000)


@pytest.mark.proves("store-faults-named")
@pytest.mark.parametrize(
    ("change", "kept"),
    [(as_nothing, 0), (without_shared, 2), (with_foreign_shared, 2), (with_foreign_journal, 1)],
)
def test_what_lies_beside_it_loses_nothing_that_was_committed(
    tmp_path: Path, change: Callable[[Path], None], kept: int
) -> None:
    store = store_in(tmp_path)
    store.submit(proposal(), "w")
    store.close()
    change(tmp_path / "approvals.db")
    store = store_in(tmp_path)
    assert len(store.entries()) == kept
    assert store.audit_faults() == []
    store.submit(proposal("rm -r third"), "u")
    store.close()


@pytest.mark.proves("store-faults-named")
def test_the_journal_of_another_database_is_never_taken_for_ours(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    made = proposal()
    store.submit(made, "w")
    store.close()
    other = sqlite3.connect(tmp_path / "songs.db", isolation_level=None)
    other.execute("PRAGMA journal_mode = WAL")
    other.execute("CREATE TABLE songs (title)")
    for number in range(200):
        other.execute("INSERT INTO songs VALUES (?)", (f"song {number}",))
    shutil.copy(tmp_path / "songs.db-wal", tmp_path / "approvals.db-wal")
    other.close()
    # What of it fits is read by SQLite itself; what comes of that is ours as it was, or nothing.
    try:
        store = store_in(tmp_path)
    except StoreUnavailable:
        return
    assert [entry.proposal for entry in store.entries()] == [made]
    store.close()


FULL = """
import json, os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from tests.app.store.test_without import fill_up
json.dump(fill_up(Path(sys.argv[1])), sys.stdout)
"""


def live_through(store: SqliteStore, made: Proposal) -> list[str]:
    """Return what each step of a proposal's life came to: done, or why not."""
    later = NOW + SECOND
    steps: tuple[Callable[[], object], ...] = (
        lambda: store.submit(proposal(made.display + "x" * 9000), "v"),
        lambda: store.answer(made.id, Answer(approve=True), OPERATOR, later),
        lambda: store.begin(made.id, "w", "run", later),
        lambda: store.executed(made.id, 1, later),
    )
    said = []
    for step in steps:
        try:
            step()
        except StoreUnavailable as error:
            said.append(error.summary)
        else:
            said.append("done")
    return said


def fill_up(folder: Path) -> list[list[object]]:
    """Go through a proposal's life on a disk with less and less room; return what each step came to."""
    found: list[list[object]] = []
    for room in (0, 4, 12, 20, 28, 36, 48, 64):
        place = folder / str(room)
        store = store_in(place)
        made = proposal(f"rm -r {room}")
        store.submit(made, "w")
        stuffing = folder / "stuffing"
        handle = os.open(stuffing, os.O_CREAT | os.O_WRONLY)
        with contextlib.suppress(OSError):
            while os.write(handle, b"x" * 4096):
                pass
        os.ftruncate(handle, max(0, os.fstat(handle).st_size - room * 1024))
        os.close(handle)
        said: list[object] = [room, *live_through(store, made)]
        stuffing.unlink()
        life = store.get(made.id).life
        said += [life.status.value, life.execution.value, store.audit_faults()]
        store.close()
        again = store_in(place)
        said.append(again.get(made.id).life == life)
        again.close()
        shutil.rmtree(place)
        found.append(said)
    return found


@pytest.mark.platforms("linux")
@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap (bwrap) is not installed: no small disk")
@pytest.mark.proves("store-faults-named", "store-no-fallback")
def test_a_disk_that_is_full_refuses_each_step_whole(tmp_path: Path, checkout: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    jail = ["bwrap", "--dev-bind", "/", "/", "--size", str(1 << 20), "--tmpfs", str(small)]
    done = subprocess.run(
        [*jail, sys.executable, "-c", FULL, str(small), str(checkout)], capture_output=True, text=True, check=False
    )
    if done.returncode and "bwrap:" in done.stderr:
        pytest.skip(f"bubblewrap makes no small disk here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    refused = 0
    for room, submitted, answered, begun, executed, status, execution, faults, same in json.loads(done.stdout):
        refused += sum(each != "done" for each in (submitted, answered, begun, executed))
        for each in (submitted, answered, begun, executed):
            assert each == "done" or "approvals.db cannot be written" in each, (room, each)
        assert (status == "approved") == (answered == "done"), room
        assert execution != "executed" or executed == "done", room
        assert (faults, same) == ([], True), room
    assert refused


@pytest.mark.platforms("linux")
@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap (bwrap) is not installed: nothing is read-only")
@pytest.mark.proves("store-marked-state", "store-faults-named")
def test_a_place_that_is_read_only_is_named_and_changes_nothing(generation: Generation, tmp_path: Path) -> None:
    state, work = generation.home / "state", tmp_path / "work"
    store = store_in(state / "default")
    store.submit(proposal(), "w")
    store.close()
    (work / "build").mkdir(parents=True)
    barred = ["bwrap", "--dev-bind", "/", "/", "--ro-bind", str(state), str(state), str(generation.python), "-I", "-m"]
    run = ["perdure", "exec", "--no-prompt", "--json", "--cwd", str(work), "--", "rm -r build"]
    done = subprocess.run([*barred, *run], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if "bwrap:" in done.stderr:
        pytest.skip(f"bubblewrap makes nothing read-only here: {done.stderr.strip()}")
    (error,) = envelope_of(done)["errors"]
    assert "Read-only file system" in error["summary"]
    assert (work / "build").exists()
    store = store_in(state / "default")
    assert len(store.entries()) == 1
    store.close()
