"""install: the host and the profile's plugins, as they are wanted.

Owns: the words. Does not own: the operation (ops.install).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from perdure_pm.cli.options import Verb
from perdure_pm.cli.render import Answer
from perdure_pm.cli.session import Session


@click.command(cls=Verb, kind="building")
@click.option(
    "--checkout",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, resolve_path=True),
    help="The host's source tree; without it, the one that config.yaml names.",
)
@click.pass_obj
def install(session: Session, checkout: str | None) -> Answer:
    """Have the host and its plugins installed, and up to date."""
    from perdure_pm.cli.remote import call

    return call(session, "install", {"checkout": checkout}, show_install)


def show_install(data: Mapping[str, Any], status: str) -> str:
    """Return the words of a result."""
    plan = data.get("plan") or {}
    host = plan.get("host") or {}
    what = f"{host.get('name', 'the host')} {host.get('version', '')}".strip()
    if data.get("dry_run"):
        steps = "\n".join(f"  {number}. {step}" for number, step in enumerate(plan.get("steps", []), 1))
        return f"would install {what}, in these steps:\n{steps}"
    if status == "noop":
        return f"nothing to do: {what} is installed in generation {data.get('generation')}"
    return f"{what} is installed in generation {data.get('generation')}"
