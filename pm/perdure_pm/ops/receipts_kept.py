"""The receipts that a collection lets go, and those that it closes for writers that died unseen.

Owns: the facts for the rule. Does not own: the rule (model.retention), and the receipts themselves (store.receipts). A
file whose name is none of PM's, or that cannot be read, stays: what it says is not known.

Keeps: receipt-retention, receipt-dead-writer-closed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from perdure_pm.adapters.processes import still_runs
from perdure_pm.model.errors import PerdureError
from perdure_pm.model.retention import YOUNG, OldReceipt, decide_receipts, find_old_receipts
from perdure_pm.ops.context import Context
from perdure_pm.store import receipts

PULSE = 200
"""After how many receipts it is shown that something happens: there may be a hundred thousand of them."""


def plan_receipts(context: Context, kept: Collection[str]) -> tuple[str, ...]:
    """Return the file names of the receipts that may go; `kept` names the generations that stay."""
    return _plan(context, kept, _load(context))


def collect_receipts(context: Context, kept: Collection[str]) -> int:
    """Have the receipts removed that nothing keeps, and return how many. The caller holds the mutex.

    One that cannot be removed stays for the next time.
    """
    layout, filesystem, now = context.layout, context.filesystem, context.clock()
    found = _load(context)
    among = list(found.values())
    for closed in receipts.close_interrupted(filesystem, layout, now=now, still_runs=still_runs, among=among):
        found[closed.name] = closed
    gone = 0
    for number, name in enumerate(_plan(context, kept, found)):
        if number % PULSE == 0:
            context.reporter.heartbeat()
        try:
            receipts.remove(filesystem, layout, name)
        except PerdureError:
            continue
        gone += 1
    present = set(receipts.list_names(layout))
    for name in receipts.list_markers(layout):
        begun = receipts.moment_of(name)
        if name not in present and begun is not None and now - begun > YOUNG:
            receipts.remove(filesystem, layout, name)  # its writer died before it wrote the receipt
    return gone


def _load(context: Context) -> dict[str, receipts.Receipt]:
    """Return every receipt that can be read, by its file's name."""
    found = {}
    for number, name in enumerate(receipts.list_names(context.layout)):
        if number % PULSE == 0:
            context.reporter.heartbeat()
        receipt = receipts.load_named(context.layout, name)
        if receipt is not None:
            found[name] = receipt
    return found


def _plan(context: Context, kept: Collection[str], found: Mapping[str, receipts.Receipt]) -> tuple[str, ...]:
    moments = {name: moment for name in found if (moment := receipts.moment_of(name)) is not None}
    old = (found[name] for name in find_old_receipts(moments, now=context.clock()))
    return decide_receipts([_describe(receipt) for receipt in old], kept=kept)


def _describe(receipt: receipts.Receipt) -> OldReceipt:
    generation = receipt.data.get("generation")
    told = receipt.status == "ok" and isinstance(generation, str) and receipt.data.get("dry_run") is not True
    return OldReceipt(
        name=receipt.name, finished=receipt.status != "started", selected=str(generation) if told else None
    )
