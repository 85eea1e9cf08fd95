"""Plugins of a profile enabled and disabled: they stay in its list, with their versions, order and comments.

Owns: what both verbs make of the list of what is disabled, and bringing back a plugin that the app left out since it
crashed. Does not own: publication (publish), the rule that `disabled` beats (model.choice).

Keeps: plugins-switch-idempotent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from perdure_pm.model.choice import Choice, names_of
from perdure_pm.model.errors import UsageFault
from perdure_pm.model.requirement import requirement_name
from perdure_pm.ops.arguments import read_duration, read_text, read_texts
from perdure_pm.ops.context import Context, Outcome
from perdure_pm.ops.publish import publish
from perdure_pm.ops.wanted import Change
from perdure_pm.store.crashes import clear_crashes, load_crashes


def enable_plugins(context: Context, arguments: Mapping[str, Any]) -> Outcome:
    """Have plugins of the list run: none of them is disabled, and the app leaves none out for an earlier crash.

    Args:
        context: the world.
        arguments: ``names``: in any spelling, also whole entries; ``all``: every plugin of the list instead;
            ``confirm_within``: seconds of trial; ``expected``: the digest of the profile's config.yaml that was seen.

    Raises:
        UsageFault: one is not in the list; nothing changed.
        PerdureError: see `publish`.
    """
    names = _read_names(arguments)
    asked: set[str] = set()

    def enable(choice: Choice) -> Choice:
        asked.clear()
        asked.update(_require_listed(context, choice, names))
        return choice.without(asked)

    outcome = publish(context, _change("plugin-enable", enable, arguments))
    if context.dry_run:
        noted = [crash.distribution for crash in load_crashes(context.layout, context.profile)]
        back = tuple(name for name in noted if name in asked)
    else:
        back = clear_crashes(context.filesystem, context.layout, context.profile, asked)
    status = "ok" if back else outcome.status
    return replace(outcome, status=status, data={**outcome.data, "brought_back": list(back)})


def disable_plugins(context: Context, arguments: Mapping[str, Any]) -> Outcome:
    """Have plugins of the list left out of what runs; nothing of them is imported for that.

    Args:
        context: the world.
        arguments: as for `enable_plugins`.

    Raises:
        UsageFault: one is not in the list; nothing changed.
        PerdureError: see `publish`.
    """
    names = _read_names(arguments)

    def disable(choice: Choice) -> Choice:
        wanted = _require_listed(context, choice, names)
        # In the list's order and spelling, without the versions: a name is what is disabled.
        return choice.with_disabled(name for name in map(requirement_name, choice.plugins) if name in wanted)

    return publish(context, _change("plugin-disable", disable, arguments))


def _change(operation: str, switch: Callable[[Choice], Choice], arguments: Mapping[str, Any]) -> Change:
    return Change(
        operation=operation,
        switch=switch,
        confirm_within=read_duration(arguments, "confirm_within"),
        expected=read_text(arguments, "expected"),
    )


def _read_names(arguments: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Return the normalised names that were asked for; None for every plugin of the list."""
    if arguments.get("all") is True:
        if arguments.get("names"):
            raise UsageFault("name plugins, or ask for all of them, not both")
        return None
    return tuple(requirement_name(text) for text in read_texts(arguments, "names"))


def _require_listed(context: Context, choice: Choice, names: tuple[str, ...] | None) -> set[str]:
    listed = names_of(choice.plugins)
    if names is None:
        return listed | names_of(choice.disabled)
    missing = [name for name in names if name not in listed]
    if missing:
        raise UsageFault(
            f"{missing[0]} is not among the plugins of the profile {context.profile}",
            hint="perdure-pm plugin list",
            context={"plugins": sorted(listed)},
        )
    return set(names)
