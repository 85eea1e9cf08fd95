"""plugin add, remove, update, enable, disable, list, info: the verbs about a profile's plugins.

Owns: the words. Does not own: the operations (ops.plugins, ops.switching), what is shown (ops.plugin_view).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import click

from perdure_pm.cli import authoring
from perdure_pm.cli.install import CONFIRM, parse_seconds, show_install
from perdure_pm.cli.options import Group
from perdure_pm.cli.render import Answer, columns, true_hint
from perdure_pm.cli.session import Session
from perdure_pm.model.errors import UsageFault


@click.group("plugin", cls=Group)
def plugin() -> None:
    """Add, remove, switch and look at the plugins of a profile."""


@plugin.command("add", kind="building")
@click.argument("requirements", metavar="REQUIREMENT...", nargs=-1, required=True)
@click.option("--editable", "-e", is_flag=True, help="Have them, each a directory, run from where they are edited.")
@CONFIRM
@click.pass_obj
def plugin_add(session: Session, requirements: tuple[str, ...], editable: bool, confirm_within: str | None) -> Answer:
    """Have plugins installed: NAME, NAME>=1,<2, ./DIRECTORY, ./FILE.whl, ./FILE.tar.gz, or git+https://…@REVISION."""
    from perdure_pm.cli.remote import call

    arguments = {
        "requirements": [_absolute(word) for word in requirements],
        "editable": editable,
        "confirm_within": parse_seconds(confirm_within),
    }
    return call(session, "plugin-add", arguments, show_install)


def _absolute(word: str) -> str:
    """Return a typed word with the path in it, if there is one, made absolute: the worker runs elsewhere."""
    from perdure_pm.model.source import looks_like_path

    name, at, place = word.rpartition(" @ ")
    if not looks_like_path(place):
        return word
    return f"{name}{at}{os.path.abspath(os.path.expanduser(place))}"


@plugin.command("remove", kind="building")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.pass_obj
def plugin_remove(session: Session, names: tuple[str, ...]) -> Answer:
    """Have plugins taken out, in any spelling of their names."""
    from perdure_pm.cli.remote import call

    return call(session, "plugin-remove", {"names": list(names)}, show_install)


@plugin.command("update", kind="building")
@click.argument("names", metavar="[NAME...]", nargs=-1)
@CONFIRM
@click.pass_obj
def plugin_update(session: Session, names: tuple[str, ...], confirm_within: str | None) -> Answer:
    """Take the newest versions of plugins that fit.

    Of those that are named, or of all; the host and every other plugin stay as they are.
    """
    from perdure_pm.cli.remote import call

    arguments = {"names": list(names), "confirm_within": parse_seconds(confirm_within), "consent": session.yes}
    return call(session, "plugin-update", arguments, show_install)


@plugin.command("enable", kind="building")
@click.argument("names", metavar="NAME...", nargs=-1)
@click.option("--all", "every", is_flag=True, help="Every plugin of the profile.")
@CONFIRM
@click.pass_obj
def plugin_enable(session: Session, names: tuple[str, ...], every: bool, confirm_within: str | None) -> Answer:
    """Have plugins of the list run again.

    Those that are disabled, and those that the app leaves out since it crashed with them.
    """
    return _switch(session, "plugin-enable", names, every, confirm_within)


@plugin.command("disable", kind="building")
@click.argument("names", metavar="NAME...", nargs=-1)
@click.option("--all", "every", is_flag=True, help="Every plugin of the profile: the host alone is left.")
@CONFIRM
@click.pass_obj
def plugin_disable(session: Session, names: tuple[str, ...], every: bool, confirm_within: str | None) -> Answer:
    """Have plugins left out.

    They stay in the list; `plugin enable` brings them back.
    """
    return _switch(session, "plugin-disable", names, every, confirm_within)


def _switch(
    session: Session, operation: str, names: tuple[str, ...], every: bool, confirm_within: str | None
) -> Answer:
    from perdure_pm.cli.remote import call

    if not names and not every:
        raise UsageFault("name the plugins, or say --all", hint="perdure-pm plugin list")
    arguments = {"names": list(names), "all": every, "confirm_within": parse_seconds(confirm_within)}
    return call(session, operation, arguments, _show_switched)


def _show_switched(data: Mapping[str, Any], status: str) -> str:
    back = data.get("brought_back")
    said = f"the app loads {', '.join(back)} again" if back else ""
    plan = data.get("plan") or {}
    if not plan.get("changes", True):
        if data.get("configuration"):
            said = said or f"the configuration says so now; generation {data.get('generation')} stays as it is"
        return said or show_install(data, "noop")
    shown = show_install(data, status)
    return f"{said}\n{shown}" if said else shown


