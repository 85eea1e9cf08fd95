"""Asking a person, and what comes of it.

Owns: the order (the row is kept, then it is shown, then a decision is kept, then whoever waits goes on), waiting across
processes, who may answer, and the state in which nothing can be asked because the store did not open. Does not own:
what is asked about (decide), the rows (store), how a question looks (channels). Keeps: ask-order, ask-store-first,
ask-fails-closed, answer-who-may, answer-scope-clamped, ask-wakes-soon, interrupt-overrides-nothing.

A waiter looks for a change every ten milliseconds: the look is one number from the file's shared memory, and no message
between processes can get lost.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Sequence
from typing import Protocol

import anyio
import anyio.lowlevel
import anyio.to_thread

from perdure.approvals.redact import mask_text
from perdure.domain.errors import AnswerNotAllowed, PerdureError, StoreUnavailable
from perdure.domain.grant import Grant
from perdure.domain.operation import Surface
from perdure.domain.outcome import Cause, Outcome, Scope, Status
from perdure.domain.proposal import Answer, Answerer, Entry, Proposal, new_id
from perdure.domain.record import dataclass, field
from perdure.store.port import ProposalStore, Swept

POLL_SECONDS = 0.01
_ANSWERING = frozenset({Surface.CLI, Surface.INBOX, Surface.API, Surface.MCP, Surface.SOCKET})
"""The surfaces behind which a person can be."""
_SCOPES = (Scope.ONCE, Scope.SESSION, Scope.ALWAYS)


class ChannelFailed(Exception):
    """A channel cannot put its question; nobody said no."""

    def __init__(self, cause: Cause, why: str = "") -> None:
        """Say which cause it has."""
        super().__init__(why or cause.value)
        self.cause = cause


class Channel(Protocol):
    """What shows a question to a person, and may bring the answer."""

    async def ask(self, entry: Entry) -> Answer:
        """Show a proposal and return what the person says here; it is cancelled once somebody else has answered.

        Raises:
            ChannelFailed: it cannot be shown, or the person left without an answer.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What came of asking, for one waiter."""

    outcome: Outcome
    entry: Entry
    waiter: str
    cause: Cause | None = None
    """Why it was cancelled."""
    why: str | None = None
    """What the person gave as the reason, or the channel said of its failure."""


@dataclass(slots=True, kw_only=True)
class Approvals:
    """The approvals of one profile, in one process."""

    open_store: Callable[[], ProposalStore]
    now: Callable[[], dt.datetime] = field(default=lambda: dt.datetime.now(dt.UTC))
    monotonic: Callable[[], float] = time.monotonic
    failure: StoreUnavailable | None = field(default=None, init=False)
    """Why the store did not open; everything that needs an approval is refused for this reason then."""
    _store: ProposalStore | None = field(default=None, init=False)
    _changes: int = field(default=0, init=False)

    def start(self) -> Swept | None:
        """Open the store and have every row true; None, with `failure` set, where it cannot be opened.

        Called again it tries again: what was refused meanwhile stays refused, and the next question is asked.
        """
        try:
            store = self.open_store()
            swept = store.sweep(self.now())
        except StoreUnavailable as error:
            self.failure = error
            return None
        self.failure, self._store = None, store
        return swept

    @property
    def store(self) -> ProposalStore:
        """The open store.

        Raises:
            StoreUnavailable: with the recorded reason.
        """
        if self._store is None and self.failure is None:
            self.start()
        if self.failure is not None or self._store is None:
            raise self.failure or StoreUnavailable("the approvals were not opened")
        return self._store

    async def ask(self, proposal: Proposal, channel: Channel, by: Answerer) -> Asked:
        """Put a proposal to a person and return what came of it, whoever answered, and wherever.

        Args:
            proposal: what is asked; where the same is open already, that one is waited for.
            channel: what shows it here.
            by: who answers where the answer comes through the channel.

        Raises:
            StoreUnavailable: it is not kept, so nobody was asked; or it cannot be told any more what was answered.
        """
        waiter = new_id()
        with anyio.CancelScope(shield=True):
            entry = await anyio.to_thread.run_sync(self.store.submit, proposal, waiter)
        identity = entry.proposal.id
        waiting = _Waiting()
        # Two clocks: one that is set back does not keep a question open.
        left = (entry.proposal.expires - self.now()).total_seconds()
        deadline = self.monotonic() + left
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._show, entry, channel, by, waiting)
                await self._wait(identity, waiter, deadline, waiting)
                group.cancel_scope.cancel()
            # Whoever is interrupted just now gets no answer that they cannot use any more.
            await anyio.lowlevel.checkpoint_if_cancelled()
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                settled = await anyio.to_thread.run_sync(self._leave, identity, waiter, Cause.TURN_INTERRUPTED, None)
                if settled.life.status is Status.APPROVED:
                    # Nobody is there any more who could run it.
                    await anyio.to_thread.run_sync(self.block, identity, Cause.TURN_INTERRUPTED.value)
            raise
        if waiting.error is not None:
            raise waiting.error
        if waiting.entry is None:
            raise AssertionError("waiting ends with an entry or an error")
        return _asked(waiting.entry, waiter, waiting)

    def answer(self, proposal: str, answer: Answer, by: Answerer) -> Entry:
        """Settle a proposal as somebody says, if they may.

        Raises:
            ProposalUnknown: there is none with that id.
            AnswerNotAllowed: they may not answer that one.
            ProposalSettled: it is settled already, or its time is over.
            StoreUnavailable: the answer is not kept, and nobody was woken.
        """
        store = self.store
        asked = store.get(proposal).proposal
        require_may_answer(asked, by)
        scope = clamped(answer.scope, asked.pinned.scopes)
        now = self.now()
        grants = granted(asked, scope, by, now) if answer.approve else ()
        entry = store.answer(
            proposal, Answer(approve=answer.approve, scope=scope, reason=answer.reason), by, now, grants
        )
        self._changes += 1
        return entry

    def cancel_session(self, session: str, cause: Cause) -> list[str]:
        """Have nothing open of a session, and of those that work for it."""
        cancelled = self.store.cancel_session(session, cause, self.now())
        self._changes += 1
        return cancelled

    def begin(self, asked: Asked, run: str) -> bool:
        """Claim an approval for one run; False where somebody else has it."""
        return self.store.begin(asked.entry.proposal.id, asked.waiter, run, self.now())

    def executed(self, asked: Asked, pid: int) -> None:
        """Say that the process has been started."""
        self.store.executed(asked.entry.proposal.id, pid, self.now())

    def not_started(self, asked: Asked, reason: str) -> None:
        """Say that starting it failed."""
        self.store.not_started(asked.entry.proposal.id, mask_text(reason), self.now())

    def block(self, proposal: str, reason: str) -> bool:
        """Have an approval run nothing."""
        return self.store.block(proposal, mask_text(reason), self.now())

    async def _show(self, entry: Entry, channel: Channel, by: Answerer, waiting: _Waiting) -> None:
        try:
            answer = await channel.ask(entry)
            await anyio.to_thread.run_sync(self.answer, entry.proposal.id, answer, by)
        except ChannelFailed as failed:
            waiting.cause, waiting.why = failed.cause, str(failed)
        except StoreUnavailable as error:
            waiting.error = error
        except PerdureError as error:
            # Somebody was faster, which waiting finds out; or this person may not, and it stays open for who may.
            waiting.why = error.summary
        except Exception as error:  # noqa: BLE001  # whatever a channel raises, nobody said no
            waiting.cause, waiting.why = Cause.CALLBACK_ERROR, f"{type(error).__name__}: {error}"
        waiting.changed.set()

    async def _wait(self, identity: str, waiter: str, deadline: float, waiting: _Waiting) -> None:
        """Have `waiting` hold what the proposal has come to, or why that cannot be told."""
        seen: tuple[int, int] | None = None
        run = anyio.to_thread.run_sync
        try:
            while waiting.error is None:
                if waiting.cause is not None:
                    waiting.entry = await run(self._leave, identity, waiter, waiting.cause, waiting.why)
                    return
                if self.monotonic() >= deadline:
                    waiting.entry = await run(self._leave, identity, waiter, None, None)
                    waiting.over = True
                    return
                now = (self.store.version(), self._changes)
                if now != seen:
                    seen = now
                    entry = await run(self.store.get, identity)
                    if entry.life.status is not Status.PENDING:
                        # Nothing is written: leaving changes nothing of what is settled.
                        waiting.entry = entry
                        return
                with anyio.move_on_after(POLL_SECONDS):
                    await waiting.changed.wait()
                    waiting.changed = anyio.Event()
        except PerdureError as error:
            waiting.error = error

    def _leave(self, identity: str, waiter: str, cause: Cause | None, why: str | None) -> Entry:
        entry = self.store.leave(identity, waiter, cause, self.now(), None if why is None else mask_text(why))
        self._changes += 1
        return entry


@dataclass(slots=True)
class _Waiting:
    """What one waiter knows so far."""

    changed: anyio.Event = field(default_factory=anyio.Event)
    entry: Entry | None = None
    error: PerdureError | None = None
    cause: Cause | None = None
    """Why the channel is not asking any more."""
    why: str | None = None
    over: bool = False
    """Whether the time is over for this waiter."""


def require_may_answer(proposal: Proposal, by: Answerer) -> None:
    """Have an answer only from who may give it: the owner, through a surface of theirs or of that very session.

    Raises:
        AnswerNotAllowed: otherwise.
    """
    context = {"id": proposal.id, "session": proposal.session, "surface": by.surface.value}
    if by.surface not in _ANSWERING:
        raise AnswerNotAllowed(f"nobody answers through {by.surface.value}", context=context)
    if by.session is not None and by.session != proposal.session:
        raise AnswerNotAllowed(f"the proposal {proposal.id} is of another session", context=context)
    if not by.principal.owner:
        raise AnswerNotAllowed(
            f"{by.principal.name} does not own the profile, and only its owner answers", context=context
        )


def clamped(scope: Scope, allowed: Sequence[Scope]) -> Scope:
    """Return the widest scope that is asked for and may be given; at least once."""
    reach = _SCOPES[: _SCOPES.index(scope) + 1]
    return next((each for each in reversed(reach) if each in allowed), Scope.ONCE)


def granted(proposal: Proposal, scope: Scope, by: Answerer, now: dt.datetime) -> tuple[Grant, ...]:
    """Return what a yes grants beyond this once: what the proposal offers, and nothing else."""
    if scope is Scope.ONCE:
        return ()
    return tuple(
        Grant(
            id=new_id(),
            profile=proposal.profile,
            rule_key=offer.rule_key,
            argv_template=offer.argv_template,
            cwd_prefix=offer.cwd_prefix,
            path_prefix=offer.path_prefix,
            principal=proposal.requester.name,
            session=proposal.session if scope is Scope.SESSION else None,
            created=now,
            granted_by=f"{by.principal.name}, answering {proposal.id}",
        )
        for offer in proposal.offers
    )


def _asked(entry: Entry, waiter: str, waiting: _Waiting) -> Asked:
    life = entry.life
    if life.status is Status.PENDING:
        # Others wait for it still: only this one has left.
        outcome = Outcome.EXPIRED if waiting.over else Outcome.CANCELLED
        return Asked(outcome=outcome, entry=entry, waiter=waiter, cause=waiting.cause, why=waiting.why)
    outcome = Outcome(life.status.value)
    return Asked(outcome=outcome, entry=entry, waiter=waiter, cause=life.cause, why=life.reason)
