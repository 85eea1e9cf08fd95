"""From a person's yes to the right to start one run: what was approved is looked at again before it is claimed.

Owns: asking until this run has an approval of its own, and the errors of everything else that may come of asking. Does
not own: asking (approvals), starting (terminal). Keeps: recheck-stricter-blocks,
recheck-uses-no-grant, approval-single-use: what is not any more what was shown is blocked, and says so.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import anyio.to_thread

from perdure.approvals.asking import Asker
from perdure.approvals.recheck import changed, stricter
from perdure.approvals.service import Asked
from perdure.domain.decision import Decision
from perdure.domain.errors import (
    ApprovalCancelled,
    ApprovalExpired,
    CommandBlocked,
    CommandDeclined,
    CommandNeedsApproval,
    StoreUnavailable,
)
from perdure.domain.json_value import JsonValue
from perdure.domain.operation import Operation
from perdure.domain.outcome import Outcome
from perdure.domain.record import dataclass
from perdure.domain.verdict import Ruling
from perdure.guard.service import View

_MOST_QUESTIONS = 8
"""How often a command is asked about anew where somebody else has used the approval that it waited for too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """An operation as it was looked at once."""

    operation: Operation
    decision: Decision
    view: View
    place: tuple[int, int]
    """Which directory it would run in, whatever that is called by now."""


async def claim(
    asker: Asker,
    look: Callable[[], Seen],
    run: str,
    note: Callable[[Asked], None],
    *,
    again: Callable[[], Seen],
) -> tuple[Asked | None, Decision]:
    """Return an approval that only this run has, with what is decided now; none where none is needed any more.

    Args:
        asker: what asks.
        look: looks at what would be run, as it is now; what grants it is used up by that.
        run: the run's id.
        note: writes down what came of asking, before anything follows from it.
        again: looks at it after a yes, which uses up no grant: the yes is what it runs by.

    Raises:
        PerdureError: there is none, for the reason that it gives; nothing was started.
    """
    for _ in range(_MOST_QUESTIONS):
        seen = await anyio.to_thread.run_sync(look)
        if seen.decision.ruling is not Ruling.ASK:
            # Granted meanwhile, as with the answer to the same question; or refused.
            return None, seen.decision
        try:
            asked = await asker.ask(seen.operation, seen.decision, seen.view)
        except StoreUnavailable as error:
            raise type(error)(
                f"what needs an approval is refused: {error.summary}", hint=error.hint, context=error.context
            ) from error
        try:
            note(asked)
            require_approved(asked)
            if await _claimed(asker, asked, seen, again, run):
                return asked, seen.decision
        except BaseException as error:
            # What is not going to be run must not look as if it were; after a claim this changes nothing.
            with contextlib.suppress(StoreUnavailable):
                asker.approvals.block(asked.entry.proposal.id, f"{type(error).__name__} before it was started")
            raise
    raise CommandNeedsApproval("the command was not run: others have used up every approval of it")


async def _claimed(asker: Asker, asked: Asked, before: Seen, look: Callable[[], Seen], run: str) -> bool:
    """Return whether an approval of what is still the same is this run's now.

    Raises:
        CommandBlocked: it is not the same.
    """
    proposal = asked.entry.proposal
    try:
        now = await anyio.to_thread.run_sync(look)
        why = stricter(proposal.pinned, now.decision) or changed(before.operation, now.operation)
        why = why or (None if before.place == now.place else f"{before.operation.cwd} is another directory")
    except Exception as error:  # noqa: BLE001  # what cannot be looked at again is not what was approved
        why = f"it cannot be looked at again: {type(error).__name__}: {error}"
    if why is not None:
        asker.approvals.block(proposal.id, why)
        raise CommandBlocked(f"the command was approved and not run: {why}", context={"id": proposal.id})
    return asker.approvals.begin(asked, run)


def require_approved(asked: Asked) -> None:
    """Have nothing go on but what was approved, and say what it was otherwise.

    Raises:
        CommandDeclined: a person said no.
        ApprovalExpired: nobody answered in time.
        ApprovalCancelled: the question was withdrawn.
    """
    proposal = asked.entry.proposal
    context: dict[str, JsonValue] = {
        "id": proposal.id,
        "outcome": asked.outcome.value,
        "cause": None if asked.cause is None else asked.cause.value,
        "reason": asked.why,
    }
    why = f": {asked.why}" if asked.why else ""
    if asked.outcome is Outcome.APPROVED and not asked.entry.life.orphaned:
        return
    if asked.outcome is Outcome.APPROVED:
        raise ApprovalCancelled("the command was approved when nobody waited for it, and was not run", context=context)
    if asked.outcome is Outcome.DECLINED:
        raise CommandDeclined(f"the command was not run: a person declined it{why}", context=context)
    if asked.outcome is Outcome.EXPIRED:
        raise ApprovalExpired(
            "the command was not run: nobody answered in time, and silence is not consent", context=context
        )
    cause = asked.cause.value if asked.cause is not None else "cancelled"
    raise ApprovalCancelled(
        f"the command was not run: the question was withdrawn ({cause}){why}; nobody answered it, and silence is not "
        "consent",
        context=context,
    )
