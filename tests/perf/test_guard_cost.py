"""What the guard costs: a verdict on a line as agents type them, one for the slow reader, and importing it.

It is measured in the app's own environment, as processor time but for the slow reader, which is a process of its own.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.perf.test_plugins_cost import app_python

pytestmark = [pytest.mark.slow, pytest.mark.platforms("linux", "darwin")]

TURNS = 30
LINES = (
    "ls -la",
    "git status",
    "git diff --stat",
    'git add -A && git commit -m "Say which file is missing"',
    "git push origin feature/parser",
    "cat src/app/main.py",
    "sed -n '1,120p' src/app/main.py",
    "tail -n 100 logs/app.log | grep ERROR",
    'grep -rn "def parse" src --include=*.py | head -20',
    "rg -n 'class .*Error' src",
    "find . -name '*.py' -not -path './.venv/*' | wc -l",
    "python3 -m pytest -q tests/test_parser.py",
    "uv run pytest -q",
    "npm run build 2>&1 | tail -5",
    "make test",
    "cargo build --release",
    "echo hi > out.txt",
    "mkdir -p build/out && cp -r assets build/out/",
    "mv old_name.py new_name.py",
    "rm -rf build",
    "cd src && ls",
    "curl -s https://example.org/api | jq .name",
    "pip install -r requirements.txt",
    'FOO=bar python3 script.py --flag "$HOME/x"',
    "which python3; python3 --version",
)
NOT_PLAIN = ('for f in *.txt; do wc -l "$f"; done', 'x=$(date); echo "${x%%:*}"', "if test -f a; then cat a; fi")
VERDICTS = """
import json, shlex, subprocess, sys, time
sys.path[:0] = json.loads(sys.argv[1])
from pathlib import Path
from perdure.guard.probe import Machine
from perdure.guard.roots import protected_roots, watched
from perdure.guard.service import Guard, Place
from perdure.guard.shfmt_reader import program
from tests.app.guard.test_roots import make_home
folder, turns, plain, slow = Path(sys.argv[2]), *json.loads(sys.argv[3])
origin, probe = make_home(folder / "home"), Machine()
guard = Guard(
    lambda: protected_roots(origin, probe), probe, homes=("/home/you",), watched=lambda: watched(origin, probe)
)
(folder / "work").mkdir()
place = Place(cwd=str(folder / "work"), home="/home/you", environment={"HOME": "/home/you"}, complete=True)

def cheapest(calls, clock, turns):
    best = [float("inf")] * len(calls)
    for _ in range(turns):
        for at, call in enumerate(calls):
            begun = clock()
            call()
            best[at] = min(best[at], clock() - begun)
    return best

def verdict(line):
    return lambda: guard.judge(line, shell="bash", place=place)

def alone(line):
    return lambda: subprocess.run([program(), "--to-json"], input=line, capture_output=True, text=True, check=True)

def split(line):
    return lambda: shlex.split(line)

calls = [call(line) for line in plain for call in (verdict, split)]
used = cheapest(calls, time.process_time, turns)
assert all(guard.look(line, shell="bash", place=place).reading.reader == "fast" for line in plain)
calls = [call(line) for line in slow for call in (verdict, alone)]
taken = cheapest(calls, time.perf_counter, turns)
print(json.dumps([used[::2], used[1::2], taken[::2], taken[1::2]]))
"""
IMPORT = """
import json, sys, time
sys.path[:0] = json.loads(sys.argv[1])
begun = time.process_time()
import asyncio
between = time.process_time()
import perdure.guard.service, perdure.guard.reading
print(json.dumps([between - begun, time.process_time() - between]))
"""


def said(checkout: Path, code: str, *arguments: str) -> list[list[float]]:
    """Return what code for the app's environment prints."""
    python = app_python()
    if python is None:
        pytest.skip("no environment with the app's own dependencies beside this one")
    paths = json.dumps([str(checkout / "app"), str(checkout / "compat"), str(checkout)])
    done = subprocess.run(
        [python, "-I", "-c", code, paths, *arguments], capture_output=True, text=True, check=True, cwd=checkout
    )
    printed: list[list[float]] = json.loads(done.stdout)
    return printed


@pytest.mark.proves("perf-guard")
def test_a_verdict_costs_a_few_times_what_splitting_the_line_costs(
    tmp_path: Path, checkout: Path, figure: Callable[[str], None]
) -> None:
    asked = json.dumps([TURNS, LINES, NOT_PLAIN])
    judged, split, slow, alone = said(checkout, VERDICTS, str(tmp_path), asked)
    times, more = sum(judged) / sum(split), sum(slow) / sum(alone)
    median = sorted(judged)[len(judged) // 2] * 1e6
    figure(f"guard: {times:.1f} times what shlex takes of a line (target 20), {median:.0f} µs median (target 200)")
    figure(f"guard: {more:.2f} times what the slow reader takes alone (target 2), {max(slow) * 1e3:.1f} ms (target 6)")
    assert times <= 20
    assert more <= 2


@pytest.mark.proves("perf-guard")
def test_importing_the_guard_costs_less_than_importing_asyncio(checkout: Path, figure: Callable[[str], None]) -> None:
    turns = [said(checkout, IMPORT) for _ in range(9)]
    known, own = (min(float(turn[at]) for turn in turns) for at in (0, 1))  # type: ignore[arg-type]
    figure(f"guard: import {own / known:.2f} times asyncio's (target 0.8), {own * 1e3:.0f} ms (target 45)")
    assert own <= 0.8 * known
