"""Any order of everything that can happen to those who wait: each is told the truth, and nobody is told another's."""

from __future__ import annotations

import concurrent.futures
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import anyio.from_thread
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, precondition, rule

from perdure.approvals.service import Approvals, Asked, ChannelFailed
from perdure.domain.errors import AnswerNotAllowed, ProposalSettled
from perdure.domain.operation import Surface
from perdure.domain.outcome import Cause, Outcome, Scope, Status
from perdure.domain.proposal import Answer, Answerer, Entry
from perdure.store.sqlite import SqliteStore
from tests.app.store.asking import Clock
from tests.app.store.conftest import MemoryDatabase
from tests.app.store.proposals import OPERATOR, OWNER, SECOND, proposal

PATIENCE = 20.0
OPEN_SECONDS = 60
PARENTS = {"child": "parent", "grandchild": "child", "parent": None, "other": None}


@dataclass(eq=False)
class Told:
    """A channel that a rule answers through, or makes fail."""

    entry: Entry | None = None
    decided: anyio.Event = field(default_factory=anyio.Event)
    answer: Answer | None = None
    fault: Exception | None = None

    async def ask(self, entry: Entry) -> Answer:
        """Wait for what the rule says."""
        self.entry = entry
        await self.decided.wait()
        if self.fault is not None:
            raise self.fault
        assert self.answer is not None
        return self.answer


@dataclass(eq=False)
class Waiter:
    """One who waits, and what has to come of it."""

    channel: Told
    scope: anyio.CancelScope
    future: concurrent.futures.Future[Asked | None]
    question: Question
    expected: tuple[Outcome, Cause | None] | None = None
    """None while it waits; cancelled with turn-interrupted where its own turn was."""
    interrupted: bool = False


@dataclass(eq=False)
class Question:
    """One proposal, as it should be."""

    id: str
    session: str
    command: str
    expires: float
    waiting: list[Waiter] = field(default_factory=list)
    status: Status = Status.PENDING
    cause: Cause | None = None
    scope: Scope | None = None
    claimed: bool = False

    def settle(self, status: Status, cause: Cause | None = None) -> None:
        """Have everybody who waits told the same."""
        self.status, self.cause = status, cause
        for waiter in self.waiting:
            waiter.expected = (Outcome(status.value), cause)
        self.waiting = []

    def leave(self, waiter: Waiter, cause: Cause) -> None:
        """Have one gone with its cause; the last one cancels the question."""
        self.waiting.remove(waiter)
        waiter.expected = (Outcome.CANCELLED, cause)
        if not self.waiting:
            self.status, self.cause = Status.CANCELLED, cause


