"""The environment of what is started for an agent.

Owns: what is taken out of the app's own environment, and what is put in. Does not own: starting anything (terminal).
Keeps: exec-environment: nothing that a command inherits makes a package manager take Perdure's own environment for
the project's, makes an interpreter load something else, or makes a shell run what nobody has read.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase

RUN_VARIABLE = "PERDURE_RUN"
"""Holds the run's id in everything that is started for it."""

_TAKEN_OUT = (
    "VIRTUAL_ENV*",
    "UV_PROJECT_ENVIRONMENT",
    "UV_INTERNAL__*",
    "CONDA_*",
    "POETRY_ACTIVE",
    "PIPENV_ACTIVE",
    "PYTHONHOME",
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "PYTHONEXECUTABLE",
    "__PYVENV_LAUNCHER__",
    # What a shell runs before its text, and what it takes for a command.
    "BASH_ENV",
    "ENV",
    "BASH_FUNC_*",
    "SHELLOPTS",
    "BASHOPTS",
    # Ours: they are for the app's own processes.
    "PERDURE_*",
)


def scrub(environ: Mapping[str, str], own_folders: Collection[str], run: str) -> dict[str, str]:
    """Return the environment for a command.

    Args:
        environ: the app's own.
        own_folders: directories of commands that are Perdure's; they come off `PATH`, also where a link leads to them.
        run: the run's id.
    """
    kept = {
        name: value for name, value in environ.items() if not any(fnmatchcase(name, pattern) for pattern in _TAKEN_OUT)
    }
    if "PATH" in kept:
        own = {os.path.realpath(folder) for folder in own_folders}
        entries = kept["PATH"].split(os.pathsep)
        # An empty entry stands for the current directory.
        kept["PATH"] = os.pathsep.join(entry for entry in entries if not entry or os.path.realpath(entry) not in own)
    kept[RUN_VARIABLE] = run
    return kept
