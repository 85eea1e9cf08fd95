"""An environment that wants another result gets the same one: the same files, in the same home, from the same locks."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from perdure_pm.adapters.filesystem import LocalFilesystem
from tests.system.machine import Installation, built_contents, differences, plain_environment
from tests.system.mirror import Mirror

DEAD = "http://127.0.0.1:9/simple"
UV_TOML = f"""
offline = true
no-index = true
python-preference = "only-system"
exclude-newer = "1999-01-01T00:00:00Z"
[[index]]
url = "{DEAD}"
default = true
[pip]
index-url = "{DEAD}"
target = "stolen"
"""
PYPROJECT = f"""
[project]
name = "perdure-pm"
version = "666"
requires-python = ">=3.9"
dependencies = ["click==1.0"]
[tool.uv]
index-url = "{DEAD}"
required-version = "==0.0.1"
[tool.uv.workspace]
members = ["*"]
"""
SPY = """
import os, sys
with open({marker!r}, "a", encoding="utf-8") as file:
    file.write(" ".join(sys.orig_argv[:3]) + chr(10))
"""


@pytest.fixture
def hostile(installed: Installation, tmp_path: Path) -> Installation:
    """The installation's commands, run by somebody whose environment says something else everywhere."""
    trap = tmp_path / "trap"
    user, config, folder = trap / "user", trap / "config", trap / "project"
    for place in (user / ".config" / "uv", user / ".config" / "pip", config / "uv", folder / "click", trap / "venv"):
        place.mkdir(parents=True)
    for file in (user / ".config" / "uv" / "uv.toml", config / "uv" / "uv.toml", folder / "uv.toml", trap / "uv.toml"):
        file.write_text(UV_TOML, encoding="utf-8")
    (user / ".config" / "pip" / "pip.conf").write_text(f"[global]\nindex-url = {DEAD}\n", encoding="utf-8")
    (folder / "pyproject.toml").write_text(PYPROJECT, encoding="utf-8")
    (folder / ".python-version").write_text("2.7\n", encoding="utf-8")
    (folder / ".env").write_text(f"UV_INDEX_URL={DEAD}\n", encoding="utf-8")
    spy = SPY.format(marker=str(trap / "ran"))
    for name in ("sitecustomize", "usercustomize", "click/__init__", "ruamel", "perdure_pm", "argparse", "json"):
        (folder / f"{name}.py").write_text(spy, encoding="utf-8")
    (trap / "constraints.txt").write_text("click==1.0\nrich==1.0\n", encoding="utf-8")
    indexes = dict.fromkeys(
        ("UV_INDEX_URL", "UV_DEFAULT_INDEX", "UV_EXTRA_INDEX_URL", "UV_INDEX", "PIP_INDEX_URL"), DEAD
    )
    yes = dict.fromkeys(("UV_OFFLINE", "UV_NO_INDEX", "UV_SYSTEM_PYTHON", "UV_NO_BINARY", "UV_NO_CACHE"), "1")
    environment = plain_environment(
        {
            **indexes,
            **yes,
            "HOME": str(user),
            "XDG_CONFIG_HOME": str(config),
            "XDG_CONFIG_DIRS": str(config),
            "VIRTUAL_ENV": str(trap / "venv"),
            "CONDA_PREFIX": str(trap / "venv"),
            "UV_CONFIG_FILE": str(trap / "uv.toml"),
            "UV_CACHE_DIR": str(trap / "cache"),
            "UV_PYTHON": "2.7",
            "UV_PYTHON_INSTALL_DIR": str(trap / "pythons"),
            "UV_PYTHON_DOWNLOADS_JSON_URL": DEAD,
            "UV_PROJECT_ENVIRONMENT": str(trap / "venv"),
            "UV_CONSTRAINT": str(trap / "constraints.txt"),
            "UV_OVERRIDE": str(trap / "constraints.txt"),
            "UV_BUILD_CONSTRAINT": str(trap / "constraints.txt"),
            "UV_EXCLUDE_NEWER": "1999-01-01T00:00:00Z",
            "UV_LINK_MODE": "symlink",
            "UV_FIND_LINKS": str(trap),
            "UV_TORCH_BACKEND": "cpu",
            "UV_HTTP_TIMEOUT": "0",
            "UV_REQUIRED_VERSION": "==0.0.1",
            "UV_ENV_FILE": str(folder / ".env"),
            "PIP_TARGET": str(trap / "stolen"),
            "PIP_CONFIG_FILE": str(user / ".config" / "pip" / "pip.conf"),
            "PIP_REQUIRE_VIRTUALENV": "1",
            "PYTHONPATH": str(folder),
            "PYTHONSTARTUP": str(folder / "sitecustomize.py"),
            "PYTHONOPTIMIZE": "2",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPYCACHEPREFIX": str(trap / "pycache"),
            "PYTHONIOENCODING": "ascii",
            "PYTHONWARNINGS": "error",
            "PYTHONEXECUTABLE": str(trap / "venv" / "bin" / "python"),
            "PYTHONINSPECT": "",
            "PYTHONSAFEPATH": "",
            "LC_ALL": "C",
        }
    )
    return replace(installed, environment=environment, cwd=folder)


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    return tmp_path / "trap"


