"""Grants: what one covers, and what none covers."""

from __future__ import annotations

import datetime as dt

import pytest

from perdure.approvals.grants import DESTRUCTIVE, grant_of_line, grants_of, known_keys
from perdure.domain.decision import Stage
from perdure.domain.grant import Grant
from perdure.domain.operation import Principal, Surface
from perdure.domain.outcome import Scope
from perdure.domain.verdict import Ruling
from tests.app.approvals.made import CWD, NOW, asked, authority, look, policy

pytestmark = pytest.mark.proves("approvals-grants-scoped")


def grant(**said: object) -> Grant:
    made = {"id": "g", "profile": "default", "principal": "you", "created": NOW}
    if "rule_key" not in said:
        made["argv_template"] = "frobnicate *"
    return Grant(**{**made, **said})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"session": "s1"},
        {"cwd_prefix": "/home/you"},
        {"cwd_prefix": CWD},
        {"expires": NOW + dt.timedelta(seconds=1)},
        {"uses_left": 1},
        {"rule_key": "unknown-program"},
        {"argv_template": "frobnicate -?"},
    ],
)
def test_what_fits_in_every_respect_is_covered(said: dict[str, object]) -> None:
    decision = asked("frobnicate -x", grants=[grant(**said)])
    assert (decision.ruling, decision.stage) == (Ruling.ALLOW, Stage.GRANTS)


@pytest.mark.parametrize(
    "said",
    [
        {"session": "s2"},
        {"principal": "somebody"},
        {"cwd_prefix": "/home/yo"},
        {"cwd_prefix": f"{CWD}/below"},
        {"path_prefix": CWD},  # nothing is known of what it changes
        {"expires": NOW},
        {"uses_left": 0},
        {"revoked": NOW},
        {"rule_key": "packages"},
        {"argv_template": "frob *"},
        {"argv_template": "unknown-program"},  # the name of a class is no command
    ],
)
def test_what_does_not_fit_in_one_respect_is_not_covered(said: dict[str, object]) -> None:
    assert asked("frobnicate -x", grants=[grant(**said)]).ruling is Ruling.ASK


def test_every_reason_has_to_be_covered_and_every_path() -> None:
    both = [grant(rule_key="unknown-program"), grant(rule_key="delete")]
    assert asked("frobnicate; rm x", grants=both[:1]).ruling is Ruling.ASK
    assert asked("frobnicate; rm x", grants=both).ruling is Ruling.ALLOW
    below = [grant(rule_key="delete", path_prefix=f"{CWD}/build")]
    assert asked("rm build/x", grants=below).ruling is Ruling.ALLOW
    for line in ("rm x", "rm build/../x", "rm builder/x", 'rm "build/$X"', "rm build/x y", "cd build; rm ../x"):
        assert asked(line, grants=below).ruling is Ruling.ASK, line


@pytest.mark.proves("approvals-destructive-never-always")
def test_no_grant_for_always_covers_what_does_not_come_back() -> None:
    lines = {
        "rm -rf build": "recursive-delete",
        "git push --force": "history-loss",
        "psql -c 'DROP TABLE x'": "sql-loss",
        "docker system prune": "container-loss",
    }
    for line, code in lines.items():
        assert code in DESTRUCTIVE & known_keys()
        always = [grant(rule_key=code), grant(argv_template="*"), grant_of_line(line, "default", "you", NOW)]
        decision = asked(line, grants=always)
        assert (decision.ruling, decision.scopes) == (Ruling.ASK, (Scope.ONCE, Scope.SESSION)), line
    assert asked("rm -rf build", grants=[grant(rule_key="recursive-delete", session="s1")]).ruling is Ruling.ALLOW


def test_a_grant_answers_no_rule_and_no_question_of_the_floor() -> None:
    everything = [grant(argv_template="*"), grant(rule_key="unknown-operand"), grant(rule_key="unknown-program")]
    assert asked('rm -rf "$(cat x)"', grants=everything).ruling is Ruling.ASK
    assert asked("frobnicate x", grants=everything, what=policy(ask=["frob*"])).ruling is Ruling.ASK
    assert asked("frobnicate x", grants=everything, what=policy(deny=["frob*"])).ruling is Ruling.REFUSE
    nobody = authority(answerable=False, surface=Surface.CRON)
    assert asked("frobnicate x", grants=everything, who=nobody).ruling is Ruling.ALLOW
    other = authority(requester=Principal(name="guest", owner=False))
    assert asked("frobnicate x", grants=everything, who=other).ruling is Ruling.ASK


@pytest.mark.parametrize("line", ["unknown-program", "unknown program", "Unknown_Program"])
def test_a_class_counts_however_older_files_wrote_it(line: str) -> None:
    assert asked("frobnicate && frobnicate", grants=[grant_of_line(line, "p", "you", NOW)]).ruling is Ruling.ALLOW


def test_a_grant_has_a_class_or_a_command() -> None:
    for said in ({"rule_key": "delete", "argv_template": "x"}, {"argv_template": None}):
        with pytest.raises(ValueError, match="one of the two"):
            grant(**said)


def test_no_grant_has_an_id_that_the_command_line_takes_for_an_option() -> None:
    judged = look("frobnicate")

    def made() -> Grant:
        return grants_of(judged, Scope.ALWAYS, profile="p", authority=authority(), cwd=CWD, by="you", now=NOW)[0]

    assert not any(made().id.startswith("-") for _ in range(500))


@pytest.mark.proves("approvals-once-never-stored")
def test_an_answer_grants_what_was_asked_about_and_once_grants_nothing() -> None:
    def given(line: str, scope: Scope) -> tuple[Grant, ...]:
        return grants_of(look(line), scope, profile="p", authority=authority(), cwd=CWD, by="you", now=NOW)

    line = "frobnicate 'a b' '*' \"[x]\""
    assert given(line, Scope.ONCE) == ()
    (session,), (always,) = given(line, Scope.SESSION), given(line, Scope.ALWAYS)
    assert (session.session, always.session) == ("s1", None)
    for made in (session, always):
        assert asked(line, grants=[made]).code == "granted"
        for other in ("frobnicate a b '*' '[x]'", "frobnicate 'a b' c '[x]'", f"{line} more", "frobnicate"):
            assert asked(other, grants=[made]).ruling is Ruling.ASK
    # What is more than one plain command is granted by class, for the session and its directory, or not at all.
    assert given("echo x; rm y", Scope.ALWAYS) == ()
    (made,) = given("echo x; rm y", Scope.SESSION)
    assert (made.rule_key, made.session, made.cwd_prefix) == ("delete", "s1", CWD)
    assert given("frobnicate | cat", Scope.SESSION) == ()
    assert given("rm -rf build", Scope.ALWAYS) == ()
