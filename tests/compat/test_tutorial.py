"""The tutorial, walked literally: its files are written, its commands run, and its outputs are what comes out."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import perdure_compat

PAGE = Path(__file__).parent.parent.parent / "docs" / "tutorials" / "adopt-perdure-compat.md"
BLOCK = re.compile(r"^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"In `(?P<path>[\w./-]+)`:\n\n\Z")


@pytest.mark.proves("compat-tutorial")
def test_the_tutorial_does_what_it_says(tmp_path: Path) -> None:
    page = PAGE.read_text()
    tools = tmp_path / "tools"
    tools.mkdir()
    for name, arguments in (("perdure-compat", ["-m", "perdure_compat"]), ("python", [])):
        script = tools / name
        script.write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, *arguments])} "$@"\n')
        script.chmod(0o755)
    project = tmp_path / "project"
    project.mkdir()
    engine = str(Path(perdure_compat.__file__).parent.parent)
    output, commands, compared = "", 0, 0
    for block in BLOCK.finditer(page):
        text = block["text"]
        named = FILE.search(page[: block.start()])
        if named is not None:
            path = project / named["path"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        elif block["language"] == "sh":
            commands += 1
            done = subprocess.run(
                ["sh", "-euc", text.replace("PYTHONPATH=src", f"PYTHONPATH=src:{shlex.quote(engine)}")],
                cwd=project,
                capture_output=True,
                text=True,
                check=False,
                env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "PYTHONPATH": engine},
            )
            output = done.stdout + done.stderr
            assert done.returncode == 0, f"{text}{output}"
        elif block["language"] == "text" and commands:
            compared += 1
            for line in text.splitlines():
                assert line in output, f"{line!r} is not in:\n{output}"
    assert (commands, compared) == (7, 6)
