"""self: PM's own runtime.

Owns: the words. Does not own: building one (ops.runtime).
"""

from __future__ import annotations

import click

from perdure_pm.cli.options import Group
from perdure_pm.cli.render import Answer, columns
from perdure_pm.cli.session import Session


@click.group("self", cls=Group)
def own() -> None:
    """Look at PM's own runtime, or rebuild it."""


@own.command("status")
@click.pass_obj
def own_status(session: Session) -> Answer:
    """Show PM's runtime, with every file's size checked."""
    from perdure_pm.ops.status import read_own_status

    data = read_own_status(session.layout)
    rows = [["version", data["version"]], ["runtime", data["runtime"] or "none"]]
    if data["runtime"]:
        python = data["python"] or {}
        rows += [
            ["path", data["path"]],
            ["python", f"{python.get('version')}   {python.get('path')}"],
            ["uv", data["uv"]],
            ["made", str(data["created"])],
        ]
        rows += [["also kept", ", ".join(data["others"])]] if data["others"] else []
    rows.append(["state", data["problem"] or "complete"])
    return Answer(data=data, text=columns(rows))


@own.command("rebuild", kind="building")
@click.pass_obj
def own_rebuild(session: Session) -> Answer:
    """Build PM's runtime anew from its seed, beside the one that runs now."""

    def show(data: object, _status: str) -> str:
        found = data if isinstance(data, dict) else {}
        return "would rebuild PM's runtime" if found.get("dry_run") else f"PM runs from {found.get('runtime')} now"

    from perdure_pm.cli.remote import call

    return call(session, "self-rebuild", {}, show)
