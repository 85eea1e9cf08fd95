"""The one pipeline: an operation in, a decision with its trace out.

Owns: which stages there are, their order, and what each one leads to. Does not own: what the guard says of a text, how
a rule or a grant matches, or asking anybody. It is pure: everything that it looks at is handed to it, so that a dry run
is the same call. Keeps: approvals-one-order, approvals-floor-first, approvals-floor-asks-skip-nothing, approvals-trace,
approvals-deny-before-bypass, approvals-authority-explicit.
"""

from __future__ import annotations

import datetime as dt
import posixpath
from collections.abc import Collection, Sequence
from typing import NoReturn

from perdure.approvals.assessors import Assessed
from perdure.approvals.commands import Judged
from perdure.approvals.grants import find_grant, scopes_for
from perdure.approvals.policy import Mode, Policy, Unattended
from perdure.approvals.rules import Match, Rule
from perdure.domain.assessment import Opinion
from perdure.domain.decision import Decision, Said, Stage, Step
from perdure.domain.grant import Grant
from perdure.domain.operation import Authority, Operation
from perdure.domain.outcome import Scope
from perdure.domain.record import dataclass, field
from perdure.domain.verdict import Reason, Risk, Ruling

INSTRUCTION_FILES = frozenset(
    {
        "agents.md",
        "agents.override.md",
        "claude.md",
        "claude.local.md",
        "gemini.md",
        "soul.md",
        ".cursorrules",
        ".windsurfrules",
        ".clinerules",
        "copilot-instructions.md",
    }
)
"""Files that steer agents, in small letters: whoever writes one decides what an agent does next."""
_INSTRUCTION_FOLDERS = ("/.cursor/rules/", "/.github/instructions/", "/.claude/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """What was decided of a call of a batch before anything of the batch ran; it is matched by whoever hands it in."""

    ruling: Ruling
    by_person: bool
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """Everything beside operation, authority and policy that a decision depends on, as it is at this moment."""

    now: dt.datetime
    """Aware."""
    grants: Sequence[Grant] = ()
    """Those of the profile and the session that stand."""
    isolated: bool = False
    """Whether the backend reaches nothing of this machine, as the registry of backends answered."""
    prepared: Prepared | None = None
    assessments: Sequence[Assessed] = ()
    """What the assessors said, where they were consulted."""
    refused_before: Collection[frozenset[str]] = ()
    """The keys of what was declined or denied in this turn."""


class _Decided(Exception):  # control flow of this module, no error
    """A stage has the last word."""

    def __init__(self, stage: Stage, ruling: Ruling, code: str, reasons: Sequence[Reason]) -> None:
        super().__init__(code)
        self.stage = stage
        self.ruling = ruling
        self.code = code
        self.reasons = tuple(reasons)


@dataclass(slots=True)
class _Question:
    """What has to be put to a person so far."""

    stage: Stage
    code: str
    reasons: tuple[Reason, ...]
    skips_nothing: bool
    """Whether it is the floor's or a rule's: no bypass, grant or unattended policy answers it."""
    scopes: tuple[Scope, ...] = (Scope.ONCE,)


@dataclass(slots=True, kw_only=True)
class _Pipeline:
    operation: Operation
    judged: Judged
    authority: Authority | None
    policy: Policy
    at: Circumstances
    risk: Risk = field(init=False)
    question: _Question | None = field(default=None, init=False)
    trace: list[Step] = field(default_factory=list, init=False)
    covering: tuple[Grant, ...] = field(default=(), init=False)

    def __post_init__(self) -> None:
        self.risk = self.judged.verdict.risk

    def note(self, stage: Stage, said: Said, looked_at: str, why: str) -> None:
        self.trace.append(Step(stage=stage, said=said, looked_at=looked_at, why=why))

    def decided(
        self, stage: Stage, ruling: Ruling, code: str, looked_at: str, why: str, reasons: Sequence[Reason] = ()
    ) -> NoReturn:
        self.note(stage, Said(ruling.value), looked_at, why)
        raise _Decided(stage, ruling, code, reasons or (Reason(code=code, text=why),))

    def run(self) -> None:
        self.floor()
        self.deny_rules()
        self.ask_rules()
        if self.question is not None and self.question.stage is Stage.OWN_FEET:
            for stage in (Stage.PREPARED, Stage.BYPASS, Stage.GRANTS, Stage.CLASSIFICATION, Stage.ASSESSORS):
                self.note(stage, Said.SKIPPED, "nothing", "the floor's question goes to a person at once")
        else:
            self.prepared()
            self.bypass()
            self.grants()
            self.classification()
            self.assessors()
        self.answering()

    def floor(self) -> None:
        verdict = self.judged.verdict
        looked_at = f"{len(verdict.reasons)} reasons of the guard" if verdict.floor else "the guard's floor"
        first = verdict.reasons[0] if verdict.floor else None
        refused = first is not None and verdict.ruling is Ruling.REFUSE
        catastrophic = [reason for reason in verdict.reasons if reason.code.startswith("catastrophic-")]
        if refused and catastrophic and verdict.floor:
            reason = catastrophic[0]
            self.decided(
                Stage.CATASTROPHIC,
                Ruling.REFUSE,
                reason.code,
                looked_at,
                reason.text,
                (*catastrophic, *verdict.reasons),
            )
        self.note(Stage.CATASTROPHIC, Said.NOTHING, looked_at, "nothing catastrophic")
        if first is None or verdict.ruling is Ruling.ALLOW:
            self.note(
                Stage.OWN_FEET, Said.NOTHING, looked_at, "nothing protected is touched, and all of it can be told"
            )
            return
        if refused:
            self.decided(Stage.OWN_FEET, Ruling.REFUSE, first.code, looked_at, first.text, verdict.reasons)
        self.note(Stage.OWN_FEET, Said.ASK, looked_at, first.text)
        self.question = _Question(Stage.OWN_FEET, first.code, verdict.reasons, skips_nothing=True)

    def deny_rules(self) -> None:
        policy, stage = self.policy, Stage.DENY_RULES
        if policy.faults:
            why = f"the policy could not be evaluated: {policy.faults[0]}"
            self.decided(stage, Ruling.REFUSE, "policy-not-evaluated", "the profile's policy", why)
        looked_at = f"{len(policy.deny)} deny rules, {len(self.judged.commands)} commands"
        perhaps: list[Rule] = []
        for rule in policy.deny:
            met = self.meets(rule)
            if met is Match.YES:
                self.decided(stage, Ruling.REFUSE, "denied-by-rule", looked_at, "a rule of the operator denies it")
            if met is Match.PERHAPS:
                perhaps.append(rule)
        if not perhaps:
            self.note(stage, Said.NOTHING, looked_at, "no rule matches")
            return
        why = "a rule of the operator may deny it, which cannot be told from its text"
        self.note(stage, Said.ASK, looked_at, why)
        self.ask(stage, "perhaps-denied", why, perhaps)

    def ask_rules(self) -> None:
        stage, policy = Stage.ASK_RULES, self.policy
        looked_at = f"{len(policy.ask)} ask rules, {len(self.judged.changes)} changed files"
        steering = next((path for path in self.judged.changes if is_instruction_file(path)), None)
        whys: list[str] = []
        if steering is not None:
            whys.append(f"{posixpath.basename(steering)} tells agents what to do")
            self.ask(stage, "instruction-file", whys[-1])
        if asking := [rule for rule in policy.ask if self.meets(rule) is not Match.NO]:
            whys.append("a rule of the operator wants a person asked")
            self.ask(stage, "asked-by-rule", whys[-1], asking)
        if whys:
            self.note(stage, Said.ASK, looked_at, "; ".join(whys))
        else:
            self.note(stage, Said.NOTHING, looked_at, "no rule matches")

    def meets(self, rule: Rule) -> Match:
        return max((rule.meets(command) for command in self.judged.commands), default=Match.NO)

    def ask(self, stage: Stage, code: str, why: str, rules: Sequence[Rule] = ()) -> None:
        """Have a person asked; the floor's question stays the first."""
        asking = [Reason(code=code, text=why, rule=rule.digest) for rule in rules] or [Reason(code=code, text=why)]
        reasons = (*asking, *self.judged.verdict.reasons)
        if self.question is None:
            self.question = _Question(stage, code, reasons, skips_nothing=True)
        else:
            self.question.reasons = tuple(dict.fromkeys((*self.question.reasons, *reasons)))

    def prepared(self) -> None:
        stage, prepared = Stage.PREPARED, self.at.prepared
        if prepared is None:
            self.note(stage, Said.NOTHING, "no decision of a batch", "none was made for this call")
            return
        looked_at = "the decision that the batch made for this call"
        if prepared.ruling is Ruling.REFUSE:
            self.decided(stage, Ruling.REFUSE, "prepared", looked_at, prepared.reason)
        if prepared.ruling is Ruling.ALLOW and (prepared.by_person or self.question is None):
            self.decided(stage, Ruling.ALLOW, "prepared", looked_at, prepared.reason)
        self.note(stage, Said.NOTHING, looked_at, "it does not answer what is asked now")

    def bypass(self) -> None:
        stage, authority = Stage.BYPASS, self.authority
        looked_at = f"mode {self.policy.mode.value}, session {'with' if self.yolo else 'without'} yolo"
        if self.question is not None:
            self.note(stage, Said.SKIPPED, looked_at, "no bypass answers a rule")
        elif self.policy.mode is Mode.OFF and authority is not None:
            self.decided(stage, Ruling.ALLOW, "mode-off", looked_at, "the profile asks about nothing")
        elif self.yolo:
            self.decided(stage, Ruling.ALLOW, "yolo", looked_at, "the session was started without questions")
        else:
            self.note(stage, Said.NOTHING, looked_at, "neither lets it pass")

    @property
    def yolo(self) -> bool:
        return self.authority is not None and self.authority.yolo and not self.ended

    @property
    def ended(self) -> bool:
        expires = None if self.authority is None else self.authority.expires
        return expires is not None and self.at.now >= expires

    def grants(self) -> None:
        stage, grants = Stage.GRANTS, self.at.grants
        looked_at = f"{len(grants)} grants"
        if self.question is not None:
            self.note(stage, Said.SKIPPED, looked_at, "no grant answers a rule")
            return
        if self.judged.verdict.ruling is Ruling.ALLOW:
            self.note(stage, Said.NOTHING, "no grant", "nothing of it needs one")
            return
        if self.authority is not None:
            found = find_grant(grants, self.operation, self.judged, self.authority, self.at.now)
            if found:
                self.covering = found
                why = "granted: " + ", ".join(grant.shown() for grant in found)
                self.decided(stage, Ruling.ALLOW, "granted", looked_at, why)
        self.note(stage, Said.NOTHING, looked_at, "none covers it")

    def classification(self) -> None:
        stage, verdict = Stage.CLASSIFICATION, self.judged.verdict
        looked_at = f"risk {verdict.risk.value}, backend {self.operation.backend}"
        if self.question is not None:
            self.note(stage, Said.SKIPPED, looked_at, "a person is asked anyway")
        elif verdict.ruling is Ruling.ALLOW:
            self.decided(stage, Ruling.ALLOW, "safe", looked_at, "nothing speaks against it", verdict.reasons)
        elif self.at.isolated:
            self.decided(stage, Ruling.ALLOW, "isolated", looked_at, "the backend reaches nothing of this machine")
        else:
            first = verdict.reasons[0]
            self.note(stage, Said.ASK, looked_at, first.text)
            self.question = _Question(
                stage, first.code, verdict.reasons, skips_nothing=False, scopes=scopes_for(self.judged)
            )

    def assessors(self) -> None:
        stage, said = Stage.ASSESSORS, self.at.assessments
        looked_at = f"{len(said)} assessments"
        if not said:
            self.note(stage, Said.NOTHING, looked_at, "none was consulted")
            return
        for one in said:
            if one.opinion is Opinion.REFUSE:
                why = f"{one.plugin} refuses it: {one.reason}"
                self.decided(stage, Ruling.REFUSE, "assessor-refused", looked_at, why)
        for one in said:
            if one.risk is not None and one.risk.height > self.risk.height:
                self.risk = one.risk
        question = self.question
        approving = next((one for one in said if one.opinion is Opinion.APPROVE), None)
        may = self.policy.assessors.approve and question is not None and not question.skips_nothing
        if approving is not None and may and all(one.opinion is Opinion.APPROVE for one in said):
            why = f"{approving.plugin} answers for it, once: {approving.reason}"
            self.decided(stage, Ruling.ALLOW, "assessor-approved", looked_at, why)
        self.note(stage, Said.NOTHING, looked_at, "; ".join(f"{one.plugin}: {one.opinion.value}" for one in said))

    def answering(self) -> NoReturn:
        stage, authority, question = Stage.AUTHORITY, self.authority, self.question
        if question is None:
            raise AssertionError("classification decides, or asks")
        if authority is None:
            self.decided(stage, Ruling.REFUSE, "no-authority", "no authority", "nobody is known who answers for it")
        looked_at = f"session {authority.session} on {authority.surface.value}"
        if any(key <= self.judged.key for key in self.at.refused_before):
            why = "this was declined or denied in this turn already"
            self.decided(stage, Ruling.REFUSE, "denied-before", looked_at, why)
        if self.ended:
            self.decided(stage, Ruling.REFUSE, "authority-ended", looked_at, "its authority has ended")
        if authority.answerable:
            self.note(stage, Said.ASK, looked_at, "a person can answer")
            raise _Decided(question.stage, Ruling.ASK, question.code, question.reasons)
        unattended = self.policy.answer_for(authority.surface)
        if unattended is Unattended.APPROVE and not question.skips_nothing:
            why = "the operator lets this context act without a person"
            self.decided(stage, Ruling.ALLOW, "unattended-allowed", looked_at, why)
        self.note(stage, Said.REFUSE, looked_at, "it needs a person, and nobody can answer here")
        raise _Decided(stage, Ruling.REFUSE, "unattended", question.reasons)


def decide(
    operation: Operation, judged: Judged, authority: Authority | None, policy: Policy, circumstances: Circumstances
) -> Decision:
    """Return what may follow an operation: the only function that says so, for every path and every backend.

    Args:
        operation: what is to be done, exactly.
        judged: what the guard says of it (`approvals.commands.judged`).
        authority: on whose authority, and whether anybody can answer; None refuses whatever is not plainly allowed.
        policy: the profile's.
        circumstances: grants, isolation and what else holds at this moment.
    """
    pipeline = _Pipeline(operation=operation, judged=judged, authority=authority, policy=policy, at=circumstances)
    try:
        pipeline.run()
    except _Decided as decided:
        for stage in list(Stage)[len(pipeline.trace) :]:
            pipeline.note(stage, Said.SKIPPED, "nothing", "decided before")
        question = pipeline.question
        return Decision(
            ruling=decided.ruling,
            code=decided.code,
            stage=decided.stage,
            reasons=tuple(dict.fromkeys(decided.reasons))
            or (Reason(code=decided.code, text="nothing speaks against it"),),
            risk=pipeline.risk,
            scopes=question.scopes if question is not None and decided.ruling is Ruling.ASK else (),
            skips_nothing=question is not None and question.skips_nothing,
            touches=judged.changes,
            grants=tuple(grant.id for grant in pipeline.covering),
            policy_version=policy.version,
            trace=tuple(pipeline.trace),
        )
    raise AssertionError("the last stage decides")


def is_for_assessors(decision: Decision) -> bool:
    """Return whether assessors have a say: something would be put to a person, or refused for want of one."""
    steps = {step.stage: step.said for step in decision.trace}
    return steps[Stage.CLASSIFICATION] is Said.ASK and not decision.skips_nothing


def is_instruction_file(path: str) -> bool:
    """Return whether a file steers agents."""
    folded = path.casefold().replace("\\", "/")
    return posixpath.basename(folded) in INSTRUCTION_FILES or any(folder in folded for folder in _INSTRUCTION_FOLDERS)
