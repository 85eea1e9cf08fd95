"""uninstall: what PM made goes, whatever lies beside it stays."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from perdure_pm.store.layout import Layout
from tests.pm.command_line import CommandLine
from tests.pm.sample_home import make_generation, select_generation, snapshot

pytestmark = [pytest.mark.proves("pm-uninstall-own-files"), pytest.mark.platforms("linux", "darwin")]

MARK = "#!/bin/sh\n# Written by perdure-pm; changes are overwritten.\n"


def write(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def installed(layout: Layout) -> Layout:
    """A home with a file of every kind that PM makes."""
    make_generation(layout)
    select_generation(layout)
    for name in (
        "config.yaml",
        "profiles/default/config.yaml",
        "profiles/default/app.yaml",
        "profiles/default/history.jsonl",
        "store/releases/abc/a.whl",
        "store/packages/x",
        "cache/uv/archive-v0/x",
        "cache/tmp/x",
        "receipts/20261129T190000.000000Z-01234567.json",
        "receipts/unfinished/20261129T190000.000000Z-01234567/x",
        "receipts/.20261129T190000.000000Z-01234567.json.0123456789ab.tmp",
        "tools/uv/0.13.9/uv",
        "python/cpython-3.13.1-linux-x86_64-gnu/bin/python3",
        "pm/policy",
        "pm/current",
        "pm/runtimes/0123456789ab/record.json",
        "pm/seed/0123456789ab/pm/bootstrap.py",
        "test/pm/x",
        "state/store.db",
        "mutex",
    ):
        write(layout.home / name)
    for name in ("perdure", "perdure-pm"):
        write(layout.bin / name, MARK)
    sealed = layout.generation("1-0123456789ab")
    for path in (*sealed.rglob("*"), sealed):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode & ~0o222)
    return layout


def test_everything_goes_and_a_second_time_there_is_nothing_to_do(pm: CommandLine, installed: Layout) -> None:
    ended = pm("uninstall", "--yes")
    assert (ended.exit_code, ended.out, ended.err) == (0, "everything that PM made is gone\n", "")
    assert not installed.home.exists()
    again = pm("uninstall", "--yes")
    assert (again.exit_code, again.out) == (0, "nothing to do: PM has nothing there\n")
    assert not installed.home.exists()


def test_keep_state_spares_what_the_host_keeps_and_people_wrote(pm: CommandLine, installed: Layout) -> None:
    ended = pm("uninstall", "--keep-state", "--yes")
    assert ended.out == (
        "everything that PM made is gone\n"
        "left, as PM did not make it or was to spare it:\n"
        "  config.yaml\n"
        "  profiles/default/app.yaml\n"
        "  profiles/default/config.yaml\n"
        "  state/\n"
    )
    assert set(snapshot(installed.home)) == {
        "config.yaml",
        "profiles",
        "profiles/default",
        "profiles/default/app.yaml",
        "profiles/default/config.yaml",
        "state",
        "state/store.db",
    }


THEIRS = (
    "notes.txt",
    "bin/mine",
    "test/test_mine.py",
    "tools/hammer",
    "tools/uv/readme",
    "python/script.py",
    "pm/bootstrap.py",
    "store/inventory.csv",
    "cache/mine",
    "receipts/2026.pdf",
    "receipts/taxes.json",
    "profiles/me/photo.jpg",
    "state/mine",
)


def test_in_a_directory_that_has_a_users_files_too_only_pms_own_go(pm: CommandLine, installed: Layout) -> None:
    for name in THEIRS:
        write(installed.home / name, "mine")
    ended = pm("uninstall", "--yes", "--json")
    left = {name for name, data in snapshot(installed.home).items() if data is not None}
    # Where there are foreign files, state/ may be foreign too.
    assert left == {*THEIRS, "state/store.db"}
    assert ended.envelope["data"]["left"] == sorted([*(name for name in THEIRS if name != "state/mine"), "state/"])


def test_a_directory_that_is_no_home_is_left_alone(pm: CommandLine, layout: Layout) -> None:
    for name in ("config.yaml", "state/x", "test/pm/x", "cache/tmp/x", "pm/bootstrap.py", "python/cpython-3/x"):
        write(layout.home / name, "mine")
    before = snapshot(layout.home)
    assert pm("uninstall", "--yes").exit_code == 0
    assert snapshot(layout.home) == before


@pytest.mark.parametrize("where", ["store", "config.yaml", "profiles", "state", "bin", "pm/runtimes", "cache/tmp"])
def test_no_link_is_followed_or_removed(pm: CommandLine, installed: Layout, tmp_path: Path, where: str) -> None:
    outside = tmp_path / "outside"
    place = installed.home / where
    place.rename(outside)
    place.symlink_to(outside)
    before = snapshot(outside) if outside.is_dir() else outside.read_bytes()
    ended = pm("uninstall", "--yes", "--json")
    assert ended.exit_code == 0
    assert place.is_symlink()
    assert (snapshot(outside) if outside.is_dir() else outside.read_bytes()) == before
    assert where in [name.rstrip("/") for name in ended.envelope["data"]["left"]]


@pytest.mark.proves("cli-never-hangs")
def test_without_a_terminal_and_without_yes_it_is_refused_naming_the_flag(pm: CommandLine, installed: Layout) -> None:
    before = snapshot(installed.home)
    ended = pm("uninstall")
    assert (ended.exit_code, ended.out, ended.err) == (
        10,
        "",
        (
            "error: this needs a person's yes, nobody can be asked here, and --yes was not given\n"
            "  state: unchanged\n"
            "  try: HOME/bin/perdure-pm uninstall --yes\n"
        ),
    )
    assert snapshot(installed.home) == before
    assert pm("uninstall", variables={"PERDURE_YES": "1"}).exit_code == 0


def test_a_dry_run_lists_what_would_go_in_order(pm: CommandLine, installed: Layout) -> None:
    before = snapshot(installed.home)
    lines = pm("uninstall", "--dry-run").out.splitlines()
    assert (lines[0], lines[1], lines[-1]) == ("would remove:", "  profiles/default/current", "  bin/perdure-pm")
    assert snapshot(installed.home) == before


@pytest.mark.platforms("linux")
def test_while_a_process_runs_from_the_home_it_is_refused_without_force(pm: CommandLine, installed: Layout) -> None:
    python = installed.generation("1-0123456789ab") / "venv" / "bin" / "python"
    with subprocess.Popen([python, "-I", "-c", "print('up', flush=True); input()"], stdin=-1, stdout=-1) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"up\n"
        ended = pm("uninstall", "--yes", "--json")
        (error,) = ended.envelope["errors"]
        assert (ended.exit_code, error["code"]) == (7, "busy")
        assert [found["pid"] for found in error["context"]["processes"]] == [running.pid]
        assert pm("uninstall", "--yes", "--force").exit_code == 0
        assert not installed.home.exists()
        running.communicate(b"\n")
    assert Path(sys.executable).exists()
