"""Assessors and the turn: plugins that look first, an agent that is told to stop, and nobody asked twice."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from perdure.approvals.assessors import LONGEST_REASON, STOP, Assessed, Breaker, consult
from perdure.approvals.turn import Turn
from perdure.domain.assessment import Assessment, AssessmentRequest, Opinion
from perdure.domain.decision import Decision
from perdure.domain.operation import Surface
from perdure.domain.outcome import Outcome, Scope
from perdure.domain.verdict import Risk, Ruling
from tests.app.approvals.made import asked, authority, look, operation, policy
from tests.app.command_line import envelope_of
from tests.app.conftest import Generation

TRUSTED = policy(assessors={"plugins": ["guardian"], "approve": True})


def said(answer: object, *, line: str = "frobnicate", what: object = TRUSTED, **changes: object) -> Decision:
    """Return the decision where the one assessor answers this."""

    def ask(names: Sequence[str], request: AssessmentRequest, seconds: float) -> list[tuple[str, object]]:
        assert names == ["guardian"]
        assert seconds == 5
        assert request.text == line
        return [("guardian", answer)]

    found = consult(ask, ["guardian"], 5, operation(line), asked(line))
    return asked(line, what=what, assessments=found, **changes)  # type: ignore[arg-type]


@pytest.mark.proves("approvals-assessors-fail-to-a-person")
def test_a_yes_counts_once_and_only_where_the_operator_lets_it() -> None:
    yes = Assessment(opinion=Opinion.APPROVE, reason="harmless")
    assert (said(yes).ruling, said(yes).code, said(yes).scopes) == (Ruling.ALLOW, "assessor-approved", ())
    assert said(yes, what=policy()).ruling is Ruling.ASK
    for line in ('rm -rf "$(cat x)"', "echo x > AGENTS.md"):
        assert said(yes, line=line).ruling is Ruling.ASK
    rule = policy(ask=["frob*"], assessors={"plugins": ["guardian"], "approve": True})
    assert said(yes, what=rule).ruling is Ruling.ASK


@pytest.mark.proves("approvals-assessors-fail-to-a-person")
@pytest.mark.parametrize(
    "answer",
    [
        None,
        RuntimeError("no"),
        SystemExit(0),
        TimeoutError("late"),
        True,
        "approve",
        Assessment(opinion="approve"),  # type: ignore[arg-type]
        Assessment(opinion=Opinion.APPROVE, reason="x" * (LONGEST_REASON + 1)),
        Assessment(opinion=Opinion.APPROVE, reason="a\nb"),
        Assessment(opinion=Opinion.APPROVE, risk="low"),  # type: ignore[arg-type]
        Assessment(opinion=Opinion.CONTINUE),
    ],
)
def test_one_that_fails_leaves_the_question_to_a_person(answer: object) -> None:
    decision = said(answer)
    assert (decision.ruling, decision.scopes) == (Ruling.ASK, (Scope.ONCE, Scope.SESSION, Scope.ALWAYS))
    assert said(answer, who=authority(answerable=False, surface=Surface.CRON)).code == "unattended"


def test_it_may_refuse_and_raise_the_risk_and_never_lower_it() -> None:
    assert said(Assessment(opinion=Opinion.REFUSE, reason="odd")).code == "assessor-refused"
    assert said(Assessment(opinion=Opinion.CONTINUE, risk=Risk.HIGH)).risk is Risk.HIGH
    assert said(Assessment(opinion=Opinion.CONTINUE, risk=Risk.LOW)).risk is Risk.MEDIUM
    both = (
        Assessed(plugin="a", opinion=Opinion.APPROVE),
        Assessed(plugin="b", opinion=Opinion.CONTINUE),
    )
    assert asked("frobnicate", what=TRUSTED, assessments=both).ruling is Ruling.ASK


@pytest.mark.proves("approvals-assessors-stop")
def test_three_refusals_in_a_row_tell_the_agent_to_stop_and_a_yes_of_a_person_begins_anew() -> None:
    breaker, refused = Breaker(3), said(Assessment(opinion=Opinion.REFUSE))
    assert [breaker.note(refused) for _ in range(3)] == [None, None, STOP]
    breaker.approved()
    assert [breaker.note(refused) for _ in range(2)] == [None, None]
    assert breaker.note(asked("ls")) is None
    assert breaker.note(refused) == STOP


@pytest.mark.proves("approvals-denied-once")
def test_what_a_person_declined_is_refused_for_the_turn_and_what_expired_is_not() -> None:
    turn = Turn()
    turn.note_outcome(look("frobnicate -a -b"), Outcome.EXPIRED)
    turn.note_outcome(look("frobnicate -a -b"), Outcome.CANCELLED)
    assert turn.refused == ()
    turn.note_outcome(look("frobnicate -a -b"), Outcome.DECLINED)
    for line in ("frobnicate -ab", "bash -c 'frobnicate -b -a'", "echo x && frobnicate -b -a"):
        assert asked(line, refused_before=turn.refused).code == "denied-before", line
    assert asked("frobnicate -c", refused_before=turn.refused).ruling is Ruling.ASK
    denied = asked("sudo id", what=policy(deny=["sudo *"]))
    turn.note_decision(look("sudo id"), denied)
    assert asked("sudo id", refused_before=turn.refused).code == "denied-before"
    assert Turn().refused == ()


GUARDIAN = """
import sys, time
from perdure.api.approvals import Assessment, Opinion
from perdure.api.hooks import hookimpl

plugin = sys.modules[__name__]

@hookimpl
def assess(request):
    if "wait" in request.text:
        time.sleep(60)
    if "raise" in request.text:
        sys.exit(3)
    assert "hunter22" not in request.text
    return Assessment(opinion=Opinion.REFUSE if "bad" in request.text else Opinion.APPROVE, reason="as it looks")
"""


@pytest.mark.platforms("linux", "darwin")
@pytest.mark.proves("approvals-assessors-fail-to-a-person", "approvals-dry-run-same")
def test_a_plugin_is_asked_where_the_profile_names_it(generation: Generation) -> None:
    generation.boot(generation.plugin("guardian", GUARDIAN))
    folder = generation.home / "profiles" / "default"
    folder.mkdir(parents=True)

    def code(line: str) -> str:
        done = generation.run("approvals", "test", "--json", "--", line)
        return str(envelope_of(done)["data"]["decision"]["code"])

    assert code("frobnicate --token hunter22") == "unknown-program"
    (folder / "app.yaml").write_text("approvals: {assessors: {plugins: [guardian], approve: true, seconds: 0.5}}\n")
    assert code("frobnicate --token hunter22") == "assessor-approved"
    assert code("frobnicate bad") == "assessor-refused"
    assert code("frobnicate wait") == code("frobnicate raise") == "unknown-program"
    assert code("rm -rf /") == "catastrophic-wipe"
    (folder / "app.yaml").write_text("approvals: {assessors: {plugins: [guardian]}}\n")
    assert code("frobnicate x") == "unknown-program"
