"""A machine for one command: its own users, processes, network and mounts, and a root directory made from parts.

Owns: the system calls, the root directory, who is who in it, and starting something as its first process. Does not
own: what is in the home, what is run, or what is made of it (disposable).

What runs in it cannot reach this machine. Its root is nobody here: its numbers of users are mapped onto ones that
nobody has, so the kernel lets it neither make a device, nor load code, nor steer it through `/proc`, nor restart. Its
`/usr` is this machine's, mounted read-only; nothing else of this machine's files has a name in it. It sees none of this
machine's processes and no network.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

FIRST_USER = 1_000_000
"""What the machine's root is called here; those after it follow in order."""
USERS = 65_536
FAILED = 70
"""How a process ends in which something failed that is no outcome."""
YOU = 1000
"""The user whose home it is, as the machine calls it."""

_NEWNS, _NEWUTS, _NEWIPC, _NEWUSER, _NEWPID, _NEWNET = 0x20000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000
_RDONLY, _NOSUID, _REMOUNT, BIND, _REC, _PRIVATE = 1, 2, 32, 4096, 16384, 1 << 18
_DETACH = 2
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_DEVICES = ("null", "zero", "full", "random", "urandom")
_LINKED = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_EMPTY = ("tmp", "var/tmp", "backup", "mnt", "srv/work", "root", "run")
_MOST_PROCESSES = 200


class CannotBeMade(Exception):
    """This machine does not let one be made; the text says what is missing."""


def start_alone() -> None:
    """Leave this machine's mounts, network and message queues; every machine that is made from here on shares these."""
    if os.geteuid() != 0:
        raise CannotBeMade("needs root to map users")
    if os.uname().machine not in _PIVOT_ROOT:
        raise CannotBeMade(f"pivot_root is not known by number for {os.uname().machine}")
    _unshare(_NEWNS | _NEWNET | _NEWIPC | _NEWUTS)
    mount("none", "/", flags=_REC | _PRIVATE)


def own_mounts() -> None:
    """Have what this process mounts from here on end with it."""
    _unshare(_NEWNS)


def make_root(root: Path, *, etc: Path, local: Path, shown: Sequence[Path] = ()) -> None:
    """Make the machine's root directory, all but its home, at an empty directory.

    Args:
        root: the directory; what is mounted there ends with the process's own mounts.
        etc: what is its `/etc`.
        local: what is its `/usr/local`.
        shown: directories of this machine that it has under the same names, read-only.
    """
    mount("tmpfs", root, "tmpfs", options="mode=755,size=64m")
    for name in ("home", "usr", "etc", "dev", "proc", *_EMPTY):
        (root / name).mkdir(parents=True)
    for name in _LINKED:
        here = Path("/", name)
        if here.is_symlink():
            (root / name).symlink_to(here.readlink())
        elif here.is_dir():
            (root / name).mkdir()
            _show(here, root / name)
    _show(Path("/usr"), root / "usr")
    _show(local, root / "usr" / "local")
    _show(etc, root / "etc")
    for name in _DEVICES:
        (root / "dev" / name).touch()
        mount(f"/dev/{name}", root / "dev" / name, flags=BIND)
    for name, target in (("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")):
        (root / "dev" / name).symlink_to(target)
    for name in ("shm", *_EMPTY):
        folder = root / "dev" / name if name == "shm" else root / name
        folder.mkdir(exist_ok=True)
        os.chown(folder, FIRST_USER, FIRST_USER)
        folder.chmod(0o1777)
    # The rest of the root directory stays somebody else's, as `/usr` does: what is wiped is never the system itself.
    for folder in (root / "dev", root / "home", root / "srv"):
        os.chown(folder, FIRST_USER, FIRST_USER)
    (root / "dev" / "pts").mkdir()
    (root / "dev" / "ptmx").symlink_to("pts/ptmx")
    (root / "tmp" / "x").mkdir()
    for path in shown:
        place = root / path.relative_to("/")
        place.mkdir(parents=True, exist_ok=True)
        _show(path, place)


def layer(lower: Path, place: Path, scratch: Path) -> Path | None:
    """Mount a directory so that what is written stays in memory; return where that is kept.

    Where this system has no overlay, it is a copy in memory, and None is returned.
    """
    mount("tmpfs", scratch, "tmpfs", options="mode=755,size=192m")
    upper, work = scratch / "upper", scratch / "work"
    upper.mkdir()
    work.mkdir()
    os.chown(upper, FIRST_USER, FIRST_USER)
    try:
        mount("overlay", place, "overlay", options=f"lowerdir={lower},upperdir={upper},workdir={work}")
    except OSError:
        copy = scratch / "copy"
        run_program(["/bin/cp", "-a", str(lower), str(copy)])
        mount(str(copy), place, flags=BIND)
        return None
    return upper


