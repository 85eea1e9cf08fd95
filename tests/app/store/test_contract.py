"""What every store of proposals does, whatever it keeps them in."""

from __future__ import annotations

import contextlib
import datetime as dt
import threading
from collections.abc import Callable

import pytest

from perdure.domain.errors import ProposalSettled, ProposalUnknown, StoreUnavailable
from perdure.domain.grant import Grant
from perdure.domain.outcome import Cause, Execution, Scope, Status
from perdure.domain.proposal import Answer, new_id
from perdure.store.living import Process
from perdure.store.port import StandingLine
from perdure.store.sqlite import SqliteStore
from tests.app.store.conftest import MakeStore
from tests.app.store.proposals import NOW, OPERATOR, SECOND, proposal

YES, NO = Answer(approve=True), Answer(approve=False, reason="not on a Friday")
LATER = NOW + SECOND


def grant(**changes: object) -> Grant:
    made: dict[str, object] = {"id": new_id(), "profile": "default", "rule_key": "delete", "principal": "owner"}
    return Grant(**{**made, "created": NOW, "granted_by": "owner", **changes})  # type: ignore[arg-type]


def events(store: SqliteStore) -> list[str]:
    return [line.event for line in store.audit()]


@pytest.mark.proves("store-payload-once", "audit-append-only")
def test_a_proposal_is_kept_as_it_was_made(store: SqliteStore) -> None:
    made = proposal("printf '\udcff\u202e' && rm -r \x00 " + "x" * 1_000_000, parent="above", batch="b")
    entry = store.submit(made, "w")
    assert entry.proposal == made == store.get(made.id).proposal
    assert (entry.life.status, entry.life.execution, entry.life.waiters) == (Status.PENDING, Execution.NOT_STARTED, 1)
    assert events(store) == ["proposed"]


def test_an_unknown_id_is_an_error_and_changes_nothing(store: SqliteStore) -> None:
    made = proposal()
    store.submit(made, "w")
    calls: tuple[Callable[[], object], ...] = (
        lambda: store.get("unknown"),
        lambda: store.answer("unknown", YES, OPERATOR, LATER),
        lambda: store.answer("", YES, OPERATOR, LATER),
        lambda: store.leave("unknown", "w", Cause.TURN_ENDED, LATER),
    )
    for call in calls:
        with pytest.raises(ProposalUnknown):
            call()
    assert store.get(made.id).life.status is Status.PENDING
    assert not store.begin("unknown", "w", "run", LATER)
    assert events(store) == ["proposed"]


def test_an_id_that_is_taken_is_an_error(store: SqliteStore) -> None:
    made = proposal()
    store.submit(made, "w")
    with pytest.raises(StoreUnavailable):
        store.submit(proposal("another", id=made.id), "w2")
    assert len(store.entries()) == 1


@pytest.mark.proves("store-terminal-final")
@pytest.mark.parametrize("first", [YES, NO], ids=["approved", "declined"])
def test_the_first_answer_stays(store: SqliteStore, first: Answer) -> None:
    made = proposal()
    store.submit(made, "w")
    kept = store.answer(made.id, first, OPERATOR, LATER)
    for second in (YES, NO):
        with pytest.raises(ProposalSettled, match="resolves nothing"):
            store.answer(made.id, second, OPERATOR, LATER + SECOND)
    assert store.get(made.id).life == kept.life
    assert (kept.life.answered_by, kept.life.settled) == ("owner", LATER)
    assert kept.life.reason == first.reason


@pytest.mark.proves("approval-single-use")
def test_an_approval_is_claimed_once_and_only_by_who_waited(store: SqliteStore) -> None:
    made = proposal()
    store.submit(made, "w1")
    store.submit(proposal(), "w2")
    assert not store.begin(made.id, "w1", "run", LATER)
    store.answer(made.id, YES, OPERATOR, LATER)
    assert not store.begin(made.id, "somebody", "run", LATER)
    assert store.begin(made.id, "w2", "run-2", LATER)
    assert not store.begin(made.id, "w1", "run-1", LATER)
    assert (store.get(made.id).life.execution, store.get(made.id).life.run) == (Execution.DISPATCHING, "run-2")
    store.executed(made.id, 4711, LATER)
    store.not_started(made.id, "too late", LATER)
    assert not store.block(made.id, "too late", LATER)
    assert store.get(made.id).life.execution is Execution.EXECUTED
    assert events(store) == ["proposed", "approved", "dispatching", "executed"]


