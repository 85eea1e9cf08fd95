"""A verdict: what the guard says of a command line, and why.

Owns: the values. Does not own: how they come about (guard), or what happens after one (tools, approvals).
"""

from __future__ import annotations

from enum import StrEnum

from perdure.domain.effect import Effect, Span
from perdure.domain.json_value import JsonValue
from perdure.domain.record import dataclass


class Ruling(StrEnum):
    """What may follow."""

    ALLOW = "allow"
    ASK = "ask"
    REFUSE = "refuse"

    @property
    def strictness(self) -> int:
        """A number that is larger for a stricter ruling."""
        return _STRICTNESS[self]


_STRICTNESS = {Ruling.ALLOW: 0, Ruling.ASK: 1, Ruling.REFUSE: 2}


class Risk(StrEnum):
    """How much could be lost."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"

    @property
    def height(self) -> int:
        """A number that is larger for a higher risk."""
        return _HEIGHT[self]


_HEIGHT = {Risk.LOW: 0, Risk.MEDIUM: 1, Risk.HIGH: 2}


class Overlap(StrEnum):
    """How what is acted on and a protected root lie to each other."""

    IS = "is"
    CONTAINS = "contains"
    WITHIN = "lies in"


@dataclass(frozen=True, slots=True, kw_only=True)
class Meeting:
    """One effect that touches one protected root."""

    root: str
    """The root's path."""
    why: str
    """What the root is."""
    overlap: Overlap
    operand: str
    """What is acted on, as far as it is known."""
    sure: bool
    """Whether it meets the root whatever is not known of it."""
    effect: Effect

    def to_json(self) -> dict[str, JsonValue]:
        """Return it for programs."""
        return {
            "root": self.root,
            "why": self.why,
            "overlap": self.overlap.value,
            "operand": self.operand,
            "sure": self.sure,
            "act": self.effect.act.value,
            "by": self.effect.by,
        }


FLOOR_REASONS = {
    "catastrophic-wipe": "refused: the system, a directory of it, or a whole home would be deleted or moved away",
    "catastrophic-device": "refused: a raw device would be written to",
    "catastrophic-filesystem": "refused: a file system would be made on a device, or a device's contents wiped",
    "catastrophic-shutdown": "refused: the machine would be shut down or restarted",
    "catastrophic-kill": "refused: every process would be ended",
    "catastrophic-fork": "refused: a function starts itself again without end",
    "own-feet": "refused: something protected would be harmed",
    "own-policy": "refused: the command answers for the person, or changes what guards it",
    "lets-somebody-in": "refused: a file that decides who may log in or become root would be written",
    "reads-own-state": "asked: the app's own state would be read with everything around it, outside of the jail",
    "own-feet-perhaps": "asked: something protected may be harmed",
    "unknown-operand": "asked: everything below something would be deleted, and what that is cannot be told",
    "unknown-program-perhaps": "asked: a program that cannot be told is given something protected",
    "not-analysable": "asked: no reader understands the text, or reading it takes too long",
}
"""Every code of a reason that the floor gives, with what it says."""

OTHER_REASONS = {
    "recursive-delete": "a directory with everything below it would be deleted",
    "delete": "a file would be deleted",
    "empties": "a file would be emptied",
    "permissions": "permissions would be changed",
    "writes-elsewhere": "what would be written is outside the directory that the command works in, or not known",
    "system": "what is mounted would be changed",
    "steered": "the command line sets a variable with which a program may do something else",
    "unknown-program": "the program, or what it does with these arguments, is not known",
}
"""The codes that classification gives of itself; the others stand in its table of programs and places."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One thing that speaks for a ruling."""

    code: str
    """Stable kebab-case name of the kind of reason."""
    text: str
    """For people, without a full stop."""
    span: Span | None = None
    """Where in the text it was read."""
    rule: str | None = None
    """A digest of the operator's rule that it comes from: tells two rules apart, and does not say what they say."""

    def to_json(self) -> dict[str, JsonValue]:
        """Return it for programs."""
        place: list[JsonValue] | None = None if self.span is None else [self.span.start, self.span.end]
        return {"code": self.code, "text": self.text, "span": place}


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the guard says of one command line."""

    ruling: Ruling
    floor: bool
    """Whether the ruling is the floor's: no mode, grant, plugin or setting skips it."""
    risk: Risk
    reasons: tuple[Reason, ...]
    """Those of the ruling first; at least one where it is not `Ruling.ALLOW`."""
    meetings: tuple[Meeting, ...] = ()

    @property
    def floor_ruling(self) -> Ruling:
        """What the floor alone says."""
        return self.ruling if self.floor else Ruling.ALLOW

    @property
    def shown_ruling(self) -> str:
        """The ruling for people: whose it is stands with it."""
        return f"{self.ruling.value} (floor)" if self.floor else self.ruling.value

    def to_json(self) -> dict[str, JsonValue]:
        """Return it for programs."""
        return {
            "ruling": self.ruling.value,
            "floor": self.floor,
            "risk": self.risk.value,
            "reasons": [reason.to_json() for reason in self.reasons],
            "meetings": [meeting.to_json() for meeting in self.meetings],
        }
