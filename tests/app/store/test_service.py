"""Asking a person: the order of things, who may answer, and everything that can come in between."""

from __future__ import annotations

import datetime as dt
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from perdure.approvals.service import Approvals, Asked, ChannelFailed, clamped, require_may_answer
from perdure.domain.errors import AnswerNotAllowed, PerdureError, ProposalSettled, StoreUnavailable
from perdure.domain.operation import Principal, Surface
from perdure.domain.outcome import Cause, Execution, Outcome, Scope, Status
from perdure.domain.proposal import Answer, Answerer, Entry, Proposal
from tests.app.store.asking import Clock, Script, approvals_in
from tests.app.store.proposals import OPERATOR, OWNER, pinned, proposal, store_in

YES, NO = Answer(approve=True), Answer(approve=False, reason="not today")


def run(act: Callable[[], Awaitable[Asked]]) -> Asked:
    async def main() -> Asked:
        with anyio.fail_after(20):
            return await act()

    return anyio.run(main)


async def asked_and(
    approvals: Approvals, made: Proposal, then: Callable[[], object], channel: Script | None = None
) -> Asked:
    """Ask, do something in a thread once the question is shown, and return what came of it."""
    script, found = channel or Script(), list[Asked | PerdureError]()
    async with anyio.create_task_group() as group:

        async def ask() -> None:
            try:
                found.append(await approvals.ask(made, script, OPERATOR))
            except PerdureError as error:  # a group would wrap it
                found.append(error)

        group.start_soon(ask)
        await script.up.wait()
        await anyio.to_thread.run_sync(then)
    if isinstance(found[0], PerdureError):
        raise found[0]
    return found[0]


@pytest.mark.proves("ask-order")
@pytest.mark.parametrize(("answer", "outcome"), [(YES, Outcome.APPROVED), (NO, Outcome.DECLINED)])
def test_the_answer_of_the_channel_is_kept_before_anybody_goes_on(
    tmp_path: Path, answer: Answer, outcome: Outcome
) -> None:
    approvals, other, made = approvals_in(tmp_path), store_in(tmp_path), proposal()

    def act(entry: Entry) -> Answer:
        # What is shown is kept already, and nothing is decided.
        assert other.get(entry.proposal.id).life.status is Status.PENDING
        return answer

    asked = run(lambda: approvals.ask(made, Script(act), OPERATOR))
    assert (asked.outcome, asked.why) == (outcome, answer.reason)
    assert other.get(made.id).life == asked.entry.life
    other.close()


@pytest.mark.proves("ask-wakes-soon", "ask-order")
def test_an_answer_from_elsewhere_withdraws_the_question_here(tmp_path: Path) -> None:
    approvals, elsewhere, made = approvals_in(tmp_path), approvals_in(tmp_path), proposal()
    asked = run(lambda: asked_and(approvals, made, lambda: elsewhere.answer(made.id, YES, OPERATOR)))
    assert asked.outcome is Outcome.APPROVED
    assert approvals.begin(asked, "run")
    approvals.executed(asked, 1)
    assert elsewhere.store.get(made.id).life.execution is Execution.EXECUTED


@pytest.mark.proves("ask-fails-closed")
@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (RuntimeError("broken"), Cause.CALLBACK_ERROR),
        (TimeoutError(), Cause.CALLBACK_ERROR),
        (ChannelFailed(Cause.NO_CHANNEL), Cause.NO_CHANNEL),
        (ChannelFailed(Cause.PROMPT_INTERRUPTED), Cause.PROMPT_INTERRUPTED),
        (ChannelFailed(Cause.NOTIFY_FAILED), Cause.NOTIFY_FAILED),
        (ChannelFailed(Cause.CLIENT_CANNOT_RENDER), Cause.CLIENT_CANNOT_RENDER),
    ],
)
def test_a_channel_that_fails_cancels_with_its_cause_and_declines_nothing(
    tmp_path: Path, error: Exception, cause: Cause
) -> None:
    approvals, made = approvals_in(tmp_path), proposal()

    def act(entry: Entry) -> Answer:
        raise error

    asked = run(lambda: approvals.ask(made, Script(act), OPERATOR))
    assert (asked.outcome, asked.cause) == (Outcome.CANCELLED, cause)
    life = approvals.store.get(made.id).life
    assert (life.status, life.cause, life.execution) == (Status.CANCELLED, cause, Execution.NOT_STARTED)
    with pytest.raises(ProposalSettled):
        approvals.answer(made.id, YES, OPERATOR)


@pytest.mark.proves("store-expiry-enforced", "ask-fails-closed")
def test_silence_expires_and_a_late_answer_says_so(tmp_path: Path) -> None:
    clock = Clock()
    approvals, made = approvals_in(tmp_path, clock), proposal()
    asked = run(lambda: asked_and(approvals, made, lambda: clock.pass_by(301)))
    assert asked.outcome is Outcome.EXPIRED
    with pytest.raises(ProposalSettled, match="resolves nothing"):
        approvals.answer(made.id, YES, OPERATOR)


