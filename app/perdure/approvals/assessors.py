"""Assessors: plugins that look at what is asked about, before a person does.

Owns: what counts of an assessment, what comes of one that fails, and when an agent is told to stop. Does not own: when
they are consulted (decide), or how a plugin is called (plugin_manager). Keeps: approvals-assessors-fail-to-a-person,
approvals-assessors-stop: an assessor that fails, is late or says too much leaves the question to a person.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence

from perdure.approvals.redact import mask
from perdure.domain.assessment import Assessment, AssessmentRequest, Opinion
from perdure.domain.decision import Decision
from perdure.domain.json_value import is_line
from perdure.domain.operation import Operation
from perdure.domain.record import dataclass
from perdure.domain.verdict import Risk, Ruling

LONGEST_REASON = 500
STOP = (
    "several things that you tried were refused one after the other. Stop trying variants of them: say what you wanted "
    "to do and why, and leave it to the person"
)
Asked = Callable[[Sequence[str], AssessmentRequest, float], Iterable[tuple[str, object]]]
"""Asks plugins by name and returns what each of them answered; an exception stands for an answer that there is not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessed:
    """What counts of what one plugin said."""

    plugin: str
    opinion: Opinion
    risk: Risk | None = None
    reason: str = ""


def consult(
    ask: Asked, names: Sequence[str], seconds: float, operation: Operation, decision: Decision
) -> tuple[Assessed, ...]:
    """Return what the named plugins say of an operation that a person would be asked about."""
    masked = mask(operation)
    request = AssessmentRequest(
        kind=operation.kind.value,
        text=masked.script if masked.script is not None else shlex.join(masked.argv or masked.paths),
        cwd=operation.cwd,
        backend=operation.backend,
        risk=decision.risk,
        reasons=tuple(dict.fromkeys(reason.code for reason in decision.reasons)),
        touches=decision.touches,
    )
    answers = dict(ask(names, request, seconds))
    return tuple(_checked(name, answers.get(name, LookupError("no plugin of this name assesses"))) for name in names)


def _checked(plugin: str, answer: object) -> Assessed:
    if isinstance(answer, Assessment):
        fault = _fault(answer.opinion, answer.reason, answer.risk)
        if fault is None:
            return Assessed(plugin=plugin, opinion=answer.opinion, risk=answer.risk, reason=answer.reason)
    elif isinstance(answer, BaseException):
        fault = f"it failed: {type(answer).__name__}"
    else:
        fault = "it has no opinion" if answer is None else f"it answered with {type(answer).__name__}"
    return Assessed(plugin=plugin, opinion=Opinion.CONTINUE, reason=fault)


def _fault(opinion: object, reason: object, risk: object) -> str | None:
    """Return what is wrong with an assessment: plugins are not type-checked."""
    if not isinstance(opinion, Opinion):
        return "its opinion is none"
    if not isinstance(reason, str) or len(reason) > LONGEST_REASON:
        return "it said too much"
    if reason and not is_line(reason):
        return "its reason is not one line"
    return None if risk is None or isinstance(risk, Risk) else "its risk is none"


class Breaker:
    """Counts what assessors refuse in a row in one session."""

    def __init__(self, most: int) -> None:
        """Know after how many an agent is told to stop."""
        self._most = most
        self._refused = 0

    def note(self, decision: Decision) -> str | None:
        """Count a decision, and return what the agent is told beside it where it should stop."""
        if decision.code == "assessor-refused":
            self._refused += 1
        elif decision.ruling is Ruling.ALLOW and decision.code == "assessor-approved":
            self._refused = 0
        return STOP if self._refused >= self._most else None

    def approved(self) -> None:
        """Begin anew: a person said yes."""
        self._refused = 0
