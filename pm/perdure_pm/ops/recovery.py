"""The commit, the tidying after it, and finishing what a dead operation left of that.

Owns: telling whether the pointer moved, carrying on where tidying fails, and bringing history, trial, launchers and
configuration in line with the pointer. Does not own: the order of a publication (publish).

Keeps: pm-commit-stands: once the pointer names a generation, no failure of what follows is told as a failure of the
operation; what could not be tidied is said, and whatever operation runs next does it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace

from perdure_pm.model.errors import IntegrityFault, PerdureError
from perdure_pm.ops.context import Context
from perdure_pm.ops.host_commands import follow_commands
from perdure_pm.ops.intent import finish_pending, restore_lost
from perdure_pm.store.generations import current_generation
from perdure_pm.store.history import TRIAL_FAILED, Selection, append_selection, load_history
from perdure_pm.store.pointer import load_pointer, save_pointer
from perdure_pm.store.records import find_last_committed, keep_record, load_kept_record
from perdure_pm.store.trial import FORMAT as TRIAL_FORMAT
from perdure_pm.store.trial import Trial, clear_trial, find_ways_back, load_trial, put_on_top, save_trial

UNRECORDED = "unrecorded"
"""The operation in a line of the history that a crash kept from being written, and that the next operation wrote."""

Notices = tuple[str, ...]


def commit(context: Context, identity: str) -> Notices:
    """Have the profile run the generation, and return what a person should know. The caller holds the mutex.

    Raises:
        PerdureError: the pointer could not be written, and is what it was.
    """
    try:
        save_pointer(context.filesystem, context.layout, context.profile, identity)
    except PerdureError as fault:
        # The rename can have happened where the flush of the directory after it failed.
        if not is_selected(context, identity):
            raise
        return (f"{identity} is selected, but a power loss may take that back: {fault.summary}",)
    return ()


def is_selected(context: Context, identity: str) -> bool:
    """Return whether the profile's pointer names the generation."""
    return _selected(context) == identity


def tidy(*steps: Callable[[], Notices | None]) -> Notices:
    """Have each step done, and return what they say; one that fails is said and keeps none of the others from it."""
    notices: Notices = ()
    for step in steps:
        try:
            notices = (*notices, *(step() or ()))
        except PerdureError as fault:
            notices = (*notices, f"{fault.summary}; the next operation does what that left undone")
    return notices


def start_trial(context: Context, trial: Trial) -> None:
    """Have the generation on trial once it is selected; what is on trial now waits below it, for the way back."""
    running = None
    with contextlib.suppress(IntegrityFault):  # a damaged one protects nothing
        running = load_trial(context.layout, context.profile)
    save_trial(context.filesystem, context.layout, context.profile, put_on_top(trial, running))


def settle_trial(context: Context) -> Notices:
    """Have on trial what is selected, where it was when something else came on top of it; else nothing is.

    Going back confirms nothing. What is on trial again keeps its deadline; its starts are counted anew, because the
    last of them was neither confirmed nor followed by another.
    """
    layout, profile, filesystem = context.layout, context.profile, context.filesystem
    try:
        running = load_trial(layout, profile)
    except IntegrityFault:
        running = None
    found = running
    while found is not None and not is_selected(context, found.generation):
        found = found.replaced
    if found is None:
        clear_trial(filesystem, layout, profile)
        return ()
    if found is running:
        return ()
    save_trial(filesystem, layout, profile, replace(found, starts=0))
    until = found.deadline.strftime(TRIAL_FORMAT)
    return (f"{found.generation} is on trial again until {until}; to keep it: perdure-pm confirm",)


def recover(context: Context) -> Notices:
    """Have history, trial, launchers and configuration say what the pointer says, and return what a person should know.

    Every operation that reads them begins with this, under the mutex. Running it twice is harmless.
    """
    layout, profile = context.layout, context.profile
    _mend_history(context)
    with contextlib.suppress(IntegrityFault):  # what is damaged is judged at the next start (ops.trial)
        if load_trial(layout, profile) is not None:
            settle_trial(context)  # a crash before the commit: what was on trial until then still is
    notices = finish_pending(context)
    current = current_generation(layout, profile)
    if current is not None:
        notices = (*notices, *restore_lost(context, current.record))
        follow_commands(context, current)
    elif (last := find_last_committed(layout, profile)) is not None and (record := load_kept_record(layout, last)):
        # The pointer is gone, and the configuration may be with it: what the profile ran last is what people want.
        notices = (*notices, *restore_lost(context, record))
    return notices


def _mend_history(context: Context) -> None:
    """Have a line for the selection that a crash kept from the history, and a copy of its record.

    Without the line, a generation that was deselected a moment ago would not look young to a collection.
    """
    selected = _selected(context)
    known = load_history(context.layout, context.profile)
    last = known[-1].generation if known else None
    if selected is not None:
        keep_record(context.filesystem, context.layout, selected)
    if selected is not None and selected != last:
        operation = TRIAL_FAILED if _was_rejected(context, last, selected) else UNRECORDED
        line = Selection(at=context.clock(), generation=selected, before=last, operation=operation)
        append_selection(context.filesystem, context.layout, context.profile, line)


def _was_rejected(context: Context, last: str | None, selected: str) -> bool:
    """Return whether the pointer went back from what was on trial, as the trial's file says that was not tidied yet.

    A person who went back by hand in that moment did not keep it either.
    """
    try:
        trial = load_trial(context.layout, context.profile)
    except IntegrityFault:
        return False
    return trial is not None and trial.generation == last and selected in find_ways_back(trial)


def _selected(context: Context) -> str | None:
    try:
        return load_pointer(context.layout, context.profile)
    except IntegrityFault:
        return None
