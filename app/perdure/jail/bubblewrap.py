"""How bubblewrap is told to make a jail, and what it says of it.

Owns: its options, which capabilities are taken away, and its status lines. Does not own: what is held (plan), or
starting it (machine, tools). Pure. The options are those of bwrap(1), from version 0.5 on.

Everything that bubblewrap starts has no_new_privs: a setuid program gets no rights inside, `sudo` among them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from perdure.domain.record import dataclass
from perdure.jail.plan import Plan

DROPPED = (
    "CAP_SYS_ADMIN",  # unmounts, remounts, enters other namespaces
    "CAP_SYS_PTRACE",  # takes over a process outside, and reaches its files through /proc
    "CAP_DAC_READ_SEARCH",  # opens a file by its handle, past every mount
    "CAP_MKNOD",  # makes a device of the disk
    "CAP_SYS_RAWIO",  # memory and disk without a filesystem
    "CAP_SYS_MODULE",  # code in the kernel
    "CAP_SYS_BOOT",  # another kernel
    "CAP_BPF",  # code in the kernel that reads and writes the memory of others
    "CAP_PERFMON",  # the same by tracing
    "CAP_CHECKPOINT_RESTORE",  # files of other processes through /proc/PID/map_files
    "CAP_MAC_ADMIN",  # another policy of the kernel
    "CAP_MAC_OVERRIDE",  # the same
    "CAP_SETPCAP",  # nothing that is dropped comes back
)
"""What root does not have inside: each undoes a mount, or goes round all of them. The rest stays: files of others,
changing users, signals, network; an unprivileged user has none of either kind."""

KERNEL = ("/sys", "/proc/sys", "/proc/sysrq-trigger")
"""What root steers the kernel by: it starts the programs that are named in some of these, outside of every jail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What there is to make a jail with."""

    program: str
    """Where bwrap is."""
    root: bool
    """Whether this process has the rights of root, which are to be cut down."""
    own_processes: bool
    """Whether the jail has its own processes and `/proc`, from which none outside can be seen."""
    devices: tuple[str, ...] = ()
    """Devices that hold filesystems and that this process could write to."""


def make_arguments(plan: Plan, means: Means, *, cwd: str, status: int | None) -> list[str]:
    """Return the command line that the jailed command's words are appended to.

    Args:
        plan: what is held.
        means: what it is held with.
        cwd: where the command starts, as it is called inside, which is as outside.
        status: the descriptor on which bwrap says what became of it; the command does not get it.
    """
    words = [means.program, "--dev-bind", "/", "/"]
    for path in plan.pinned:
        # Without a `dev`, the files of devices below, such as those of a container's tree, could not be opened.
        words += ["--dev-bind", path, path]
    for path in plan.read_only:
        words += ["--ro-bind", path, path]
    for path in plan.writable:
        words += ["--bind", path, path]
    for path in plan.hidden:
        words += ["--tmpfs", path, "--remount-ro", path]
    for path in (*plan.emptied, *means.devices):
        words += ["--ro-bind", "/dev/null", path]
    if means.own_processes:
        words += ["--unshare-pid", "--proc", "/proc"]
    if means.root:
        for path in KERNEL:
            words += ["--ro-bind-try", path, path]
        for capability in DROPPED:
            words += ["--cap-drop", capability]
    words += ["--die-with-parent"]
    if status is not None:
        words += ["--json-status-fd", str(status)]
    return [*words, "--chdir", cwd, "--"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """What bwrap has said so far."""

    child: int | None = None
    """The process that it made, which is the command, or the first one of the jail's own processes."""
    executed: bool = False
    """Whether the command was really started and has ended: only then does bwrap say how."""


def parse_status(data: bytes) -> Status:
    """Return what its status lines say; one that is not whole yet says nothing."""
    child, executed = None, False
    for line in data.splitlines():
        try:
            said: object = json.loads(line)
        except ValueError:
            continue
        if isinstance(said, dict):
            named = said.get("child-pid")
            child = named if isinstance(named, int) else child
            executed = executed or "exit-code" in said
    return Status(child=child, executed=executed)


def explain_failure(said: str) -> str:
    """Return in one line why bwrap could not make a jail, from what it wrote to stderr."""
    line = next((line.strip() for line in said.splitlines() if line.strip()), "it said nothing")
    line = line.removeprefix("bwrap: ")
    for mark, why in _KNOWN:
        if mark in line:
            return f"{why} (bwrap says: {line})"
    return f"bwrap says: {line}"


_KNOWN: Sequence[tuple[str, str]] = (
    ("No permissions to creat", "this kernel does not let a user without privileges make namespaces"),
    ("Creating new namespace failed", "this process may not make namespaces, as in a container or in another jail"),
    ("setting up uid map", "this process may not make namespaces, as in a container or in another jail"),
    ("pivot_root", "the root of this process cannot be changed, as in an initial ramdisk or a chroot"),
    ("Can't mount proc", "a container's /proc cannot be mounted again"),
    ("Failed to make / slave", "this process may not change mounts, as in a container"),
    ("prctl", "this process may not change its own rights"),
    ("Unknown option", "this bwrap is too old"),
)
