"""wheelhouse build and stage: what another machine needs, in one directory.

Owns: the words. Does not own: the operations (ops.wheelhouse, ops.stage).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import click

from perdure_pm.cli.options import Group, Verb
from perdure_pm.cli.render import Answer
from perdure_pm.cli.session import Session
from perdure_pm.model.errors import UsageFault

OUT = click.option("--out", metavar="DIR", required=True, help="Where it goes: a path at which nothing is yet.")


@click.group(cls=Group)
def wheelhouse() -> None:
    """Make a directory of wheels for a machine without a network."""


@wheelhouse.command("build", kind="building")
@OUT
@click.option("--platform", metavar="TARGET", help="The kind of machine, such as linux-aarch64; by default this one's.")
@click.pass_obj
def build(session: Session, out: str, platform: str | None) -> Answer:
    """Have every wheel that PM and the selected generations need in one directory.

    Each file is checked against the locks. `--python 3.12` makes it for another Python. Where something has no wheel
    for the target, everything that has none is named and nothing is written.
    """
    from perdure_pm.cli.remote import call

    return call(session, "wheelhouse-build", {"out": destination(out), "platform": platform}, _show_wheelhouse)


@click.command(cls=Verb, kind="building")
@OUT
@click.option("--with-python", is_flag=True, help="Carry an interpreter too, for a machine that has none.")
@click.pass_obj
def stage(session: Session, out: str, with_python: bool) -> Answer:
    """Make a sealed copy of this installation for another place.

    It holds PM, uv, the host, the plugins of every profile and what configuration says of them, and is activated on a
    machine of the same kind without a network: DIR/activate --home HOME.
    """
    from perdure_pm.cli.remote import call

    return call(session, "stage", {"out": destination(out), "with_python": with_python}, _show_stage)


def destination(out: str) -> str:
    """Return the path that was typed, absolute.

    Raises:
        UsageFault: it is empty, which a shell makes of a variable that is not set.
    """
    if not out.strip():
        raise UsageFault("--out is empty", hint="give it a directory that does not exist yet: --out DIR")
    return os.path.abspath(os.path.expanduser(out))


def megabytes(size: int) -> str:
    """Return a size in words."""
    return f"{size / 1e6:.0f} MB"


def _show_wheelhouse(data: Mapping[str, Any], _status: str) -> str:
    what = f"{len(data['files'])} files for {data['target']} and Python {data['python']}"
    if data.get("dry_run"):
        return "\n".join([f"would put {what} into {data['out']}:", *(f"  {name}" for name in data["files"])])
    return f"{data['out']} holds {what}, {megabytes(data['size'])}; use it there with --wheelhouse"


def _show_stage(data: Mapping[str, Any], _status: str) -> str:
    what = f"{', '.join(data['generations'])} for {data['target']} and Python {data['python']}"
    if data.get("dry_run"):
        return f"would stage {what} at {data['out']}, with {len(data['files'])} wheels"
    carried = f"{data['out']} holds {what}, {megabytes(data['size'])}, sealed as {data['seal'][:12]}"
    return f'{carried}\nto activate it, there or wherever it is copied to: "{data["out"]}/activate" --home HOME'
