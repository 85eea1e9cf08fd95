"""Assessors: plugins that look at what is asked about, before a person does.

Owns: the form of an assessment, and what comes of one that fails. Does not own: when they are consulted (decide), or
how a plugin is called (plugin_manager). Keeps: approvals-assessors-fail-to-a-person.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from perdure.domain.verdict import Risk


class Opinion(StrEnum):
    """What an assessor may say."""

    CONTINUE = "continue"
    RAISE = "raise"
    REFUSE = "refuse"
    APPROVE = "approve"


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """What one assessor said; one that failed said `CONTINUE`, with the failure as its reason."""

    plugin: str
    opinion: Opinion
    risk: Risk | None = None
    """The risk it sees, where it raises it."""
    reason: str = ""
