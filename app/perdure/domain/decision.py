"""A decision: what the one pipeline says of an operation, and every stage on the way to it.

Owns: the values, and the order of the stages. Does not own: how a stage comes to what it says (approvals). Keeps:
approvals-trace: a decision carries one step for every stage, also for those that were not consulted.
"""

from __future__ import annotations

from enum import StrEnum

from perdure.domain.json_value import JsonValue
from perdure.domain.outcome import Scope
from perdure.domain.record import dataclass
from perdure.domain.verdict import Reason, Risk, Ruling


class Stage(StrEnum):
    """The stages, in the order in which every operation meets them."""

    CATASTROPHIC = "catastrophic"
    OWN_FEET = "own-feet"
    DENY_RULES = "deny-rules"
    ASK_RULES = "ask-rules"
    PREPARED = "prepared"
    BYPASS = "bypass"
    GRANTS = "grants"
    CLASSIFICATION = "classification"
    ASSESSORS = "assessors"
    AUTHORITY = "authority"


class Said(StrEnum):
    """What one stage says."""

    ALLOW = "allow"
    ASK = "ask"
    REFUSE = "refuse"
    NOTHING = "nothing"
    """The next stage is consulted."""
    SKIPPED = "skipped"
    """It was not consulted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What one stage looked at, and what it said."""

    stage: Stage
    said: Said
    looked_at: str
    why: str

    def to_json(self) -> dict[str, JsonValue]:
        """Return it for programs."""
        return {"stage": self.stage.value, "said": self.said.value, "looked_at": self.looked_at, "why": self.why}


DECISION_REASONS = {
    "policy-not-evaluated": "refused: what the profile says of approvals cannot be evaluated",
    "denied-by-rule": "refused: a deny rule of the operator matches",
    "perhaps-denied": "asked: a deny rule may match, which cannot be told from the text",
    "asked-by-rule": "asked: an ask rule of the operator matches",
    "instruction-file": "asked: a file that steers agents would be changed",
    "prepared": "decided before, for exactly this call",
    "mode-off": "allowed: the profile's mode is off",
    "yolo": "allowed: the session was started without questions",
    "granted": "allowed: a grant covers it",
    "safe": "allowed: it changes nothing that matters",
    "isolated": "allowed: it runs in a container that reaches nothing of this machine",
    "assessor-refused": "refused: an assessor refuses it",
    "assessor-approved": "allowed once: an assessor answers for it, which the operator lets it do",
    "denied-before": "refused: it was declined or denied in this turn already",
    "no-authority": "refused: nobody is known on whose authority it would run",
    "authority-ended": "refused: the authority that it would run on has ended",
    "unattended": "refused: it needs a person, and nobody can answer in this context",
    "unattended-allowed": "allowed: the operator lets this context act where only classification asks",
}
"""Every code that the pipeline gives of itself; those of the guard stand in its own tables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What may follow an operation, and why."""

    ruling: Ruling
    code: str
    """Why: a key of `DECISION_REASONS`, or the code of the guard's first reason."""
    stage: Stage
    """The stage that the ruling comes from: where a person is asked, the one that asks."""
    reasons: tuple[Reason, ...]
    """At least one."""
    risk: Risk
    scopes: tuple[Scope, ...]
    """How far a person's yes may reach; empty where none is asked for."""
    skips_nothing: bool
    """Whether it is the floor or a rule that asks, so that nothing but a person answers, and only once."""
    touches: tuple[str, ...]
    """What it would write, move or delete, as far as that can be told."""
    grants: tuple[str, ...]
    """The ids of the grants that cover it, where it is allowed for that."""
    policy_version: str
    """Digest of the policy that it was made under."""
    trace: tuple[Step, ...]
    """One step for every stage, in order."""

    @property
    def refuses_by_default(self) -> bool:
        """Whether silence, and whoever is in a hurry, means no in so many words."""
        return self.risk is Risk.HIGH

    def to_json(self) -> dict[str, JsonValue]:
        """Return it for programs."""
        return {
            "ruling": self.ruling.value,
            "code": self.code,
            "stage": self.stage.value,
            "risk": self.risk.value,
            "reasons": [reason.to_json() for reason in self.reasons],
            "scopes": [scope.value for scope in self.scopes],
            "skips_nothing": self.skips_nothing,
            "touches": list(self.touches),
            "grants": list(self.grants),
            "policy_version": self.policy_version,
            "trace": [step.to_json() for step in self.trace],
        }