@pytest.mark.proves("approval-single-use")
def test_nothing_that_was_not_approved_is_ever_said_to_run(store: SqliteStore) -> None:
    made = proposal()
    store.submit(made, "w")
    ends: tuple[Callable[[], None], ...] = (
        lambda: store.executed(made.id, 1, LATER),
        lambda: store.not_started(made.id, "x", LATER),
    )
    for end in ends:
        end()
        assert store.get(made.id).life.execution is Execution.NOT_STARTED
    store.answer(made.id, NO, OPERATOR, LATER)
    assert not store.begin(made.id, "w", "run", LATER)
    assert not store.block(made.id, "x", LATER)


@pytest.mark.proves("approval-orphan-not-run")
def test_an_approval_whose_waiter_has_left_or_died_runs_nothing(store: SqliteStore) -> None:
    store._alive = lambda process: False
    made = proposal()
    store.submit(made, "w")
    entry = store.answer(made.id, YES, OPERATOR, LATER)
    assert (entry.life.status, entry.life.orphaned) == (Status.APPROVED, True)
    assert not store.begin(made.id, "w", "run", LATER)


@pytest.mark.proves("store-expiry-enforced")
def test_what_is_over_its_time_is_expired_and_stays_so(store: SqliteStore) -> None:
    made, other = proposal(), proposal("other", expires=NOW + 9000 * SECOND)
    store.submit(made, "w")
    store.submit(other, "v")
    with pytest.raises(ProposalSettled, match="expired"):
        store.answer(made.id, YES, OPERATOR, NOW + 300 * SECOND)
    assert store.get(made.id).life.status is Status.EXPIRED
    assert store.get(other.id).life.status is Status.PENDING
    assert store.expire(NOW + 9000 * SECOND) == 1
    assert [entry.life.status for entry in store.entries()] == [Status.EXPIRED] * 2
    with pytest.raises(ProposalSettled):  # the clock went back
        store.answer(made.id, YES, OPERATOR, NOW)


@pytest.mark.proves("waiters-leave-alone")
def test_identical_asks_of_one_session_share_and_leave_one_by_one(store: SqliteStore) -> None:
    made = proposal()
    store.submit(made, "w1")
    assert store.submit(proposal(), "w2").proposal.id == made.id
    for other in (proposal(session="session-b"), proposal("rm -r other"), proposal(batch="b")):
        assert store.submit(other, new_id()).proposal.id == other.id
    assert store.leave(made.id, "w1", Cause.TURN_INTERRUPTED, LATER).life.status is Status.PENDING
    # Leaving twice is leaving once.
    assert store.leave(made.id, "w1", Cause.TURN_ENDED, LATER).life.waiters == 1
    left = store.leave(made.id, "w2", Cause.SURFACE_CLOSED, LATER).life
    assert (left.status, left.cause) == (Status.CANCELLED, Cause.SURFACE_CLOSED)
    # What is settled is not joined.
    again = proposal()
    assert store.submit(again, "w3").proposal.id == again.id


def test_a_waiter_whose_time_is_over_lets_it_expire(store: SqliteStore) -> None:
    made = proposal()
    store.submit(made, "w")
    assert store.leave(made.id, "w", None, LATER).life.status is Status.EXPIRED


@pytest.mark.proves("interrupt-overrides-nothing")
def test_an_interrupt_after_the_answer_finds_the_answer(store: SqliteStore) -> None:
    made, other = proposal(), proposal("other")
    store.submit(made, "w")
    store.submit(other, "v")
    store.answer(made.id, YES, OPERATOR, LATER)
    store.answer(other.id, NO, OPERATOR, LATER)
    for cause in (Cause.TURN_INTERRUPTED, None):
        assert store.leave(made.id, "w", cause, LATER).life.status is Status.APPROVED
        assert store.leave(other.id, "v", cause, LATER).life.status is Status.DECLINED
    assert store.cancel_session("session-a", Cause.SESSION_ENDED, LATER) == []
    assert store.begin(made.id, "w", "run", LATER)


