"""uninstall: what PM made goes, and what remains is said.

Owns: consent and the words. Does not own: the removal (ops.uninstall). It runs in this process: a worker would leave a
receipt in the home that is to be gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from perdure_pm.cli.options import Verb
from perdure_pm.cli.progress import Progress
from perdure_pm.cli.render import Answer
from perdure_pm.cli.session import Session
from perdure_pm.model.errors import OperationCancelled
from perdure_pm.store.home import check_home


@click.command(cls=Verb, kind="mutating")
@click.option("--keep-state", is_flag=True, help="Spare state/ and the configuration files.")
@click.option("--force", is_flag=True, help="Also while processes run from the home.")
@click.pass_obj
def uninstall(session: Session, keep_state: bool, force: bool) -> Answer:
    """Remove what PM made in the home, and nothing else."""
    from perdure_pm.ops.uninstall import find_removable
    from perdure_pm.ops.uninstall import uninstall as remove

    layout = session.layout
    check_home(layout)  # links may stand in it: what they lead to is not removed
    if find_removable(layout, keep_state=keep_state) and not session.dry_run:
        spared = "" if keep_state else ", the host's state and the configuration with it"
        session.require_consent(f"Everything that PM made in {layout.home} goes{spared}. Go on?")
    try:
        with Progress(session) as progress:
            outcome = remove(session.context(progress), {"keep_state": keep_state, "force": force})
    except KeyboardInterrupt:
        raise OperationCancelled(
            "interrupted; a part is removed already", hint="run the same command again", state="needs-recovery"
        ) from None
    return Answer(status=outcome.status, data=outcome.data, text=_show(outcome.data, outcome.status))


def _show(data: Mapping[str, Any], status: str) -> str:
    if data.get("dry_run"):
        return "\n".join(["would remove:", *(f"  {name}" for name in data["remove"])])
    lines = ["nothing to do: PM has nothing there" if status == "noop" else "everything that PM made is gone"]
    if data["left"]:
        lines += ["left, as PM did not make it or was to spare it:", *(f"  {name}" for name in data["left"])]
    return "\n".join(lines)
