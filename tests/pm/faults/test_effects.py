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
from tests.pm.fake_host import Workshop
from tests.pm.faults.checking import FOLLOWING, Expected, check, choose_following
from tests.pm.faults.faulting import (
    FULL,
    KINDS,
    LATE,
    LOSE_NAMES,
    STAYS_FULL,
    Fault,
    FaultingFilesystem,
    Stopped,
)
from tests.pm.faults.performing import TASKS, Ended, Task, perform

SPARSE = frozenset({LATE, STAYS_FULL, LOSE_NAMES})
"""Kinds that are a variant of another: tried at every third effect, and with --slow at each."""


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
    for at in itertools.count(1, 1 if slow or kind not in SPARSE else 3):
        turn = at // (3 if kind in SPARSE else 1) + len(kind)
        for number in range(len(FOLLOWING)) if slow else (turn,):
            following = choose_following(clean, number)
            layout = fresh(task.template)
            task.prepare(layout)
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
                    check_refusal(layout, kind, ended.error)
                check(workshop, layout, task, clean, following, ended)
            except (AssertionError, PerdureError) as fault:
                faults.append(f"{place}: {fault}")


def check_refusal(layout: Layout, kind: str, error: PerdureError) -> None:
    """Fail where a process that lived on left its staging, or did not say that space, and where, is what it lacks."""
    if kind in {FULL, STAYS_FULL}:
        assert isinstance(error, NoSpace), error
        assert error.exit_code == EXIT_NO_SPACE
        assert str(error.context["path"]).startswith(str(layout.home))
    if kind != LATE:
        assert list_unsealed(layout) == []
