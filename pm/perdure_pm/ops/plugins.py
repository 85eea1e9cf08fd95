"""Plugins of a profile: added, removed, listed.

Owns: what a verb makes of the profile's list. Does not own: publication (publish), the list's entries (selection).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perdure_pm.model.errors import UsageFault
from perdure_pm.model.requirement import requirement_name
from perdure_pm.ops.arguments import read_duration, read_texts
from perdure_pm.ops.context import Context, Outcome
from perdure_pm.ops.publish import publish
from perdure_pm.ops.wanted import Change


def add_plugins(context: Context, arguments: Mapping[str, Any]) -> Outcome:
    """Have the requirements in the profile's list, each at its old place where the name stands there already.

    One that was disabled is not any more: who adds a plugin wants it to run.

    Args:
        context: the world.
        arguments: ``requirements``: the entries to add; ``confirm_within``: seconds of trial.

    Raises:
        ConflictRefused: they do not fit; nothing changed.
        PerdureError: see `publish`.
    """
    wanted = {requirement_name(text): text for text in read_texts(arguments, "requirements")}

    def add(entries: tuple[str, ...]) -> tuple[str, ...]:
        there = {requirement_name(text) for text in entries}
        kept = tuple(wanted.get(requirement_name(text), text) for text in entries)
        return kept + tuple(text for name, text in wanted.items() if name not in there)

    confirm = read_duration(arguments, "confirm_within")
    change = Change(
        operation="plugin-add", plugins=add, switch=lambda choice: choice.without(wanted), confirm_within=confirm
    )
    return publish(context, change)


def remove_plugins(context: Context, arguments: Mapping[str, Any]) -> Outcome:
    """Have the names out of the profile's list; nothing of them is imported.

    Args:
        context: the world.
        arguments: ``names``: the plugins to remove, in any spelling of their names.

    Raises:
        UsageFault: one is not in the list; nothing changed.
        PerdureError: see `publish`.
    """
    gone = [requirement_name(text) for text in read_texts(arguments, "names")]

    def remove(entries: tuple[str, ...]) -> tuple[str, ...]:
        there = {requirement_name(text) for text in entries}
        missing = [name for name in gone if name not in there]
        if missing:
            raise UsageFault(
                f"{missing[0]} is not among the plugins of the profile {context.profile}",
                hint="perdure-pm plugin list",
                context={"plugins": sorted(there)},
            )
        return tuple(text for text in entries if requirement_name(text) not in gone)

    change = Change(operation="plugin-remove", plugins=remove, switch=lambda choice: choice.without(gone))
    return publish(context, change)
