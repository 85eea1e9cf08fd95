"""config get and config set.

Owns: the words, and paths typed relative to where the person is. Does not own: the keys (model.config) or the change
(ops.configure).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import click
from click.shell_completion import CompletionItem

from perdure_pm.cli.options import Group
from perdure_pm.cli.render import Answer, columns
from perdure_pm.cli.session import Session
from perdure_pm.model.errors import UsageFault


@click.group(cls=Group)
def config() -> None:
    """Read or change config.yaml, or a profile's."""


def _complete(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from perdure_pm.model.config import HOME_KEYS, PROFILE_KEYS

    keys = {key.name: key.meaning for key in (*HOME_KEYS, *PROFILE_KEYS)}
    return [CompletionItem(name, help=meaning) for name, meaning in keys.items() if name.startswith(incomplete)]


@config.command("get")
@click.argument("key", required=False, shell_complete=_complete)
@click.pass_obj
def config_get(session: Session, key: str | None) -> Answer:
    """Show one value, or every value with where it comes from."""
    from perdure_pm.model.config import HOME_KEYS, PROFILE_KEYS, find_key
    from perdure_pm.store.config import read_values

    wanted = None if key is None else find_key(key)[0]
    found, warnings = read_values(session.layout, session.profile)
    notices = [f"warning: {warning}" for warning in warnings]
    if wanted is not None:
        value = found.get(wanted.name, wanted.default)
        source = "file" if wanted.name in found else "default"
        return Answer(
            data={"key": wanted.name, "value": value, "source": source, "warnings": list(warnings)},
            text=_spell(value),
            notices=notices,
        )
    every = {entry.name: entry for entry in (*HOME_KEYS, *PROFILE_KEYS) if entry.kind != "schema"}
    values = {
        name: {"value": found.get(name, entry.default), "source": "file" if name in found else "default"}
        for name, entry in every.items()
    }
    rows = [
        [name, " ".join(_spell(shown["value"]).splitlines()) or "-", str(shown["source"])]
        for name, shown in values.items()
    ]
    return Answer(
        data={"values": values, "warnings": list(warnings)},
        text=columns(rows, ["key", "value", "from"]),
        notices=notices,
    )


@config.command("set", kind="mutating")
@click.argument("key", shell_complete=_complete)
@click.argument("value", required=False)
@click.option("--unset", is_flag=True, help="Remove the key.")
@click.pass_obj
def config_set(session: Session, key: str, value: str | None, unset: bool) -> Answer:
    """Change one value; a list's entries stand between commas."""
    from perdure_pm.model.config import find_key, parse_typed

    if unset == (value is not None):
        raise UsageFault("give either a value or --unset", hint="perdure-pm config set --help")
    entry, _ = find_key(key)
    if value is not None:
        if entry.kind == "path" or (entry.kind == "place" and "://" not in value):
            value = os.path.abspath(os.path.expanduser(value)) if value else value
        parse_typed(entry, value)  # refused here, before a worker starts
    from perdure_pm.cli.remote import call

    return call(session, "config-set", {"key": entry.name, "value": value}, _show_change)


def _show_change(data: Mapping[str, Any], status: str) -> str:
    if data.get("dry_run"):
        return "\n".join(data.get("diff", []))
    key, value = data.get("key"), data.get("value")
    if status == "noop":
        return f"nothing to do: {key} says that already"
    return f"{key} is unset" if value is None else f"{key} is {' '.join(_spell(value).splitlines())}"


def _spell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "\n".join(str(entry) for entry in value) if isinstance(value, (list, tuple)) else str(value)
