"""Any order of everything that can happen to proposals: what was final stays so, and nothing runs without a yes."""

from __future__ import annotations

import datetime as dt
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from perdure.domain.errors import ProposalSettled
from perdure.domain.outcome import Cause, Execution, Status
from perdure.domain.proposal import Answer, Lifecycle, new_id
from perdure.store.living import Process
from perdure.store.sqlite import SqliteStore
from tests.app.store.conftest import MemoryDatabase
from tests.app.store.proposals import NOW, OPERATOR, SECOND, proposal

_RAN = (Execution.DISPATCHING, Execution.EXECUTED, Execution.FAILED_TO_START, Execution.UNKNOWN_AFTER_CRASH)
_ENDED = (Execution.EXECUTED, Execution.FAILED_TO_START, Execution.BLOCKED, Execution.UNKNOWN_AFTER_CRASH)


class Proposals(RuleBasedStateMachine):
    """One store, a clock, and processes that live and die."""

    asked = Bundle("asked")

    def __init__(self) -> None:
        super().__init__()
        self.dead: set[int] = set()
        self.store = SqliteStore(
            Path(tempfile.gettempdir()),
            "default",
            database=MemoryDatabase(Path(tempfile.gettempdir())),
            alive=lambda process: process.pid not in self.dead,
        )
        self.now = NOW
        self.before: dict[str, Lifecycle] = {}
        self.claims: dict[str, int] = {}
        self.yes: set[str] = set()

    @rule(target=asked, command=st.sampled_from("abc"), session=st.sampled_from("xy"), pid=st.integers(1, 3))
    def ask(self, command: str, session: str, pid: int) -> tuple[str, str, int]:
        self.store._process = Process(pid=pid, born="1")
        waiter = new_id()
        made = proposal(command, session=session, created=self.now, expires=self.now + 60 * SECOND)
        return self.store.submit(made, waiter).proposal.id, waiter, pid

    @rule(of=asked, approve=st.booleans())
    def answer(self, of: tuple[str, str, int], approve: bool) -> None:
        open_ = self.store.get(of[0]).life.status is Status.PENDING
        over = self.now >= self.store.get(of[0]).proposal.expires
        try:
            self.store.answer(of[0], Answer(approve=approve), OPERATOR, self.now)
        except ProposalSettled:
            assert not open_ or over
        else:
            assert open_
            assert not over
            if approve:
                self.yes.add(of[0])

    @rule(of=asked, cause=st.sampled_from([None, Cause.TURN_INTERRUPTED, Cause.SURFACE_CLOSED]))
    def leave(self, of: tuple[str, str, int], cause: Cause | None) -> None:
        self.store.leave(of[0], of[1], cause, self.now)

    @rule(of=asked)
    def begin(self, of: tuple[str, str, int]) -> None:
        self.store._process = Process(pid=of[2], born="1")
        if self.store.begin(of[0], of[1], "run", self.now):
            self.claims[of[0]] = self.claims.get(of[0], 0) + 1

    @rule(of=asked, end=st.sampled_from(["executed", "not_started", "block"]))
    def end(self, of: tuple[str, str, int], end: str) -> None:
        if end == "executed":
            self.store.executed(of[0], 1, self.now)
        elif end == "not_started":
            self.store.not_started(of[0], "gone", self.now)
        else:
            self.store.block(of[0], "changed", self.now)

    @rule(session=st.sampled_from("xy"))
    def end_session(self, session: str) -> None:
        self.store.cancel_session(session, Cause.SESSION_ENDED, self.now)

    @rule(seconds=st.integers(-30, 90))
    def time_passes(self, seconds: int) -> None:
        self.now += dt.timedelta(seconds=seconds)

    @rule(pid=st.integers(1, 3), dies=st.booleans())
    def process(self, pid: int, dies: bool) -> None:
        (self.dead.add if dies else self.dead.discard)(pid)

    @rule()
    def start(self) -> None:
        self.store.sweep(self.now)
        for entry in self.store.entries(status=Status.PENDING):
            assert entry.proposal.expires > self.now

    @invariant()
    def everything_is_true(self) -> None:
        for entry in self.store.entries():
            life, before = entry.life, self.before.get(entry.proposal.id)
            if before is not None and before.status is not Status.PENDING:
                assert (life.status, life.cause, life.settled, life.scope) == (
                    before.status,
                    before.cause,
                    before.settled,
                    before.scope,
                )
            if before is not None and before.execution in _ENDED:
                assert life.execution is before.execution
            if life.execution in _RAN:
                assert life.status is Status.APPROVED
                assert entry.proposal.id in self.yes
                assert self.claims[entry.proposal.id] == 1
            self.before[entry.proposal.id] = life
        assert self.store.audit_faults() == []

    def teardown(self) -> None:
        self.store.close()


Proposals.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)


@pytest.mark.proves("store-terminal-final", "approval-single-use", "store-boot-true", "store-expiry-enforced")
class TestProposals(Proposals.TestCase):  # type: ignore[misc,valid-type]
    """The machine, as a test."""
