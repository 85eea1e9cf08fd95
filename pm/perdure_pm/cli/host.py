"""host init, host show: what a home hosts.

Owns: the words. Does not own: the operation (ops.host_init).
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from typing import Any

import click

from perdure_pm.cli.options import Group
from perdure_pm.cli.render import Answer, columns
from perdure_pm.cli.session import Session
from perdure_pm.model.errors import UsageFault


@click.group("host", cls=Group)
def host() -> None:
    """Say what this home hosts, or look at it."""


@host.command("init", kind="building")
@click.argument("source", metavar="REQUIREMENT|WHEEL|CHECKOUT")
@click.option(
    "--command", "commands", multiple=True, metavar="NAME", help="A command that gets a launcher; by default all."
)
@click.option("--with", "beside", multiple=True, metavar="REQUIREMENT", help="Installed with the host, and no plugin.")
@click.option(
    "--plugin-group", "groups", multiple=True, metavar="GROUP", help="An entry-point group of plugins; by default all."
)
@click.option("--health", metavar="ARGUMENTS", help="Arguments of the first command that show whether the host works.")
@click.option("--serve", metavar="ARGUMENTS", help="Arguments with which it must keep running, such as a server's.")
@click.option("--env", "variables", multiple=True, metavar="NAME=VALUE", help="A variable that the launchers set.")
@click.pass_obj
def host_init(
    session: Session,
    source: str,
    commands: tuple[str, ...],
    beside: tuple[str, ...],
    groups: tuple[str, ...],
    health: str | None,
    serve: str | None,
    variables: tuple[str, ...],
) -> Answer:
    """Write down what this home hosts; `install` then installs it."""
    from perdure_pm.cli.remote import call

    environment: dict[str, str] = {}
    for variable in variables:
        name, equals, value = variable.partition("=")
        if not equals:
            raise UsageFault(f"{variable!r} is not NAME=VALUE", hint="perdure-pm host init SOURCE --env NAME=VALUE")
        environment[name] = value
    if "://" not in source and (os.sep in source or source.endswith(".whl")):
        source = os.path.abspath(os.path.expanduser(source))
    arguments = {
        "source": source,
        "with": list(beside),
        "commands": list(commands),
        "plugin-groups": list(groups),
        "health": health,
        "serve": serve,
        "environment": environment,
        "replace": session.yes,
    }

    def show(data: Mapping[str, Any], _status: str) -> str:
        said = "would host" if data.get("dry_run") else "hosts"
        home = shlex.quote(data["home"])
        return f"{data['home']} {said} {data['host']['name']}; next: perdure-pm --home {home} install"

    return call(session, "host-init", arguments, show)


@host.command("show")
@click.pass_obj
def host_show(session: Session) -> Answer:
    """Show what this home hosts, and what of it is installed."""
    from perdure_pm.store.config import load_home_config
    from perdure_pm.store.generations import current_generation

    config = load_home_config(session.layout)
    current = current_generation(session.layout, session.profile)
    record = {} if current is None else current.record["host"]
    data = {
        "name": config.host_name,
        "source": config.host_requirement or config.host_wheel or config.host_checkout,
        "with": list(config.host_with),
        "commands": list(config.host_commands or record.get("commands", ())),
        "plugin-groups": list(config.host_plugin_groups),
        "health": config.host_health,
        "serve": config.host_serve,
        "protect": config.host_protect,
        "environment": dict(config.host_environment),
        "version": record.get("version"),
        "generation": None if current is None else current.identity,
    }
    rows = [
        [name, ", ".join(value) if isinstance(value, list) else str(value or "-")]
        for name, value in data.items()
        if name != "environment"
    ]
    rows += [[f"${name}", value] for name, value in config.host_environment.items()]
    return Answer(data=data, text=columns(rows))
