"""Proposals and stores for the tests of the approvals.

Owns: one proposal that is whole, with whatever a test wants different, and the store that exists only here. Does not
own: any assertion.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from pathlib import Path

from perdure.domain.operation import Operation, OperationKind, Principal, Surface
from perdure.domain.outcome import Scope
from perdure.domain.proposal import Answerer, Default, Offer, Pinned, Proposal, digest_of, new_id
from perdure.domain.verdict import Reason, Risk
from perdure.store.sqlite import SqliteStore

NOW = dt.datetime(2030, 1, 31, 12, tzinfo=dt.UTC)
OWNER = Principal(name="owner", owner=True)
OPERATOR = Answerer(principal=OWNER, surface=Surface.CLI)
SECOND = dt.timedelta(seconds=1)


def operation(command: str = "rm -r build", **changes: object) -> Operation:
    """Return an operation that runs a text."""
    made = Operation(kind=OperationKind.COMMAND, script=command, cwd="/project")
    return dataclasses.replace(made, **changes)  # type: ignore[arg-type]


def pinned(**changes: object) -> Pinned:
    """Return what a policy said."""
    made = Pinned(
        risk=Risk.MEDIUM,
        reasons=(Reason(code="delete", text="a file would be deleted"),),
        scopes=tuple(Scope),
        policy_version="policy-1",
        default=Default.NONE,
    )
    return dataclasses.replace(made, **changes)  # type: ignore[arg-type]


def proposal(command: str = "rm -r build", **changes: object) -> Proposal:
    """Return a proposal for a command that is open for five minutes."""
    acted = operation(command)
    values: dict[str, object] = {
        "id": new_id(),
        "profile": "default",
        "session": "session-a",
        "surface": Surface.CLI,
        "requester": OWNER,
        "created": NOW,
        "expires": NOW + 300 * SECOND,
        "operation": acted,
        "digest": digest_of(acted),
        "pinned": pinned(),
        "display": command,
        "offers": (Offer(rule_key="delete", cwd_prefix="/project"),),
    }
    return Proposal(**{**values, **changes})  # type: ignore[arg-type]


def store_in(folder: Path, profile: str = "default") -> SqliteStore:
    """Return a store of its own connection on the file in a folder."""
    return SqliteStore(folder / "approvals.db", profile)
