"""status and receipts: what is, and what was.

Owns: their words. Does not own: reading (ops.status, store.receipts).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import click

from perdure_pm.cli.options import Verb
from perdure_pm.cli.render import Answer, columns, true_hint
from perdure_pm.cli.session import Session
from perdure_pm.model.errors import UsageFault


@click.command(cls=Verb, answers_managed=True)
@click.pass_obj
def status(session: Session) -> Answer:
    """Show what is installed and what happened last."""
    from perdure_pm.ops.status import read_status

    data = read_status(session.layout, session.profile, session.environ, no_lazy=session.values["no-lazy"] is True)
    if session.stamp is not None:
        from perdure_pm.ops.managed import read_managed_status

        data = read_managed_status(session.stamp, data)
    return Answer(data=data, text=true_hint(show_status(data), session) or "")


@click.command(cls=Verb)
@click.argument("identity", metavar="[ID]", required=False)
@click.option("--limit", type=click.IntRange(1, 10_000), default=20, show_default=True, help="How many, newest first.")
@click.pass_obj
def receipts(session: Session, identity: str | None, limit: int) -> Answer:
    """List the outcomes of operations, or show one in full."""
    from perdure_pm.ops.status import show_receipt
    from perdure_pm.store.receipts import load_all

    found, damaged = load_all(session.layout, None if identity else limit)
    notices = [f"{unreadable.path} cannot be read: {unreadable.reason}" for unreadable in damaged]
    if identity is None:
        shown = [show_receipt(receipt) for receipt in found]
        rows = [
            [row["started"][:19] + "Z", row["operation"], row["status"], row["error"] or "", row["id"][:8]]
            for row in shown
        ]
        text = columns(rows, ["started", "operation", "status", "error", "id"]) if rows else "there are no receipts"
        return Answer(data={"receipts": shown, "damaged": notices}, text=text, notices=notices)
    matching = [receipt for receipt in found if receipt.id.startswith(identity)]
    if len(matching) != 1:
        count = f"{len(matching)} receipts begin" if matching else "no receipt begins"
        raise UsageFault(f"{count} with {identity!r}", hint="perdure-pm receipts", context={"id": identity})
    whole = matching[0].to_json()
    return Answer(data={"receipt": whole}, text=json.dumps(whole, indent=2, ensure_ascii=False))


SHOWN_USES = 5
"""How many uses of old names `status` lists; `plugin info` lists each plugin's."""


def say_trial(trial: Mapping[str, Any]) -> str:
    """Return the words for a trial that runs."""
    return f"until {trial['until']}, then {trial['previous']} again; to keep it: perdure-pm confirm"


def _say_plugin(plugin: Mapping[str, Any]) -> str:
    # A program of its own has no version here.
    said = f"{plugin['name']} {plugin['version']}" if plugin["version"] else str(plugin["name"])
    return f"{said} (editable)" if plugin["editable"] else said


def show_status(data: Mapping[str, Any]) -> str:
    """Return the words of `status`."""
    from perdure_pm.store.recorded import say_use

    rows = [["home", data["home"]], ["profile", data["profile"]]]
    generation = data["generation"]
    if generation is not None:
        interpreter = generation["interpreter"]
        plugins = ", ".join(_say_plugin(plugin) for plugin in generation["plugins"])
        gone = "" if interpreter["present"] else "   (gone)"
        rows += [
            ["generation", f"{generation['id']}, made {generation['created']}"],
            ["host", f"{generation['host']['name']} {generation['host']['version']}"],
            ["plugins", plugins or "none"],
            ["python", f"{interpreter['version']}   {interpreter['path']}{gone}"],
        ]
    managed = data["managed"]
    if managed is not None:
        rows.append(["installed by", f"Nix, in {managed['path']}"])
        if managed["host"] is not None:
            plugins = ", ".join(f"{plugin['name']} {plugin['version']}" for plugin in managed["plugins"])
            rows.append(["host", f"{managed['host']['name']} {managed['host']['version']}"])
            rows.append(["plugins", plugins or "none"])
        rows.append(["python", managed["python"]])
    if data["trial"]:
        rows.append(["on trial", say_trial(data["trial"])])
    rows += [["sits out", f"{item['name']}: {item['reason']}"] for item in data["sit_outs"]]
    rows += [["skipped", f"{item['name']}, since a crash: {item['hint']}"] for item in data["skipped"]]
    if data["others"]:
        rows.append(["also kept", ", ".join(other["id"] for other in data["others"])])
    pm = data["pm"]
    rows.append(["pm", f"{pm['version']}, runtime {pm['runtime'] or 'none'}, uv {pm['uv'] or 'none'}"])
    rows.append(["lazy installs", "allowed" if data["policy"]["lazy"] else "off"])
    protect = data["protect"]
    if protect["policy"] != "off":
        works = f"does not work here: {protect['why_not']}" if protect["why_not"] else "works here"
        rows.append(["protect", f"{protect['policy']}; {works}"])
    if data["running"]:
        rows.append(["running", data["running"]])
    last = data["last"]
    if last is not None:
        error = f" ({last['error']})" if last["error"] else ""
        rows.append(["last", f"{last['operation']} {last['status']}{error}, {last['started'][:19]}Z"])
    rows += [["to do", obligation] for obligation in data["obligations"]]
    moved = [] if generation is None else generation["moved_names"]
    rows += [["old names", f"{use['distribution']}: {say_use(use)}"] for use in moved[:SHOWN_USES]]
    if len(moved) > SHOWN_USES:
        rows.append(["old names", f"and {len(moved) - SHOWN_USES} more: perdure-pm plugin info NAME"])
    rows += [["wrong", finding] for finding in data["findings"]]
    return f"{data['summary']}\n\n{columns(rows)}"
