"""An assessment: what a plugin says of an operation that a person would be asked about.

Owns: the values that go to such a plugin and come from it. Does not own: when one is consulted, or what follows
(approvals).
"""

from __future__ import annotations

from enum import StrEnum

from perdure.domain.record import dataclass
from perdure.domain.verdict import Risk


class Opinion(StrEnum):
    """What an assessor may say."""

    CONTINUE = "continue"
    """A person is asked, as without it."""
    REFUSE = "refuse"
    APPROVE = "approve"
    """For this once, and only where the operator lets assessors answer; else a person is asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """What one assessor says."""

    opinion: Opinion
    reason: str = ""
    """For people: one line of at most 500 characters."""
    risk: Risk | None = None
    """The risk that it sees; one that is lower than the guard's changes nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssessmentRequest:
    """What an assessor is told."""

    kind: str
    """``command``, ``code``, ``file-write``, ``file-patch``, ``file-move``, ``file-delete`` or ``plugin``."""
    text: str
    """The command, the code or the paths, with secrets masked."""
    cwd: str
    backend: str
    risk: Risk
    reasons: tuple[str, ...]
    """The codes of the reasons that the guard gives."""
    touches: tuple[str, ...]
    """What it would write, move or delete, as far as that can be told."""
