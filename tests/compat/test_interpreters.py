"""The facade's cases under every CPython that is at hand, also ones that the project's own lock does not know.

Which: those on PATH, and any that PERDURE_TEST_PYTHONS names (separated like PATH), for builds that lie elsewhere.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

VERSIONS = ("3.11", "3.12", "3.13", "3.14", "3.15", "3.13t", "3.14t", "3.15t")
PROBE = (
    "import sys, sysconfig; t = 't' if sysconfig.get_config_var('Py_GIL_DISABLED') else '';"
    "print('%d.%d' % sys.version_info[:2] + t)"
)


def find_interpreter(version: str) -> str | None:
    """Return a command that starts that version: what is on PATH may be a shim that stands for nothing."""
    named = os.environ.get("PERDURE_TEST_PYTHONS", "").split(os.pathsep)
    on_path = shutil.which(f"python{version}")
    for command in [*filter(None, named), *([on_path] if on_path else [])]:
        found = subprocess.run(
            [command, "-c", PROBE],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            env={**os.environ, "PYENV_VERSION": version},
        )
        if found.returncode == 0 and found.stdout.strip() == version:
            return command
    return None


@pytest.mark.slow
@pytest.mark.proves("compat-every-python")
@pytest.mark.parametrize("version", VERSIONS)
def test_the_facades_cases_hold_under_this_python(version: str) -> None:
    """Case 14."""
    command = find_interpreter(version)
    if command is None:
        pytest.skip(f"no CPython {version} on PATH or in PERDURE_TEST_PYTHONS")
    folder = Path(__file__).parent
    # What needs pytest inside the program is left to the interpreter that has one.
    done = subprocess.run(
        [
            *(sys.executable, "-I", "-m", "pytest", "-q", "-p", "no:cacheprovider"),
            *("-k", "not monkeypatch and not shipped_pytest_plugin"),
            *(str(folder / f"test_{name}.py") for name in ("facade", "modules", "uses")),
        ],
        cwd=folder.parent.parent,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        env={**os.environ, "PERDURE_TEST_COMPAT_PYTHON": command, "PYENV_VERSION": version, "PYTEST_ADDOPTS": ""},
    )
    assert done.returncode == 0, done.stdout
