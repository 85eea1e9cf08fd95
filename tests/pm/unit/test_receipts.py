"""Receipts: written before, finished after, closed for the dead, and read with distrust."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta, timezone

import pytest

from perdure_pm.adapters import processes
from perdure_pm.adapters.filesystem import LocalFilesystem
from perdure_pm.model.errors import HomeUnusable
from perdure_pm.store import receipts
from perdure_pm.store.layout import Layout

NOW = datetime(2026, 11, 29, 19, 0, 0, 123456, tzinfo=UTC)
WRITER = receipts.Writer(123, "boot", "456")
FILES = LocalFilesystem()


@pytest.fixture
def layout(home: os.PathLike[str]) -> Layout:
    return Layout(home)  # type: ignore[arg-type]


def opened(layout: Layout, *, writer: receipts.Writer = WRITER, now: datetime = NOW) -> receipts.Receipt:
    return receipts.open_receipt(FILES, layout, operation="install", correlation="mine", writer=writer, now=now)


def load(layout: Layout) -> list[receipts.Receipt]:
    found, damaged = receipts.load_all(layout)
    assert damaged == []
    return found


@pytest.mark.proves("receipt-before-work")
def test_an_open_receipt_is_on_disk_and_says_started(layout: Layout) -> None:
    receipt = opened(layout)
    (path,) = layout.receipts.glob("*.json")
    assert path.name == f"20261129T190000.123456Z-{receipt.id[:8]}.json"
    assert json.loads(path.read_text()) == {
        "schema": 1,
        "id": receipt.id,
        "operation": "install",
        "correlation": "mine",
        "started": "2026-11-29T19:00:00.123456Z",
        "finished": None,
        "status": "started",
        "pid": 123,
        "boot_id": "boot",
        "process_start": "456",
        "data": {},
        "error": None,
        "obligations": [],
    }


def test_a_finished_receipt_takes_the_place_of_the_started_one(layout: Layout) -> None:
    receipt = receipts.finish(
        FILES,
        layout,
        opened(layout),
        status="ok",
        now=NOW + timedelta(seconds=1),
        data={"generation": "1-abc"},
        obligations=["restart"],
    )
    assert load(layout) == [receipt]
    assert receipt.finished == "2026-11-29T19:00:01.123456Z"
    assert receipts.latest(layout) == receipt


def test_times_are_told_in_utc(layout: Layout) -> None:
    assert receipts.stamp(NOW.astimezone(timezone(timedelta(hours=5)))) == "2026-11-29T19:00:00.123456Z"


@pytest.mark.proves("receipt-before-work")
def test_a_receipt_that_cannot_be_written_stops_the_operation(layout: Layout) -> None:
    layout.home.mkdir()
    layout.receipts.write_text("a file in the way")
    with pytest.raises(HomeUnusable):
        opened(layout)


@pytest.mark.proves("receipt-dead-writer-closed")
def test_only_receipts_of_dead_writers_are_closed(layout: Layout) -> None:
    alive = opened(layout, writer=receipts.Writer(*processes.identity()))
    dead = opened(layout, writer=receipts.Writer(os.getpid(), processes.boot_id(), "1"), now=NOW + timedelta(1))
    older = opened(layout, writer=receipts.Writer(os.getpid(), "another boot", alive.process_start))
    done = receipts.finish(FILES, layout, opened(layout), status="ok", now=NOW)
    closed = receipts.close_interrupted(FILES, layout, now=NOW, still_runs=processes.still_runs)
    assert {receipt.id for receipt in closed} == {dead.id, older.id}
    statuses = {receipt.id: receipt.status for receipt in load(layout)}
    assert statuses == {alive.id: "started", dead.id: "interrupted", older.id: "interrupted", done.id: "ok"}
    assert receipts.close_interrupted(FILES, layout, now=NOW, still_runs=processes.still_runs) == []


@pytest.mark.proves("receipt-damage-named")
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "Expecting value"),
        ("{", "Expecting"),
        ("[]", "not an object"),
        ('{"schema": 2}', "schema: 2"),
        ('{"schema": 1}', "id: missing"),
        ("\udcff", "codec"),
    ],
)
def test_a_damaged_receipt_is_skipped_and_named(layout: Layout, text: str, reason: str) -> None:
    receipt = opened(layout)
    damaged = layout.receipts / "20300101T000000.000000Z-damaged0.json"
    damaged.write_bytes(text.encode("utf-8", "surrogateescape"))
    (layout.receipts / ".20300101T000000.000000Z-x.json.tmp").write_text("left by a crash")
    (layout.receipts / "notes.txt").write_text("somebody's")
    found, unreadable = receipts.load_all(layout)
    assert found == [receipt]
    assert [entry.path for entry in unreadable] == [damaged]
    assert reason in unreadable[0].reason
    assert receipts.latest(layout) == receipt
    assert receipts.close_interrupted(FILES, layout, now=NOW, still_runs=lambda *_: True) == []


@pytest.mark.proves("receipt-damage-named")
def test_every_fault_of_a_receipt_is_named(layout: Layout) -> None:
    data = {**opened(layout).to_json(), "pid": True, "data": [], "status": "fine"}
    del data["correlation"]
    with pytest.raises(ValueError) as caught:
        receipts.parse_receipt(data)
    assert str(caught.value) == "correlation: missing; pid: wrong type; data: wrong type"
    with pytest.raises(ValueError, match="status: 'fine' is none of started, ok"):
        receipts.parse_receipt({**opened(layout).to_json(), "status": "fine"})


def test_the_newest_come_first_and_a_limit_counts_receipts(layout: Layout) -> None:
    written = [opened(layout, now=NOW + timedelta(microseconds=number)) for number in range(5)]
    assert load(layout) == written[::-1]
    found, _ = receipts.load_all(layout, 2)
    assert found == written[:2:-1]


def test_a_home_without_receipts_has_none(layout: Layout) -> None:
    assert receipts.load_all(layout) == ([], [])
    assert receipts.latest(layout) is None
    assert not layout.home.exists()
