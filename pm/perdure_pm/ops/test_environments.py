"""The environments that the project's own tests and checks run in.

Owns: what each holds, and building it once. They lie in the home, built by the same builder as everything else; the
packages under test are not installed but found through a path file, so that a test sees the checkout as it is.

Standard library only, Python 3.9.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perdure_pm import ports
from perdure_pm.adapters.interpreter import Interpreter
from perdure_pm.adapters.uv import Uv
from perdure_pm.ops.build import build_environment
from perdure_pm.store.inventory import find_site_packages, hash_file
from perdure_pm.store.layout import Layout, environment_python

SCHEMA = 1


@dataclass(frozen=True)
class TestEnvironment:
    """One environment for tests."""

    __test__ = False  # not a test, whatever its name begins with

    name: str
    project: str
    """Where the project with the lock lies, below the checkout."""
    groups: tuple[str, ...]
    sources: tuple[str, ...]
    """Directories below the checkout that are importable; a trailing ``/*`` stands for each directory in it."""
    tests: tuple[str, ...]
    """The directories of tests that run in it, several at a time."""
    alone: tuple[str, ...] = ()
    """Those that measure, and so run one after the other with nothing beside them."""


TEST_ENVIRONMENTS = (
    TestEnvironment(
        "pm", "pm", ("test",), ("pm", "compat"), ("tests/pm", "tests/system", "tests/nix"), ("tests/perf",)
    ),
    TestEnvironment(
        "app",
        ".",
        ("bundled", "test", "lint"),
        ("app", "compat", "plugins/*"),
        ("tests/app", "tests/plugins", "tests/compat", "tests/architecture"),
    ),
)


def find_test_environment(layout: Layout, wanted: TestEnvironment, inputs: Mapping[str, Any]) -> Path | None:
    """Return the interpreter of a built environment with these inputs, or None. Nothing is written."""
    folder = layout.test_environment(wanted.name)
    with contextlib.suppress(OSError, ValueError):
        if json.loads((folder / "stamp.json").read_bytes()) == inputs and environment_python(folder / "venv").exists():
            return environment_python(folder / "venv")
    return None


def test_environment_inputs(wanted: TestEnvironment, checkout: Path, interpreter: Interpreter) -> dict[str, Any]:
    """Return what determines a test environment's content."""
    return {
        "schema": SCHEMA,
        "lock": hash_file(checkout / wanted.project / "uv.lock"),
        "groups": list(wanted.groups),
        "sources": [str(path) for path in _source_paths(wanted, checkout)],
        "python": interpreter.to_json(),
    }


def build_test_environment(
    uv: Uv,
    filesystem: ports.Filesystem,
    layout: Layout,
    wanted: TestEnvironment,
    checkout: Path,
    interpreter: Interpreter,
) -> Path:
    """Have the environment built anew, and return its interpreter. The caller holds the mutex."""
    folder = layout.test_environment(wanted.name)
    filesystem.remove_tree(folder)
    filesystem.make_directories(folder)
    build_environment(
        uv,
        filesystem,
        environment=folder / "venv",
        python=interpreter.path,
        requirements=uv.export(checkout / wanted.project, interpreter.path, groups=wanted.groups),
    )
    paths = "".join(f"{path}\n" for path in _source_paths(wanted, checkout))
    filesystem.write_durable(find_site_packages(folder / "venv") / "checkout.pth", paths.encode())
    # Written last: an environment without a stamp is built again.
    stamp = test_environment_inputs(wanted, checkout, interpreter)
    filesystem.write_durable(folder / "stamp.json", json.dumps(stamp, indent=1).encode())
    return environment_python(folder / "venv")


def _source_paths(wanted: TestEnvironment, checkout: Path) -> list[Path]:
    found: list[Path] = []
    for source in wanted.sources:
        if source.endswith("/*"):
            found += sorted(path for path in (checkout / source[:-2]).iterdir() if path.is_dir())
        else:
            found.append(checkout / source)
    return found
