"""The pipeline, stage by stage: what each looks at, what it leads to, and what nothing skips."""

from __future__ import annotations

import datetime as dt
import itertools

import pytest

from perdure.approvals.decide import Prepared
from perdure.approvals.policy import parse_policy, unreadable
from perdure.domain.decision import DECISION_REASONS, Said, Stage
from perdure.domain.operation import Surface
from perdure.domain.outcome import Scope
from perdure.domain.verdict import Ruling
from tests.app.approvals.made import NOW, asked, authority, policy, said
from tests.app.guard.layouts import VENV

LAX = policy(mode="off", unattended=dict.fromkeys(("cron", "single-query", "webhook", "api"), "approve"))
YES = Prepared(ruling=Ruling.ALLOW, by_person=True, reason="yes")
SAFE, ASKED, REFUSED, FLOOR_ASKED = "ls -la", "frobnicate", f"rm -rf {VENV}", 'rm -rf "$(cat list)"'


@pytest.mark.proves("approvals-one-order", "approvals-trace")
def test_every_decision_has_all_stages_in_their_order() -> None:
    lines = (SAFE, ASKED, REFUSED, FLOOR_ASKED, "mkfs.ext4 /dev/sda1", "")
    policies = (policy(), LAX, policy(deny=["ls *"]), policy(ask=["*"]), unreadable("gone"))
    whos = (authority(), authority(yolo=True), authority(answerable=False, surface=Surface.CRON))
    for line, what, who in itertools.product(lines, policies, whos):
        decision = asked(line, what=what, who=who)
        assert [step.stage for step in decision.trace] == list(Stage)
        assert all(step.looked_at and step.why for step in decision.trace)
        assert decision.reasons
        assert (decision.ruling is Ruling.ASK) == bool(decision.scopes)


@pytest.mark.proves("approvals-floor-first")
@pytest.mark.parametrize("line", [REFUSED, "rm -rf /", "mkfs.ext4 /dev/sda1", "shutdown now", "perdure allow add '*'"])
def test_nothing_lifts_what_the_floor_refuses(line: str) -> None:
    for who in (authority(yolo=True), authority(surface=Surface.CRON, answerable=False)):
        decision = asked(line, what=LAX, who=who, isolated=True, prepared=YES)
        assert decision.ruling is Ruling.REFUSE
        assert decision.stage in {Stage.CATASTROPHIC, Stage.OWN_FEET}


@pytest.mark.proves("approvals-floor-first", "approvals-deny-before-bypass")
def test_what_the_floor_and_a_rule_refuse_is_reported_as_the_floors() -> None:
    decision = asked("sudo rm -rf /", what=policy(deny=["sudo *"]))
    assert (decision.stage, decision.code) == (Stage.CATASTROPHIC, "catastrophic-wipe")


@pytest.mark.proves("approvals-floor-asks-skip-nothing")
def test_what_the_floor_asks_about_only_a_person_answers() -> None:
    for who in (authority(yolo=True), authority()):
        decision = asked(FLOOR_ASKED, what=LAX, who=who, isolated=True)
        assert (decision.ruling, decision.scopes) == (Ruling.ASK, (Scope.ONCE,))
        stages = said(decision)
        between = list(Stage)[list(Stage).index(Stage.PREPARED) : list(Stage).index(Stage.AUTHORITY)]
        assert {stages[stage] for stage in between} == {Said.SKIPPED}
    for surface in Surface:
        decision = asked(FLOOR_ASKED, what=LAX, who=authority(surface=surface, answerable=False, yolo=True))
        assert (decision.ruling, decision.code) == (Ruling.REFUSE, "unattended")


@pytest.mark.proves("approvals-deny-before-bypass")
def test_a_deny_rule_comes_before_bypass_container_and_batch() -> None:
    what = policy(mode="off", deny=["git push --force*"])
    decision = asked(
        "git push --force origin main",
        what=what,
        who=authority(yolo=True),
        isolated=True,
        prepared=YES,
    )
    assert (decision.ruling, decision.stage, decision.code) == (Ruling.REFUSE, Stage.DENY_RULES, "denied-by-rule")
    assert "force" not in decision.reasons[0].text


@pytest.mark.proves("approvals-deny-before-bypass")
@pytest.mark.parametrize("deny", ["sudo *", ["ls", 3], {"a": "b"}, 7, True, [["x"]], [None], [""], ["  "]])
def test_a_deny_list_that_is_none_refuses_everything(deny: object) -> None:
    for line in (SAFE, ASKED):
        decision = asked(line, what=policy(mode="off", deny=deny), who=authority(yolo=True))
        assert (decision.ruling, decision.code) == (Ruling.REFUSE, "policy-not-evaluated")
        assert "could not be evaluated" in decision.reasons[0].text


