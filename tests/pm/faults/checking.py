"""What must hold after anything that can happen to an operation: before the next one runs, and after it.

Owns: the order of the questions, and what an operation does when nothing happens. Does not own: each question
(performing), nor what happens.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from perdure_pm.adapters.filesystem import LocalFilesystem
from perdure_pm.adapters.leases import find_users, is_leased
from perdure_pm.model.errors import UsageFault
from perdure_pm.store.generations import list_unsealed
from perdure_pm.store.layout import Layout
from perdure_pm.store.pointer import load_pointer
from perdure_pm.store.trial import load_trial
from tests.pm.fake_host import PROFILE, Workshop, copy_home
from tests.pm.faults.faulting import FaultingFilesystem
from tests.pm.faults.performing import (
    COLLECT,
    ROLLBACK,
    Ended,
    Selected,
    Task,
    perform,
    require_clean,
    require_in_line,
    require_readable,
    require_selectable_are_complete,
    require_starts,
    texts,
    what_runs,
)
from tests.pm.polling import wait_until

AGAIN, COLLECTED, BACK = "again", "collect", "rollback"
FOLLOWING = (AGAIN, COLLECTED, BACK)


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What a task does when nothing goes wrong."""

    before: Selected | None
    after: Selected | None
    previous: Selected | None
    """What a rollback selects when the task did nothing."""
    back: Selected | None
    """What a rollback selects when the task was done."""
    texts_before: dict[str, str]
    texts_after: dict[str, str]
    trial_before: bool
    trial_after: bool
    effects: tuple[str, ...]


def expect(workshop: Workshop, template: Layout, task: Task, folder: Path) -> Expected:
    """Return what a task does, from trying it on copies of its template below `folder`."""
    layout = copy_home(template, folder / "home")
    task.prepare(layout)
    before, texts_before, trial_before = what_runs(layout), texts(layout), is_on_trial(layout)
    filesystem = FaultingFilesystem(layout.home)
    perform(workshop, layout, task, filesystem).succeeded()
    back = copy_home(template, folder / "back")
    perform(workshop, back, ROLLBACK, LocalFilesystem())
    previous, after = what_runs(back), what_runs(layout)
    undone = before if after != before else previous
    if task.rejects:  # then a rollback leads to what ran before that was
        rejected = copy_home(layout, folder / "rejected")
        perform(workshop, rejected, ROLLBACK, LocalFilesystem()).succeeded()
        undone = what_runs(rejected)
        assert undone not in {before, after}
    found = Expected(
        before=before,
        after=after,
        previous=previous,
        back=undone,
        texts_before=texts_before,
        texts_after=texts(layout),
        trial_before=trial_before,
        trial_after=is_on_trial(layout),
        effects=tuple(filesystem.effects),
    )
    LocalFilesystem().remove_tree(folder)
    return found


def choose_following(clean: Expected, number: int) -> str:
    """Return which operation comes next, in turns."""
    following = FOLLOWING[number % len(FOLLOWING)]
    return COLLECTED if following == BACK and clean.before is None else following


def check(
    workshop: Workshop, layout: Layout, task: Task, clean: Expected, following: str, ended: Ended | None = None
) -> Selected | None:
    """Look at a home after something went wrong, let the next operation run, look again; return what ran at first.

    Args:
        workshop: what the home was made from.
        layout: the home.
        task: the operation that something happened to.
        clean: what it does when nothing happens.
        following: which operation comes next.
        ended: how it ended, where its process lived on.
    """
    found = what_runs(layout)
    assert found in {clean.before, clean.after}, found
    require_selectable_are_complete(layout)
    for name, text in texts(layout).items():
        assert text in {clean.texts_before[name], clean.texts_after[name]}, f"{name}:\n{text}"
    if clean.before != clean.after:
        assert is_on_trial(layout) == (clean.trial_before if found == clean.before else clean.trial_after)
    if ended is not None:
        assert found == (clean.after if ended.error is None else clean.before), f"told: {ended.status}: {ended.error}"
    require_starts(layout, found)
    require_readable(layout)

    filesystem = LocalFilesystem()
    if following == AGAIN:
        mended = perform(workshop, layout, again(task), filesystem)
        if mended.error is not None:  # a plugin that is removed already cannot be removed
            assert isinstance(mended.error, UsageFault), mended.error
        assert what_runs(layout) == clean.after
        assert texts(layout) == clean.texts_after
    elif following == BACK:
        perform(workshop, layout, ROLLBACK, filesystem).succeeded()
        moved = found == clean.after != clean.before
        assert what_runs(layout) == (clean.back if moved else clean.previous)
    else:
        perform(workshop, layout, COLLECT, filesystem).succeeded()
        assert what_runs(layout) == found
    selected = what_runs(layout)
    if selected is not None:
        require_in_line(layout, edited=task.edited and selected != clean.after)
        assert require_starts(layout, selected).err != "no launcher"
    require_readable(layout)

    # What a killed worker had started may write on for a moment, and what a process uses is not collected.
    wait_until(lambda: is_unused(layout), "nothing runs from what was never finished")
    perform(workshop, layout, COLLECT, filesystem).succeeded()
    perform(workshop, layout, COLLECT, filesystem).succeeded()
    assert what_runs(layout) == selected
    require_clean(layout)
    return found


def is_unused(layout: Layout) -> bool:
    """Return whether no process uses a generation that was never sealed."""
    unsealed = list_unsealed(layout)
    return find_users(layout).keys().isdisjoint(unsealed) and not any(
        is_leased(layout.generation(name)) for name in unsealed
    )


def is_on_trial(layout: Layout) -> bool:
    """Return whether what is selected is on trial."""
    trial = load_trial(layout, PROFILE)
    selected = load_pointer(layout, PROFILE)
    return trial is not None and selected in {trial.generation, trial.replaced and trial.replaced.generation}


def again(task: Task) -> Task:
    """Return the task as it is performed a second time."""
    return task if task.again is None else replace(task, arguments=task.again)
