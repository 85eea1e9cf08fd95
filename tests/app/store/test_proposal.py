"""What a proposal has to be before anybody is shown one."""

from __future__ import annotations

import dataclasses
import datetime as dt

import pytest

from perdure.domain.operation import Digest
from perdure.domain.outcome import Scope
from perdure.domain.proposal import Default, ProposalInvalid, digest_of, height_of, new_id
from perdure.domain.verdict import Risk
from perdure.store.payload import dump, load
from tests.app.store.proposals import NOW, SECOND, operation, pinned, proposal


@pytest.mark.proves("proposal-whole", "proposal-default-deny")
def test_every_fault_is_told_at_once() -> None:
    with pytest.raises(ProposalInvalid) as caught:
        proposal(
            id="-short",
            session="",
            digest="0" * 63,
            display=" ",
            expires=NOW,
            pinned=pinned(risk=Risk.HIGH, reasons=(), scopes=(Scope.ALWAYS,), policy_version=""),
            operation=dataclasses.replace(operation(), script=None, cwd=""),
        )
    told = {fault.partition(":")[0] for fault in caught.value.faults}
    assert told == {
        *("id", "session", "digest", "display", "expires", "operation", "operation.cwd"),
        *("pinned.default", "pinned.reasons", "pinned.scopes", "pinned.policy_version"),
    }
    for changes in (
        {"parent": "session-a"},
        {"expires": NOW + dt.timedelta(days=8)},
        {"created": NOW.replace(tzinfo=None)},
    ):
        with pytest.raises(ProposalInvalid):
            proposal(**changes)


@pytest.mark.proves("proposal-default-deny")
@pytest.mark.parametrize("risk", [*Risk, None])
def test_only_what_is_known_to_be_lower_is_not_denied_by_default(risk: Risk | None) -> None:
    proposal(pinned=pinned(risk=risk, default=Default.DENY))
    if risk in (Risk.LOW, Risk.MEDIUM):
        proposal(pinned=pinned(risk=risk, default=Default.NONE))
    else:
        with pytest.raises(ProposalInvalid, match="denied by default"):
            proposal(pinned=pinned(risk=risk, default=Default.NONE))
    assert height_of(None) > max(map(height_of, Risk))


@pytest.mark.proves("proposal-whole")
def test_a_proposal_survives_its_bytes() -> None:
    acted = operation("x", environment=("A",), digests=(Digest(path="/a", sha256="0" * 64),), diff="+é\udcff")
    made = proposal(operation=acted, pinned=pinned(risk=None, default=Default.DENY), summary="…")
    assert load(*dump(made)) == made


def test_ids_are_many_and_no_option() -> None:
    made = {new_id() for _ in range(2_000)}
    assert len(made) == 2_000
    assert not any(each.startswith("-") for each in made)


def test_two_operations_are_the_same_only_in_every_respect() -> None:
    variants = [
        operation(),
        operation("rm -r  build"),
        operation(cwd="/project/x"),
        operation(shell="sh"),
        operation(backend="docker"),
        operation(environment=("A",)),
        operation(digests=(Digest(path="/a", sha256=""),)),
    ]
    assert len({digest_of(each) for each in variants}) == len(variants)
    assert digest_of(operation()) == digest_of(operation())
    assert proposal(expires=NOW + SECOND).expires == NOW + SECOND
