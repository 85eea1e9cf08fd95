"""Whether this process was started by a run: what a run starts answers for nobody and grants itself nothing.

Owns: telling it, by the marker that every run is given, by the processes above this one, and by the namespaces in which
runs go on. Does not own: reading processes (kernel_processes), what is refused then (cli). Keeps:
approvals-not-from-inside.

A process may drop the marker from its environment, but not the one that runs commands from above it: whatever a run
starts stays below that, also where its own parent has ended. Where the kernel has no `/proc` to begin with, only the
marker is seen. Where it has one and that does not show the whole way up, or what is mounted there is not the kernel's,
or a run goes on outside of the namespace that this process is in, nobody can tell, and that is told.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from perdure.domain.record import dataclass

if TYPE_CHECKING:
    from perdure.approvals.kernel_processes import KernelProcesses

RUN_VARIABLE = "PERDURE_RUN"
"""Holds the run's id in everything that is started for it."""
_MOST_ANCESTORS = 256
_TRIES = 3
"""How often the way up is gone: a process may end while it is looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What can be told of where this process comes from."""

    run: str | None = None
    """The run that it belongs to."""
    doubt: str | None = None
    """Why it cannot be told that it belongs to none, as a sentence without a full stop."""

    @property
    def outside(self) -> bool:
        """Whether it is sure to belong to no run."""
        return self.run is None and self.doubt is None


def origin_of_process(environ: Mapping[str, str], state: Path | None = None) -> Origin:
    """Return where this process comes from.

    Args:
        environ: its environment.
        state: the directory of the profiles' state; None where there is none.
    """
    found = environ.get(RUN_VARIABLE)
    if found is not None:
        return Origin(run=found)
    if sys.platform != "linux":
        return Origin()
    from perdure.approvals.kernel_processes import FIRST_NAMESPACE, KernelProcesses, UnseenError
    from perdure.approvals.running import elsewhere

    run: str | None = None
    try:
        with KernelProcesses() as processes:
            for last in reversed(range(_TRIES)):
                try:
                    run = _run_in(processes)
                    break
                except UnseenError:
                    if not last:
                        raise
            namespace = processes.namespace()
    except UnseenError as error:
        return Origin(doubt=str(error))
    if run is None and state is not None and namespace != FIRST_NAMESPACE and elsewhere(state, namespace):
        return Origin(doubt="a run goes on outside of the namespace of processes that this one is in")
    return Origin(run=run)


def namespace_here() -> int | None:
    """Return the number of this process's namespace of processes; None where there is none, or it is not shown."""
    if sys.platform != "linux":
        return None
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return None


def _run_in(processes: KernelProcesses) -> str | None:
    from perdure.approvals.kernel_processes import above

    found = None
    for pid in above(processes, os.getpid(), _MOST_ANCESTORS):
        # To the top also where one is found: the answer must not depend on what can be hidden.
        found = found or _marker(processes, pid) or _runner(processes, pid)
    return found


def _marker(processes: KernelProcesses, pid: int) -> str | None:
    entries = _words(processes, pid, "environ")
    mark = f"{RUN_VARIABLE}="
    return next((entry.removeprefix(mark) for entry in entries if entry.startswith(mark)), None)


def _runner(processes: KernelProcesses, pid: int) -> str | None:
    """Return a name for the run where a process is Perdure itself, which starts nothing but runs and plugins."""
    words = _words(processes, pid, "cmdline")
    if not words or not os.path.basename(words[0]).startswith(("python", "pypy")):
        return None
    for number, word in enumerate(words[1:], start=1):
        if word.startswith("-") and word.endswith("m"):
            return f"process {pid}" if words[number + 1 : number + 2] == ["perdure"] else None
        if not word.startswith("-"):
            return f"process {pid}" if os.path.basename(word) == "perdure" else None
    return None


def _words(processes: KernelProcesses, pid: int, name: str) -> list[str]:
    """Return what stands between the zeros of a file of a process; nothing where it is another user's."""
    from perdure.approvals.kernel_processes import UnseenError

    try:
        return [word.decode(errors="replace") for word in processes.read(pid, name).split(b"\0")]
    except UnseenError as error:
        if not error.denied:
            raise
        return []
