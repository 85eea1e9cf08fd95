"""SIGKILL of a worker at hundreds of moments: at random ones, even over the time that it takes, and at each stage.

200 kills, and 1,000 with --slow. Each test prints its seed; PERDURE_TEST_SEED sets it.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable

import pytest

from perdure_pm.model.errors import PerdureError
from perdure_pm.store.layout import Layout
from tests.pm.fake_host import Workshop
from tests.pm.faults.checking import Expected, check, choose_following
from tests.pm.faults.killing import Run, run_worker
from tests.pm.faults.performing import TASKS, Task

KILLS = 10
"""In each test; five times as many with --slow."""
WEIGHTS = {
    "plugin add": 7,
    "upgrade": 4,
    "first install": 3,
    "plugin remove": 2,
    "rollback": 2,
    "install with trial": 1,
    "collect": 1,
}
"""How many tests kill each operation: together 20."""
PLAN = [(name, number) for name, count in WEIGHTS.items() for number in range(count)]

pytestmark = pytest.mark.platforms("linux")


@pytest.fixture(scope="session")
def undisturbed(
    workshop: Workshop, templates: dict[str, Layout], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Task], Run]:
    """Say how long a task takes in a worker that nobody kills, and which stages it tells of."""
    from perdure_pm.adapters.filesystem import LocalFilesystem
    from tests.pm.fake_host import copy_home

    known: dict[str, Run] = {}

    def find(task: Task) -> Run:
        if task.name not in known:
            folder = tmp_path_factory.mktemp("undisturbed")
            layout = copy_home(templates[task.template], folder / "home")
            task.prepare(layout)
            known[task.name] = run_worker(workshop, layout, task, kill_at=lambda *_: False, whole_tree=False)
            LocalFilesystem().remove_tree(folder)
        return known[task.name]

    return find


class Moment:
    """When to kill: so many seconds after the request, or after a stage was first told of."""

    def __init__(self, delay: float, stage: str | None) -> None:
        self._delay = delay
        self._stage = stage
        self._since = 0.0 if stage is None else None

    def __call__(self, seconds: float, stage: str) -> bool:
        if self._since is None and stage == self._stage:
            self._since = seconds
        return self._since is not None and seconds >= self._since + self._delay


@pytest.mark.proves("faults-kill", "faults-receipts-closed")
@pytest.mark.parametrize(("name", "number"), PLAN, ids=[f"{name.replace(' ', '-')}-{number}" for name, number in PLAN])
def test_a_worker_killed_at_any_moment_leaves_old_or_new(
    name: str,
    number: int,
    workshop: Workshop,
    fresh: Callable[[str], Layout],
    expected: Callable[[Task], Expected],
    undisturbed: Callable[[Task], Run],
    request: pytest.FixtureRequest,
    figure: Callable[[str], None],
) -> None:
    task = TASKS[name]
    clean, whole = expected(task), undisturbed(task)
    assert whole.finished
    seed = int(os.environ.get("PERDURE_TEST_SEED", "0")) or random.SystemRandom().randrange(1, 2**32)
    chance = random.Random(f"{seed} {name} {number}")  # noqa: S311 - moments, not secrets
    kills = KILLS * (5 if request.config.getoption("--slow") else 1)
    new = 0
    for kill in range(kills):
        following = choose_following(clean, kill)
        at_stage = kill % 3 == 2
        stage = chance.choice(whole.stages)
        share = chance.random() if at_stage else (kill + chance.random()) / kills
        delay = share * 0.05 if at_stage else share * whole.seconds * 1.05
        layout = fresh(task.template)
        task.prepare(layout)
        run_worker(workshop, layout, task, kill_at=Moment(delay, stage if at_stage else None), whole_tree=kill % 2 == 0)
        try:
            new += check(workshop, layout, task, clean, following) == clean.after
        except (AssertionError, PerdureError) as fault:
            moment = f"{delay * 1000:.0f} ms after {stage if at_stage else 'the request'}"
            raise AssertionError(f"seed {seed}, kill {kill}: {moment}, then {following}: {fault}") from fault
    figure(f"{name} {number}: {kills} kills, seed {seed}, {kills - new} left the old and {new} the new")
