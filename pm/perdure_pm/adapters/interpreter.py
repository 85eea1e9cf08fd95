"""What a Python interpreter is, asked of itself.

Owns: the identity by which PM records an interpreter (real path and full version, never a link that somebody moves) and
the one that this process runs on. Does not own: which one is used (ops.interpreters).
Standard library only, Python 3.9.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from perdure_pm.adapters.processes import run
from perdure_pm.model.errors import InterpreterMissing, PerdureError

MINIMUM = (3, 11)
"""The oldest Python that PM and the app run on."""

_PROBE = (
    "import json, os, platform, sys; base = getattr(sys, '_base_executable', None) or sys.executable; "
    "print(json.dumps({'path': os.path.realpath(base), 'version': platform.python_version(), "
    "'implementation': platform.python_implementation()}))"
)


@dataclass(frozen=True)
class Interpreter:
    """One installed interpreter."""

    path: Path
    """Real path of the base interpreter, not of a venv's link to it."""
    version: str
    """Full version, ``3.12.1``."""
    implementation: str
    """``CPython``."""

    @property
    def release(self) -> tuple[int, int]:
        """Major and minor version."""
        major, minor = self.version.split(".")[:2]
        return int(major), int(minor)

    def to_json(self) -> dict[str, str]:
        """Return the form that records hold."""
        return {"path": str(self.path), "version": self.version, "implementation": self.implementation}


def interpreter_from_json(data: Mapping[str, str]) -> Interpreter:
    """Return the interpreter that a record describes."""
    return Interpreter(Path(data["path"]), data["version"], data["implementation"])


def running_interpreter() -> Interpreter:
    """Return the base interpreter of this process."""
    base = getattr(sys, "_base_executable", None) or sys.executable
    return Interpreter(Path(os.path.realpath(base)), platform.python_version(), platform.python_implementation())


def ask_interpreter(path: Path, environment: Mapping[str, str]) -> Interpreter:
    """Return what the interpreter at `path` says of itself.

    Raises:
        InterpreterMissing: it does not exist or does not run.
    """
    try:
        answer = run([path, "-I", "-S", "-c", _PROBE], environment=environment, directory=path.parent, timeout=30)
        data = json.loads(answer.stdout)
        return Interpreter(Path(data["path"]), data["version"], data["implementation"])
    except (OSError, ValueError, KeyError, TypeError, PerdureError) as error:
        raise InterpreterMissing(
            f"{path} is not a Python that runs",
            hint="name another with --python PATH",
            context={"path": str(path)},
        ) from error


def find_library(interpreter: Interpreter) -> Path | None:
    """Return the directory of the interpreter's standard library, or None where that is in no usual place."""
    prefix, (major, minor) = interpreter.path.parent.parent, interpreter.release
    places = [prefix / name / f"python{major}.{minor}" for name in ("lib", "lib64")]
    return next((place for place in places if is_library(place)), None)


def is_library(folder: Path) -> bool:
    """Return whether a standard library is in `folder`, by the module without which no interpreter starts."""
    return os.access(folder / "encodings" / "__init__.py", os.R_OK)


def target_name() -> str:
    """Return the target that environments are built for on this machine, for example ``linux-x86_64``."""
    return f"{sys.platform}-{platform.machine().lower()}"


def bare_environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment for a probe that runs under a built interpreter: nothing of the caller's."""
    return {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1", **(more or {})}
