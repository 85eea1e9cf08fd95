"""The environment in which a person runs something beside the host: its commands first on PATH, nothing of PM's.

Owns: which variables are passed, and the lines that set them in a shell. Does not own: starting the process
(adapters.processes). Keeps: pm-run-needs-a-commit: where nothing was committed the answer is a refusal, never whatever
Python the caller's variables lead to.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from perdure_pm.adapters.processes import replace_process
from perdure_pm.model.errors import InterpreterMissing, UsageFault
from perdure_pm.model.settings import OWN_VARIABLES
from perdure_pm.store.generations import Generation, load_current
from perdure_pm.store.layout import Layout

SHELLS = ("sh", "fish", "powershell")

_LEFT_OUT = ("PYTHON", "UV_", "PIP_", "VIRTUAL_ENV")
_LEFT_OUT_NAMES = OWN_VARIABLES | {"__PYVENV_LAUNCHER__"}
_UNSET_NAMES = frozenset({"PYTHONHOME", "PYTHONPATH", "PYTHONEXECUTABLE", "__PYVENV_LAUNCHER__"})


def is_left_out(variable: str) -> bool:
    """Return whether a variable would lead a host's Python, or an installer in it, somewhere else."""
    return variable.startswith(_LEFT_OUT) or variable in _LEFT_OUT_NAMES


def is_unset_in_shells(variable: str) -> bool:
    """Return whether a variable of a person's shell must go for the host's commands to find their own modules.

    The settings of uv and pip stay: in that shell they are the person's, and nothing of the host reads them.
    """
    return variable.startswith("VIRTUAL_ENV") or variable in _UNSET_NAMES


def require_generation(layout: Layout, profile: str) -> Generation:
    """Return the generation that `profile` runs, with an interpreter that is there.

    Raises:
        NothingInstalled: nothing was ever committed.
        IntegrityFault: the pointer or the record is damaged.
        InterpreterMissing: its base interpreter is gone.
    """
    generation = load_current(layout, profile)
    if not generation.python.exists():
        raise InterpreterMissing(
            f"generation {generation.identity} cannot run: {os.path.realpath(generation.python)} is gone",
            hint="perdure-pm install",
            context={"generation": generation.identity},
        )
    return generation


def host_environment(generation: Generation, environ: Mapping[str, str]) -> dict[str, str]:
    """Return `environ` for a process beside the host."""
    kept = {name: value for name, value in environ.items() if not is_left_out(name)}
    path = environ.get("PATH")
    kept["PATH"] = os.pathsep.join([str(generation.scripts), *([path] if path else [])])
    return kept


def run(layout: Layout, profile: str, command: Sequence[str], environ: Mapping[str, str]) -> NoReturn:
    """Become `command`, found through the PATH of the profile's generation.

    Raises:
        UsageFault: there is no such command.
    """
    environment = host_environment(require_generation(layout, profile), environ)
    found = shutil.which(command[0], path=environment["PATH"])
    if found is None:
        raise UsageFault(
            f"there is no command {command[0]!r}",
            hint="perdure-pm env   (shows the PATH that commands are looked for in)",
            context={"command": command[0]},
        )
    try:
        replace_process([found, *command[1:]], environment)
    except OSError as error:
        raise UsageFault(
            f"{found} cannot be started: {error.strerror or error}", context={"command": command[0]}
        ) from error


def default_shell(environ: Mapping[str, str], *, windows: bool = os.name == "nt") -> str:
    """Return the shell to print for where none was named."""
    if windows:
        return "powershell"
    return "fish" if Path(environ.get("SHELL", "")).name == "fish" else "sh"


def shell_lines(shell: str, folder: Path, unset: Sequence[str] = ()) -> list[str]:
    """Return the lines that put `folder` first on PATH and unset variables, quoted for `shell`."""
    if shell == "fish":
        quoted = str(folder).replace("\\", "\\\\").replace("'", "\\'")
        return [f"set -gx PATH '{quoted}' $PATH", *(f"set -e {name}" for name in unset)]
    if shell == "powershell":
        quoted = str(folder).replace("'", "''")
        return [
            f"$env:PATH = '{quoted}' + [IO.Path]::PathSeparator + $env:PATH",
            *(f"Remove-Item Env:{name} -ErrorAction SilentlyContinue" for name in unset),
        ]
    # An empty PATH must not leave a colon at the end, which would mean the current directory.
    return [f'export PATH={shlex.quote(str(folder))}"${{PATH:+:$PATH}}"', *(f"unset {name}" for name in unset)]
