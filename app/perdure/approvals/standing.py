"""What the operator's own file lets pass or holds back, line by line, so that the trail can tell when each stood.

Owns: which settings of app.yaml count as standing answers, and how one is called. Does not own: reading the file
(allowlist, policy), or the trail (store). Keeps: audit-standing-told.
"""

from __future__ import annotations

from collections.abc import Iterable

from perdure.approvals.allowlist import KEY
from perdure.approvals.policy import Mode, Policy, Unattended
from perdure.approvals.redact import mask_text
from perdure.store.port import StandingLine


def standing(entries: Iterable[str], policy: Policy) -> frozenset[StandingLine]:
    """Return the lines that decide without anybody being asked, with their secrets masked."""
    found = [(KEY, entry) for entry in entries]
    found += [("approvals.mode", policy.mode.value)] * (policy.mode is not Mode.MANUAL)
    found += [("approvals.deny", rule.text) for rule in policy.deny]
    found += [("approvals.ask", rule.text) for rule in policy.ask]
    found += [
        (f"approvals.unattended.{surface.value}", answer.value)
        for surface, answer in policy.unattended
        if answer is not Unattended.REFUSE
    ]
    may = " (may approve)" if policy.assessors.approve else ""
    found += [("approvals.assessors", f"{name}{may}") for name in policy.assessors.names]
    return frozenset(StandingLine(place=place, line=mask_text(line)) for place, line in found)
