"""The completion scripts, run by the shell they are for."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.pm.command_line import CommandLine

SCRIPT = """\
source "$1"
COMP_WORDS=({words})
COMP_CWORD={index}
_perdure_pm_completion perdure-pm
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture
def script(pm: CommandLine, tmp_path: Path) -> Path:
    """The bash script, and a launcher on PATH that it calls back."""
    launcher = tmp_path / "bin" / "perdure-pm"
    launcher.parent.mkdir()
    python, *words, code = pm.command()
    launcher.write_text(f"#!/bin/sh\nexec {python} {' '.join(words)} '{code}' \"$@\"\n", encoding="utf-8")
    launcher.chmod(0o755)
    path = tmp_path / "completion.bash"
    path.write_text(pm("completions", "bash").out, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("perdure-pm st", {"stage", "status"}),
        ("perdure-pm self ", {"rebuild", "rollback", "status", "update"}),
        ("perdure-pm completions ", {"bash", "fish", "zsh"}),
        (
            "perdure-pm config set network.",
            {
                "network." + name
                for name in ("index-url", "proxy", "certificate", "wheelhouse", "python-downloads", "offline")
            },
        ),
        ("perdure-pm uninstall --keep", {"--keep-state"}),
    ],
)
def test_bash_completes_through_the_launcher(
    pm: CommandLine, script: Path, tmp_path: Path, words: str, expected: set[str]
) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("no bash")
    parts = words.split(" ")
    quoted = " ".join(f"'{part}'" for part in parts)
    ended = subprocess.run(
        [bash, "--norc", "-c", SCRIPT.format(words=quoted, index=len(parts) - 1), "bash", str(script)],
        env={**pm.environment, "PATH": f"{tmp_path / 'bin'}:{pm.environment['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(ended.stdout.split()) == expected
    assert not pm.home.exists()


@pytest.mark.parametrize(
    ("shell", "sign"), [("zsh", "#compdef perdure-pm"), ("fish", "complete --no-files --command perdure-pm")]
)
def test_the_other_shells_have_a_script_too(pm: CommandLine, shell: str, sign: str) -> None:
    assert sign in pm("completions", shell).out
