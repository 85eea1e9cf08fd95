"""Plugins that lie in a directory, a file or a repository, written for a test, and what became of them in a home.

Owns: what is in them, and looking. Does not own: what is done with them or what is asserted. Every one is for the fake
host, whose plugins are values.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.pm.bench import Bench
from tests.pm.fake_host import replace_uv

BACKEND = '[build-system]\nrequires = ["uv_build>=0.13.9,<0.14"]\nbuild-backend = "uv_build"\n'


def write_plugin(folder: Path, name: str = "notify", says: str = "1", **files: str) -> Path:
    """Have a project with an entry point in `folder`, and return it; `files` are further ones, __ for a dot."""
    module = name.replace("-", "_")
    (folder / "src" / module).mkdir(parents=True)
    (folder / "src" / module / "__init__.py").write_text(f'plugin = "{says}"\n', encoding="utf-8")
    (folder / "pyproject.toml").write_text(project(name), encoding="utf-8")
    write_files(folder, {path.replace("__", "."): text for path, text in files.items()})
    return folder


def project(name: str = "notify", more: str = "", version: str = 'version = "1.0"') -> str:
    """Return the text of a pyproject.toml; `more` are further lines of its project table."""
    module = name.replace("-", "_")
    return (
        f'[project]\nname = "{name}"\n{version}\n{more}\n'
        f'[project.entry-points.perdure]\n{name} = "{module}:plugin"\n{BACKEND}'
    )


def write_manifest_plugin(folder: Path, name: str = "notify", says: str = "1", more: str = "") -> Path:
    """Have a plugin without a project in `folder`, and return it."""
    module = name.replace("-", "_")
    folder.mkdir(parents=True)
    write_files(
        folder,
        {
            f"{module}/__init__.py": f'plugin = "{says}"\n',
            "plugin.yaml": f"manifest: 1\nname: {name}\nentry: {module}:plugin\n{more}",
        },
    )
    return folder


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Have the texts in files below `folder`."""
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")


def git(folder: Path, *words: str) -> str:
    """Run git in `folder`, and return what it says; what a person configured does not count."""
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(folder),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        **{f"GIT_{who}_{what}": "x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    }
    done = subprocess.run(
        ["git", *words], cwd=folder, env=environment, check=True, capture_output=True, text=True, timeout=60
    )
    return done.stdout.strip()


def commit(folder: Path) -> str:
    """Have everything in `folder` in a repository there, and return the commit."""
    if not (folder / ".git").exists():
        git(folder, "init", "--quiet", "--initial-branch", "main")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "a step")
    return git(folder, "rev-parse", "HEAD")


def says(bench: Bench) -> dict[str, str]:
    """Return what the host says that its plugins are."""
    ended = bench.start()
    assert ended.returncode == 0, ended.stderr
    plugins: dict[str, str] = json.loads(ended.stdout)["plugins"]
    return plugins


def snapshots(bench: Bench) -> list[str]:
    """Return the names of the copies in the store."""
    return sorted(os.listdir(bench.layout.plugins)) if bench.layout.plugins.is_dir() else []


def without_uv(bench: Bench) -> None:
    """Have every call of uv fail."""
    replace_uv(bench.workshop, bench.layout, "exit 99\n")
