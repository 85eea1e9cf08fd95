"""The policy: of every shape that a person, or a broken tool, may leave in app.yaml."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.app_file import AppFile
from perdure.approvals.policy import Mode, Policy, Unattended, parse_policy
from perdure.cli.approving import policy_of
from perdure.domain.operation import Surface
from perdure.domain.verdict import Ruling
from tests.app.approvals.made import asked, authority

pytestmark = pytest.mark.proves("approvals-policy-total")


def read(tmp_path: Path, text: str | bytes) -> Policy:
    path = tmp_path / "app.yaml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return policy_of(AppFile(path))


@pytest.mark.parametrize(
    ("text", "mode", "warned"),
    [
        ("", Mode.MANUAL, False),
        ("approvals:\n", Mode.MANUAL, False),
        ("approvals: {}\n", Mode.MANUAL, False),
        ("approvals: {mode: off}\n", Mode.OFF, False),
        ("approvals: {mode: 'off'}\n", Mode.OFF, False),
        ("approvals: {mode: false}\n", Mode.OFF, False),
        ("approvals: {mode: manual}\n", Mode.MANUAL, False),
        ("approvals: {mode: auto}\n", Mode.MANUAL, True),
        ("approvals: {mode: OFF!}\n", Mode.MANUAL, True),
        ("approvals: {mode: 0}\n", Mode.MANUAL, True),
        ("approvals: {mode: [off]}\n", Mode.MANUAL, True),
        ("approvals: {mode: {off: off}}\n", Mode.MANUAL, True),
    ],
)
def test_a_mode_is_what_is_written_or_manual_with_a_warning(
    tmp_path: Path, text: str, mode: Mode, warned: bool
) -> None:
    found = read(tmp_path, text)
    assert (found.mode, bool(found.warnings), found.faults) == (mode, warned, ())


@pytest.mark.parametrize(
    "text",
    [
        "approvals: [",
        "approvals: off\n",
        "approvals: [mode]\n",
        "approvals: 3\n",
        "approvals: {deny: 'sudo *'}\n",
        "approvals: {deny: [1]}\n",
        "approvals: {ask: {a: b}}\n",
        "approvals: {dany: ['sudo *']}\n",
        "approvals: {Ask: ['sudo *']}\n",
        "approvals: {mode: off}\napprovals: {mode: manual}\n",
        "approval: {deny: [x]}\n",
        "- approvals\n",
        "approvals: {when: 2026-99-99}\n",
        "? [a, b]\n: {c}\n",
        b"\xff\xfe",
        b"approvals: {mode: off}\n\x00",
        b"a: &a [*a, *b]\n",
    ],
)
def test_what_cannot_be_evaluated_refuses_everything(tmp_path: Path, text: str | bytes) -> None:
    found = read(tmp_path, text)
    assert found.faults
    assert all(str(tmp_path) in fault for fault in found.faults)
    decision = asked("ls", what=found, who=authority(yolo=True))
    assert (decision.ruling, decision.code) == (Ruling.REFUSE, "policy-not-evaluated")


def test_contexts_and_numbers(tmp_path: Path) -> None:
    found = read(
        tmp_path, "approvals: {ttl: 60, unattended: {cron: approve, webhook: maybe, cli: approve, api: [x]}}\n"
    )
    assert found.ttl == 60
    assert found.answer_for(Surface.CRON) is Unattended.APPROVE
    assert {found.answer_for(surface) for surface in Surface if surface is not Surface.CRON} == {Unattended.REFUSE}
    assert len(found.warnings) == 3


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.binary(max_size=4)
NAMES = st.sampled_from(["mode", "deny", "ask", "unattended", "ttl", "assessors", "refusals_until_stop", "cron", "x"])
TREES = st.recursive(
    SCALARS | st.sampled_from(["off", "approve", "manual", "sudo *"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES | SCALARS, inner, max_size=5),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(tree=st.dictionaries(NAMES | SCALARS, TREES, max_size=6) | TREES)
def test_every_shape_becomes_a_policy_that_is_no_laxer_than_it_says(tree: object) -> None:
    found = parse_policy(tree)
    assert len(found.version) == 16
    said = tree if isinstance(tree, dict) else {}
    if found.mode is Mode.OFF:
        assert said["mode"] in (False, "off")
    for surface, answer in found.unattended:
        assert (answer is Unattended.APPROVE) <= (said["unattended"][surface.value] == "approve")
    deny = said.get("deny")
    if deny is not None and not (isinstance(deny, list) and all(isinstance(one, str) and one.split() for one in deny)):
        assert found.faults
    assert asked("frobnicate", what=found).ruling in Ruling


@settings(max_examples=150, deadline=None)
@given(text=st.binary(max_size=80) | st.text(alphabet="approvalsmodeny:{}[]'\"&*!?|>- \n#%@,", max_size=80))
def test_every_file_becomes_a_policy(tmp_path_factory: pytest.TempPathFactory, text: bytes | str) -> None:
    folder = tmp_path_factory.getbasetemp()
    found = read(folder, text)
    assert found.faults or found.mode in Mode


@given(
    rules=st.lists(
        st.text(alphabet="abc *?[]!/-", min_size=1, max_size=10).filter(lambda text: bool(text.split())), max_size=4
    )
)
def test_rules_come_back_as_they_were_written(tmp_path_factory: pytest.TempPathFactory, rules: list[str]) -> None:
    found = read(tmp_path_factory.getbasetemp(), json.dumps({"approvals": {"deny": rules}}))
    assert [rule.text for rule in found.deny] == rules
