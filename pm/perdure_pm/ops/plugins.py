"""Plugins of a profile: added, removed, updated.

Owns: what a verb makes of the profile's list. Does not own: publication (publish), the list's entries (selection).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from perdure_pm.model.choice import names_of
from perdure_pm.model.errors import UsageFault
from perdure_pm.model.requirement import parse_requirement, parse_source, requirement_name
from perdure_pm.model.source import Source
from perdure_pm.ops.arguments import read_duration, read_flag, read_texts
from perdure_pm.ops.consent import read_consent
from perdure_pm.ops.context import Context, Outcome
from perdure_pm.ops.exclusive import exclusive
from perdure_pm.ops.intent import load_intent
from perdure_pm.ops.publish import publish
from perdure_pm.ops.sources import refresh_snapshots
from perdure_pm.ops.typed_sources import find_entry
from perdure_pm.ops.wanted import Change
from perdure_pm.store.crashes import clear_crashes


def add_plugins(context: Context, arguments: Mapping[str, Any]) -> Outcome:
    """Have the requirements in the profile's list, each at its old place where the name stands there already.

    One that was disabled is not any more: who adds a plugin wants it to run.

    Args:
        context: the world.
        arguments: ``requirements``: what to add: requirements, entries, absolute paths of directories, wheels and
            sdists, or ``git+…@REVISION``; ``editable``: whether they, all of them directories, run from where they are
            edited; ``confirm_within``: seconds of trial.

    Raises:
        ConflictRefused: they do not fit; nothing changed.
        PerdureError: see `publish`.
    """
    words = read_texts(arguments, "requirements")
    editable = read_flag(arguments, "editable")
    wanted: dict[str, str] = {}
    said: list[str] = []

    def find() -> None:
        # Only once, and not before the mutex is held: what was fetched for the name lies in the scratch directory.
        for word in words if not wanted else ():
            entry, notice = find_entry(context, word, editable=editable)
            wanted[requirement_name(entry)] = entry
            if notice:
                context.reporter.progress("plugin", notice)
                said.append(notice)

    def add(entries: tuple[str, ...]) -> tuple[str, ...]:
        find()
        there = {requirement_name(text) for text in entries}
        for text in entries:
            _keep_source(wanted, text)
        kept = tuple(wanted.get(requirement_name(text), text) for text in entries)
        return kept + tuple(text for name, text in wanted.items() if name not in there)

    confirm = read_duration(arguments, "confirm_within")
    change = Change(
        operation="plugin-add", plugins=add, switch=lambda choice: choice.without(wanted), confirm_within=confirm
    )
    outcome = publish(context, change)
    _forget_crashes(context, wanted)
    return replace(outcome, data={**outcome.data, "added": dict(wanted), "notices": said})


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
    outcome = publish(context, change)
    _forget_crashes(context, gone)
    return outcome


def _keep_source(wanted: dict[str, str], listed: str) -> None:
    """Have a name that is listed with an address stay there, where the name alone is added again.

    Raises:
        UsageFault: a version is asked for: an index's package of that name would come in the place of a person's own.
    """
    name = requirement_name(listed)
    asked = wanted.get(name)
    if asked is None or parse_source(listed) is None or parse_source(asked) is not None:
        return
    if parse_requirement(asked).specifier:
        raise UsageFault(
            f"{name} is listed as {listed!r}: {asked!r} would have an index's package of that name in its place",
            hint=f"where that is what you want: perdure-pm plugin remove {name}, then add it",
            context={"plugin": name, "listed": listed},
        )
    wanted[name] = listed


def _forget_crashes(context: Context, names: Collection[str]) -> None:
    """Have the app load these again, should they be there: a person asked for them anew, or needs them no more."""
    if not context.dry_run:
        clear_crashes(context.filesystem, context.layout, context.profile, names)


def update_plugins(context: Context, arguments: Mapping[str, Any]) -> Outcome:
    """Have the newest versions that fit of the named plugins, or of all; the host and every other plugin stay.

    Nothing of a plugin that is disabled is built or installed: where it comes from an address, its copy in the store is
    brought up to date, and where it comes from an index, it is looked up when it is enabled.

    Args:
        context: the world.
        arguments: ``names``: in any spelling, all of them where it is absent; ``confirm_within``: seconds of trial;
            ``consent``: true, or the names of packages that may be added.

    Raises:
        ConsentMissing: it brings in packages that nobody agreed to; nothing changed.
        UsageFault: one is not in the list; nothing changed.
        PerdureError: see `publish`.
    """
    names = read_texts(arguments, "names") if arguments.get("names") else ()
    change = Change(
        operation="plugin-update",
        consent=read_consent(arguments),
        renew=tuple(dict.fromkeys(requirement_name(text) for text in names)),
        confirm_within=read_duration(arguments, "confirm_within"),
    )
    outcome = publish(context, change)
    resting = () if context.dry_run else _find_resting(context, change.renew or ())
    if not resting:
        return outcome
    with exclusive(context, change.operation):
        copied = refresh_snapshots(context, resting)
    status = "ok" if copied else outcome.status
    return replace(outcome, status=status, data={**outcome.data, "copied": copied})


def _find_resting(context: Context, names: tuple[str, ...]) -> tuple[Source, ...]:
    """Return the sources with an address that are disabled, of those names, or all."""
    choice = load_intent(context).choice
    off = names_of(choice.disabled)
    found = (parse_source(entry) for entry in choice.plugins)
    return tuple(
        source for source in found if source is not None and source.name in off and (not names or source.name in names)
    )
