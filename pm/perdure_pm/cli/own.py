"""self: PM's own runtime.

Owns: the words. Does not own: the operations (ops.own_runtime).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import click

from perdure_pm.cli.options import Group
from perdure_pm.cli.render import Answer, columns
from perdure_pm.cli.session import Session


@click.group("self", cls=Group)
def own() -> None:
    """Look at PM's own runtime, update it, go back, or rebuild it."""


@own.command("status")
@click.pass_obj
def own_status(session: Session) -> Answer:
    """Show PM's runtime, with every file's size checked, and those there are beside it."""
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
    return _call(session, "self-rebuild", {}, "rebuild PM's runtime", same=True)


@own.command("update", kind="building")
@click.argument("source", metavar="[DIR|ARCHIVE]", required=False)
@click.pass_obj
def own_update(session: Session, source: str | None) -> Answer:
    """Update PM from a checkout of Perdure, or an archive of one.

    By default the checkout that the home's own app comes from. The new runtime is built beside the present one and
    started before it is selected; `perdure-pm self rollback` goes back.
    """
    return _call(session, "self-update", {"source": source and os.path.abspath(source)}, "update PM's runtime")


@own.command("rollback", kind="mutating")
@click.argument("to", metavar="[RUNTIME]", required=False)
@click.pass_obj
def own_rollback(session: Session, to: str | None) -> Answer:
    """Select an earlier runtime of PM again: nothing is built, and no network is needed.

    The newest beside the present one, or the one that is named.
    """
    return _call(session, "self-rollback", {"to": to}, "go back to another runtime of PM")


def _call(session: Session, operation: str, arguments: Mapping[str, Any], would: str, *, same: bool = False) -> Answer:
    """Return the answer of an operation that selects a runtime; one of another version has its launchers then."""
    from perdure_pm.cli.remote import call
    from perdure_pm.client import settle

    def show(data: Mapping[str, Any], status: str) -> str:
        if data.get("dry_run"):
            return f"would {would}"
        if status == "noop":
            return f"PM {data['version']} is what runs already, as {data['runtime']}"
        return (
            f"PM {data.get('version')} runs from {data['runtime']} now; processes that run the one before go on with it"
        )

    answer = call(session, operation, arguments, show)
    if answer.status == "ok" and "runtime" in answer.data and not session.dry_run and not same:
        settle(session.layout, str(answer.data["runtime"]), session.environ)
    return answer
