"""Operations, authorities and decisions for tests, made by the real guard of a described machine.

Owns: short ways to ask the pipeline. Does not own: the machine (tests.app.guard.layouts).
"""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Sequence

from perdure.approvals.commands import Judged, judged
from perdure.approvals.decide import Circumstances, decide
from perdure.approvals.policy import Policy, parse_policy
from perdure.domain.decision import Decision, Said, Stage
from perdure.domain.grant import Grant
from perdure.domain.operation import Authority, Operation, OperationKind, Principal, Surface
from perdure.guard.judge import judge
from perdure.guard.reading import read
from perdure.guard.session import Session
from tests.app.guard.layouts import HOME, protected

NOW = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
CWD = f"{HOME}/work"
OWNER = Principal(name="you", owner=True)


def operation(line: str = "", *, argv: Sequence[str] = (), shell: str = "bash", backend: str = "local") -> Operation:
    """Return the operation of a line for a shell, or of words."""
    return Operation(
        kind=OperationKind.COMMAND,
        argv=tuple(argv),
        script=None if argv else line,
        shell=shell,
        cwd=CWD,
        backend=backend,
    )


def file_operation(kind: OperationKind, *paths: str) -> Operation:
    """Return an operation on files."""
    return Operation(kind=kind, paths=paths, cwd=CWD)


@functools.lru_cache(maxsize=512)
def look(line: str, shell: str = "bash") -> Judged:
    """Return what the guard says of a line."""
    session = Session(directory=CWD, home=HOME, environment={"HOME": HOME}, complete=True, seconds=5)
    reading = read(line, shell, session)
    return judged(operation(line, shell=shell), reading, judge(reading, protected(), (HOME,)))


def authority(**changes: object) -> Authority:
    """Return the authority of a person who can answer."""
    known = {"session": "s1", "surface": Surface.CLI, "requester": OWNER, "answerable": True}
    return Authority(**{**known, **changes})  # type: ignore[arg-type]


def policy(**said: object) -> Policy:
    """Return the policy of a profile that says this."""
    return parse_policy(said)


def asked(
    line: str,
    *,
    who: Authority | None = None,
    what: Policy | None = None,
    nobody: bool = False,
    grants: Sequence[Grant] = (),
    **circumstances: object,
) -> Decision:
    """Return the decision on a line."""
    return decide(
        operation(line),
        look(line),
        None if nobody else who or authority(),
        what or Policy(),
        Circumstances(now=NOW, grants=grants, **circumstances),  # type: ignore[arg-type]
    )


def said(decision: Decision) -> dict[Stage, Said]:
    """Return what each stage said."""
    return {step.stage: step.said for step in decision.trace}
