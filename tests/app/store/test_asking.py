"""What is put together before anybody is asked, and what it has come to when it is claimed."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import anyio
import pytest

from perdure.approvals.asking import Asker
from perdure.approvals.recheck import changed, stricter
from perdure.approvals.redact import mask
from perdure.approvals.rules import Rule
from perdure.approvals.service import Asked, Channel
from perdure.domain.decision import Decision, Stage
from perdure.domain.effect import Reading
from perdure.domain.errors import ApprovalCancelled
from perdure.domain.operation import Authority, Digest, Operation, Surface
from perdure.domain.outcome import Outcome, Scope
from perdure.domain.proposal import Answer
from perdure.domain.verdict import Reason, Risk, Ruling, Verdict
from perdure.guard.service import View
from tests.app.store.asking import Clock, Script, approvals_in
from tests.app.store.proposals import OWNER, operation, pinned

DELETE = Reason(code="delete", text="a file would be deleted")
MORE = Reason(code="permissions", text="permissions would be changed")


def decision(**changes: object) -> Decision:
    made = Decision(
        ruling=Ruling.ASK,
        code="delete",
        stage=Stage.CLASSIFICATION,
        reasons=(DELETE,),
        risk=Risk.MEDIUM,
        scopes=(Scope.ONCE,),
        policy_version="policy-1",
        grants=(),
        touches=(),
        skips_nothing=False,
        trace=(),
    )
    return dataclasses.replace(made, **changes)  # type: ignore[arg-type]


VIEW = View(
    reading=Reading(reader="fast", effects=()),
    verdict=Verdict(ruling=Ruling.ASK, floor=False, risk=Risk.MEDIUM, reasons=(DELETE,)),
)


def asker_in(folder: Path, channel: Channel, **changes: object) -> Asker:
    values: dict[str, object] = {
        "approvals": approvals_in(folder, Clock()),
        "authority": Authority(session="session-a", surface=Surface.CLI, requester=OWNER, answerable=True),
        "profile": "default",
        "channel": channel,
        "mask": mask,
        "display": lambda operation, decision: f"{operation.script}",
    }
    return Asker(**{**values, **changes})  # type: ignore[arg-type]


def ask(asker: Asker, acted: Operation) -> Asked:
    async def main() -> Asked:
        with anyio.fail_after(20):
            return await asker.ask(acted, decision(), VIEW)

    return anyio.run(main)


@pytest.mark.proves("ask-display-first")
@pytest.mark.parametrize("broken", ["mask", "display"])
def test_what_cannot_be_shown_is_neither_kept_nor_asked_about(tmp_path: Path, broken: str) -> None:
    def fail(*_: object) -> str:
        raise ValueError("--password hunter2")

    script = Script(lambda entry: Answer(approve=True))
    asker = asker_in(tmp_path, script, **{broken: fail})
    with pytest.raises(ApprovalCancelled) as caught:
        ask(asker, operation("deploy --password hunter2"))
    assert caught.value.context["cause"] == "display-failed"
    assert "hunter2" not in str(caught.value.to_json())
    assert script.shown == []
    assert asker.approvals.store.entries() == []


@pytest.mark.proves("ask-display-first", "proposal-whole")
def test_a_secret_is_neither_kept_nor_shown_and_grants_nothing(tmp_path: Path) -> None:
    script = Script(lambda entry: Answer(approve=True, scope=Scope.ALWAYS))
    asker = asker_in(tmp_path, script)
    asked = ask(asker, operation("deploy --password hunter2hunter2"))
    assert (asked.outcome, asked.entry.life.scope) == (Outcome.APPROVED, Scope.ONCE)
    assert "hunter2" not in repr(script.shown)
    for path in tmp_path.iterdir():
        assert b"hunter2" not in path.read_bytes()
    # Two secrets are two operations, though they look alike.
    assert (
        asked.entry.proposal.digest != ask(asker, operation("deploy --password hunter3hunter3")).entry.proposal.digest
    )


@pytest.mark.proves("approvals-secrets-masked")
def test_a_place_that_is_called_after_a_secret_is_masked_too(tmp_path: Path) -> None:
    script = Script(lambda entry: Answer(approve=True))
    place = "/project/token=hunter2hunter2"
    acted = operation(
        "rm -r build", cwd=place, executable=f"{place}/rm", digests=(Digest(path=f"{place}/build", sha256="0" * 64),)
    )
    asked = ask(asker_in(tmp_path, script), acted)
    assert asked.entry.proposal.operation.cwd == "/project/token=[secret-1:token]"
    for path in tmp_path.iterdir():
        assert b"hunter2" not in path.read_bytes()


@pytest.mark.proves("recheck-stricter-blocks")
@pytest.mark.parametrize(
    "now",
    [
        decision(ruling=Ruling.REFUSE),
        decision(risk=Risk.HIGH),
        decision(reasons=(DELETE, MORE)),
        decision(reasons=(MORE,)),
    ],
    ids=["refused", "risk", "more", "other"],
)
def test_what_is_stricter_by_now_is_told(now: Decision) -> None:
    assert stricter(pinned(), now) is not None


@pytest.mark.proves("recheck-stricter-blocks")
def test_another_rule_of_the_operator_does_not_hide_behind_the_code_of_the_first() -> None:
    def asked_by(*rules: str) -> tuple[Reason, ...]:
        return tuple(Reason(code="asked-by-rule", text="a rule asks", rule=Rule(rule).digest) for rule in rules)

    before = pinned(reasons=asked_by("rm *"))
    assert stricter(before, decision(reasons=asked_by("rm *", "* build"))) is not None
    assert stricter(before, decision(reasons=asked_by("* build"))) is not None
    assert stricter(before, decision(reasons=asked_by("rm *"))) is None


@pytest.mark.proves("recheck-laxer-stands")
@pytest.mark.parametrize(
    "now",
    [decision(), decision(risk=Risk.LOW), decision(ruling=Ruling.ALLOW, risk=Risk.LOW)],
    ids=["same", "low", "allow"],
)
def test_what_is_laxer_by_now_is_nothing(now: Decision) -> None:
    assert stricter(pinned(), now) is None
    assert stricter(dataclasses.replace(pinned(), risk=None), decision(risk=Risk.HIGH)) is None


@pytest.mark.proves("operands-digested")
def test_any_difference_of_what_would_be_run_is_told() -> None:
    before = operation(digests=(Digest(path="/a", sha256="0" * 64),), executable="/bin/bash")
    assert changed(before, before) is None
    for after in (
        dataclasses.replace(before, digests=()),
        dataclasses.replace(before, digests=(Digest(path="/a", sha256="1" * 64),)),
        dataclasses.replace(before, digests=(*before.digests, Digest(path="/b", sha256=""))),
        dataclasses.replace(before, executable="/else/bash"),
        dataclasses.replace(before, cwd="/elsewhere"),
    ):
        assert changed(before, after) is not None


@pytest.mark.proves("operands-digested")
def test_what_was_changed_is_named_before_what_follows_from_it() -> None:
    before = operation(digests=(Digest(path="/a", sha256="0" * 64), Digest(path="/script", sha256="0" * 64)))
    after = dataclasses.replace(before, digests=(Digest(path="/script", sha256="1" * 64),))
    assert changed(before, after) == "/script was changed"
    assert "/a" in (changed(before, dataclasses.replace(before, digests=before.digests[1:])) or "")
