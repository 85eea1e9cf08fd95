"""The way that a command takes to where it runs: on this machine, or through a backend.

Owns: the program that is started here for it, its environment and directory here, and tidying up on the far side. Does
not own: which backends there are (backends), starting (processes), deciding (terminal). Keeps: backends-far-side-ended.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence

from perdure.approvals.ancestry import RUN_VARIABLE
from perdure.domain.backend import FarCommand
from perdure.domain.record import dataclass
from perdure.domain.verdict import Ruling
from perdure.guard.service import Guard, Place, View
from perdure.tools import processes
from perdure.tools.backends import LOCAL, Backends

TIDY_SECONDS = 10.0
_FAR_FOLDER = "/"
"""Where a relative path counts from for the guard, as long as nobody knows the directory over there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """What is started on this machine for a command."""

    command: list[str]
    environment: Mapping[str, str]
    cwd: str
    cleanup: tuple[str, ...] = ()

    async def tidy(self) -> str | None:
        """End what is left on the far side; return why that cannot be told, or None where it is done or was no need."""
        if not self.cleanup:
            return None
        # Without the run's id: where the far side is this machine, it would end itself.
        own = {name: value for name, value in self.environment.items() if name != RUN_VARIABLE}
        return await processes.run_quietly(_found(self.cleanup, own), own, TIDY_SECONDS)


def local_way(words: Sequence[str], *, cwd: str, environment: Mapping[str, str]) -> Way:
    """Return the way of a command that runs on this machine."""
    return Way(command=_found(words, environment), environment=environment, cwd=cwd)


def far_way(
    backends: Backends, name: str, far: FarCommand, *, environ: Mapping[str, str], environment: Mapping[str, str]
) -> Way:
    """Return the way of a command that runs in a backend.

    Args:
        backends: the registry.
        name: the backend.
        far: the command as it is to run there; the variables that the settings name are added.
        environ: this process's environment, which these are taken from.
        environment: what the program gets that is started here.

    Raises:
        BackendUnknown: there is no such backend.
        BackendFailed: it does not say how.
    """
    names = backends.find(name).environment
    given = {each: environ[each] for each in names if each in environ}
    launch = backends.launch(
        name, FarCommand(run=far.run, command=far.command, cwd=far.cwd, environment={**given, **far.environment})
    )
    own = {**environment, **launch.environment}
    # The directory here is of no matter there, and one that is gone here must not keep a command from running there.
    return Way(command=_found(launch.command, own), environment=own, cwd=os.sep, cleanup=launch.cleanup)


def place_of(
    backend: str,
    cwd: str,
    far_cwd: str | None,
    environment: Mapping[str, str],
    hides_state: Callable[[], bool] = lambda: False,
) -> Place:
    """Return the shell that the guard reads a command for; of one that is elsewhere little is known."""
    home = environment.get("HOME", os.path.expanduser("~"))
    if backend == LOCAL:
        return Place(cwd=cwd, home=home, environment=environment, complete=True, hides_state=hides_state)
    return Place(cwd=far_cwd or _FAR_FOLDER, home=home)


def look_there(
    guard: Guard, text: str, *, shell: str, place: Place, backends: Backends, name: str, far: FarCommand
) -> View:
    """Return what a command does in a backend; what starting it does here, where the floor refuses that.

    What a container is given of this machine has another path inside, and only the words of its start tell which.

    Raises:
        BackendUnknown, BackendFailed: as for `far_way`.
    """
    here = Place(cwd=os.sep, home=os.path.expanduser("~"), environment={}, complete=True)
    start = guard.look(shlex.join(backends.words(name, far)), shell="bash", place=here)  # noqa: S604  # read, not run
    if start.verdict.floor and start.verdict.ruling is Ruling.REFUSE:
        return start
    return guard.look(text, shell=shell, place=place)


def meant_by(words: Sequence[str], script: str | None, *, cwd: str, environment: Mapping[str, str]) -> str:
    """Return the file that a command on this machine is for: of a text, what its shell would find by the first word.

    Args:
        words: what is started.
        script: the text for a shell, where it is one; of more than words only the shell is known.
        cwd: where it is started.
        environment: what it gets.
    """
    named = words if script is None else script.split() or words
    return os.path.join(cwd, _found(named, environment)[0])


def _found(words: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """Return the words with the program that the PATH of a command finds, not the one that the app's own would."""
    program = words[0]
    found = None if os.sep in program else shutil.which(program, path=environment.get("PATH", os.defpath))
    return [found or program, *words[1:]]
