"""What the approvals need of whatever keeps them.

Owns: the operations, each of which is one transaction, and what each promises. Does not own: a way to keep anything.
The same tests run on every store.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from perdure.domain.grant import Grant
from perdure.domain.json_value import JsonValue
from perdure.domain.outcome import Cause, Status
from perdure.domain.proposal import Answer, Answerer, Entry, Proposal
from perdure.domain.record import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One row of the audit trail."""

    seq: int
    at: int
    """Milliseconds since 1970, UTC."""
    event: str
    subject: str
    """The id of the proposal, grant or session that it is about."""
    said: Mapping[str, JsonValue]
    hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingLine:
    """One setting of the operator's own file that decides without anybody being asked."""

    place: str
    """What it is called there."""
    line: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """What a start found of what ended without saying so."""

    expired: int
    unknown: int
    """Runs of which nobody knows whether they started."""
    orphaned: int
    """Approvals whose waiter was gone before it could run anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSeen:
    """One session that has asked."""

    session: str
    parent: str | None
    owner: str
    proposals: int
    pending: int
    waiting: int
    """How many of its waiters are alive."""
    last: dt.datetime


class ProposalStore(Protocol):
    """Where proposals are kept.

    Every method raises `StoreUnavailable`, or a kind of it, where the store fails, and has changed nothing then. Ids of
    one profile are not seen from another.
    """

    def submit(self, proposal: Proposal, waiter: str) -> Entry:
        """Keep a proposal, or join an open one of the same session for the same operation; return the one kept."""
        ...

    def get(self, proposal: str) -> Entry:
        """Return one; `ProposalUnknown` where there is none."""
        ...

    def entries(self, *, status: Status | None = None, most: int | None = None) -> list[Entry]:
        """Return them, the oldest first; the last `most` of them where that is given."""
        ...

    def answer(
        self, proposal: str, answer: Answer, by: Answerer, now: dt.datetime, grants: Sequence[Grant] = ()
    ) -> Entry:
        """Settle one that is open and not over its time, and keep what was granted with it.

        Where nobody waits any more an approval is kept as blocked: it was not run. `ProposalSettled` where it was
        settled before, or its time is over, which is kept then.
        """
        ...

    def leave(self, proposal: str, waiter: str, cause: Cause | None, now: dt.datetime, why: str | None = None) -> Entry:
        """Have one waiter gone; return what is settled, which an interrupt does not change.

        The last one that leaves an open proposal cancels it with its cause, or has it expired where that is None.
        """
        ...

    def expire(self, now: dt.datetime) -> int:
        """Settle everything whose time is over; return how many that were."""
        ...

    def cancel_session(self, session: str, cause: Cause, now: dt.datetime) -> list[str]:
        """Cancel what a session has open, and with the cause parent-ended what those have that work for it."""
        ...

    def cancel_batch(self, batch: str, now: dt.datetime) -> list[str]:
        """Cancel what a batch has open, and nothing else."""
        ...

    def begin(self, proposal: str, waiter: str, run: str, now: dt.datetime) -> bool:
        """Claim an approval for one run; False where it is not approved, or somebody else has it."""
        ...

    def executed(self, proposal: str, pid: int, now: dt.datetime) -> None:
        """Say that the process has been started."""
        ...

    def not_started(self, proposal: str, reason: str, now: dt.datetime) -> None:
        """Say that starting it failed."""
        ...

    def block(self, proposal: str, reason: str, now: dt.datetime) -> bool:
        """Have an approval run nothing; False where it has begun to already."""
        ...

    def sweep(self, now: dt.datetime) -> Swept:
        """Have every row true whose process is gone."""
        ...

    def sessions(self) -> list[SessionSeen]:
        """Return the sessions that have asked, the one that asked last at the end."""
        ...

    def version(self) -> int:
        """Return a number that changes when another process has changed anything."""
        ...

    def audit(self, most: int | None = None) -> list[Line]:
        """Return the trail, in order; the last `most` lines where that is given."""
        ...

    def audit_faults(self) -> list[str]:
        """Return where the trail is not what was written."""
        ...

    def live_grants(self, profile: str, session: str, now: dt.datetime) -> Sequence[Grant]:
        """Return those of a profile, for always or for this session, that are neither revoked, expired nor used up."""
        ...

    def grants(self) -> Sequence[Grant]:
        """Return all of the profile, the withdrawn ones too, the oldest first."""
        ...

    def add_grant(self, grant: Grant) -> None:
        """Keep a grant."""
        ...

    def revoke_grant(self, grant: str, now: dt.datetime) -> bool:
        """Withdraw one; return whether it stood until now."""
        ...

    def note_standing(self, lines: Collection[StandingLine], now: dt.datetime, said: Mapping[str, JsonValue]) -> None:
        """Have the trail say which lines of the operator's file stand, where that is not what was noted last."""
        ...

    def use_grant(self, grant: str, now: dt.datetime) -> bool:
        """Count one use; return whether the grant still stood and had one left."""
        ...
