"""install, plan, upgrade: the host and the profile's plugins, as they are wanted.

Owns: the words. Does not own: the operations (ops.install).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import click

from perdure_pm.cli.options import Verb
from perdure_pm.cli.render import Answer, columns
from perdure_pm.cli.session import Session
from perdure_pm.model.errors import EXIT_FOUND_WORK, UsageFault

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class Checkout(click.Path):
    """A directory; an empty word, which a shell makes of a variable that is not set, is none, and not this one."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not os.fspath(value):
            self.fail("it is empty; give it a directory, or leave it out", param, ctx)
        return super().convert(value, param, ctx)


CHECKOUT = click.option(
    "--checkout",
    metavar="DIR",
    type=Checkout(exists=True, file_okay=False, resolve_path=True),
    help="The host's source tree; without it, the one that config.yaml names.",
)
CONFIRM = click.option(
    "--confirm-within",
    metavar="TIME",
    help="Put the new generation on trial: it goes back unless it is confirmed within 30s, 10m, 2h or 1d.",
)


KEEP = click.option("--keep-plugins", is_flag=True, help="Refuse where a plugin that runs now would sit out.")


@click.command(cls=Verb, kind="building")
@CHECKOUT
@click.option("--extra", "extras", multiple=True, metavar="NAME", help="An extra of the host; those there are stay.")
@CONFIRM
@KEEP
@click.pass_obj
def install(
    session: Session, checkout: str | None, extras: tuple[str, ...], confirm_within: str | None, keep_plugins: bool
) -> Answer:
    """Have the host and its plugins installed, and up to date."""
    from perdure_pm.cli.remote import call

    arguments = {
        "checkout": checkout,
        "extras": list(extras),
        "confirm_within": parse_seconds(confirm_within),
        "keep_plugins": keep_plugins,
    }
    return call(session, "install", arguments, show_install)


@click.command(cls=Verb, kind="building")
@CHECKOUT
@CONFIRM
@KEEP
@click.pass_obj
def upgrade(session: Session, checkout: str | None, confirm_within: str | None, keep_plugins: bool) -> Answer:
    """Take the newest host and plugins that fit.

    The host is taken from its checkout as it is now. Packages that were not there before are asked about.
    """
    from perdure_pm.cli.remote import call

    arguments = {
        "checkout": checkout,
        "confirm_within": parse_seconds(confirm_within),
        "consent": session.yes,
        "keep_plugins": keep_plugins,
    }
    return call(session, "upgrade", arguments, show_install)


@click.command(cls=Verb, kind="building", answers_managed=True)
@CHECKOUT
@click.option("--check", is_flag=True, help="Exit 3 when install would change something.")
@click.option("--upgrade", "newest", is_flag=True, help="Plan an upgrade instead of an install.")
@KEEP
@click.pass_obj
def plan(session: Session, checkout: str | None, check: bool, newest: bool, keep_plugins: bool) -> Answer:
    """Show what install would change.

    Nothing is built and nothing changes.
    """
    from perdure_pm.cli.remote import call

    session.flags["dry-run"] = True
    if session.stamp is not None:
        from perdure_pm.ops.managed import plan_managed
        from perdure_pm.store.managed import WAYS

        text = f"nothing to do: {session.stamp.place} is what Nix installed; another is selected by {WAYS['upgrade']}"
        return Answer(status="noop", data=plan_managed(session.stamp), text=text)
    arguments = {"checkout": checkout, "keep_plugins": keep_plugins}
    answer = call(session, "upgrade" if newest else "install", arguments, show_install)
    changes = bool(answer.data.get("plan", {}).get("changes"))
    return replace(answer, exit_code=EXIT_FOUND_WORK) if check and changes else answer


def parse_seconds(text: str | None) -> int | None:
    """Return a time that a person typed, in seconds.

    Raises:
        UsageFault: it is not a number with a unit.
    """
    if text is None:
        return None
    match = re.fullmatch(r"([1-9][0-9]{0,6})([smhd])", text)
    if match is None:
        raise UsageFault(f"{text!r} is no time", hint="write it as 30s, 10m, 2h or 1d", context={"value": text})
    return int(match[1]) * UNITS[match[2]]


def show_install(data: Mapping[str, Any], status: str) -> str:
    """Return the words of a result."""
    from perdure_pm.cli.generations import show_packages
    from perdure_pm.cli.looking import say_trial
    from perdure_pm.cli.screening import show_screening

    plan = data.get("plan") or {}
    host = plan.get("host") or {}
    what = f"{host.get('name', 'the host')} {host.get('version', '')}".strip()
    if status == "noop":
        return f"nothing to do: generation {data.get('generation')} is what is wanted"
    changes = columns(show_packages(plan.get("packages", [])))
    back = "\n".join(f"{name} runs again" for name in plan.get("returns", []))
    if data.get("dry_run"):
        steps = "\n".join(f"  {number}. {step}" for number, step in enumerate(plan.get("steps", []), 1))
        out = "\n".join(f"{one['name']} sits out: {one['reason']}" for one in plan.get("sit_outs", []))
        told = [f"would install {what}, in these steps:\n{steps}", changes, out, back]
        told.append(show_screening(plan.get("screening")))
        return "\n\n".join(part for part in told if part)
    again = " again" if data.get("reused") else ""
    said = f"{what} is installed in generation {data.get('generation')}{again}"
    if not plan.get("changes", True):
        said = f"generation {data.get('generation')} stays as it is"
    if data.get("trial"):
        said += f"\non trial {say_trial(data['trial'])}"
    told = [said, changes if plan.get("from") else "", back, _show_registered(data)]
    told.append(show_screening(plan.get("screening")))
    return "\n\n".join(part for part in told if part)


def _show_registered(data: Mapping[str, Any]) -> str:
    """Return a line for each package of config.yaml that came or went."""
    came = [item for item in data.get("registered", ()) if item["status"] == "installed"]
    lines = [f"{item['name']} {item['version']} is there as {', '.join(item['commands'])}" for item in came]
    return "\n".join([*lines, *(f"{name} is gone" for name in data.get("withdrawn", ()))])
