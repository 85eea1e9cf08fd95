"""Plugins of an earlier plugin API, run as they were."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

FROZEN = Path(__file__).parent / "fixtures" / "frozen"


@pytest.fixture
def frozen(tmp_path: Path) -> Path:
    """Return a folder with the frozen plugins' packages, under the names that they had."""
    for source in FROZEN.rglob("*.txt"):
        target = tmp_path / source.relative_to(FROZEN).with_suffix("")
        target.parent.mkdir(exist_ok=True)
        shutil.copyfile(source, target)
    return tmp_path


def run(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-Wdefault", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        cwd=folder,
        # Before everything else: the checkout has a package of the same name.
        env={**os.environ, "PYTHONPATH": str(folder)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    # What is old says so, once for each name, and at the plugin's own line.
    told = [line for line in done.stderr.splitlines() if "PerdureCompatWarning" in line]
    assert len(told) == len(set(told))
    assert all(line.startswith(f"{folder}/perdure_") for line in told)
    return done.stdout


@pytest.mark.proves("compat-frozen-plugins")
def test_the_frozen_facts_answer_with_each_of_their_tools(frozen: Path) -> None:
    output = run(
        frozen,
        "-c",
        "import perdure_facts\nfrom perdure.api import ToolCall\nprint(perdure_facts.__file__)\n"
        "for tool in perdure_facts.tools():\n"
        "    result = tool.run(ToolCall(tool=tool.name, arguments={}))\n"
        "    print(tool.name, tool.read_only, bool(result.text), bool(result.data))\n",
    )
    assert output.splitlines() == [
        str(frozen / "perdure_facts" / "__init__.py"),
        "facts.machine True True True",
        "facts.disks True True True",
        "facts.processes True True True",
    ]


@pytest.mark.proves("compat-frozen-plugins")
def test_the_frozen_skeleton_passes_the_tests_that_it_was_made_with(frozen: Path) -> None:
    output = run(frozen, "-m", "pytest", "-q", "-p", "no:cacheprovider", "perdure_hello/test_plugin.py")
    assert "3 passed" in output
