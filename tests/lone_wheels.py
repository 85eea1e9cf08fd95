"""Installing some of our wheels alone: what import contracts cannot see (dynamic imports, forgotten files) shows here.

Owns: building the wheels, an environment of exactly the locked dependencies, installing without an index, importing
every module. Does not own: which wheels belong together (the tests).

The third-party distributions are copied, file by file as their RECORD says, from the environment the tests run in:
bootstrap installed them there with the hashes of the same lock, so neither network nor cache is needed, and nothing
that only the tests bring (pytest, linters, the checkout's own source directories) comes along. `uv pip install
--no-index` of our wheels then succeeds only if what their metadata asks for is met by exactly that.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent

IMPORT_EVERYTHING = """
import importlib, importlib.util, json, pkgutil, sys
loaded, absent = [], json.loads(sys.argv[2])
for package in json.loads(sys.argv[1]):
    root = importlib.import_module(package)
    loaded.append(package)
    for module in pkgutil.walk_packages(root.__path__, package + "."):
        if not module.name.endswith(".__main__"):
            importlib.import_module(module.name)
            loaded.append(module.name)
print(json.dumps({
    "loaded": loaded,
    "present": [name for name in absent if importlib.util.find_spec(name)],
    "from": sorted({sys.modules[name].__file__ for name in loaded}),
}))
"""


def uv_environment() -> dict[str, str]:
    """Return an environment in which nothing of the machine's settings reaches uv."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("UV_", "PIP_", "PYTHON"))}


def build_wheels(uv: Path, projects: Sequence[str], folder: Path) -> Path:
    """Build the wheels of these projects of the checkout and return their directory; uv brings the build backend."""
    wheels = folder / "wheels"
    for project in projects:
        source = folder / "sources" / project.replace("/", "-")
        shutil.copytree(
            ROOT / project,
            source,
            ignore=shutil.ignore_patterns("__pycache__", ".*", "tests", "docs", "nix", *_others(project)),
        )
        _run([uv, "build", "--wheel", "--no-config", "--offline", "--no-cache", "--out-dir", wheels, source])
    return wheels


def install_alone(uv: Path, project: str, wheels: Path, names: Sequence[str], folder: Path) -> Path:
    """Return the interpreter of a new environment: the locked dependencies of `project` and our wheels `names`."""
    environment = folder / "environment"
    common = ["--no-config", "--offline", "--no-cache"]
    _run([uv, "venv", *common, "--no-project", "--python", sys.executable, environment])
    python = environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    site_packages = Path(_run([python, "-I", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]).strip())
    exported = _run(
        [
            uv,
            "export",
            *common,
            "--project",
            ROOT / project,
            "--frozen",
            "--no-emit-local",
            "--no-hashes",
            "--no-header",
        ]
    )
    for line in exported.splitlines():
        text = line.partition("#")[0].strip()
        if text and ((requirement := Requirement(text)).marker is None or requirement.marker.evaluate()):
            _copy_distribution(requirement, site_packages)
    _run([uv, "pip", "install", *common, "--python", python, "--no-index", "--find-links", wheels, *names])
    _run([uv, "pip", "check", *common, "--python", python])
    return python


def import_everything(python: Path, packages: Sequence[str], absent: Sequence[str]) -> dict[str, list[str]]:
    """Import every module of `packages`; return which were `loaded`, `from` where, and which `absent` are present."""
    output = _run([python, "-I", "-B", "-c", IMPORT_EVERYTHING, json.dumps(packages), json.dumps(absent)])
    found: dict[str, list[str]] = json.loads(output.splitlines()[-1])
    return found


def _copy_distribution(requirement: Requirement, site_packages: Path) -> None:
    distribution = importlib.metadata.distribution(requirement.name)
    assert distribution.version in requirement.specifier, f"locked: {requirement}; installed: {distribution.version}"
    for file in distribution.files or ():
        if ".." not in file.parts and file.suffix != ".pyc":  # commands lie outside; nothing here starts one
            target = site_packages / Path(file)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(str(file.locate()), target)


def _others(project: str) -> list[str]:
    """Return what lies in the root project's directory but belongs to the other distributions."""
    return ["pm", "compat", "plugins"] if project == "." else []


def _run(command: Sequence[str | Path]) -> str:
    result = subprocess.run(
        [str(part) for part in command],
        env=uv_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, f"{command}\n{result.stdout}\n{result.stderr}"
    return result.stdout
