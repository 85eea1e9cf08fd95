"""Trials: a generation that is kept only when it is confirmed.

Owns: judging a start while a trial runs, and confirming. Does not own: the file (store.trial), moving the pointer
(rollback.select). A start that nobody confirmed counts as failed, so the second start of an unconfirmed generation, and
any start after the deadline, goes back. What it goes back to may itself have been on trial when the other came: then
its own trial goes on, and where that is over too, it goes back further, to what was last confirmed. Only PM moves the
pointer, with the mutex; the launcher runs PM first while the file exists, and never otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from perdure_pm.model.errors import IntegrityFault, PerdureError
from perdure_pm.ops.arguments import read_text
from perdure_pm.ops.context import Context, Outcome
from perdure_pm.ops.exclusive import exclusive
from perdure_pm.ops.recovery import recover
from perdure_pm.ops.rollback import select
from perdure_pm.ops.soundness import require_sound
from perdure_pm.store.generations import find_generation, load_generation
from perdure_pm.store.history import TRIAL_FAILED
from perdure_pm.store.labels import load_names
from perdure_pm.store.pointer import load_pointer
from perdure_pm.store.trial import FORMAT, Trial, clear_trial, load_trial, save_trial


def judge_start(context: Context, _arguments: Mapping[str, Any]) -> Outcome:
    """Have the trial count one more start, or ended where it failed: then what was selected before is selected again.

    Raises:
        IntegrityFault: what was selected before is damaged; the generation on trial stays selected.
    """
    layout, filesystem, profile = context.layout, context.filesystem, context.profile
    with exclusive(context, "trial"):
        notices = recover(context)
        try:
            trial = load_trial(layout, profile)
        except IntegrityFault as fault:
            clear_trial(filesystem, layout, profile)
            said = f"{fault.summary}; the trial was dropped"
            return Outcome(status="ok", data={"trial": None}, obligations=(*notices, said))
        if trial is None or load_pointer(layout, profile) != trial.generation:
            return Outcome(status="noop", data={"trial": None}, obligations=notices)
        why = _find_failure(context, trial)
        if not why:
            save_trial(filesystem, layout, profile, replace(trial, starts=trial.starts + 1))
            return Outcome(status="ok", data={"trial": trial.generation}, obligations=notices)
        goal, resumed, further = _go_back(context, trial)
        outcome = select(context, load_generation(layout, goal), operation=TRIAL_FAILED, notices=notices)
        if resumed is not None:  # the start that follows is its first
            save_trial(filesystem, layout, profile, replace(resumed, starts=1))
        data = {
            "trial": None if resumed is None else resumed.generation,
            "failed": trial.generation,
            "why": "; ".join([why, *further]),
            **outcome.data,
        }
        return Outcome(status=outcome.status, data=data, obligations=outcome.obligations)


def confirm(context: Context, arguments: Mapping[str, Any]) -> Outcome:
    """Have the selected generation kept.

    Args:
        context: the world.
        arguments: ``generation``: the id, number or label of what is to be kept; another one's trial goes on.

    Raises:
        UsageFault: no such generation.
    """
    layout, wanted = context.layout, read_text(arguments, "generation")
    with exclusive(context, "confirm"):
        notices = recover(context)
        named = None if wanted is None else find_generation(layout, wanted, load_names(layout, wanted)).identity
        selected, trial = load_pointer(layout, context.profile), None
        try:
            trial = load_trial(layout, context.profile)
            running = trial is not None and trial.generation == selected and named in {None, selected}
        except IntegrityFault:
            running = named in {None, selected}  # whatever it said, somebody wants this generation to stay
        if running and not context.dry_run:
            clear_trial(context.filesystem, layout, context.profile)
        data: dict[str, Any] = {"generation": selected, "trial": None}
        if not running and trial is not None and trial.generation == selected:
            data |= {"trial": selected, "named": named}  # another one's, which goes on
        return Outcome(status="ok" if running else "noop", data=data, obligations=notices)


def _go_back(context: Context, failed: Trial) -> tuple[str, Trial | None, list[str]]:
    """Return what is selected instead of a failed trial, its own trial where that goes on, and what was gone past."""
    further: list[str] = []
    while True:
        below = failed.replaced
        if below is None or below.generation != failed.previous:
            return failed.previous, None, further
        below = replace(below, starts=0)  # as recovery.settle_trial has it
        why = _find_failure(context, below) or _find_unsound(context, below.generation)
        if not why:
            return below.generation, below, further
        further.append(f"{below.generation}, which was on trial before it, went too: {why}")
        failed = below


def _find_unsound(context: Context, identity: str) -> str:
    try:
        require_sound(context.layout, load_generation(context.layout, identity))
    except PerdureError as fault:
        return fault.summary
    return ""


def _find_failure(context: Context, trial: Trial) -> str:
    if context.clock() > trial.deadline:
        return f"nobody confirmed it until {trial.deadline.strftime(FORMAT)}"
    return "its last start was not confirmed" if trial.starts else ""
