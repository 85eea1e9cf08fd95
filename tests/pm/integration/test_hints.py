"""Every command that PM tells a person to run, run in the state in which PM says so."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.pm.bench import Bench
from tests.pm.hint_sites import NAMED, commands_in, find_sites
from tests.pm.hint_states import ELSEWHERE, ROWS, Row

pytestmark = pytest.mark.platforms("linux", "darwin")

SITES = {site.key: site for site in find_sites()}


@pytest.mark.proves("cli-true-hints")
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.site)
def test_a_command_that_a_person_is_told_to_run_works_in_that_state(
    row: Row, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Case 87."""
    bench: Bench = request.getfixturevalue(row.home)
    folder = tmp_path / "at hand"
    folder.mkdir()
    printed = row.state(bench, folder)
    assert SITES[row.site].pattern.search(printed), printed
    commands = commands_in(printed)
    assert commands, printed
    for command in commands:
        for placeholder, value in row.words.items():
            place = value.format(folder=folder, home=bench.layout.home, checkout=bench.workshop.checkout)
            command = command.replace(placeholder, shlex.quote(place) if "{" in value else place)
        ended = subprocess.run(
            ["sh", "-c", command],
            env={
                "PATH": os.pathsep.join([str(bench.workshop.uv.parent), os.defpath]),
                "HOME": str(bench.layout.home.parent),
                "LC_ALL": "C.UTF-8",
                "UV_OFFLINE": "1",
                **bench.settings(),
            },
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert ended.returncode in row.exit_codes, f"{command}\n{ended.stdout}{ended.stderr}"


@pytest.mark.proves("cli-true-hints")
def test_no_text_that_names_a_command_is_without_a_try() -> None:
    named = {key for key, site in SITES.items() if NAMED.search(site.text)}
    tried = {row.site for row in ROWS} | set(ELSEWHERE)
    assert (sorted(named - tried), sorted(tried - named)) == ([], [])
