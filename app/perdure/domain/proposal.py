"""A proposal: what is put to a person, and what has become of it.

Owns: the values, their validation as a whole, and the digest that tells two operations apart. Does not own: where they
are kept (store), who may answer (approvals), or how they are shown. Keeps: proposal-whole, proposal-default-deny: a
proposal with a fault is never made, every fault is told at once, and what may be lost for good is denied by default.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import re
import secrets
from dataclasses import asdict
from enum import StrEnum

from perdure.domain.operation import Operation, Principal, Surface
from perdure.domain.outcome import Cause, Execution, Scope, Status
from perdure.domain.record import dataclass
from perdure.domain.verdict import Reason, Risk

MOST_SECONDS = 7 * 24 * 3600
"""How long a proposal may stand open."""
_NO_TIME, _MOST_TIME = dt.timedelta(0), dt.timedelta(seconds=MOST_SECONDS)
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{11,63}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_NEVER_EMPTY = ("profile", "session", "requester.name", "display", "operation.cwd")
_UNKNOWN_HEIGHT = max(risk.height for risk in Risk) + 1


class Default(StrEnum):
    """What is preselected where a proposal is shown. Silence is never consent, whatever it is."""

    DENY = "deny"
    NONE = "none"


class ProposalInvalid(ValueError):
    """A proposal has faults."""

    def __init__(self, faults: tuple[str, ...]) -> None:
        """Say all of them."""
        super().__init__("; ".join(faults))
        self.faults = faults


def new_id() -> str:
    """Return an id that nobody can guess, and that no shell takes for an option."""
    while True:
        made = secrets.token_urlsafe(12)
        if _ID.fullmatch(made):
            return made


def height_of(risk: Risk | None) -> int:
    """Return a number that is larger for a higher risk; one that is not known is above all."""
    return _UNKNOWN_HEIGHT if risk is None else risk.height


def digest_of(operation: Operation) -> str:
    """Return what two operations have in common only if they are the same in every respect."""
    return hashlib.sha256(json.dumps(asdict(operation), sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinned:
    """What the policy said when somebody was asked: at most this is what an approval is good for."""

    risk: Risk | None
    """None where it is not known, which ranks above high."""
    reasons: tuple[Reason, ...]
    scopes: tuple[Scope, ...]
    """How far a yes may reach."""
    policy_version: str
    default: Default
    skips_nothing: bool = False
    """Whether it is the floor or a rule that asks."""

    def faults(self) -> list[str]:
        """Return what is wrong."""
        found = []
        # Said without helpers that would be called for each of a thousand proposals in a list.
        for reason in self.reasons:
            if reason.text.strip():
                break
        else:
            found.append("pinned.reasons: there is none")
        if Scope.ONCE not in self.scopes:
            found.append("pinned.scopes: once is missing")
        if not self.policy_version:
            found.append("pinned.policy_version: it is empty")
        if (self.risk is None or self.risk is Risk.HIGH) and self.default is not Default.DENY:
            found.append("pinned.default: a high or unknown risk is denied by default")
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What a yes for longer than once would grant: a rule key or a template, exactly one of the two."""

    rule_key: str | None = None
    argv_template: str | None = None
    cwd_prefix: str | None = None
    path_prefix: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """What is asked. It is written once and never changed."""

    id: str
    profile: str
    session: str
    surface: Surface
    requester: Principal
    parent: str | None = None
    """The session that this one works for."""
    batch: str | None = None
    """The batch of calls that it was prepared in."""
    created: dt.datetime
    """Aware."""
    expires: dt.datetime
    operation: Operation
    """As it may be seen: secrets in it are masked."""
    digest: str
    """Of the operation as it will be run."""
    pinned: Pinned
    display: str
    """What a person reads before the answer."""
    summary: str | None = None
    """What would change, where that can be told; None where no diff is available."""
    offers: tuple[Offer, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what is not whole.

        Raises:
            ProposalInvalid: with every fault.
        """
        faults = self.pinned.faults()
        if not _ID.fullmatch(self.id):
            faults.append("id: it is not one that was made here")
        if not _DIGEST.fullmatch(self.digest):
            faults.append("digest: it is no SHA-256 in hexadecimal")
        values = self.profile, self.session, self.requester.name, self.display.strip(), self.operation.cwd
        if not all(values):
            faults += [f"{name}: it is empty" for name, value in zip(_NEVER_EMPTY, values, strict=True) if not value]
        if not (self.operation.argv or self.operation.script or self.operation.paths):
            faults.append("operation: there is nothing to do")
        aware = self.created.tzinfo is not None and self.expires.tzinfo is not None
        if not aware:
            faults.append("created, expires: a time without its zone")
        elif not _NO_TIME < self.expires - self.created <= _MOST_TIME:
            faults.append(f"expires: it is not between created and {MOST_SECONDS} s later")
        if not self.offers and self.pinned.scopes != (Scope.ONCE,):
            faults.append("pinned.scopes: more than once is possible, and nothing says what that would grant")
        if self.parent == self.session:
            faults.append("parent: a session is not its own")
        if faults:
            raise ProposalInvalid(tuple(faults))


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifecycle:
    """What has become of a proposal so far."""

    status: Status = Status.PENDING
    scope: Scope | None = None
    """How far the yes reaches."""
    cause: Cause | None = None
    """Why it was cancelled."""
    reason: str | None = None
    """What the person gave as the reason, or what cancelled it said of itself."""
    answered_by: str | None = None
    """The name of the principal."""
    answered_via: Surface | None = None
    settled: dt.datetime | None = None
    execution: Execution = Execution.NOT_STARTED
    execution_reason: str | None = None
    run: str | None = None
    """The id of the run in the run record."""
    waiters: int = 0
    """How many still wait for it, whose processes are alive as far as is known."""

    @property
    def orphaned(self) -> bool:
        """Whether it was approved when nobody waited any more: it was not run."""
        return self.execution is Execution.BLOCKED and self.execution_reason == ORPHAN


ORPHAN = "orphan"
"""Why an approval that nobody waited for is blocked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A proposal with what has become of it."""

    proposal: Proposal
    life: Lifecycle


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a person says to one proposal."""

    approve: bool
    scope: Scope = Scope.ONCE
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answerer:
    """Who answers, and through what: made from the surface, never from what it sends."""

    principal: Principal
    surface: Surface
    session: str | None = None
    """The one session that the surface is bound to; None for one of the operator's, which answers for all of theirs."""
