"""Whatever a real bash gives to `rm`, reading has said before; and whatever nobody would write is answered."""

from __future__ import annotations

import random
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from perdure.domain.effect import Reading
from perdure.guard.reading import FAULT, read
from perdure.guard.session import Session
from tests.app.guard.evidence import table, write_part
from tests.app.guard.scripts import Bash, Scripts, covered
from tests.app.guard.test_corpus import WINDOWS_CASES, WINDOWS_HARD_CASES

pytestmark = [
    pytest.mark.platforms("linux"),
    pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash to compare with"),
]


class Compared(NamedTuple):
    """What came of comparing scripts."""

    scripts: int
    calls: int
    understood: int
    missed: list[str]
    """Scripts that gave `rm` something that reading had not said."""


def compared(root: Path, seeds: range) -> Compared:
    """Run scripts and return what `rm` was given that reading had not said."""
    bash = Bash(root)
    found = []
    calls = understood = 0
    for seed in seeds:
        script = Scripts(seed).script()
        try:
            made = bash.run(script)
        except subprocess.TimeoutExpired:
            continue
        session = Session(directory=bash.work, home=f"{bash.work}/sub", environment=bash.environment, seconds=20)
        reading = read(script, "bash", session)
        calls += len(made)
        understood += not reading.not_analysable
        found += [f"{seed}: {script!r}: {place.reason}" for place in reading.not_analysable if FAULT in place.reason]
        found += [f"{seed}: {script!r}: {call}" for call in made if not covered(call, reading)]
    # The comparison says something only where scripts do something and most of them are understood.
    assert calls > len(seeds) // 2
    assert understood > len(seeds) * 2 // 3
    return Compared(len(seeds), calls, understood, found)


@pytest.mark.proves("guard-no-silent-miss")
@pytest.mark.parametrize("text", ["rm a & >", "rm a; <d>", "rm a && b > ", "rm a > b <c>", "<F12>", "rm a | b <"])
def test_a_line_that_is_read_as_nothing_runs_nothing(text: str, tmp_path: Path) -> None:
    session = Session(directory="/w", home="/h")
    assert read(text, "bash", session) == Reading(reader="fast", effects=())
    assert Bash(tmp_path).run(text) == []


@pytest.mark.proves("guard-no-silent-miss")
def test_what_bash_gives_to_rm_was_said_before(tmp_path: Path) -> None:
    assert compared(tmp_path / "few", range(300)).missed == []


@pytest.mark.slow
@pytest.mark.evidence
@pytest.mark.proves("guard-no-silent-miss")
def test_what_bash_gives_to_rm_was_said_before_in_thousands_of_scripts(
    tmp_path: Path, figure: Callable[[str], None], pytestconfig: pytest.Config, checkout: Path
) -> None:
    made = compared(tmp_path / "many", range(10_000, 15_000))
    figure(
        f"guard: {made.scripts} random scripts, {made.calls} calls of rm, {made.understood} scripts understood, "
        f"{len(made.missed)} missed"
    )
    if pytestconfig.getoption("--regenerate-docs"):
        row = [made.scripts, made.calls, made.understood, len(made.missed)]
        columns = ["random scripts", "calls of `rm` that they made", "scripts that were understood", "missed"]
        write_part(checkout, "random scripts", table(columns, [row]))
    assert made.missed == []


SIGNS = "rm ab-$'\"\\`(){}[]<>|&;\n#!~*?=01,./@%:^"
LINES = {
    shell: [case.command for case in (*WINDOWS_CASES, *WINDOWS_HARD_CASES) if case.shell == shell]
    for shell in ("cmd", "powershell")
}
TEXTS: Mapping[str, tuple[str, Callable[[random.Random], str]]] = {
    "random bytes, for bash": ("bash", lambda chance: chance.randbytes(60).decode("utf-8", "surrogateescape")),
    "the signs of a shell, for bash": ("bash", lambda chance: "".join(chance.choices(SIGNS, k=30))),
    "broken scripts, for bash": ("bash", lambda chance: broken(Scripts(chance.randrange(1 << 30)).script(), chance)),
    "broken lines, for cmd": ("cmd", lambda chance: broken(chance.choice(LINES["cmd"]), chance)),
    "broken lines, for PowerShell": ("powershell", lambda chance: broken(chance.choice(LINES["powershell"]), chance)),
}
MANY = 3_000


def broken(text: str, chance: random.Random) -> str:
    """Return a text from which something was taken, into which something was put, or of which something was doubled."""
    for _ in range(chance.randint(1, 3)):
        start, end = sorted(chance.choices(range(len(text) + 1), k=2))
        middle = chance.choice(["", text[start:end] * 2, "".join(chance.choices(SIGNS, k=3)) + text[start:end]])
        text = text[:start] + middle + text[end:]
    return text


@pytest.mark.slow
@pytest.mark.evidence
@pytest.mark.proves("guard-reading-total", "guard-bounded")
def test_thousands_of_texts_that_nobody_would_write_are_answered(
    figure: Callable[[str], None], pytestconfig: pytest.Config, checkout: Path
) -> None:
    rows: list[list[object]] = []
    found: list[str] = []
    for name, (shell, make) in TEXTS.items():
        understood, slowest, before = 0, 0.0, len(found)
        for seed in range(MANY):
            text = make(random.Random(seed))  # noqa: S311  # a seed makes the same text again
            started = time.process_time()
            reading = read(text, shell, Session(directory="/w", home="/w/sub"))
            slowest = max(slowest, time.process_time() - started)
            understood += not reading.not_analysable
            found += [f"{name} {seed}: {text!r}" for place in reading.not_analysable if FAULT in place.reason]
        rows.append([name, MANY, understood, len(found) - before, f"{slowest * 1000:.0f} ms"])
        figure(f"guard: {MANY} texts of {name}: {understood} understood, the slowest took {slowest * 1000:.0f} ms")
        assert slowest < 0.25  # the budget is 0.1 s by the clock, and ending what is over it comes on top
    if pytestconfig.getoption("--regenerate-docs"):
        columns = ["what", "texts", "understood", "faults", "the slowest, in time of the processor"]
        write_part(checkout, "random texts", table(columns, rows))
    assert found == []
