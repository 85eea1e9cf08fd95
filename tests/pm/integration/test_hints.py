"""Every command that PM tells a person to run, run in the state in which PM says so."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from perdure_pm.model.settings import SETTINGS
from tests.pm.bench import Bench
from tests.pm.hint_rows import ELSEWHERE, NO_COMMANDS, ROWS, Row
from tests.pm.hint_sites import NAMED, commands_in, find_sites

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
    for named in commands:
        command = named
        for placeholder, value in row.words.items():
            place = value.format(folder=folder, checkout=bench.workshop.checkout)
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
    tried = {row.site for row in ROWS} | set(ELSEWHERE) | set(NO_COMMANDS)
    assert (sorted(named - tried), sorted(tried - named)) == ([], [])


@pytest.mark.proves("cli-true-hints")
@pytest.mark.parametrize("place", sorted(set(ELSEWHERE.values())))
def test_what_is_tried_elsewhere_is_tried_there(place: str, checkout: Path) -> None:
    file, _, name = place.partition("::")
    assert re.search(rf"^def {name}\(", (checkout / file).read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.proves("cli-true-hints")
def test_every_option_variable_and_page_that_a_hint_names_exists(checkout: Path) -> None:
    known = {setting.flag for setting in SETTINGS} | set(
        re.findall(
            r"(?<![\w-])--[a-z][a-z-]+", (checkout / "docs/reference/command-line.md").read_text(encoding="utf-8")
        )
    )
    variables = {setting.variable for setting in SETTINGS} | {"PERDURE_DEBUG"}
    for site in SITES.values():
        if not site.is_hint or "uv lock" in site.text:
            continue
        for flag in re.findall(r"(?<![\w{-])--[a-z][a-z-]+", site.text):
            assert flag in known, site.key
        for variable in re.findall(r"PERDURE_[A-Z_]+", site.text):
            assert variable in variables, site.key
        for page in re.findall(r"docs/[a-z/-]+\.md", site.text):
            assert (checkout / page).is_file(), site.key


@pytest.mark.proves("cli-true-hints")
def test_a_hint_in_another_profile_names_that(bench: Bench) -> None:
    bench.call("install", bench.context(profile="other"))
    bench.call("plugin-add", bench.context(profile="other"), requirements=["gadget"], confirm_within=600)
    said = bench.pm("status", "--profile", "other").out
    (command,) = commands_in(said.replace("HOME/bin", str(bench.layout.bin)))
    assert shlex.split(command)[1:] == ["--profile", "other", "confirm"]
    ended = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True, cwd=bench.layout.home)
    assert "stays" in ended.stdout
