"""What runs before PM's runtime exists: standard library only, and an old Python is enough.

The list of these modules is `[tool.ruff.per-file-target-version]` in pyproject.toml, so that the linter holds them to
the old syntax; here the same list is held to be closed under imports, and is run on every old Python that is found.
"""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT, first_party_modules, imports, relative

MODULES = dict(first_party_modules())
TABLE = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["ruff"]["per-file-target-version"]
CLOSURE = {name: path for name, path in MODULES.items() if TABLE.get(relative(path)) == "py39"}
FILES = sorted(TABLE)
OLD_PYTHONS = ("python3.9", "python3.10")


@pytest.mark.proves("ground-bootstrap-closure")
@pytest.mark.parametrize("name", FILES)
def test_a_listed_file_exists_and_parses_as_python_3_9(name: str) -> None:
    ast.parse((ROOT / name).read_text(encoding="utf-8"), filename=name, feature_version=(3, 9))


@pytest.mark.proves("ground-bootstrap-closure")
@pytest.mark.parametrize("module", sorted(CLOSURE))
def test_a_listed_module_loads_the_standard_library_and_listed_modules_only(module: str) -> None:
    stray = [
        imported
        for imported, at_load in imports(CLOSURE[module], module=module)
        if at_load
        and imported.split(".")[0] not in sys.stdlib_module_names
        and imported not in CLOSURE
        # `from package.module import name` also yields package.module.name, which is a module only where one exists
        and not (imported not in MODULES and imported.rpartition(".")[0] in CLOSURE)
    ]
    assert stray == []


@pytest.mark.proves("ground-bootstrap-closure")
@pytest.mark.parametrize("command", OLD_PYTHONS)
def test_every_listed_module_imports_on_an_old_python(command: str, tmp_path: Path) -> None:
    python = _working(command)
    if python is None:
        pytest.skip(f"no {command} on PATH")
    code = f"import sys; sys.path.insert(0, {str(ROOT / 'pm')!r})\n" + "".join(f"import {m}\n" for m in sorted(CLOSURE))
    result = subprocess.run(
        [python, "-I", "-B", "-W", "error", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.proves("ground-bootstrap-closure")
@pytest.mark.parametrize("command", OLD_PYTHONS)
def test_bootstrap_answers_help_on_an_old_python(command: str, tmp_path: Path) -> None:
    python = _working(command)
    if python is None:
        pytest.skip(f"no {command} on PATH")
    result = subprocess.run(
        [python, "-B", str(ROOT / "pm" / "bootstrap.py"), "--help"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, "")


def _working(command: str) -> str | None:
    """Return the real path of that Python: what is on PATH may be a version manager's shim, or stand for nothing."""
    found = shutil.which(command)
    if found is None:
        return None
    environment = {**os.environ, "PYENV_VERSION": command.removeprefix("python")}  # a shim wants to be told which
    code = "import sys; print('python%d.%d' % sys.version_info[:2]); print(sys.executable)"
    result = subprocess.run(
        [found, "-I", "-c", code], capture_output=True, text=True, check=False, env=environment, timeout=60
    )
    version, _, executable = result.stdout.strip().partition("\n")
    return executable if result.returncode == 0 and version == command else None