@pytest.mark.proves("store-expiry-enforced")
@pytest.mark.parametrize("days", [-400, 400])
def test_a_wall_clock_that_jumps_keeps_no_question_open(tmp_path: Path, days: int) -> None:
    clock = Clock()
    approvals, made = approvals_in(tmp_path, clock), proposal()

    def jump() -> None:
        clock.wall += dt.timedelta(days=days)
        clock.seconds += 301

    assert run(lambda: asked_and(approvals, made, jump)).outcome is Outcome.EXPIRED
    assert not any(entry.life.status is Status.PENDING for entry in approvals.store.entries())


@pytest.mark.proves("ask-store-first")
def test_without_its_row_nothing_is_shown(tmp_path: Path) -> None:
    approvals, script, made = approvals_in(tmp_path), Script(), proposal()
    approvals.store.submit(made, "somebody")
    with pytest.raises(StoreUnavailable):
        run(lambda: approvals.ask(proposal("another", id=made.id), script, OPERATOR))
    assert script.shown == []


@pytest.mark.proves("ask-store-first", "store-no-fallback")
def test_a_store_that_did_not_open_refuses_with_its_reason_until_it_does(tmp_path: Path) -> None:
    (tmp_path / "approvals.db").mkdir()
    approvals, script = approvals_in(tmp_path), Script(lambda entry: YES)
    assert approvals.start() is None
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="is not a file") as caught:
            run(lambda: approvals.ask(proposal(), script, OPERATOR))
        assert caught.value is approvals.failure
    assert script.shown == []
    (tmp_path / "approvals.db").rmdir()
    assert approvals.start() is not None
    assert run(lambda: approvals.ask(proposal(), script, OPERATOR)).outcome is Outcome.APPROVED


@pytest.mark.proves("ask-store-first")
def test_a_store_that_breaks_while_somebody_waits_ends_the_waiting_with_an_error(tmp_path: Path) -> None:
    approvals, made = approvals_in(tmp_path), proposal()
    store = store_in(tmp_path)
    approvals.open_store = lambda: store
    with pytest.raises(StoreUnavailable, match="cannot be read"):
        run(lambda: asked_and(approvals, made, store.close))


@pytest.mark.proves("waiters-leave-alone", "interrupt-overrides-nothing")
def test_a_waiter_that_is_cancelled_leaves_alone_and_the_last_one_cancels(tmp_path: Path) -> None:
    approvals, made = approvals_in(tmp_path), proposal()

    async def main() -> None:
        scripts, first = (Script(), Script()), anyio.Event()
        scopes = [anyio.CancelScope(), anyio.CancelScope()]

        async def ask(number: int) -> None:
            with scopes[number]:
                await approvals.ask(made if number == 0 else proposal(), scripts[number], OPERATOR)
            if number == 0:
                first.set()

        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:
                for number in range(2):
                    group.start_soon(ask, number)
                    await scripts[number].up.wait()
                scopes[0].cancel()
                await first.wait()
                life = approvals.store.get(made.id).life
                assert (life.status, life.waiters) == (Status.PENDING, 1)
                scopes[1].cancel()

    anyio.run(main)
    life = approvals.store.get(made.id).life
    assert (life.status, life.cause) == (Status.CANCELLED, Cause.TURN_INTERRUPTED)


@pytest.mark.proves("approval-single-use")
def test_once_covers_one_of_those_that_wait(tmp_path: Path) -> None:
    approvals, made = approvals_in(tmp_path), proposal()
    found: list[Asked] = []

    async def main() -> None:
        scripts = Script(), Script()

        async def ask(number: int) -> None:
            found.append(await approvals.ask(made if number == 0 else proposal(), scripts[number], OPERATOR))

        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:
                for number in range(2):
                    group.start_soon(ask, number)
                    await scripts[number].up.wait()
                await anyio.to_thread.run_sync(approvals.answer, made.id, YES, OPERATOR)

    anyio.run(main)
    assert [each.outcome for each in found] == [Outcome.APPROVED] * 2
    assert sorted(approvals.begin(each, "run") for each in found) == [False, True]


@pytest.mark.proves("interrupt-overrides-nothing", "approval-single-use")
def test_an_approval_that_comes_with_the_interrupt_is_kept_and_runs_nothing(tmp_path: Path) -> None:
    approvals, elsewhere, made = approvals_in(tmp_path), approvals_in(tmp_path), proposal()

    async def main() -> None:
        script = Script()
        async with anyio.create_task_group() as group:

            async def ask() -> None:
                await approvals.ask(made, script, OPERATOR)

            group.start_soon(ask)
            await script.up.wait()
            # In one step of the loop: the answer is committed before the waiter can see it, then the turn ends.
            elsewhere.answer(made.id, YES, OPERATOR)
            group.cancel_scope.cancel()

    anyio.run(main)
    life = approvals.store.get(made.id).life
    assert (life.status, life.execution, life.execution_reason) == (
        Status.APPROVED,
        Execution.BLOCKED,
        Cause.TURN_INTERRUPTED.value,
    )


