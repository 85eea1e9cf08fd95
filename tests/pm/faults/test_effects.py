"""Every operation with a fault at its first effect, its second, and so on until it runs through.

After each fault the home is opened again and looked at, the next operation runs (the same again, a collection or a
rollback, in turns; with --slow each of them), and the home is looked at again.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable

import pytest

from perdure_pm.model.errors import EXIT_NO_SPACE, NoSpace, PerdureError
from perdure_pm.store.generations import list_unsealed
from perdure_pm.store.layout import Layout
from perdure_pm.store.receipts import load_all
from tests.pm.fake_host import Workshop
from tests.pm.faults.checking import FOLLOWING, Expected, check, choose_following, is_on_trial
from tests.pm.faults.faulting import (
    FULL,
    KINDS,
    LATE,
    LOSE_NAMES,
    STAYS_FULL,
    STOP,
    Fault,
    FaultingFilesystem,
    Stopped,
)
from tests.pm.faults.performing import (
    TASKS,
    Ended,
    Task,
    perform,
    require_in_line,
    require_starts,
    texts,
    what_runs,
)

SPARSE = frozenset({LATE, STAYS_FULL, LOSE_NAMES})
"""Kinds that are a variant of another: tried at every third effect, and with --slow at each."""

LONG = frozenset({"first install", "plugin add", "upgrade", "second trial"})
"""Operations that build, whose points take a second each: but for deaths at every third, and with --slow at each."""


def choose_step(task: Task, kind: str) -> int:
    """Return how many effects lie between two faults in the lane that CI runs."""
    return (3 if kind in SPARSE else 1) * (3 if task.name in LONG and kind != STOP else 1)


@pytest.mark.proves("faults-old-or-new", "faults-recovery-by-next", "faults-edit-survives", "faults-refusal-is-true")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("task", TASKS.values(), ids=lambda task: task.name.replace(" ", "-"))
def test_a_fault_at_any_effect_leaves_old_or_new_and_the_next_operation_mends_the_rest(
    task: Task,
    kind: str,
    workshop: Workshop,
    fresh: Callable[[str], Layout],
    expected: Callable[[Task], Expected],
    request: pytest.FixtureRequest,
    figure: Callable[[str], None],
) -> None:
    clean = expected(task)
    points = 0
    faults: list[str] = []
    slow = request.config.getoption("--slow")
    step = 1 if slow else choose_step(task, kind)
    # Each kind begins elsewhere, so that together they meet every effect.
    for at in itertools.count(1 + len(kind) % step, step):
        turn = at // step + len(kind)
        for number in range(len(FOLLOWING)) if slow else (turn,):
            following = choose_following(clean, number)
            layout = fresh(task.template)
            task.prepare(layout)
            strays = list_unsealed(layout)
            filesystem = FaultingFilesystem(layout.home, Fault(kind=kind, at=at))
            ended: Ended | None = None
            with contextlib.suppress(Stopped):
                ended = perform(workshop, layout, task, filesystem)
            if not filesystem.happened:
                assert ended is not None
                ended.succeeded()
                figure(f"{task.name}, {kind}: {points} faults")
                assert not faults, "\n".join(faults)
                return
            points += 1
            place = f"{kind} at effect {at} of {task.name} ({filesystem.effects[at - 1]}), then {following}"
            try:
                if ended is not None and ended.error is not None:
                    check_refusal(layout, kind, ended.error, strays)
                check(workshop, layout, task, clean, following, ended)
            except (AssertionError, PerdureError) as fault:
                faults.append(f"{place}: {fault}")


def check_refusal(layout: Layout, kind: str, error: PerdureError, strays: list[str]) -> None:
    """Fail where a process that lived on left its staging, or did not say that space, and where, is what it lacks.

    What was there before the operation may be there still: a collection that fails at once has taken nothing.
    """
    if kind in {FULL, STAYS_FULL}:
        assert isinstance(error, NoSpace), error
        assert error.exit_code == EXIT_NO_SPACE
        assert str(error.context["path"]).startswith(str(layout.home))
    if kind != LATE:
        assert set(list_unsealed(layout)) <= set(strays)


@pytest.mark.proves("faults-done-is-durable")
@pytest.mark.parametrize("task", TASKS.values(), ids=lambda task: task.name.replace(" ", "-"))
def test_a_power_loss_after_success_was_told_takes_nothing_back(
    task: Task, workshop: Workshop, fresh: Callable[[str], Layout], expected: Callable[[Task], Expected]
) -> None:
    clean = expected(task)
    layout = fresh(task.template)
    task.prepare(layout)
    filesystem = FaultingFilesystem(layout.home, watched=True)
    perform(workshop, layout, task, filesystem).succeeded()
    filesystem.lose_power()
    assert what_runs(layout) == clean.after
    assert texts(layout) == clean.texts_after
    assert is_on_trial(layout) == clean.trial_after
    require_in_line(layout, edited=task.edited and clean.after == clean.before)
    assert require_starts(layout, clean.after).exit_code == 0
    assert load_all(layout)[0][0].status != "started"