class Waiting(RuleBasedStateMachine):
    """One service with many who wait, on a clock of its own."""

    waiters = Bundle("waiters")

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.portal = self.stack.enter_context(anyio.from_thread.start_blocking_portal())
        self.clock = Clock()
        place = Path(tempfile.gettempdir())
        self.store = SqliteStore(place, "default", database=MemoryDatabase(place))
        self.approvals = Approvals(open_store=lambda: self.store, now=self.clock.now, monotonic=self.clock.monotonic)
        self.questions: list[Question] = []
        self.everybody: list[Waiter] = []

    def until(self, found: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not found():
            assert time.monotonic() < deadline, "it did not come"
            time.sleep(0.001)

    @rule(target=waiters, session=st.sampled_from(sorted(PARENTS)), command=st.sampled_from("ab"))
    def ask(self, session: str, command: str) -> Waiter:
        now, channel, scope = self.clock.now(), self.portal.call(Told), self.portal.call(anyio.CancelScope)
        made = proposal(
            command, session=session, parent=PARENTS[session], created=now, expires=now + OPEN_SECONDS * SECOND
        )
        same = [
            each
            for each in self.questions
            if (each.session, each.command, each.status) == (session, command, Status.PENDING)
        ]

        async def wait() -> Asked | None:
            with scope:
                return await self.approvals.ask(made, channel, OPERATOR)
            return None

        future = self.portal.start_task_soon(wait)
        self.until(lambda: channel.entry is not None)
        assert channel.entry is not None
        if not same:
            self.questions.append(Question(made.id, session, command, self.clock.seconds + OPEN_SECONDS))
            same = self.questions[-1:]
        (question,) = same
        assert channel.entry.proposal.id == question.id
        waiter = Waiter(channel, scope, future, question)
        question.waiting.append(waiter)
        self.everybody.append(waiter)
        return waiter

    @rule(of=waiters, approve=st.booleans(), scope=st.sampled_from(Scope), here=st.booleans())
    def answer(self, of: Waiter, approve: bool, scope: Scope, here: bool) -> None:
        question, said = of.question, Answer(approve=approve, scope=scope, reason=None if approve else "no")
        if here and of in question.waiting:
            of.channel.answer = said
            self.portal.call(of.channel.decided.set)
        elif question.status is Status.PENDING:
            self.approvals.answer(question.id, said, OPERATOR)
        else:
            with pytest.raises(ProposalSettled):
                self.approvals.answer(question.id, said, OPERATOR)
            return
        question.scope = scope if approve else None
        question.settle(Status.APPROVED if approve else Status.DECLINED)

    @rule(of=waiters, surface=st.sampled_from([Surface.CLI, Surface.API]))
    def answer_for_another_session(self, of: Waiter, surface: Surface) -> None:
        by = Answerer(principal=OWNER, surface=surface, session="nobody's")
        with pytest.raises(AnswerNotAllowed):
            self.approvals.answer(of.question.id, Answer(approve=True), by)

    @precondition(lambda self: any(each.waiting for each in self.questions))
    @rule(of=waiters, cause=st.sampled_from([Cause.NO_CHANNEL, Cause.SURFACE_CLOSED, None]))
    def channel_fails(self, of: Waiter, cause: Cause | None) -> None:
        if of not in of.question.waiting:
            return
        of.channel.fault = ValueError("broken") if cause is None else ChannelFailed(cause)
        self.portal.call(of.channel.decided.set)
        of.question.leave(of, cause or Cause.CALLBACK_ERROR)

    @precondition(lambda self: any(each.waiting for each in self.questions))
    @rule(of=waiters)
    def interrupt(self, of: Waiter) -> None:
        if of not in of.question.waiting:
            return
        of.interrupted = True
        self.portal.call(of.scope.cancel)
        of.question.leave(of, Cause.TURN_INTERRUPTED)

    @rule(session=st.sampled_from(sorted(PARENTS)))
    def end_session(self, session: str) -> None:
        below, known = {session}, 0
        # Who works for whom is what the store has seen of them.
        seen = {each.session for each in self.questions}
        while len(below) > known:
            known = len(below)
            below |= {child for child, parent in PARENTS.items() if parent in below and child in seen}
        ended = [each for each in self.questions if each.status is Status.PENDING and each.session in below]
        assert set(self.approvals.cancel_session(session, Cause.SESSION_ENDED)) == {each.id for each in ended}
        for each in ended:
            each.settle(Status.CANCELLED, Cause.SESSION_ENDED if each.session == session else Cause.PARENT_ENDED)

    @rule(seconds=st.sampled_from([1, 25, 70]))
    def time_passes(self, seconds: int) -> None:
        self.clock.pass_by(seconds)
        for each in self.questions:
            if each.status is Status.PENDING and self.clock.seconds >= each.expires:
                each.settle(Status.EXPIRED)

    @rule(of=waiters)
    def claim(self, of: Waiter) -> None:
        if of.expected is None or of.interrupted:
            return
        asked = of.future.result(PATIENCE)
        assert asked is not None
        # Once is once: the first one who was told yes and wants it has it, and nobody else.
        free = of.expected[0] is Outcome.APPROVED and not of.question.claimed
        assert self.approvals.begin(asked, "run") == free
        of.question.claimed = of.question.claimed or free

    @invariant()
    def everybody_is_told_what_is_so(self) -> None:
        for waiter in self.everybody:
            if waiter.expected is None:
                assert not waiter.future.done()
                continue
            asked = waiter.future.result(PATIENCE)
            if waiter.interrupted:
                assert asked is None
                continue
            assert asked is not None
            assert (asked.outcome, asked.cause) == waiter.expected
            assert asked.entry.proposal.id == waiter.question.id
            assert (asked.outcome is Outcome.DECLINED) == (asked.why == "no")
        for question in self.questions:
            life = self.store.get(question.id).life
            assert (life.status, life.cause) == (question.status, question.cause)
            if life.status is Status.PENDING:
                assert life.waiters == len(question.waiting) > 0
        wider = [each for each in self.questions if each.scope not in (None, Scope.ONCE)]
        assert len(self.store.grants()) == len(wider)
        assert self.store.audit_faults() == []

    def teardown(self) -> None:
        for waiter in self.everybody:
            self.portal.call(waiter.scope.cancel)
        self.stack.close()
        self.store.close()


Waiting.TestCase.settings = settings(max_examples=15, stateful_step_count=15, deadline=None)


@pytest.mark.proves(
    "waiters-leave-alone", "approval-single-use", "parent-ended", "answer-who-may", "ask-fails-closed", "ask-order"
)
class TestWaiting(Waiting.TestCase):  # type: ignore[misc,valid-type]
    """The machine, as a test."""


class Often(Waiting):
    """The same, for longer."""


Often.TestCase.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)


@pytest.mark.slow
class TestOften(Often.TestCase):  # type: ignore[misc,valid-type]
    """The machine, as a test that takes its time."""
