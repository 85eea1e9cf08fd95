"""python: the interpreters that PM keeps in the home.

Owns: the words. Does not own: the operations (ops.interpreter_verbs).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from perdure_pm.cli.options import Group
from perdure_pm.cli.render import Answer, columns
from perdure_pm.cli.session import Session


@click.group("python", cls=Group)
def python() -> None:
    """Add, remove and look at the Pythons that the home keeps."""


@python.command("list")
@click.option("--available", is_flag=True, help="Show the versions that could be brought in instead.")
@click.pass_obj
def list_pythons(session: Session, available: bool) -> Answer:
    """Show the Pythons in the home, and who runs on which.

    With --available, those of uv's own list of downloads, or of another one: --python-downloads PLACE.
    """
    from perdure_pm.ops import interpreter_verbs

    if available:
        from perdure_pm.cli.progress import Progress

        session.writable_layout()
        with Progress(session) as progress:
            data = interpreter_verbs.read_downloads(session.context(progress))
        return Answer(data=data, text="\n".join(entry["version"] for entry in data["available"]))
    data = interpreter_verbs.read_interpreters(session.layout)
    rows = [
        [
            str(found["version"] or "unknown"),
            _state(found),
            ", ".join(_name(use) for use in found["used_by"]) or "nothing",
            found["path"],
        ]
        for found in data["interpreters"]
    ]
    empty = "the home keeps no Python, and nothing was built on one"
    return Answer(data=data, text=columns(rows, ["version", "state", "needed by", "path"]) if rows else empty)


@python.command("install", kind="building")
@click.argument("request", metavar="VERSION|ARCHIVE")
@click.pass_obj
def install_python(session: Session, request: str) -> Answer:
    """Bring a Python into the home.

    By its version, such as 3.13 or 3.13.2, or from an archive of one. Nothing lands anywhere else, and nothing that
    runs now changes: `perdure-pm config set host.python 3.13` and `perdure-pm install` move the host to it.
    """
    import os

    from perdure_pm.cli.remote import call

    def show(data: Mapping[str, Any], status: str) -> str:
        if data.get("dry_run"):
            return f"would bring in {data['request']}"
        return f"Python {data['version']} is {'there already' if status == 'noop' else 'there'}: {data['path']}"

    there = os.path.abspath(request) if os.path.exists(request) else request  # a worker does not run in this directory
    return call(session, "python-install", {"request": there}, show)


@python.command("uninstall", kind="mutating")
@click.argument("request", metavar="VERSION|PATH")
@click.pass_obj
def uninstall_python(session: Session, request: str) -> Answer:
    """Take a Python out of the home.

    One that PM runs on, or that anything was built on which is still there, stays.
    """
    from perdure_pm.cli.remote import call

    def show(data: Mapping[str, Any], _status: str) -> str:
        return f"Python {data['version']} {'would be' if data.get('dry_run') else 'was'} removed from {data['path']}"

    return call(session, "python-uninstall", {"request": request}, show)


def _name(use: Mapping[str, Any]) -> str:
    words = {"runtime": "PM", "generation": "", "package": "package"}[use["kind"]]
    return f"{words} {use['name']}{'*' if use['selected'] else ''}".strip()


def _state(found: Mapping[str, Any]) -> str:
    if not found["present"]:
        return "gone"
    if found["unfinished"]:
        return "unfinished"
    return "the home's" if found["own"] else "the machine's"
