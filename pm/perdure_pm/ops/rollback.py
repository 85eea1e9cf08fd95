"""Rollback: an earlier generation selected again, by one move of the pointer: no build, no network.

Owns: which generation is meant, and what must be true before it is selected. Does not own: the pointer (store.pointer).

Keeps: pm-rollback-builds-nothing, pm-pointer-last.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from perdure_pm.model.errors import ConfigInvalid, IntegrityFault, NothingInstalled, UsageFault
from perdure_pm.ops.context import Context, Outcome
from perdure_pm.ops.editables import find_gone, say_gone
from perdure_pm.ops.exclusive import exclusive
from perdure_pm.ops.host_commands import follow_commands
from perdure_pm.ops.intent import align_profile, finish_pending
from perdure_pm.ops.recovery import commit, recover, settle_trial, tidy
from perdure_pm.ops.soundness import ensure_read_only, require_sound
from perdure_pm.store.generations import Generation, current_generation, find_generation, load_generation
from perdure_pm.store.history import Selection, append_selection, find_previous, load_history
from perdure_pm.store.labels import load_names
from perdure_pm.store.pointer import load_pointer, refuse_links


def rollback(context: Context, arguments: Mapping[str, Any]) -> Outcome:
    """Have an earlier generation selected for the profile.

    Args:
        context: the world.
        arguments: ``to``: a number, an id or a label; without it, what was selected before.

    Raises:
        NothingInstalled: there is nothing to go back to.
        UsageFault: no such generation.
        IntegrityFault: the generation is damaged; the pointer was not moved.
    """
    wanted = arguments.get("to")
    if wanted is not None and not isinstance(wanted, str):
        raise UsageFault("to must be a generation's number, id or label")
    with exclusive(context, "rollback"):
        notices = recover(context)
        # An empty word is what a script's unset variable became: it names nothing, least of all what was before.
        target = _find_previous(context) if wanted is None else _find_named(context, wanted)
        return select(context, target, operation="rollback", notices=notices)


def select(context: Context, target: Generation, *, operation: str, notices: tuple[str, ...] = ()) -> Outcome:
    """Have a sealed, sound generation selected for the profile. The caller holds the mutex."""
    layout = context.layout
    # The pointer may be damaged, which is one reason to go back: then nothing is known of what was.
    before = current_generation(layout, context.profile)
    data: dict[str, Any] = {"generation": target.identity, "from": None if before is None else before.identity}
    if before is not None and before.identity == target.identity:
        return Outcome(status="noop", data=data, obligations=notices)
    require_sound(layout, target)
    notices = (*notices, *map(say_gone, find_gone(target.record)))
    if context.dry_run:
        return Outcome(status="ok", data={**data, "dry_run": True}, obligations=notices)
    context.reporter.callback("before_publish", {"profile": context.profile, "operation": operation, **data})
    choice = None
    try:
        choice = align_profile(context, target.record.get("selection", ()), target.identity)
    except ConfigInvalid as fault:  # going back must work all the more where the configuration is broken
        notices = (*notices, f"{fault.summary}; it does not follow this selection until that is mended")
    ensure_read_only(context.filesystem, target)
    context.reporter.committed()
    # The commit. A crash before this line changes nothing; after it, only tidying is left.
    notices = (*notices, *commit(context, target.identity))
    selection = Selection(
        at=context.clock(),
        generation=target.identity,
        before=data["from"],
        operation=operation,
        choice=None if choice is None else (choice.plugins, choice.disabled),
    )
    said = tidy(
        lambda: _write_down(context, selection),
        lambda: follow_commands(context, target),
        lambda: finish_pending(context),
    )
    context.reporter.callback("rolled_back", {"profile": context.profile, **data})
    return Outcome(status="ok", data=data, obligations=(*notices, *said))


def _write_down(context: Context, selection: Selection) -> tuple[str, ...]:
    """Have the history say what was selected, and only then the trial settled: until then its file tells of it."""
    append_selection(context.filesystem, context.layout, context.profile, selection)
    return settle_trial(context)


def _find_named(context: Context, wanted: str) -> Generation:
    names = load_names(context.layout, wanted)
    return _usable(context, lambda: find_generation(context.layout, wanted, names))


def _usable(context: Context, load: Callable[[], Generation]) -> Generation:
    """Return the generation that is loaded; where its record is damaged, what runs is not, and no install mends it."""
    refuse_links(context.layout, context.layout.generations)
    try:
        return load()
    except IntegrityFault as fault:
        raise IntegrityFault(fault.summary, hint="choose another: perdure-pm history", context=fault.context) from fault


def _find_previous(context: Context) -> Generation:
    layout = context.layout
    before = find_previous(load_history(layout, context.profile), load_pointer(layout, context.profile))
    if before is None:
        raise NothingInstalled(
            f"the profile {context.profile} has selected nothing before this",
            hint="perdure-pm history",
            context={"profile": context.profile},
        )
    return _usable(context, lambda: load_generation(layout, before))
