"""What `plugin new` writes, installed in our own app as it is, with its own tests run the way its README says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.system.machine import Installation


@pytest.mark.proves("skeleton-works")
def test_a_new_plugin_installs_runs_and_passes_its_own_tests(own: Installation, tmp_path: Path) -> None:
    folder = tmp_path / "ripple-effect"
    own.pm("plugin", "new", str(folder)).succeeded()
    own.pm("plugin", "add", str(folder)).succeeded()
    assert "ripple_effect.hello" in own.perdure("tools").succeeded().out
    assert own.perdure("run", "ripple_effect.hello", "--arg", "name=you").succeeded().out.strip() == "Hello, you!"
    own.perdure("plugins", "--check").succeeded()
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=folder,
        env={"PATH": f"{own.home / 'bin'}{os.pathsep}{os.defpath}", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (ended.returncode, "3 passed" in ended.stdout) == (0, True), ended.stdout + ended.stderr
    checked = own.pm("plugin", "check", str(folder), "--json").succeeded()
    assert {check["status"] for check in checked.json["data"]["checks"]} == {"ok"}, checked.json
