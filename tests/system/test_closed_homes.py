"""Homes that must not or cannot be changed: another user's, where root is asked, and one that can only be read."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from perdure_pm.adapters.filesystem import LocalFilesystem
from tests.system.machine import Installation, differences, fingerprint

LOOKING: tuple[tuple[str, ...], ...] = (
    ("status",),
    ("doctor",),
    ("doctor", "--deep"),
    ("history",),
    ("receipts",),
    ("plugin", "list"),
    ("python", "list"),
    ("self", "status"),
    ("config", "get"),
    ("path",),
)
CHANGING: tuple[tuple[str, ...], ...] = (
    ("install",),
    ("upgrade", "--yes"),
    ("repair",),
    ("rollback",),
    ("collect",),
    ("plugin", "add", "perdure-facts"),
    ("plugin", "disable", "facts"),
    ("pin",),
    ("label", "good"),
    ("config", "set", "install.lazy", "false"),
    ("python", "install", "3.13"),
    ("python", "uninstall", "3.13"),
    ("self", "rebuild"),
    ("self", "update"),
    ("self", "rollback"),
    ("uninstall", "--yes"),
)
pytestmark = [
    pytest.mark.platforms("linux"),
    pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root may give a home away"),
]


def whose(home: Path) -> dict[str, tuple[int, int]]:
    """Return the owner and the time of every file."""
    paths = [home, *home.rglob("*")]
    return {str(path): (path.lstat().st_uid, path.lstat().st_mtime_ns) for path in paths}


@pytest.mark.proves("closed-homes")
def test_root_looks_at_another_users_home_and_changes_nothing_in_it(own: Installation) -> None:
    """Case 115: every verb that would is refused before it writes, also where PM itself would be mended first."""
    for path in (own.home, *own.home.rglob("*")):
        os.chown(path, 65534, 65534, follow_symlinks=False)
    before, owners = fingerprint(own.home), whose(own.home)
    own.perdure("--version").succeeded()
    for words in LOOKING[:4]:
        assert own.pm(*words, "--json").code in {0, 3}, words
    for words in CHANGING:
        answer = own.pm(*words, "--json")
        assert (answer.code, answer.error["code"]) == (10, "home-foreign"), words
        assert str(own.home) in answer.error["summary"]
    assert own.up("--offline").code == 10
    runtime = own.runtime_path
    LocalFilesystem().remove_tree(runtime / "entry.py")
    for words in (("status",), ("repair",)):
        answer = own.pm(*words, "--json")
        assert (answer.code, answer.error["code"]) == (10, "home-foreign")
    kept = {path: value for path, value in owners.items() if os.path.lexists(path) and path != str(runtime)}
    assert {path: value for path, value in whose(own.home).items() if path != str(runtime)} == kept
    assert differences(before, fingerprint(own.home)) == [f"pm/runtimes/{own.runtime}/entry.py"]


@pytest.mark.proves("closed-homes")
def test_a_home_that_can_only_be_read_runs_and_what_would_change_it_names_its_path(own: Installation) -> None:
    before = fingerprint(own.home)
    mounts = f'mount --bind "{own.home}" "{own.home}" && mount -o remount,ro,bind "{own.home}" && exec "$@"'
    there = replace(own, prefix=("unshare", "-m", "sh", "-c", mounts, "sh"))
    there.perdure("--version").succeeded()
    there.perdure("plugins", "--check").succeeded()
    for words in LOOKING:
        answer = there.pm(*words, "--json")
        assert answer.code in {0, 3}, (words, answer.err)
        assert "Traceback" not in answer.err
    for words in CHANGING[::3]:
        answer = there.pm(*words, "--json")
        assert (answer.code, answer.error["code"]) == (1, "home-unusable"), words
        assert str(own.home) in answer.error["summary"]
        assert answer.error["hint"]
    assert differences(before, fingerprint(own.home)) == []
