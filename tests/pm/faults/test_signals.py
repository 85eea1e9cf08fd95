"""SIGINT and SIGTERM to the command line at random moments: it ends with 130 or 143, or it had committed."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable

import pytest

from perdure_pm.adapters.occupants import find_occupants
from perdure_pm.model.errors import EXIT_DONE, EXIT_INTERRUPTED, EXIT_TERMINATED, PerdureError
from perdure_pm.store.layout import Layout
from perdure_pm.store.receipts import load_all
from tests.pm.fake_host import Workshop
from tests.pm.faults.checking import Expected, check, choose_following
from tests.pm.faults.performing import TASKS, Task, what_runs
from tests.pm.polling import wait_until

pytestmark = pytest.mark.platforms("linux")

LIMIT_SECONDS = 120.0
MOMENTS = 8
"""For each signal and verb; five times as many with --slow."""
CODES = {signal.SIGINT: EXIT_INTERRUPTED, signal.SIGTERM: EXIT_TERMINATED}


def run(
    workshop: Workshop, layout: Layout, words: list[str], number: signal.Signals | None, delay: float
) -> tuple[int, float]:
    """Run a command line, send it the signal after `delay` seconds; return a shell's exit code, and the time."""
    begun = time.monotonic()
    process = subprocess.Popen(
        [layout.bin / "perdure-pm", *words],
        env={
            "PATH": os.defpath,
            "HOME": str(layout.home.parent),
            "PERDURE_WHEELHOUSE": str(workshop.index),
            "PERDURE_JSON": "1",
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    if number is not None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(delay)
        process.send_signal(number)
    code = process.wait(LIMIT_SECONDS)
    # Before Python has its handlers the signal ends the command line at once, and the worker notices by itself.
    wait_until(lambda: not find_occupants(layout.home), "the worker ends")
    return (code if code >= 0 else 128 - code), time.monotonic() - begun


@pytest.mark.proves("faults-interrupt")
@pytest.mark.parametrize("number", CODES, ids=lambda number: number.name)
@pytest.mark.parametrize("name", ["plugin add", "plugin remove"], ids=lambda name: name.replace(" ", "-"))
def test_an_interrupt_at_any_moment_leaves_everything_unchanged_or_committed(
    name: str,
    number: signal.Signals,
    workshop: Workshop,
    templates: dict[str, Layout],
    fresh: Callable[[str], Layout],
    expected: Callable[[Task], Expected],
    request: pytest.FixtureRequest,
    figure: Callable[[str], None],
) -> None:
    task, clean = TASKS[name], expected(TASKS[name])
    words = ["plugin", "add", "part-0"] if name == "plugin add" else ["plugin", "remove", "gadget"]
    seed = int(os.environ.get("PERDURE_TEST_SEED", "0")) or random.SystemRandom().randrange(1, 2**32)
    chance = random.Random(f"{seed} {name} {number}")  # noqa: S311 - moments, not secrets
    whole = run(workshop, fresh("two"), words, None, 0.0)[1]
    moments = MOMENTS * (5 if request.config.getoption("--slow") else 1)
    known = {receipt.id for receipt in load_all(templates["two"])[0]}
    codes = []
    for moment in range(moments):
        delay = (moment + chance.random()) / moments * whole * 1.05
        layout = fresh("two")
        code, _ = run(workshop, layout, words, number, delay)
        codes.append(code)
        place = f"seed {seed}: {number.name} after {delay * 1000:.0f} ms, exit {code}"
        try:
            found = what_runs(layout)
            told = [receipt.status for receipt in load_all(layout)[0] if receipt.id not in known]
            # None at all, where the signal came before the worker had its request.
            assert told in ([["ok"]] if found == clean.after else [[], ["cancelled"]])
            # CPython itself ends with 1 where SIGINT comes while it imports `site`: nothing of PM has run by then.
            early = number == signal.SIGINT and code == 1 and not told
            assert early or code in {EXIT_DONE, CODES[number]}
            assert early or code == CODES[number] or found == clean.after
            check(workshop, layout, task, clean, choose_following(clean, moment))
        except (AssertionError, PerdureError) as fault:
            raise AssertionError(f"{place}: {fault}") from fault
    figure(f"{name}, {number.name}: {moments} moments, seed {seed}, exit codes {sorted(codes)}")
