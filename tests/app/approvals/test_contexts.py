"""Who can be asked is a value: what a job or a client that comes back gets, whatever the environment says."""

from __future__ import annotations

import datetime as dt
import sys
import time
from pathlib import Path

import pytest

from perdure.approvals.commands import judged
from perdure.approvals.decide import Circumstances, decide
from perdure.cli.approving import authority_for, decider_for
from perdure.cli.output import Output
from perdure.cli.prompt import question_of
from perdure.cli.session import Session
from perdure.domain.decision import Decision
from perdure.domain.operation import Operation, OperationKind, Surface
from perdure.domain.outcome import Outcome, Status
from perdure.domain.proposal import Answer, Answerer
from perdure.domain.verdict import Ruling
from perdure.installation import Installation
from tests.app.approvals.made import CWD, NOW, OWNER, asked, authority, look, policy
from tests.app.approvals.test_dry_run import seen_of
from tests.app.guard.layouts import HOME
from tests.app.store.asking import Clock, approvals_in
from tests.app.store.proposals import proposal
from tests.app.store.test_service import asked_and, run

LEFT_BEHIND = ("INTERACTIVE", "EXEC_ASK", "PERDURE_INTERACTIVE", "PERDURE_YOLO", "PERDURE_CONTEXT", "SSH_TTY")
"""What a gateway or a shell may have left in the environment of what it started."""


@pytest.mark.proves("approvals-authority-explicit")
@pytest.mark.parametrize("surface", [Surface.CRON, Surface.SINGLE_QUERY, Surface.WEBHOOK, Surface.API])
@pytest.mark.parametrize("environ", [{}, dict.fromkeys(LEFT_BEHIND, "1")], ids=["stripped", "inherited"])
def test_a_job_gets_what_its_context_says_whatever_it_inherits(
    tmp_path: Path, surface: Surface, environ: dict[str, str]
) -> None:
    session = Session(
        installation=Installation(executable=Path(sys.executable), generation=None, home=tmp_path),
        environ=environ,
        clock=time.monotonic,
        output=Output({}),
    )
    # As `exec` does, which thinks that somebody could answer.
    who = authority_for(surface, yolo=False, answerable=True)
    decision = decider_for(session, who, runs=True).decide(*seen_of("frobnicate"))
    assert (decision.ruling, decision.code, who.answerable) == (Ruling.REFUSE, "unattended", False)
    assert not (tmp_path / "state").exists()


@pytest.mark.proves("approvals-one-order")
def test_where_the_profile_asks_nothing_neither_plugins_nor_files_are_asked_about_but_what_steers_agents() -> None:
    def decided(path: str) -> Decision:
        acted, view = seen_of((OperationKind.FILE_WRITE, [path]))
        seen = judged(acted, view.reading, view.verdict)
        return decide(acted, seen, authority(), policy(mode="off"), Circumstances(now=NOW))

    assert decided(f"{HOME}/.ssh/config").code == "mode-off"
    assert decided(f"{CWD}/AGENTS.md").code == "instruction-file"
    assert decided(f"{HOME}/.ssh/authorized_keys").ruling is Ruling.REFUSE
    acted = Operation(kind=OperationKind.PLUGIN, script="click 3 4", cwd=CWD)
    assert decide(acted, look("frobnicate"), authority(), policy(mode="off"), Circumstances(now=NOW)).code == "mode-off"
    # A plugin that nobody stands behind is asked about nowhere, and so is not run.
    assert decide(acted, look("frobnicate"), None, policy(), Circumstances(now=NOW)).code == "no-authority"


@pytest.mark.proves("answer-who-may", "approvals-authority-explicit")
def test_an_answer_that_a_client_posts_resumes_its_session_and_no_other(tmp_path: Path) -> None:
    approvals, made = approvals_in(tmp_path), proposal(surface=Surface.API, session="a")
    posted = Answerer(principal=OWNER, surface=Surface.API, session="a")
    said = run(lambda: asked_and(approvals, made, lambda: approvals.answer(made.id, Answer(approve=True), posted)))
    assert (said.outcome, said.entry.life.answered_via) == (Outcome.APPROVED, Surface.API)
    # Another session has nobody, and one whose client was withdrawn has nobody any more: nothing is even kept.
    for who in (
        authority(session="b", surface=Surface.API, answerable=False),
        authority(session="a", surface=Surface.API, expires=NOW - dt.timedelta(seconds=1)),
    ):
        assert asked("frobnicate", who=who).ruling is Ruling.REFUSE


@pytest.mark.proves("ask-order")
def test_a_client_that_comes_back_sees_the_question_with_the_time_that_is_left(tmp_path: Path) -> None:
    clock = Clock()
    approvals, made = approvals_in(tmp_path, clock), proposal()
    found: list[str] = []

    def again() -> None:
        clock.pass_by(100)
        back = approvals_in(tmp_path, clock)
        (entry,) = back.store.entries(status=Status.PENDING)
        found.append(question_of(entry, back.now()))
        back.answer(entry.proposal.id, Answer(approve=False), Answerer(principal=OWNER, surface=Surface.CLI))

    assert run(lambda: asked_and(approvals, made, again)).outcome is Outcome.DECLINED
    assert f"id:      {made.id}\nleft:    3 min 20 s" in found[0]
