"""rollback, confirm, history, diff, pin, label, collect: the verbs about generations.

Owns: the words. Does not own: the operations.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from perdure_pm.cli.options import Verb
from perdure_pm.cli.render import Answer, columns
from perdure_pm.cli.session import Session


@click.command(cls=Verb, kind="mutating")
@click.argument("to", metavar="[N|ID|LABEL]", required=False)
@click.pass_obj
def rollback(session: Session, to: str | None) -> Answer:
    """Select an earlier generation again.

    The one that was selected before, or the one that is named.
    """
    from perdure_pm.cli.remote import call

    return call(session, "rollback", {"to": to}, _show_selected)


@click.command(cls=Verb, kind="mutating")
@click.argument("generation", metavar="[N|ID|LABEL]", required=False)
@click.pass_obj
def confirm(session: Session, generation: str | None) -> Answer:
    """End the trial of the selected generation: it stays.

    Nothing happens where another generation than the named one is on trial.
    """
    from perdure_pm.cli.remote import call

    def show(data: Mapping[str, Any], status: str) -> str:
        if data.get("trial"):
            return f"generation {data['trial']} is on trial, and not {data['named']}: nothing changed"
        if status == "noop":
            return "nothing is on trial"
        return f"generation {data['generation']} {'would stay' if session.dry_run else 'stays'}"

    return call(session, "confirm", {"generation": generation}, show)


@click.command(cls=Verb)
@click.pass_obj
def history(session: Session) -> Answer:
    """Show what this profile ran, and which generations there are."""
    from perdure_pm.ops.chronicle import read_history

    data = read_history(session.layout, session.profile)
    rows = [
        [
            ("* " if found["id"] == data["selected"] else "  ") + found["id"],
            found["created"],
            f"{found['host']['name']} {found['host']['version']}",
            ", ".join(found["plugins"]) or "none",
            ", ".join([*found["labels"], *(["pinned"] if found["pinned"] else [])]),
        ]
        for found in data["generations"]
    ]
    changes = [
        [entry["at"], entry["operation"], entry["from"] or "nothing", entry["generation"]]
        for entry in data["selections"]
    ]
    if not rows:
        return Answer(data=data, text="nothing was ever installed in this home")
    text = columns(rows, ["generation", "made", "host", "plugins", "held"])
    if changes:
        text += "\n\n" + columns(changes, ["at", "operation", "from", "to"])
    return Answer(data=data, text=text, notices=[f"{item['id']}: {item['reason']}" for item in data["damaged"]])


@click.command(cls=Verb)
@click.argument("first", metavar="A")
@click.argument("second", metavar="[B]", required=False)
@click.pass_obj
def diff(session: Session, first: str, second: str | None) -> Answer:
    """Show how generations differ.

    From A to B, or to the selected one.
    """
    from perdure_pm.ops.chronicle import compare_generations

    data = compare_generations(session.layout, first, second, session.profile)
    rows = [["", name, data[name]["from"], data[name]["to"]] for name in ("host", "python")]
    rows = [row for row in rows if row[2] != row[3]]
    rows += [["-", f"plugin {name}", "", ""] for name in data["plugins"]["removed"]]
    rows += [["+", f"plugin {name}", "", ""] for name in data["plugins"]["added"]]
    rows += show_packages(data["packages"])
    same = f"{data['from']} and {data['to']} hold the same"
    return Answer(data=data, text=f"{data['from']} → {data['to']}\n\n{columns(rows)}" if rows else same)


@click.command(cls=Verb, kind="mutating")
@click.argument("generation", metavar="[N|ID|LABEL]", required=False)
@click.option("--remove", is_flag=True, help="Let go of it.")
@click.pass_obj
def pin(session: Session, generation: str | None, remove: bool) -> Answer:
    """Keep a generation whatever collect would do.

    By default the selected one.
    """
    from perdure_pm.cli.remote import call

    def show(data: Mapping[str, Any], status: str) -> str:
        state = "is not pinned" if remove else "is pinned"
        return f"generation {data['generation']} {state}{' already' if status == 'noop' and not remove else ''}"

    return call(session, "pin", {"generation": generation, "remove": remove}, show)


@click.command(cls=Verb, kind="mutating")
@click.argument("name")
@click.argument("generation", metavar="[N|ID|LABEL]", required=False)
@click.option("--remove", is_flag=True, help="Drop the name.")
@click.pass_obj
def label(session: Session, name: str, generation: str | None, remove: bool) -> Answer:
    """Name a generation, which also keeps it.

    By default the selected one.
    """
    from perdure_pm.cli.remote import call

    def show(data: Mapping[str, Any], _status: str) -> str:
        return f"{data['label']} is no label any more" if remove else f"{data['label']} is {data['generation']}"

    return call(session, "label", {"name": name, "generation": generation, "remove": remove}, show)


@click.command(cls=Verb, kind="mutating")
@click.option("--keep", type=click.IntRange(0, 10_000), metavar="N", help="How many of the newest stay; 5 by default.")
@click.option("--cache", is_flag=True, help="Prune the cache to what repairing and going back needs, too.")
@click.pass_obj
def collect(session: Session, keep: int | None, cache: bool) -> Answer:
    """Remove the generations that nothing needs any more.

    Old receipts that tell of nothing which is still there go with them.
    """
    from perdure_pm.cli.remote import call

    return call(session, "collect", {"keep": keep, "cache": cache}, _show_collected)


def show_packages(packages: list[dict[str, str | None]]) -> list[list[str]]:
    """Return rows of package changes: sign, name, version before and after."""
    signs = {(False, True): "+", (True, False): "-"}
    return [
        [
            signs.get((found["from"] is not None, found["to"] is not None), " "),
            str(found["name"]),
            found["from"] or "",
            found["to"] or "",
        ]
        for found in packages
    ]


def _show_size(size: int) -> str:
    return f"{size / 1_000_000:.1f} MB"


def _show_selected(data: Mapping[str, Any], status: str) -> str:
    if status == "noop":
        return f"generation {data['generation']} is selected already"
    if data.get("dry_run"):
        return f"would select generation {data['generation']}"
    return f"generation {data['generation']} is selected"


def _show_collected(data: Mapping[str, Any], status: str) -> str:
    verb = "would remove" if data.get("dry_run") else "removed"
    gone = [*data["removed"], *data["half_built"], *data.get("releases", []), *data.get("runtimes", [])]
    if data["receipts"]:
        gone.append("1 receipt" if data["receipts"] == 1 else f"{data['receipts']} receipts")
    rows = [[name, ", ".join(reasons)] for name, reasons in data["kept"].items()]
    first = f"{verb} {', '.join(gone)}" if gone else "nothing to remove"
    cached = data.get("cache")
    if cached:
        packages = ", ".join(cached["removed"]) or "nothing that a package needs"
        first += f"\n{verb} from the cache: {packages}"
        if "freed" in cached:
            first += f"; {_show_size(cached['freed'])} freed, {_show_size(cached['left'])} left"
    return first + (f"\n\n{columns(rows, ['kept', 'why'])}" if rows else "") if status != "refused" else first
