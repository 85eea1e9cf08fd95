"""Batches with a runner that only takes notes: who is asked when, what runs when, and what no ticket is good for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

import anyio
import pytest

from perdure.approvals.batch import (
    ArgumentsChanged,
    Batch,
    Call,
    Ended,
    Patience,
    Preparation,
    Replayed,
    Result,
    batches,
)
from perdure.approvals.decide import Prepared
from perdure.domain.operation import Operation
from perdure.domain.outcome import Cause
from perdure.domain.verdict import Ruling
from tests.app.approvals.made import asked, authority, operation

YES = Prepared(ruling=Ruling.ALLOW, by_person=True, reason="approved")
NO = Prepared(ruling=Ruling.REFUSE, by_person=True, reason="declined")
POLICY_NO = Prepared(ruling=Ruling.REFUSE, by_person=False, reason="expired")


def call(name: str, tool: str = "terminal", line: str = "frobnicate") -> Call:
    return Call(id=name, tool=tool, arguments={"command": f"{line} {name}"})


def operation_of(made: Call) -> Operation:
    return operation(str(made.arguments["command"]))


@dataclass
class Notes:
    """A turn in which everything that happens is noted."""

    answers: dict[str, Prepared] = field(default_factory=dict)
    fails: set[str] = field(default_factory=set)
    happened: list[str] = field(default_factory=list)
    change: Callable[[Operation], Operation] = lambda made: made
    wait: Callable[[Call, Patience], Awaitable[None]] | None = None
    on_publish: Callable[[Result], Awaitable[None]] | None = None
    withdrawn: list[Cause] = field(default_factory=list)

    async def prepare(self, made: Call, patience: Patience) -> Preparation | None:
        self.happened.append(f"asked {made.id}")
        if self.wait is not None:
            await self.wait(made, patience)
        answer = self.answers.get(made.id, YES)
        return Preparation(operation=operation_of(made), host_access=True, decided=answer)

    async def run(self, made: Call, ticket: object) -> Result:
        what = self.change(operation_of(made))
        prepared = ticket.claim(made.id, what, host_access=True)  # type: ignore[attr-defined]
        decision = asked(str(made.arguments["command"]), who=authority(), prepared=prepared)
        if decision.ruling is Ruling.ASK:
            self.happened.append(f"asked live {made.id}")
        if decision.ruling is Ruling.REFUSE:
            return Result(call=made.id, ended=Ended.REFUSED, text=decision.code)
        self.happened.append(f"ran {made.id}")
        return Result(call=made.id, ended=Ended.FAILED if made.id in self.fails else Ended.RAN)

    async def publish(self, result: Result) -> None:
        if self.on_publish is not None:
            await self.on_publish(result)
        self.happened.append(f"kept {result.call}")

    async def withdraw(self, cause: Cause) -> None:
        self.withdrawn.append(cause)

    def batch(self, *calls: Call, seconds: float = 30) -> Batch:
        return Batch(
            calls=calls,
            prepare=self.prepare,
            run=self.run,
            publish=self.publish,
            withdraw=self.withdraw,
            seconds=seconds,
        )


def ended(results: object) -> list[str]:
    return [result.ended.value for result in results]  # type: ignore[attr-defined]


@pytest.mark.proves("batch-all-before-any", "batch-in-order")
def test_all_are_asked_before_any_runs_and_each_starts_when_the_one_before_is_kept() -> None:
    notes = Notes()
    results = anyio.run(notes.batch(call("a"), call("b"), call("c")).go)
    assert sorted(notes.happened[:3]) == ["asked a", "asked b", "asked c"]
    assert notes.happened[3:] == ["ran a", "kept a", "ran b", "kept b", "ran c", "kept c"]
    assert ended(results) == ["ran"] * 3


@pytest.mark.proves("batch-stale")
def test_after_a_failure_what_was_approved_is_asked_anew_and_a_persons_no_stays() -> None:
    notes = Notes(answers={"c": NO}, fails={"a"})
    results = anyio.run(notes.batch(call("a"), call("b"), call("c"), call("d")).go)
    assert notes.happened[4:] == [
        *("ran a", "kept a", "asked live b", "ran b", "kept b"),
        *("kept c", "asked live d", "ran d", "kept d"),
    ]
    assert ended(results) == ["failed", "ran", "refused", "ran"]


@pytest.mark.proves("batch-stale")
def test_what_policy_or_time_refused_is_refused_and_takes_the_live_way_once_stale() -> None:
    notes = Notes(answers={"a": POLICY_NO, "b": POLICY_NO})
    results = anyio.run(notes.batch(call("a"), call("b")).go)
    assert ended(results) == ["refused", "ran"]
    assert "asked live b" in notes.happened


@pytest.mark.proves("batch-single-use")
def test_a_ticket_is_good_for_one_dispatch_of_exactly_its_call() -> None:
    made = operation("frobnicate a")
    prepared = Preparation(operation=made, host_access=True, decided=YES)

    from perdure.approvals.batch import Ticket

    def ticket(*, stale: bool = False) -> Ticket:
        return Ticket("a", prepared, lambda: stale)

    good = ticket()
    assert good.claim("a", made, host_access=True) is YES
    with pytest.raises(Replayed):
        good.claim("a", made, host_access=True)
    for other in (
        operation("frobnicate b"),
        replace(made, backend="docker"),
        replace(made, shell="sh"),
        replace(made, environment=("X",)),
    ):
        with pytest.raises(ArgumentsChanged):
            ticket().claim("a", other, host_access=True)
    with pytest.raises(ArgumentsChanged):
        ticket().claim("a", made, host_access=False)
    with pytest.raises(ArgumentsChanged):
        ticket().claim("b", made, host_access=True)
    assert ticket().claim("a", replace(made, cwd="/elsewhere"), host_access=True) is None
    assert ticket(stale=True).claim("a", made, host_access=True) is None


@pytest.mark.proves("batch-single-use")
def test_what_middleware_changed_after_it_was_decided_is_not_started() -> None:
    notes = Notes(change=lambda made: replace(made, script="rm -rf build"))
    results = anyio.run(notes.batch(call("a"), call("b")).go)
    assert ended(results) == ["not-started", "not-started"]
    assert not any(what.startswith("ran") for what in notes.happened)


@pytest.mark.proves("batch-every-call-answered")
def test_a_preparation_that_hangs_ends_and_nothing_starts_and_a_persons_time_does_not_count() -> None:
    async def hang(made: Call, patience: Patience) -> None:
        with patience.person():
            await anyio.sleep(0.15)
        if made.id == "b":
            await anyio.sleep_forever()

    notes = Notes(wait=hang)
    results = anyio.run(notes.batch(call("a"), call("b"), seconds=0.1).go)
    assert ended(results) == ["not-started", "not-started"]
    assert notes.withdrawn == [Cause.BATCH_CLOSED]

    async def slow_person(made: Call, patience: Patience) -> None:
        with patience.person():
            await anyio.sleep(0.2)

    assert ended(anyio.run(Notes(wait=slow_person).batch(call("a"), seconds=0.1).go)) == ["ran"]


@pytest.mark.proves("batch-every-call-answered", "batch-own-proposals")
def test_an_interrupt_withdraws_what_is_asked_and_every_call_has_a_result() -> None:
    async def waits(made: Call, patience: Patience) -> None:
        with patience.person():
            await anyio.sleep_forever()

    notes = Notes(wait=waits)
    made = notes.batch(call("a"), call("b"))

    async def interrupted() -> None:
        with anyio.move_on_after(0.05):
            await made.go()

    anyio.run(interrupted)
    assert ended(made.results.values()) == ["cancelled", "cancelled"]
    assert notes.withdrawn == [Cause.TURN_INTERRUPTED]
    again = Notes()
    assert ended(anyio.run(again.batch(call("a")).go)) == ["ran"]
    assert again.happened[0] == "asked a"


@pytest.mark.proves("batch-every-call-answered", "batch-in-order")
def test_where_a_result_cannot_be_kept_nothing_more_starts() -> None:
    async def full(result: Result) -> None:
        raise OSError("disk full")

    notes = Notes(on_publish=full)
    made = notes.batch(call("a"), call("b"))
    with pytest.raises(OSError, match="disk full"):
        anyio.run(made.go)
    assert [what for what in notes.happened if what.startswith("ran")] == ["ran a"]
    assert ended(made.results.values()) == ["ran", "cancelled"]
    assert notes.withdrawn == [Cause.BATCH_CLOSED]


@pytest.mark.proves("batch-all-before-any")
def test_what_cannot_be_prepared_takes_the_ordinary_way() -> None:
    async def fails(made: Call, patience: Patience) -> None:
        if made.id == "a":
            raise RuntimeError("store unavailable")

    notes = Notes(wait=fails)
    assert ended(anyio.run(notes.batch(call("a"), call("b")).go)) == ["ran", "ran"]
    assert "asked live a" in notes.happened


@pytest.mark.proves("batch-all-before-any")
def test_only_terminal_calls_side_by_side_with_ids_of_their_own_belong_together() -> None:
    def grouped(*calls: Call, can_show: bool = True) -> list[list[str]]:
        return [[made.id for made in group] for group in batches(calls, terminal="terminal", can_show=can_show)]

    assert grouped(call("a"), call("b"), call("x", "files"), call("c")) == [["a", "b"], ["x"], ["c"]]
    assert grouped(call("a"), call("a"), call("b"), call("c")) == [["a"], ["a"], ["b", "c"]]
    assert grouped(call("a"), call(""), call("b")) == [["a"], [""], ["b"]]
    assert grouped(call("a"), call("b"), can_show=False) == [["a"], ["b"]]
