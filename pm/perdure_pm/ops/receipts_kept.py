"""The receipts that a collection lets go, and those that it closes for writers that died unseen.

Owns: the facts for the rule. Does not own: the rule (model.retention), and the receipts themselves (store.receipts). A
file whose name is none of PM's, or that cannot be read, stays: what it says is not known.

Keeps: receipt-retention, receipt-dead-writer-closed.
"""

from __future__ import annotations

from collections.abc import Collection

from perdure_pm.adapters.processes import still_runs
from perdure_pm.model.errors import PerdureError
from perdure_pm.model.retention import YOUNG, OldReceipt, decide_receipts, find_old_receipts
from perdure_pm.ops.context import Context
from perdure_pm.store import receipts


def plan_receipts(context: Context, kept: Collection[str]) -> tuple[str, ...]:
    """Return the file names of the receipts that may go; `kept` names the generations that stay."""
    names = receipts.list_names(context.layout)
    moments = {name: moment for name in names if (moment := receipts.moment_of(name)) is not None}
    old = [receipts.load_named(context.layout, name) for name in find_old_receipts(moments, now=context.clock())]
    return decide_receipts([_describe(receipt) for receipt in old if receipt is not None], kept=kept)


def collect_receipts(context: Context, kept: Collection[str]) -> int:
    """Have the receipts removed that nothing keeps, and return how many. The caller holds the mutex.

    One that cannot be removed stays for the next time.
    """
    layout, filesystem, now = context.layout, context.filesystem, context.clock()
    found, _ = receipts.load_all(layout)
    receipts.close_interrupted(filesystem, layout, now=now, still_runs=still_runs, among=found)
    gone = 0
    for name in plan_receipts(context, kept):
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


def _describe(receipt: receipts.Receipt) -> OldReceipt:
    generation = receipt.data.get("generation")
    told = receipt.status == "ok" and isinstance(generation, str) and receipt.data.get("dry_run") is not True
    return OldReceipt(
        name=receipt.name, finished=receipt.status != "started", selected=str(generation) if told else None
    )
