"""Self rebuild: PM's own runtime built anew from its seed, beside the one that runs this.

Owns: the verb. Does not own: building (runtime). The old runtime stays, for this process and every other that runs from
it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perdure_pm.ops.context import Context, Outcome
from perdure_pm.ops.exclusive import exclusive
from perdure_pm.ops.runtime import build_runtime, load_runtime, seed_source


def rebuild_self(context: Context, _arguments: Mapping[str, Any]) -> Outcome:
    """Have a fresh runtime of the seed selected.

    Raises:
        IntegrityFault: the home has no seed.
    """
    layout = context.layout
    with exclusive(context, "self rebuild"):
        before = load_runtime(layout)
        data: dict[str, Any] = {"from": None if before is None else before.identity}
        if context.dry_run:
            return Outcome(status="ok", data={**data, "dry_run": True})
        runtime = build_runtime(
            layout,
            context.filesystem,
            context.reporter,
            source=seed_source(layout),
            network=context.network,
            environ=context.environ,
            python=context.python,
        )
        return Outcome(
            status="ok", data={**data, "runtime": runtime.identity, "python": runtime.record["inputs"]["python"]}
        )