def run_as_first(root: Path, first: Callable[[], int], seconds: float) -> int:
    """Run a function as the machine's root, in its first process; return its number, `FAILED` where it took too long.

    Everything that it started has ended then.
    """
    ready, mapped = os.pipe(), os.pipe()
    outer = os.fork()
    if outer == 0:
        leave(lambda: _enter(root, first, ready[1], mapped[0]))
    os.close(ready[1])
    os.read(ready[0], 1)
    for kind in ("uid", "gid"):
        Path(f"/proc/{outer}/{kind}_map").write_text(f"0 {FIRST_USER} {USERS}\n")
    os.write(mapped[1], b"x")
    for descriptor in (ready[0], *mapped):
        os.close(descriptor)
    status = wait(outer, seconds)
    if status is None:
        os.kill(outer, signal.SIGKILL)
        os.waitpid(outer, 0)
        return FAILED
    return status


def _enter(root: Path, first: Callable[[], int], ready: int, mapped: int) -> int:
    """Become the machine's root; start its first process, and end with its number."""
    _unshare(_NEWUSER | _NEWNS | _NEWPID)
    os.write(ready, b"x")
    os.read(mapped, 1)
    os.setgid(0)
    os.setuid(0)
    os.setgroups([])
    child = os.fork()
    if child == 0:
        leave(lambda: _begin(root, first))
    # Whoever ends this process ends the machine: its first process takes all others along.
    _die_with_parent()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _begin(root: Path, first: Callable[[], int]) -> int:
    _die_with_parent()
    mount("proc", root / "proc", "proc", flags=_NOSUID)
    mount("devpts", root / "dev" / "pts", "devpts", options="newinstance,ptmxmode=0666")
    # What came from outside cannot be made the root: a mount of its own can.
    mount(str(root), root, flags=BIND | _REC)
    os.chdir(root)
    _call("pivot_root", _libc.syscall(_PIVOT_ROOT[os.uname().machine], b".", b"."))
    # What was the root lies over the new one until it goes.
    _call("umount", _libc.umount2(b".", _DETACH))
    os.chdir("/")
    if (
        Path("/proc/self/uid_map").read_text().split() != ["0", str(FIRST_USER), str(USERS)]
        or os.listdir("/home") == []
    ):
        raise CannotBeMade("this is not the machine that was made")
    # Nothing that is counted by user reaches beyond the machine, whose users nobody else has.
    resource.setrlimit(resource.RLIMIT_NPROC, (_MOST_PROCESSES, _MOST_PROCESSES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    return first()


def wait(process: int, seconds: float) -> int | None:
    """Return how a child ended, None where it goes on after that time."""
    descriptor = os.pidfd_open(process)
    try:
        import select

        if not select.select([descriptor], [], [], seconds)[0]:
            return None
    finally:
        os.close(descriptor)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def become_you() -> None:
    """Go on as the user whose home it is."""
    os.setgroups([])
    os.setgid(YOU)
    os.setuid(YOU)


def mount(
    source: str, place: Path | str, kind: str | None = None, *, flags: int = 0, options: str | None = None
) -> None:
    """Have something mounted, in the words that the kernel has for it."""
    given = (source.encode(), os.fsencode(place), kind and kind.encode(), flags, options and options.encode())
    _call(f"mount {source} at {place}", _libc.mount(*given))


def _show(source: Path, place: Path) -> None:
    mount(str(source), place, flags=BIND)
    mount("none", place, flags=BIND | _REMOUNT | _RDONLY | _NOSUID)


def _unshare(flags: int) -> None:
    _call("unshare", _libc.unshare(flags))


def _die_with_parent() -> None:
    _call("prctl", _libc.prctl(1, signal.SIGKILL, 0, 0, 0))


def _call(what: str, result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def run_program(command: Sequence[str]) -> None:
    """Run a program to its end.

    Raises:
        CannotBeMade: it failed.
    """
    child = os.fork()
    if child == 0:
        leave(lambda: os.execv(command[0], list(command)))
    if os.waitpid(child, 0)[1] != 0:
        raise CannotBeMade(f"{command[0]} failed")


def leave(act: Callable[[], int]) -> NoReturn:
    """End this process with what a function returns; whatever it raises is said on stderr."""
    code = FAILED
    try:
        code = act()
    except BaseException as error:  # noqa: BLE001  # a forked process must not go on as the one it came from
        os.write(2, f"{type(error).__name__}: {error}\n".encode())
    finally:
        os._exit(code)


_libc = ctypes.CDLL(None, use_errno=True)