@pytest.fixture
def clean(installed: Installation, warm_home: Path, tmp_path: Path) -> Iterator[tuple[Installation, Path]]:
    """An installation built in a plain environment, and the path at which it was built, which is free again."""
    built = replace(installed, home=warm_home)
    built.up("--offline").succeeded()
    aside = tmp_path / "aside"
    warm_home.rename(aside)
    yield replace(built, home=aside), warm_home
    LocalFilesystem().remove_tree(aside)


@pytest.mark.proves("system-hostile")
def test_a_hostile_environment_changes_nothing_in_what_is_built(
    clean: tuple[Installation, Path], hostile: Installation, trap: Path, mirror: Callable[..., Mirror]
) -> None:
    """Cases 6 and 108: with cold caches, so that every package passes by each trap."""
    wanted, home = clean
    there = replace(hostile, home=home).with_environment(PERDURE_INDEX_URL=mirror().url)
    there.up().succeeded()
    for name in ("generation_path", "runtime_path"):
        expected, found = getattr(wanted, name) / "venv", getattr(there, name) / "venv"
        assert differences(built_contents(expected), built_contents(found)) == [], name
    for name in ("packages", "plugins", "interpreter", "requirements", "inputs_digest"):
        records = [json.loads((it.generation_path / "record.json").read_bytes())[name] for it in (wanted, there)]
        assert records[0] == records[1], name
    # Only the Python that the person started, before it ran a line of ours, looked into the trap.
    ran = (trap / "ran").read_text(encoding="utf-8").splitlines()
    assert {line.split()[1].rpartition("/")[2] for line in ran} == {"bootstrap.py"}, ran
    for name in ("stolen", "pythons", "cache", "project/stolen", "pycache"):
        assert not (trap / name).exists(), name
    assert list((trap / "venv").iterdir()) == []


@pytest.mark.proves("system-hostile")
def test_the_launchers_run_nothing_of_a_hostile_environment(
    own: Installation, hostile: Installation, trap: Path
) -> None:
    """Case 6, and what a person who sets PYTHONHOME for something else meets."""
    there = replace(hostile, home=own.home).with_environment(PYTHONHOME=str(trap), PYTHONPLATLIBDIR="nowhere")
    assert there.perdure("--version").succeeded().out == own.perdure("--version").out
    there.perdure("plugins", "--check").succeeded()
    there.pm("status", "--json").succeeded()
    assert there.pm("install", "--json").succeeded().json["status"] == "noop"
    assert not (trap / "ran").exists(), (trap / "ran").read_text(encoding="utf-8")


@pytest.mark.proves("system-hostile")
def test_a_rescue_runs_nothing_of_a_hostile_environment(own: Installation, hostile: Installation, trap: Path) -> None:
    """Case 6 on the way that starts without any of PM's interpreters."""
    LocalFilesystem().remove_tree(own.runtime_path / "venv")
    there = replace(hostile, home=own.home).with_environment(PERDURE_OFFLINE="1", PYTHONHOME=str(trap))
    there.pm("status", "--json").succeeded()
    assert not (trap / "ran").exists(), (trap / "ran").read_text(encoding="utf-8")
    assert os.path.lexists(own.runtime_path / "venv" / "bin" / "python")
