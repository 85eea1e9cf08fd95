"""From a decision that asks to a proposal, and from its answer to the right to start one run.

Owns: putting a proposal together, with what may be seen of the operation, and handing the channel what interrupts it.
Does not own: the order of asking (service), starting anything (tools). Keeps: ask-display-first: what cannot be shown
or masked is cancelled before it is kept or anybody is asked.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import signal
import sys
from collections.abc import Callable

import anyio

from perdure.approvals.commands import judged
from perdure.approvals.grants import grants_of
from perdure.approvals.redact import mask_said
from perdure.approvals.service import Approvals, Asked, Channel, ChannelFailed
from perdure.domain.decision import Decision
from perdure.domain.errors import ApprovalCancelled
from perdure.domain.operation import Authority, Operation
from perdure.domain.outcome import Cause, Scope
from perdure.domain.proposal import (
    Answer,
    Answerer,
    Default,
    Entry,
    Offer,
    Pinned,
    Proposal,
    digest_of,
    height_of,
    new_id,
)
from perdure.domain.record import dataclass
from perdure.domain.verdict import Risk
from perdure.guard.service import View

SECONDS = 300.0
"""How long a question stays open unless told."""
_CAUSES = {
    signal.SIGINT: Cause.TURN_INTERRUPTED,
    signal.SIGTERM: Cause.SESSION_ENDED,
    **({signal.SIGHUP: Cause.SURFACE_CLOSED} if sys.platform != "win32" else {}),
}


@dataclass(slots=True, kw_only=True)
class Asker:
    """What asks for one session."""

    approvals: Approvals
    authority: Authority
    profile: str
    channel: Channel
    mask: Callable[[Operation], Operation]
    """Returns the operation as it may be kept and shown."""
    display: Callable[[Operation, Decision], str]
    """Returns what a person reads of a masked operation."""
    seconds: float = SECONDS
    batch: str | None = None
    interrupted: Cause = Cause.TURN_INTERRUPTED
    """The cause where Ctrl-C ends the question."""

    async def ask(self, operation: Operation, decision: Decision, view: View) -> Asked:
        """Return what came of asking a person about an operation that the guard has read.

        Raises:
            ApprovalCancelled: it cannot be shown.
            StoreUnavailable: it cannot be kept, so nobody was asked.
        """
        proposal = self._proposal(operation, decision, view)
        by = Answerer(
            principal=self.authority.requester, surface=self.authority.surface, session=self.authority.session
        )
        return await self.approvals.ask(proposal, _Interruptible(self.channel, self.interrupted), by)

    def _proposal(self, operation: Operation, decision: Decision, view: View) -> Proposal:
        now = self.approvals.now()
        expires = now + dt.timedelta(seconds=self.seconds)
        if self.authority.expires is not None:
            expires = min(expires, self.authority.expires)
        high = height_of(decision.risk) >= Risk.HIGH.height
        try:
            masked = self.mask(operation)
            # A template would hold the words as they are: what has to be masked is granted once only.
            offers = self._offers(operation, view, now) if masked == operation else ()
            return Proposal(
                id=new_id(),
                profile=self.profile,
                session=self.authority.session,
                surface=self.authority.surface,
                requester=self.authority.requester,
                parent=self.authority.parent,
                batch=self.batch,
                created=now,
                expires=expires,
                operation=masked,
                digest=digest_of(operation),
                pinned=Pinned(
                    risk=decision.risk,
                    reasons=tuple(
                        dataclasses.replace(reason, text=str(mask_said(operation, reason.text)))
                        for reason in decision.reasons
                    ),
                    scopes=decision.scopes if decision.scopes and offers else (Scope.ONCE,),
                    policy_version=decision.policy_version,
                    default=Default.DENY if high else Default.NONE,
                    skips_nothing=decision.skips_nothing,
                ),
                display=self.display(masked, decision),
                summary=masked.diff,
                offers=offers,
            )
        except Exception as error:
            # Nothing of the operation in the message: it may be what could not be masked.
            raise ApprovalCancelled(
                f"the command was not run: what a person would have to see of it cannot be shown "
                f"({type(error).__name__}); nobody was asked",
                context={"cause": Cause.DISPLAY_FAILED.value},
            ) from error

    def _offers(self, operation: Operation, view: View, now: dt.datetime) -> tuple[Offer, ...]:
        grants = grants_of(
            judged(operation, view.reading, view.verdict),
            Scope.SESSION,
            profile=self.profile,
            authority=self.authority,
            cwd=operation.cwd,
            by="",
            now=now,
        )
        return tuple(
            Offer(
                rule_key=grant.rule_key,
                argv_template=grant.argv_template,
                cwd_prefix=grant.cwd_prefix,
                path_prefix=grant.path_prefix,
            )
            for grant in grants
        )


@dataclass(slots=True)
class _Interruptible:
    """A channel that ends with its cause where this process is told to end."""

    channel: Channel
    interrupted: Cause

    async def ask(self, entry: Entry) -> Answer:
        answers: list[Answer] = []
        faults: list[Exception] = []
        with anyio.open_signal_receiver(*_CAUSES) as signals:
            async with anyio.create_task_group() as group:

                async def put() -> None:
                    try:
                        answers.append(await self.channel.ask(entry))
                    except Exception as error:  # noqa: BLE001  # raised again where no group wraps it
                        faults.append(error)
                    group.cancel_scope.cancel()

                group.start_soon(put)
                async for number in signals:
                    cause = self.interrupted if number == signal.SIGINT else _CAUSES[number]
                    faults.append(ChannelFailed(cause, f"this process was told to end ({number.name})"))
                    group.cancel_scope.cancel()
        if answers:
            return answers[0]
        raise faults[0]
