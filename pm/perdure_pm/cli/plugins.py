"""plugin add, remove, list: the verbs about a profile's plugins.

Owns: the words. Does not own: the operations (ops.plugins).
"""

from __future__ import annotations

import click

from perdure_pm.cli.install import CONFIRM, parse_seconds, show_install
from perdure_pm.cli.options import Group
from perdure_pm.cli.render import Answer, columns
from perdure_pm.cli.session import Session


@click.group("plugin", cls=Group)
def plugin() -> None:
    """Add, remove and list the plugins of a profile."""


@plugin.command("add", kind="building")
@click.argument("requirements", metavar="REQUIREMENT...", nargs=-1, required=True)
@CONFIRM
@click.pass_obj
def plugin_add(session: Session, requirements: tuple[str, ...], confirm_within: str | None) -> Answer:
    """Have plugins installed: NAME, or NAME>=1,<2."""
    from perdure_pm.cli.remote import call

    arguments = {"requirements": list(requirements), "confirm_within": parse_seconds(confirm_within)}
    return call(session, "plugin-add", arguments, show_install)


@plugin.command("remove", kind="building")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.pass_obj
def plugin_remove(session: Session, names: tuple[str, ...]) -> Answer:
    """Have plugins taken out, in any spelling of their names."""
    from perdure_pm.cli.remote import call

    return call(session, "plugin-remove", {"names": list(names)}, show_install)


@plugin.command("list")
@click.pass_obj
def plugin_list(session: Session) -> Answer:
    """Show the profile's plugins, and whether the selected generation runs them."""
    from perdure_pm.model.requirement import requirement_name
    from perdure_pm.ops.chronicle import read_plugins

    data = read_plugins(session.layout, session.profile)
    shown = data["wanted"] or data["runs"]
    rows = [
        [
            entry,
            data["versions"].get(requirement_name(entry), ""),
            "runs" if entry in data["runs"] else "not installed yet",
        ]
        for entry in shown
    ]
    notices = [] if data["in_line"] else ["the configuration and the generation differ: perdure-pm install"]
    text = columns(rows, ["plugin", "version", "state"]) if rows else "there are no plugins"
    return Answer(data=data, text=text, notices=notices)
