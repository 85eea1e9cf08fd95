"""What a verdict costs, in a home as it is, and that importing the guard is bearable and lazy."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from perdure.guard.probe import Machine
from perdure.guard.roots import protected_roots, watched
from perdure.guard.service import Guard, Place
from tests.app.guard.test_roots import make_home

pytestmark = [pytest.mark.slow, pytest.mark.platforms("linux", "darwin")]

ORDINARY = ("ls -la", "git status", "grep -rn foo src | sort | uniq -c", "echo hi > out.txt", "cp a b", "rm -rf build")
NOT_PLAIN = ('for f in *.txt; do wc -l "$f"; done', 'x=$(date); echo "${x%%:*}"', "if test -f a; then cat a; fi")
TURNS = 200


def cheapest(guard: Guard, line: str, place: Place, turns: int) -> float:
    """Return the microseconds of a verdict that a busy machine disturbed least: the best of five medians."""
    guard.judge(line, shell="bash", place=place)
    medians = []
    for _ in range(5):
        times = []
        for _ in range(turns // 5):
            started = time.perf_counter()
            guard.judge(line, shell="bash", place=place)
            times.append((time.perf_counter() - started) * 1e6)
        medians.append(sorted(times)[len(times) // 2])
    return min(medians)


@pytest.mark.proves("guard-fast")
def test_a_verdict_on_an_ordinary_line_costs_little(tmp_path: Path, figure: Callable[[str], None]) -> None:
    origin, probe = make_home(tmp_path / "home"), Machine()
    guard = Guard(
        lambda: protected_roots(origin, probe), probe, homes=("/home/you",), watched=lambda: watched(origin, probe)
    )
    place = Place(cwd=str(tmp_path), home="/home/you", environment={"HOME": "/home/you"}, complete=True)
    fast = sorted(cheapest(guard, line, place, TURNS) for line in ORDINARY)
    slow = sorted(cheapest(guard, line, place, 25) for line in NOT_PLAIN)
    median, slowest = fast[len(fast) // 2], slow[len(slow) // 2]
    figure(f"guard: verdict on an ordinary line {median:.0f} µs (target 300), {fast[-1]:.0f} at most")
    figure(f"guard: verdict on a line for the slow reader {slowest / 1000:.1f} ms (target 6)")
    assert median < 900
    assert slowest < 18_000


@pytest.mark.proves("guard-fast")
def test_importing_the_guard_is_bearable_and_no_other_command_does(figure: Callable[[str], None]) -> None:
    code = (
        "import time; started = time.process_time(); import asyncio; between = time.process_time(); "
        "import perdure.guard.service, perdure.guard.reading; ended = time.process_time(); "
        "print((between - started) * 1000, (ended - between) * 1000)"
    )
    run = [sys.executable, "-c", code]
    asked = [subprocess.run(run, capture_output=True, text=True, check=True).stdout.split() for _ in range(7)]
    known, own = (min(float(times[at]) for times in asked) for at in (0, 1))
    figure(f"guard: import {own:.0f} ms of processor time (target 60), where asyncio takes {known:.0f}")
    # Against a module that everybody knows: a machine that is busy slows both.
    assert own < 3 * known
    code = "import sys; import perdure.cli.commands; print([name for name in sys.modules if 'perdure.guard' in name])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
