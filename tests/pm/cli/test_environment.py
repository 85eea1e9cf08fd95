"""run, env and path: the host's commands, whatever the home is called and whatever the caller's variables say."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from perdure_pm.store.layout import Layout
from tests.pm.command_line import CommandLine
from tests.pm.sample_home import make_generation, select_generation

pytestmark = pytest.mark.platforms("linux", "darwin")

NAMES = ["home", "with space", "it's", 'a "b"', "line\nbreak", "ünï", "$(touch x)", "-dash", "*", "back\\slash"]

HOSTILE = {
    "PYTHONPATH": "/hostile",
    "PYTHONHOME": "/hostile",
    "VIRTUAL_ENV": "/hostile",
    "UV_INDEX_URL": "hostile",
    "PIP_INDEX_URL": "hostile",
    "PERDURE_INDEX_URL": "https://own.invalid",
    "KEPT": "kept",
    "PERDURE_APPROVALS": "the app's own",
}


@pytest.fixture(params=NAMES)
def pm(request: pytest.FixtureRequest, tmp_path: Path) -> CommandLine:
    """perdure-pm on an installed home of many a name."""
    home = tmp_path / str(request.param)
    make_generation(Layout(home))
    select_generation(Layout(home))
    return CommandLine(home)


def test_run_finds_the_hosts_commands_first(pm: CommandLine) -> None:
    ended = pm("run", "--", "hello", "--json", "wor ld")
    assert (ended.exit_code, ended.out, ended.err) == (0, "hello --json wor ld\n", "")


def test_the_lines_of_env_do_the_same_in_a_shell(pm: CommandLine) -> None:
    lines = subprocess.run(
        pm.command("env", "--shell", "sh"),
        env={**pm.environment, **HOSTILE, "PYTHONHOME": ""},
        capture_output=True,
        check=True,
    ).stdout
    script = lines + b'\nhello "$KEPT" "$UV_INDEX_URL" "${PYTHONPATH-unset}" "${VIRTUAL_ENV-unset}"'
    ended = subprocess.run(
        ["/bin/sh", "-c", script], env={**pm.environment, **HOSTILE}, capture_output=True, check=True
    )
    assert ended.stdout == b"hello kept hostile unset unset\n"


def test_path_prints_a_line_that_leads_to_the_launchers(pm: CommandLine) -> None:
    folder = Layout(pm.home).bin
    folder.mkdir()
    launcher = folder / "perdure-pm"
    launcher.write_text("#!/bin/sh\necho launched\n", encoding="utf-8")
    launcher.chmod(0o755)
    line = subprocess.run(pm.command("path"), env=pm.environment, capture_output=True, check=True).stdout
    ended = subprocess.run(
        ["/bin/sh", "-c", line + b"\nperdure-pm"], env=pm.environment, capture_output=True, check=True
    )
    assert ended.stdout == b"launched\n"


@pytest.fixture
def plain(home: Path) -> CommandLine:
    """perdure-pm on an installed home."""
    make_generation(Layout(home))
    select_generation(Layout(home))
    return CommandLine(home)


@pytest.mark.proves("pm-run-needs-a-commit")
def test_run_passes_nothing_that_leads_python_or_an_installer_elsewhere(plain: CommandLine) -> None:
    ended = plain("run", "env", variables={**HOSTILE, "PYTHONHOME": ""})
    found = dict(line.split("=", 1) for line in ended.out.splitlines())
    assert found["PATH"].startswith("HOME/store/generations/1-0123456789ab/venv/bin:")
    assert {name for name in found if name not in {"PWD", "SHLVL", "_", "OLDPWD"}} == {
        "PATH",
        "HOME",
        "LC_ALL",
        "KEPT",
        "PERDURE_APPROVALS",
    }


@pytest.mark.proves("pm-run-needs-a-commit")
def test_with_nothing_committed_run_refuses_and_starts_nothing(home: Path, tmp_path: Path) -> None:
    (tmp_path / "hostile.py").write_text("raise SystemExit('ran')\n", encoding="utf-8")
    ended = CommandLine(home)("run", "--", "touch", str(tmp_path / "ran"), variables={"PYTHONPATH": str(tmp_path)})
    assert (ended.exit_code, ended.out, ended.err) == (
        1,
        "",
        (
            "error: nothing is installed in HOME for the profile default\n"
            "  state: unchanged\n"
            "  try: perdure-pm install --checkout DIR\n"
        ),
    )
    assert not (tmp_path / "ran").exists()


def test_a_command_that_does_not_exist_is_a_usage_error(plain: CommandLine) -> None:
    ended = plain("run", "nope")
    assert (ended.exit_code, ended.err.splitlines()[0]) == (2, "error: there is no command 'nope'")


def test_a_command_that_is_no_program_is_a_usage_error(plain: CommandLine) -> None:
    broken = Layout(plain.home).generation("1-0123456789ab") / "venv" / "bin" / "broken"
    broken.write_bytes(b"\0\1\2")
    broken.chmod(0o755)
    ended = plain("run", "broken")
    assert (ended.exit_code, ended.err.splitlines()[0].rpartition(": ")[2]) == (2, "Exec format error")


def test_a_command_gets_the_signals_as_a_shell_would_give_them(plain: CommandLine) -> None:
    ended = plain("run", "sh", "-c", "yes | head -n 1")
    assert (ended.exit_code, ended.out, ended.err) == (0, "y\n", "")


def test_a_command_runs_where_standard_output_is_closed(plain: CommandLine) -> None:
    ended = plain("run", "sh", "-c", "exit 7", shell_suffix=">&- 2>&-")
    assert ended.exit_code == 7


def test_a_command_that_ends_badly_gives_its_own_exit_code(plain: CommandLine) -> None:
    assert plain("run", "sh", "-c", "exit 42").exit_code == 42


def test_a_generation_without_its_interpreter_is_refused_with_what_helps(plain: CommandLine) -> None:
    python = Layout(plain.home).generation("1-0123456789ab") / "venv" / "bin" / "python"
    python.unlink()
    python.symlink_to("/nowhere/python")
    ended = plain("env")
    assert (ended.exit_code, ended.err.splitlines()[0]) == (
        1,
        "error: generation 1-0123456789ab cannot run: /nowhere/python is gone",
    )


@pytest.mark.parametrize(
    ("shell", "expected"),
    [
        ("sh", "export PATH='HOME/bin it'\"'\"'s'\"${PATH:+:$PATH}\"\n"),
        ("fish", "set -gx PATH 'HOME/bin it\\'s' $PATH\n"),
        ("powershell", "$env:PATH = 'HOME/bin it''s' + [IO.Path]::PathSeparator + $env:PATH\n"),
    ],
)
def test_each_shell_is_quoted_in_its_own_way(shell: str, expected: str) -> None:
    from perdure_pm.ops.environment import shell_lines

    assert "\n".join(shell_lines(shell, Path("HOME/bin it's"))) + "\n" == expected


def test_the_shell_of_the_person_is_the_default(plain: CommandLine) -> None:
    assert plain("path", variables={"SHELL": "/usr/bin/fish"}).out.startswith("set -gx PATH ")
    assert plain("path", variables={"SHELL": "/bin/zsh"}).out.startswith("export PATH=")


def test_path_says_so_when_it_is_there_already(plain: CommandLine) -> None:
    ended = plain("path", variables={"PATH": f"{plain.home}/bin:/bin"})
    assert (ended.exit_code, ended.err) == (0, "notice: it is on PATH already\n")