@pytest.mark.proves("parent-ended")
def test_the_end_of_a_session_ends_what_is_below_it_and_nothing_else(store: SqliteStore) -> None:
    made = {
        name: proposal(f"rm -r {name}", session=name, parent=parent)
        for name, parent in (("top", None), ("child", "top"), ("grandchild", "child"), ("other", None))
    }
    for each in made.values():
        store.submit(each, f"w-{each.session}")
    found = store.cancel_session("top", Cause.TURN_INTERRUPTED, LATER)
    assert sorted(found) == sorted(made[name].id for name in ("top", "child", "grandchild"))
    lives = {name: store.get(each.id).life for name, each in made.items()}
    assert lives["top"].cause is Cause.TURN_INTERRUPTED
    for name in ("child", "grandchild"):
        assert (lives[name].cause, lives[name].reason) == (Cause.PARENT_ENDED, "turn-interrupted")
    assert lives["other"].status is Status.PENDING


def test_closing_a_batch_cancels_its_own_only(store: SqliteStore) -> None:
    made, other = proposal(batch="one"), proposal("other")
    store.submit(made, "w")
    store.submit(other, "v")
    assert store.cancel_batch("one", LATER) == [made.id]
    assert store.get(made.id).life.cause is Cause.BATCH_CLOSED
    assert store.get(other.id).life.status is Status.PENDING


@pytest.mark.proves("store-boot-true")
def test_a_start_makes_every_row_true_and_leaves_the_living_alone(store: SqliteStore) -> None:
    commands = ("began", "approved", "ran", "open", "declined")
    made = {name: proposal(f"rm -r {name}") for name in commands}
    for name, each in made.items():
        store.submit(each, f"w-{name}")
    for name in ("began", "approved", "ran"):
        store.answer(made[name].id, YES, OPERATOR, LATER)
    store.answer(made["declined"].id, NO, OPERATOR, LATER)
    for name in ("began", "ran"):
        assert store.begin(made[name].id, f"w-{name}", name, LATER)
    store.executed(made["ran"].id, 1, LATER)
    assert store.sweep(LATER) == store.sweep(LATER)
    assert store.get(made["began"].id).life.execution is Execution.DISPATCHING
    store._alive = lambda process: False
    swept = store.sweep(LATER)
    assert (swept.expired, swept.unknown, swept.orphaned) == (0, 1, 1)
    lives = {name: store.get(each.id).life for name, each in made.items()}
    assert lives["began"].execution is Execution.UNKNOWN_AFTER_CRASH
    assert lives["approved"].orphaned
    assert lives["ran"].execution is Execution.EXECUTED
    assert lives["open"].status is Status.PENDING
    assert lives["declined"].execution is Execution.NOT_STARTED


@pytest.mark.persistence
@pytest.mark.proves("store-persists")
def test_what_was_committed_is_there_again(make_store: MakeStore) -> None:
    made, kept = proposal(), grant()
    first = make_store()
    first.submit(made, "w")
    first.answer(made.id, YES, OPERATOR, LATER, [kept])
    first.close()
    second = make_store()
    assert second.get(made.id).life.status is Status.APPROVED
    assert second.grants() == [kept]
    assert second.audit_faults() == []


@pytest.mark.persistence
@pytest.mark.proves("store-persists", "store-one-winner")
def test_a_second_store_on_the_same_place_sees_it_and_is_one_of_those_that_may_win(make_store: MakeStore) -> None:
    first, second = make_store(), make_store()
    made = proposal()
    first.submit(made, "w")
    before = first.version()
    second.answer(made.id, NO, OPERATOR, LATER)
    assert first.version() != before
    with pytest.raises(ProposalSettled):
        first.answer(made.id, YES, OPERATOR, LATER)


