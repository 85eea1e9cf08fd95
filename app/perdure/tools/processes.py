"""Starting a command, and ending everything that it started.

Owns: the child process, its descendants, signals. Does not own: whether it may start (terminal), its environment
(environment), what is kept of its output (capture). Keeps: exec-tree-ended: when a run is over no process of it
lives, also none that made a session of its own or whose parent has ended.

On Linux the process that runs a command becomes the one that orphans below it are handed to, so that they stay
findable; it is for a process that runs one command at a time. Elsewhere what has left both its process group and its
parent is not found.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence

import anyio
from anyio.abc import Process

_PR_SET_CHILD_SUBREAPER = 36
_SECONDS_TO_END = 5.0
_POLL_SECONDS = 0.01
_LONGEST_SAID = 300
_FIRST_POLL_SECONDS = 0.001


async def start(
    command: Sequence[str], *, cwd: str, environment: Mapping[str, str], handed: Sequence[int] = ()
) -> Process:
    """Return the started process, at the head of a session of its own, with nothing to read.

    Args:
        command: program and arguments.
        cwd: where.
        environment: all of it.
        handed: descriptors that it gets beside its streams; no other of this process's.

    Raises:
        OSError: it cannot be started.
    """
    adopt_orphans()
    return await anyio.open_process(
        list(command),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=cwd,
        env=dict(environment),
        start_new_session=True,
        pass_fds=handed,
    )


async def run_quietly(command: Sequence[str], environment: Mapping[str, str], seconds: float) -> str | None:
    """Run a program of ours to its end; return why it did not do its work, or None where it did."""
    try:
        with anyio.fail_after(seconds):
            done = await anyio.run_process(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                check=False,
                env=dict(environment),
                start_new_session=True,
            )
    except TimeoutError:
        return f"{command[0]} did not answer within {seconds:g} s"
    except OSError as error:
        return f"{command[0]}: {error.strerror or error}"
    if done.returncode == 0:
        return None
    said = " ".join(done.stderr.decode(errors="replace").split())[:_LONGEST_SAID]
    return f"{command[0]} ended with {done.returncode}" + (f": {said}" if said else "")


def ask(command: Sequence[str], environment: Mapping[str, str], seconds: float) -> str | None:
    """Return what a program of ours prints, or None where it fails or does not answer in time."""
    try:
        done = subprocess.run(
            list(command),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
            timeout=seconds,
            env=dict(environment),
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode(errors="replace")


def ensure_startable(program: str, cwd: str) -> None:
    """Have it known that a program can be started, where it is not this process that will find out.

    Raises:
        OSError: it is not there, or is none.
    """
    os.stat(cwd)
    path = os.path.join(cwd, program)
    if os.path.isdir(path) or not os.access(path, os.X_OK):
        os.stat(path)
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)


def adopt_orphans() -> bool:
    """Have this process be the parent of every descendant whose own parent ends; False where there is no such thing."""
    if sys.platform != "linux":
        return False
    import ctypes

    try:
        return bool(ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)
    except (OSError, AttributeError):
        return False


def ask_to_end(process: Process, number: int = signal.SIGTERM, *, jailed: bool = False) -> None:
    """Send a signal to the command's process group, so that it can tidy up.

    Of a jailed one not to the process that made the jail: its end is the end of all the others.
    """
    with contextlib.suppress(OSError):
        if sys.platform == "win32":
            process.terminate()
        elif jailed:
            for pid in _living(process):
                if pid != process.pid:
                    with contextlib.suppress(OSError):
                        os.kill(pid, number)
        else:
            os.killpg(process.pid, number)


async def end_all(process: Process) -> tuple[list[int], list[int]]:
    """Have no process of the run alive; return those that had to be killed, and those that could not be.

    The command itself has ended, or ends here.
    """
    killed: list[int] = []
    deadline, pause = time.monotonic() + _SECONDS_TO_END, _FIRST_POLL_SECONDS
    while time.monotonic() < deadline:
        living = _living(process)
        if not living:
            break
        # First all of them stand still: one that forks would be ahead of the list for ever.
        for number in (signal.SIGSTOP, signal.SIGKILL) if sys.platform != "win32" else (signal.SIGTERM,):
            for pid in living:
                with contextlib.suppress(OSError):
                    os.kill(pid, number)
        killed += [pid for pid in living if pid not in killed]
        await anyio.sleep(pause)
        pause = min(2 * pause, _POLL_SECONDS)
        _reap(living, process)
    survivors = _living(process)
    if process.pid not in survivors:
        await process.wait()
    return [pid for pid in killed if pid not in survivors], survivors


def _living(process: Process) -> list[int]:
    """Return the processes of the run that are alive, the command's own among them."""
    if sys.platform == "win32":
        return [process.pid] if process.returncode is None else []
    table = _table()
    own = os.getpid()
    below: dict[int, list[int]] = {}
    for pid, (parent, _group, _state) in table.items():
        below.setdefault(parent, []).append(pid)
    found: list[int] = []
    # Orphans are handed to this process on Linux; elsewhere they are known by their group only.
    pending = [own] if sys.platform == "linux" else [process.pid]
    while pending:
        for pid in below.get(pending.pop(), ()):
            found.append(pid)
            pending.append(pid)
    found += [pid for pid, (_parent, group, _state) in table.items() if group == process.pid and pid not in found]
    if sys.platform != "linux" and process.pid in table and process.returncode is None:
        found.append(process.pid)
    return [pid for pid in found if table[pid][2] not in "ZX" and not _is_of_the_interpreter(pid)]


def _is_of_the_interpreter(pid: int) -> bool:
    """Return whether a child is Python's own helper, such as multiprocessing's resource tracker."""
    tracker = sys.modules.get("multiprocessing.resource_tracker")
    return tracker is not None and getattr(getattr(tracker, "_resource_tracker", None), "_pid", None) == pid


def _table() -> dict[int, tuple[int, int, str]]:
    """Return parent, group and state of each process."""
    found: dict[int, tuple[int, int, str]] = {}
    if sys.platform == "linux":
        for name in os.listdir("/proc"):
            if not name.isdigit():
                continue
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    # The command's name stands in parentheses and may hold anything, also more of them.
                    fields = file.read().rpartition(b")")[2].split()
                found[int(name)] = (int(fields[1]), int(fields[2]), fields[0].decode())
            except (OSError, IndexError, ValueError):
                continue
        return found
    listed = subprocess.run(
        ["/bin/ps", "-axo", "pid=,ppid=,pgid=,state="],
        capture_output=True,
        text=True,
        check=False,
        timeout=_SECONDS_TO_END,
    )
    for line in listed.stdout.splitlines():
        words = line.split()
        if len(words) == 4 and all(word.isdigit() for word in words[:3]):
            found[int(words[0])] = (int(words[1]), int(words[2]), words[3][:1])
    return found


def _reap(pids: Sequence[int], process: Process) -> None:
    """Take note of the end of orphans, which were handed to this process; the event loop does so for the command."""
    if sys.platform == "win32":
        return
    for pid in pids:
        if pid != process.pid:
            with contextlib.suppress(OSError):
                os.waitpid(pid, os.WNOHANG)