@plugin.command("list")
@click.pass_obj
def plugin_list(session: Session) -> Answer:
    """Show the profile's plugins, and the state of each."""
    from perdure_pm.ops.plugin_view import read_plugins

    data = read_plugins(session.layout, session.profile)
    rows = [[state["entry"], state["version"] or "", _say_state(state, session)] for state in data["states"]]
    differ = true_hint("the configuration and the generation differ: perdure-pm install", session) or ""
    text = columns(rows, ["plugin", "version", "state"]) if rows else "there are no plugins"
    return Answer(data=data, text=text, notices=[] if data["in_line"] else [differ])


@plugin.command("info")
@click.argument("name", metavar="NAME")
@click.pass_obj
def plugin_info(session: Session, name: str) -> Answer:
    """Show what is known of one plugin."""
    from perdure_pm.ops.plugin_view import read_plugin
    from perdure_pm.store.recorded import say_use

    data = read_plugin(session.layout, session.profile, name)
    rows = [["plugin", data["name"]], ["listed as", data["entry"]], ["state", _say_state(data, session)]]
    if data["version"]:
        rows += [["version", data["version"]], ["from", data["source"]], ["since", str(data["since"])]]
    rows += [["summary", data["summary"]]] if data["summary"] else []
    rows += [["entry", f"{entry['name']} = {entry['entry']}"] for entry in data["entries"]]
    rows += [["requires", text] for text in data["requires"]]
    if data["files"] is not None:
        rows.append(["files", f"{data['files']}, {data['bytes']} bytes"])
    shown = {"requires-host", "requires-python", "requires-plugins", "platforms", "runtime", "capabilities", "api"}
    for field, value in (data["manifest"] or {}).items():
        if field in shown:
            rows.append([field, ", ".join(map(str, value)) if isinstance(value, list) else str(value)])
    rows += [["old name", say_use(use)] for use in data["moved_names"]]
    return Answer(data=data, text=columns(rows))


def _say_state(state: Mapping[str, Any], session: Session) -> str:
    """Return a state with its reason and the command that changes it."""
    said = str(state["state"]).replace("-", " ")
    said += f": {state['why']}" if state["why"] else ""
    said += ", from where it is edited" if state["editable"] and state["state"] == "runs" else ""
    said += f", uses names that moved ({len(state['moved_names'])})" if state["moved_names"] else ""
    return said + (f" ({true_hint(state['hint'], session)})" if state["hint"] else "")


@plugin.command(
    "bisect", kind="building", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False}
)
@click.option("--timeout", metavar="TIME", help="After which one run of COMMAND counts as failed; 120s by default.")
@click.argument("command", metavar="[-- COMMAND...]", nargs=-1, type=click.UNPROCESSED)
@click.pass_obj
def plugin_bisect(session: Session, timeout: str | None, command: tuple[str, ...]) -> Answer:
    """Find which plugins keep the host from working.

    The host is built and started with fewer and fewer of them; what is selected stays. COMMAND ends with 0 where all is
    right, and finds the host's commands first on PATH; without it, the host's own check decides.
    """
    from perdure_pm.cli.remote import call

    arguments = {"command": list(command), "directory": os.getcwd(), "timeout": parse_seconds(timeout)}
    return call(session, "plugin-bisect", arguments, _show_culprits)


def _show_culprits(data: Mapping[str, Any], status: str) -> str:
    if data.get("dry_run"):
        return f"would start the host with fewer and fewer of: {', '.join(data['plugins']) or 'no plugins'}"
    if status == "noop":
        return (
            f"everything works with all {len(data['plugins'])} plugins\n"
            "where it does not for you: perdure-pm plugin bisect -- COMMAND, which fails then"
        )
    lines = [
        f"{group[0]} alone keeps it from working"
        if len(group) == 1
        else f"{', '.join(group[:-1])} and {group[-1]} keep it from working together, and neither does alone"
        for group in data["culprits"]
    ]
    names = " ".join(dict.fromkeys(group[-1] for group in data["culprits"]))
    return "\n".join([*lines, f"found in {data['tries']} tries; leave out: perdure-pm plugin disable {names}"])


plugin.add_command(authoring.plugin_new, "new")
plugin.add_command(authoring.plugin_check, "check")