@pytest.mark.proves("store-one-winner")
def test_eight_threads_on_one_proposal_have_one_winner(store: SqliteStore) -> None:
    made = proposal()
    store.submit(made, "w")
    won: list[Status] = []
    start = threading.Barrier(8)

    def race(number: int) -> None:
        start.wait()
        with contextlib.suppress(ProposalSettled):
            won.append(store.answer(made.id, YES if number % 2 else NO, OPERATOR, LATER).life.status)

    threads = [threading.Thread(target=race, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert won == [store.get(made.id).life.status]


@pytest.mark.proves("grants-transactional")
def test_grants_come_with_their_answer_and_go_at_once(store: SqliteStore) -> None:
    made, session, twice = proposal(), grant(session="session-a"), grant(uses_left=2, expires=LATER + SECOND)
    store.submit(made, "w")
    store.answer(made.id, Answer(approve=True, scope=Scope.SESSION), OPERATOR, LATER, [session, twice])
    with pytest.raises(ProposalSettled):
        store.answer(made.id, YES, OPERATOR, LATER, [grant()])
    assert store.live_grants("default", "session-a", LATER) == [session, twice]
    assert store.live_grants("default", "session-b", LATER) == [twice]
    assert store.live_grants("else", "session-a", LATER) == []
    assert store.live_grants("default", "session-b", LATER + SECOND) == []
    assert [store.use_grant(twice.id, LATER) for _ in range(3)] == [True, True, False]
    assert store.use_grant(session.id, LATER)
    assert [store.revoke_grant(session.id, LATER) for _ in range(2)] == [True, False]
    assert not store.use_grant(session.id, LATER)
    assert store.live_grants("default", "session-a", LATER) == []


@pytest.mark.proves("audit-standing-told")
def test_the_trail_says_when_a_line_of_the_operators_file_came_and_when_it_went(store: SqliteStore) -> None:
    make, mode = StandingLine(place="command_allowlist", line="make *"), StandingLine(place="mode", line="off")
    for lines in ([make, mode], [mode, make], [mode], []):
        store.note_standing(lines, LATER, {"by": "somebody"})
    said = [(line.event, line.subject, line.said["line"], line.said["by"]) for line in store.audit()]
    assert said == [
        ("line-added", "command_allowlist", "make *", "somebody"),
        ("line-added", "mode", "off", "somebody"),
        ("line-removed", "command_allowlist", "make *", "somebody"),
        ("line-removed", "mode", "off", "somebody"),
    ]
    assert store.audit_faults() == []


def test_sessions_say_what_is_open_and_who_waits(store: SqliteStore) -> None:
    store.submit(proposal(session="one"), "w1")
    store.submit(proposal(session="one"), "w2")
    store.submit(proposal(session="two", parent="one", created=LATER), "w3")
    first, second = store.sessions()
    assert (first.session, first.proposals, first.pending, first.waiting) == ("one", 1, 1, 2)
    assert (second.session, second.parent, second.last) == ("two", "one", LATER)


def test_entries_are_told_by_status_and_in_order(store: SqliteStore) -> None:
    made = [proposal(f"rm -r {number}", created=NOW + number * SECOND) for number in range(5)]
    for each in made:
        store.submit(each, new_id())
    store.answer(made[2].id, NO, OPERATOR, NOW + 9 * SECOND)
    assert [entry.proposal for entry in store.entries()] == made
    assert [entry.proposal for entry in store.entries(status=Status.DECLINED)] == [made[2]]
    assert [entry.proposal for entry in store.entries(most=2)] == made[3:]


@pytest.mark.proves("store-owners-told")
def test_a_waiter_is_known_by_more_than_its_number(store: SqliteStore) -> None:
    asked: list[Process] = []

    def alive(process: Process) -> bool:
        asked.append(process)
        return True

    store._alive = alive
    made = proposal(expires=NOW + dt.timedelta(hours=1))
    store.submit(made, "w")
    store.answer(made.id, YES, OPERATOR, LATER)
    assert {(each.pid, each.born) for each in asked} == {(store._process.pid, store._process.born)}
