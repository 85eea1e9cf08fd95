"""What was approved, looked at again right before it is started.

Owns: what counts as stricter than what a person saw. Does not own: looking (tools), or the pipeline (decide). Keeps:
recheck-stricter-blocks, recheck-laxer-stands.
"""

from __future__ import annotations

from perdure.domain.decision import Decision
from perdure.domain.operation import Operation
from perdure.domain.proposal import Pinned, height_of
from perdure.domain.verdict import Ruling


def stricter(pinned: Pinned, now: Decision) -> str | None:
    """Return why a decision made now is stricter than what was pinned; None where it is not."""
    if now.ruling is Ruling.REFUSE:
        return f"it is refused by now: {now.reasons[0].text}"
    if now.ruling is Ruling.ALLOW:
        return None
    if height_of(now.risk) > height_of(pinned.risk):
        return f"its risk is {now.risk.value} by now"
    # Not the code alone: two rules of the operator have the same.
    known = {(reason.code, reason.rule) for reason in pinned.reasons}
    new = next((reason for reason in now.reasons if (reason.code, reason.rule) not in known), None)
    return None if new is None else f"something more speaks against it by now: {new.text}"


def changed(before: Operation, after: Operation) -> str | None:
    """Return what differs of what would be run from what was shown; None where nothing does."""
    if before.executable != after.executable:
        return f"the program is another one: {after.executable or 'none'}, and was {before.executable or 'none'}"
    was, now = ({digest.path: digest.sha256 for digest in each.digests} for each in (before, after))
    # What is there no more, or is new, often follows from what was changed: a script that names other files by now.
    for path in [*sorted(was.keys() & now.keys()), *sorted(was.keys() ^ now.keys())]:
        if path not in was:
            return f"it would touch {path} too by now"
        if path not in now:
            return f"it would not touch {path} by now"
        if was[path] != now[path]:
            return f"{path} was changed"
    return None if before == after else "it is not the same operation"
