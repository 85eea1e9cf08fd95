"""Whatever a real bash gives to `rm`, reading has said before: random scripts, run where `rm` only takes notes."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from perdure.domain.effect import Reading
from perdure.guard.reading import FAULT, read
from perdure.guard.session import Session
from tests.app.guard.scripts import Bash, Scripts, covered

pytestmark = [
    pytest.mark.platforms("linux"),
    pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash to compare with"),
]


def missed(root: Path, seeds: range) -> list[str]:
    """Return the scripts that gave `rm` something that reading had not said."""
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
    print(f"{len(seeds)} scripts, {calls} calls of rm, {understood} scripts understood, {len(found)} missed")
    # The comparison says something only where scripts do something and most of them are understood.
    assert calls > len(seeds) // 2
    assert understood > len(seeds) * 2 // 3
    return found


@pytest.mark.proves("guard-no-silent-miss")
@pytest.mark.parametrize("text", ["rm a & >", "rm a; <d>", "rm a && b > ", "rm a > b <c>", "<F12>", "rm a | b <"])
def test_a_line_that_is_read_as_nothing_runs_nothing(text: str, tmp_path: Path) -> None:
    session = Session(directory="/w", home="/h")
    assert read(text, "bash", session) == Reading(reader="fast", effects=())
    assert Bash(tmp_path).run(text) == []


@pytest.mark.proves("guard-no-silent-miss")
def test_what_bash_gives_to_rm_was_said_before(tmp_path: Path) -> None:
    assert missed(tmp_path / "few", range(300)) == []


@pytest.mark.slow
@pytest.mark.proves("guard-no-silent-miss")
def test_what_bash_gives_to_rm_was_said_before_in_thousands_of_scripts(tmp_path: Path) -> None:
    assert missed(tmp_path / "many", range(10_000, 15_000)) == []
