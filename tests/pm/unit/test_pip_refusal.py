"""What stands in a generation where pip would be."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from perdure_pm.launcher import pip_refusal

SOURCE = Path(pip_refusal.__file__)


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["install", "thing"], "plugin add thing"),
        (["install", "-U", "--no-cache-dir", "thing>=1", "other"], "plugin add 'thing>=1' other"),
        (["install", "-i", "https://index.invalid/simple", "thing"], "plugin add thing"),
        (["install", "-r", "requirements.txt"], "plugin add NAME"),
        (["uninstall", "-y", "thing"], "plugin remove thing"),
        (["install", "$(rm -r .); x"], "plugin add '$(rm -r .); x'"),
        (["/x/pip/__pip-runner__.py", "install", "thing"], "plugin add thing"),
        (["list"], "plugin list"),
        ([], "plugin list"),
    ],
)
def test_it_names_the_command_that_does_what_was_asked(
    words: list[str], command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", "/a home/store/generations/1-0123456789ab/venv")
    first, second = pip_refusal.answer(words).splitlines()
    assert first == "error: this environment belongs to Perdure and is read-only: pip does not change it"
    assert second == f"  try: '/a home/bin/perdure-pm' {command}"


@pytest.mark.parametrize("way", [["-m", "pip"], ["-c", "import runpy; runpy.run_module('pip', run_name='__main__')"]])
def test_both_ways_in_which_hosts_run_pip_end_with_its_words(way: list[str], tmp_path: Path) -> None:
    shutil.copy(SOURCE, tmp_path / "pip.py")
    ended = subprocess.run(
        [sys.executable, *way, "install", "x"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1
    assert "plugin add x" in ended.stderr


def test_an_import_of_it_does_nothing(tmp_path: Path) -> None:
    shutil.copy(SOURCE, tmp_path / "pip.py")
    ended = subprocess.run(
        [sys.executable, "-c", "import pip"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
