"""Many receipts: what an operation costs does not grow with them, and a collection keeps them few."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

import pytest

from perdure_pm.adapters.filesystem import LocalFilesystem
from perdure_pm.model.retention import NEWEST_RECEIPTS
from perdure_pm.ops.receipts_kept import PULSE, collect_receipts
from perdure_pm.store import receipts
from perdure_pm.store.layout import Layout
from tests.pm.bench import Bench, Listening
from tests.pm.faults.performing import Task, perform

pytestmark = pytest.mark.platforms("linux", "darwin")

LABEL = Task(name="label", template="", operation="label", arguments={"name": "good"})
PIN = Task(name="pin", template="", operation="pin", arguments={"generation": "1"})

_opened: list[str] | None = None


def _listen(event: str, arguments: tuple[object, ...]) -> None:
    if _opened is not None and event == "open":
        _opened.append(str(arguments[0]))


sys.addaudithook(_listen)


@contextmanager
def opening() -> Iterator[list[str]]:
    """Tell which files are opened in the block."""
    global _opened  # noqa: PLW0603 - an audit hook cannot be taken back, only told to listen or not
    found: list[str] = []
    _opened = found
    try:
        yield found
    finally:
        _opened = None


def write_many(layout: Layout, bench: Bench, number: int, *, days: int, step: timedelta = timedelta(minutes=1)) -> None:
    """Have that many finished receipts, the newest begun `days` ago."""
    for count in range(number):
        receipt = receipts.Receipt(
            id=f"{count:08x}{os.urandom(12).hex()}",
            operation="install",
            correlation="",
            started=receipts.stamp(bench.now - timedelta(days=days) - count * step),
            pid=1,
            boot_id="boot",
            process_start=None,
            finished=receipts.stamp(bench.now),
            status="noop",
        )
        (layout.receipts / receipt.name).write_text(json.dumps(receipt.to_json()), encoding="ascii")


def cost(bench: Bench, task: Task) -> int:
    """Return how many files of the home an operation opens, its receipt included."""
    with opening() as found:
        perform(bench.workshop, bench.layout, task, LocalFilesystem()).succeeded()
    return sum(path.startswith(str(bench.layout.home)) for path in found)


@pytest.mark.proves("receipt-cost-bounded")
def test_an_operation_opens_as_many_files_with_5000_receipts_as_with_none(bench: Bench) -> None:
    for task in (LABEL, PIN):  # the second time they have nothing to do, every time after it too
        perform(bench.workshop, bench.layout, task, LocalFilesystem()).succeeded()
    few = {task.name: cost(bench, task) for task in (LABEL, PIN)}
    write_many(bench.layout, bench, 5000, days=1)
    assert {task.name: cost(bench, task) for task in (LABEL, PIN)} == few
    assert len(receipts.list_names(bench.layout)) > 5000


@pytest.mark.proves("receipt-retention")
def test_a_collection_keeps_the_young_the_newest_and_what_tells_of_kept_generations(bench: Bench) -> None:
    first = bench.current.identity
    ended = bench.pm("plugin", "add", "gadget")
    assert ended.exit_code == 0
    second = bench.current.identity
    for _ in range(6):
        assert bench.pm("rollback").exit_code == 0
    told = [receipt.name for receipt in bench.receipts() if receipt.data.get("generation") in {first, second}]
    write_many(bench.layout, bench, 1000, days=-1)
    unreadable = bench.layout.receipts / "20200101T000000.000000Z-0badbad0.json"
    unreadable.write_text("{")
    notes = bench.layout.receipts / "notes.json"
    notes.write_text("[]")
    bench.pass_time(days=29)
    assert bench.call("collect").data["receipts"] == 0
    bench.pass_time(days=2)
    planned = bench.call("collect", bench.context(dry_run=True)).data["receipts"]
    outcome = bench.call("collect")
    names = receipts.list_names(bench.layout)
    assert planned == outcome.data["receipts"] > 0
    assert names[:NEWEST_RECEIPTS] == sorted(names, reverse=True)[:NEWEST_RECEIPTS]
    assert unreadable.exists()
    assert notes.exists()
    # Of the first generation the oldest and the newest that selected it, of the second too.
    kept = [name for name in told if name in names]
    assert told[-1] in kept
    assert len(kept) < len(told)
    assert len(names) <= NEWEST_RECEIPTS + len(kept) + 1
    assert bench.call("collect").data["receipts"] == 0


@pytest.mark.proves("receipt-dead-writer-closed")
def test_a_marker_that_a_crash_left_or_took_leaves_no_receipt_open(bench: Bench) -> None:
    layout, files = bench.layout, LocalFilesystem()
    dead = receipts.Writer(2**22 + 1, "another boot", "0")

    def begin(seconds: int) -> receipts.Receipt:
        moment = bench.now + timedelta(seconds=seconds)
        return receipts.open_receipt(files, layout, operation="install", correlation="", writer=dead, now=moment)

    finished, unmarked, missing, open_ = (begin(number) for number in range(4))
    receipts.finish(files, layout, finished, status="ok", now=bench.now)
    (layout.unfinished / finished.name.removesuffix(".json")).mkdir()  # a crash before it was removed
    (layout.unfinished / unmarked.name.removesuffix(".json")).rmdir()  # a power loss took it
    (layout.receipts / missing.name).unlink()  # a crash between the marker and the receipt
    assert bench.pm("label", "good").exit_code == 0
    status = {receipt.id: receipt.status for receipt in bench.receipts()}
    assert (status[finished.id], status[unmarked.id], status[open_.id]) == ("ok", "started", "interrupted")
    assert [path.name for path in layout.unfinished.iterdir()] == [missing.name.removesuffix(".json")]
    bench.pass_time(days=2)
    bench.call("collect")
    status = {receipt.id: receipt.status for receipt in bench.receipts()}
    assert (status[unmarked.id], list(layout.unfinished.iterdir())) == ("interrupted", [])


class Beating(Listening):
    """Counts the signs of life: without one for two minutes a worker is taken to hang."""

    def __init__(self) -> None:
        super().__init__(lambda stage: None)
        self.beats = 0

    def heartbeat(self) -> None:
        self.beats += 1


@pytest.mark.proves("receipt-cost-bounded")
def test_a_collection_of_very_many_shows_that_it_lives(bench: Bench) -> None:
    bench.layout.receipts.mkdir(exist_ok=True)
    write_many(bench.layout, bench, 5 * PULSE, days=60)
    reporter = Beating()
    gone = collect_receipts(replace(bench.context(), reporter=reporter), set())
    assert gone > 3 * PULSE
    assert reporter.beats >= (5 * PULSE + gone) // PULSE