@pytest.mark.proves("parent-ended")
def test_the_end_of_a_session_wakes_who_waits_with_its_cause(tmp_path: Path) -> None:
    approvals, elsewhere = approvals_in(tmp_path), approvals_in(tmp_path)
    made = proposal(session="child", parent="session-a")
    asked = run(lambda: asked_and(approvals, made, lambda: elsewhere.cancel_session("session-a", Cause.SESSION_ENDED)))
    assert (asked.outcome, asked.cause, asked.why) == (Outcome.CANCELLED, Cause.PARENT_ENDED, "session-ended")


@pytest.mark.proves("answer-who-may")
@pytest.mark.parametrize(
    "by",
    [
        Answerer(principal=OWNER, surface=Surface.API, session="session-b"),
        Answerer(principal=OWNER, surface=Surface.CLI, session=""),
        Answerer(principal=Principal(name="member", owner=False), surface=Surface.INBOX),
        Answerer(principal=Principal(name="owner", owner=False), surface=Surface.API, session="session-a"),
        *(
            Answerer(principal=OWNER, surface=surface)
            for surface in (Surface.CRON, Surface.WEBHOOK, Surface.SINGLE_QUERY)
        ),
    ],
    ids=str,
)
def test_who_may_not_answer_changes_nothing(tmp_path: Path, by: Answerer) -> None:
    approvals, made = approvals_in(tmp_path), proposal()
    approvals.store.submit(made, "w")
    for said in (YES, NO):
        with pytest.raises(AnswerNotAllowed):
            approvals.answer(made.id, said, by)
    assert approvals.store.get(made.id).life.status is Status.PENDING
    assert [line.event for line in approvals.store.audit()] == ["proposed"]


@pytest.mark.proves("answer-who-may")
def test_the_operator_answers_for_every_session_and_a_bound_surface_for_its_own() -> None:
    for session in ("session-a", "session-b"):
        require_may_answer(proposal(session=session), OPERATOR)
    require_may_answer(proposal(), Answerer(principal=OWNER, surface=Surface.MCP, session="session-a"))


@pytest.mark.proves("answer-scope-clamped")
def test_a_scope_that_is_not_offered_is_never_given(tmp_path: Path) -> None:
    assert clamped(Scope.ALWAYS, (Scope.ONCE, Scope.SESSION)) is Scope.SESSION
    assert clamped(Scope.ALWAYS, (Scope.ONCE,)) is Scope.ONCE
    assert clamped(Scope.SESSION, (Scope.ONCE, Scope.ALWAYS)) is Scope.ONCE
    assert clamped(Scope.ONCE, tuple(Scope)) is Scope.ONCE
    approvals, made = approvals_in(tmp_path), proposal(pinned=pinned(scopes=(Scope.ONCE,)))
    approvals.store.submit(made, "w")
    assert approvals.answer(made.id, Answer(approve=True, scope=Scope.ALWAYS), OPERATOR).life.scope is Scope.ONCE
    assert approvals.store.grants() == []


@pytest.mark.proves("answer-scope-clamped")
@pytest.mark.parametrize(("scope", "session"), [(Scope.SESSION, "session-a"), (Scope.ALWAYS, None)])
def test_a_wider_yes_grants_what_was_offered_and_no_more(tmp_path: Path, scope: Scope, session: str | None) -> None:
    approvals, made = approvals_in(tmp_path), proposal()
    approvals.store.submit(made, "w")
    approvals.answer(made.id, Answer(approve=True, scope=scope), OPERATOR)
    (grant,) = approvals.store.grants()
    assert (grant.rule_key, grant.cwd_prefix, grant.session, grant.principal) == (
        "delete",
        "/project",
        session,
        "owner",
    )
    assert made.id in grant.granted_by


@pytest.mark.proves("ask-wakes-soon")
def test_waiting_costs_little(tmp_path: Path) -> None:
    clock = Clock()
    approvals, made = approvals_in(tmp_path, clock), proposal()

    def idle() -> None:
        time.sleep(0.2)
        before = os.times()
        began = time.monotonic()
        time.sleep(1)
        after, spent = os.times(), time.monotonic() - began
        share.append((after.user + after.system - before.user - before.system) / spent)
        clock.pass_by(301)

    share: list[float] = []
    assert run(lambda: asked_and(approvals, made, idle)).outcome is Outcome.EXPIRED
    # A tenth of a core would show; what is seen is a hundredth.
    assert share[0] < 0.1