@pytest.mark.proves("approvals-deny-before-bypass")
def test_an_ask_rule_holds_under_every_bypass() -> None:
    what = policy(mode="off", ask=["ssh *"], unattended={"cron": "approve"})
    decision = asked("ssh somewhere ls", what=what, who=authority(yolo=True), isolated=True)
    assert (decision.ruling, decision.code, decision.scopes) == (Ruling.ASK, "asked-by-rule", (Scope.ONCE,))
    cron = authority(surface=Surface.CRON, answerable=False)
    assert asked("ssh somewhere ls", what=what, who=cron).ruling is Ruling.REFUSE
    assert asked(ASKED, what=policy(unattended={"cron": "approve"}), who=cron).ruling is Ruling.ALLOW


def test_instruction_files_are_asked_about_under_yolo_and_in_containers() -> None:
    for line in ("echo x > AGENTS.md", "rm -f docs/claude.md", "cp a .github/copilot-instructions.md"):
        decision = asked(line, what=LAX, who=authority(yolo=True), isolated=True)
        assert (decision.ruling, decision.code, decision.scopes) == (Ruling.ASK, "instruction-file", (Scope.ONCE,))
    assert asked("cat AGENTS.md", who=authority(yolo=True)).ruling is Ruling.ALLOW


@pytest.mark.proves("approvals-one-order")
def test_bypass_isolation_and_classification_decide_what_is_left() -> None:
    assert asked(SAFE).code == "safe"
    assert asked(ASKED).ruling is Ruling.ASK
    assert asked(ASKED, who=authority(yolo=True)).code == "yolo"
    assert asked(ASKED, what=policy(mode="off")).code == "mode-off"
    assert asked(ASKED, isolated=True).code == "isolated"
    assert asked("echo; rm -rf build").scopes == (Scope.ONCE, Scope.SESSION)
    assert asked("frobnicate; rm -rf build").scopes == (Scope.ONCE,)


@pytest.mark.proves("approvals-authority-explicit")
def test_without_authority_and_after_it_ended_nothing_runs_that_needs_a_person() -> None:
    assert asked(ASKED, nobody=True).code == "no-authority"
    assert asked(ASKED, nobody=True, what=policy(mode="off")).code == "no-authority"
    ended = authority(expires=NOW - dt.timedelta(seconds=1), yolo=True)
    assert asked(ASKED, who=ended).code == "authority-ended"
    assert asked(SAFE, nobody=True).ruling is Ruling.ALLOW


@pytest.mark.proves("approvals-authority-explicit")
@pytest.mark.parametrize("surface", list(Surface))
def test_where_nobody_can_answer_the_context_decides_and_refuses_unless_told(surface: Surface) -> None:
    who = authority(surface=surface, answerable=False)
    assert asked(ASKED, who=who).code == "unattended"
    told = {Surface.CRON, Surface.SINGLE_QUERY, Surface.WEBHOOK, Surface.API}
    lax = policy(unattended=dict.fromkeys(("cron", "single-query", "webhook", "api"), "approve"))
    assert (asked(ASKED, who=who, what=lax).ruling is Ruling.ALLOW) == (surface in told)


def test_every_code_of_the_pipeline_has_a_meaning() -> None:
    decision = asked(ASKED, what=parse_policy(3))
    assert decision.code in DECISION_REASONS


def test_what_was_denied_in_this_turn_is_not_asked_about_again_however_it_is_written() -> None:
    from tests.app.approvals.made import look

    before = [look("rm -rf build").key, look("frobnicate --all -x").key]
    for line in ("rm -fr ./build", "bash -c 'rm -rf build'", "echo hi; rm -r -f build/", "frobnicate -x --all"):
        decision = asked(line, refused_before=before)
        assert (decision.ruling, decision.code) == (Ruling.REFUSE, "denied-before"), line
    assert asked("rm -rf dist", refused_before=before).ruling is Ruling.ASK


@pytest.mark.proves("approvals-trace", "recheck-stricter-blocks")
def test_every_rule_that_asks_is_a_reason_of_its_own_also_beside_a_file_that_steers() -> None:
    rules = policy(ask=["tee *", "* AGENTS.md", "ssh *"])
    decision = asked("tee AGENTS.md", what=rules)
    assert [step.stage for step in decision.trace] == list(Stage)
    asking = [reason for reason in decision.reasons if reason.code == "asked-by-rule"]
    assert [reason.rule for reason in asking] == [rule.digest for rule in rules.ask[:2]]
    assert "instruction-file" in {reason.code for reason in decision.reasons}
    # The agent reads the reasons: they do not say what the rules are.
    assert "tee" not in str([reason.to_json() for reason in asking])
