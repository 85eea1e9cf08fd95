"""The environment of what is started for an agent.

Owns: what is taken out of the app's own environment, and what is put in. Does not own: starting anything (terminal).
Keeps: exec-environment: nothing that a command inherits makes a package manager take Perdure's own environment for
the project's, makes an interpreter load something else, or makes a shell run what nobody has read.

Secrets of the person's own, such as a token for a registry, are passed on: `git push` needs them, and who may use which
is said by the operator, not guessed from a name. Perdure's own are in `PERDURE_*` and go.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase

from perdure.approvals.ancestry import RUN_VARIABLE

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
_TOOLS = ("UV_*", "PIP_*", "PIPX_*", "PDM_*", "POETRY_*", "HATCH_*", "PIXI_*", "PYENV_*", "PYTHON*")
"""Variables of package managers and interpreters: the person's own, unless they lead to what is Perdure's."""


def scrub(environ: Mapping[str, str], own_folders: Collection[str], run: str) -> dict[str, str]:
    """Return the environment for a command.

    Args:
        environ: the app's own.
        own_folders: Perdure's directories; what lies in them comes off `PATH`, also where a link leads there, and a
            package manager's variable that names something in them is taken out.
        run: the run's id.
    """
    own = tuple(os.path.realpath(folder) for folder in own_folders)

    def is_own(path: str) -> bool:
        real = os.path.realpath(path) if os.path.isabs(path) else ""
        return any(real == folder or real.startswith(folder.rstrip(os.sep) + os.sep) for folder in own)

    kept: dict[str, str] = {}
    for name, value in environ.items():
        if any(fnmatchcase(name, pattern) for pattern in _TAKEN_OUT):
            continue
        entries = value.split(os.pathsep)
        if name == "PATH":
            # An empty entry stands for the current directory.
            kept[name] = os.pathsep.join(entry for entry in entries if not is_own(entry))
        elif not any(fnmatchcase(name, pattern) for pattern in _TOOLS) or not any(map(is_own, entries)):
            kept[name] = value
    kept[RUN_VARIABLE] = run
    return kept


_SHELL_OPTIONS: dict[str, tuple[str, ...]] = {
    "bash": ("--noprofile", "--norc", "-c"),
    "cmd": ("/d", "/s", "/c"),
    "powershell": ("-NoProfile", "-NonInteractive", "-Command"),
    "pwsh": ("-NoProfile", "-NonInteractive", "-Command"),
}


def shell_words(shell: str, text: str) -> list[str]:
    """Return the command that has a shell run a text, and nothing of a person's own start files before it."""
    return [shell, *_SHELL_OPTIONS.get(shell, ("-c",)), text]
