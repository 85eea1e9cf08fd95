"""Starts a host with its home read-only: what a launcher gives the interpreter to run where `host.protect` says so.

Owns: whether that can be had here, the command line of bubblewrap, and passing signals on to the host. Does not own:
when it is asked for (the launcher). It stands alone, for any Python from 3.9 on: a generation holds a copy. The app has
a jail of its own for commands (perdure/jail); the two share no code, and a test holds them to the same essentials.

Keeps: protect-holds-home, protect-never-silent.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import sys
import time

NAMES = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGALRM")
PASSED = {getattr(signal, name) for name in NAMES if hasattr(signal, name)}
"""Signals that are meant for the host when they reach the process that was started as it."""
PLACES = ("/usr/bin", "/bin", "/usr/local/bin", "/run/current-system/sw/bin", "/usr/sbin", "/sbin")
"""Where bwrap is looked for: one from the PATH could be anybody's."""

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
"""What root does not have inside."""
KERNEL = ("/sys", "/proc/sys", "/proc/sysrq-trigger")
"""What root steers the kernel by."""
DEVICES = re.compile(r"/dev/(bsg/.*|mem|kmem|port|sg[0-9].*|nvme[0-9].*|ng[0-9].*)")
"""Devices that are not of blocks and reach a disk or the memory all the same."""
LENT = (7, 43)
"""The numbers of drivers (loop, nbd) whose devices are there before anything is behind them."""
TRY_SECONDS = 10.0
"""How long bwrap may take to make the jail that is tried; it takes some milliseconds."""
WRITABLE = ("state", "profiles/{}/crashes")
"""What a host writes in its home: all that applications keep, and what ours notes of plugins that ended it."""


def find_program() -> str | None:
    """Return where bwrap is; None where there is none that this user could not have put there."""
    for folder in PLACES:
        program = f"{folder}/bwrap"
        if os.access(program, os.X_OK):
            real = os.path.realpath(program)
            if os.geteuid() == 0 or not any(os.access(path, os.W_OK) for path in (real, os.path.dirname(real))):
                return program
    return None


def make_arguments(home: str, profile: str, mounts: str, *, root: bool, devices: list[str]) -> list[str]:
    """Return the options of bwrap.

    Args:
        home: absolute, without links.
        profile: the profile that is started.
        mounts: what /proc/self/mountinfo says.
        root: whether this process has the rights of root, which are to be cut down.
        devices: devices that hold filesystems and that this process could write to.
    """
    found = parse_mounts(mounts)
    held = sorted({home, *other_names(home, found)})
    places = {place for _, _, place in found}
    pinned = {folder for path in held for folder in folders_above(path)} - places
    words = ["--dev-bind", "/", "/"]
    for path in sorted(folder for folder in pinned if not any(is_within(folder, name) for name in held)):
        # A directory that something is mounted on cannot be renamed: the home would go with it, read-only or not.
        words += ["--dev-bind", path, path]
    for path in held:
        words += ["--ro-bind", path, path]
    for path in (f"{home}/{name.format(profile)}" for name in WRITABLE):
        if os.path.isdir(path) and os.path.realpath(path) == path:
            words += ["--bind", path, path]
    for path in devices:
        words += ["--ro-bind", "/dev/null", path]
    if root:
        for path in KERNEL:
            words += ["--ro-bind-try", path, path]
        for capability in DROPPED:
            words += ["--cap-drop", capability]
    return [*words, "--die-with-parent"]


def parse_mounts(text: str) -> list[tuple[str, str, str]]:
    """Return device, root and place of each mount, in their order; see proc_pid_mountinfo(5)."""
    found = []
    for line in text.splitlines():
        fields = [re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field) for field in line.split(" ")]
        if len(fields) > 5:
            found.append((fields[2], fields[3], fields[4]))
    return found


def other_names(path: str, mounts: list[tuple[str, str, str]]) -> list[str]:
    """Return where else a path, or a part of what is below it, can be reached through a bind mount."""
    own = covering(path, mounts)
    if own is None:
        return []
    within = join(own[1], below(path, own[2]))
    found = []
    for mount in mounts:
        device, root, place = mount
        if mount is own or device != own[0]:
            continue
        if is_within(within, root):
            other = join(place, below(within, root))
        elif is_within(root, within):
            other = place
        else:
            continue
        # A mount that another one covers cannot be reached by name.
        if not is_within(other, path) and covering(other, mounts) is mount:
            found.append(other)
    return found


def covering(path: str, mounts: list[tuple[str, str, str]]) -> tuple[str, str, str] | None:
    """Return the mount that a path is on: the one at the longest place, of several there the one that came last."""
    best = None
    for mount in mounts:
        if is_within(path, mount[2]) and (best is None or len(mount[2]) >= len(best[2])):
            best = mount
    return best


def is_within(path: str, folder: str) -> bool:
    """Return whether a path is a directory or lies in it, by its components."""
    return folder in {path, "/"} or path.startswith(folder + "/")


def below(path: str, folder: str) -> str:
    """Return what a path is below a directory that it lies in."""
    return path[len(folder.rstrip("/")) :].lstrip("/")


def join(folder: str, name: str) -> str:
    """Return the path of a name, which may be empty, in a directory."""
    return f"{folder.rstrip('/')}/{name}" if name else folder


def folders_above(path: str) -> list[str]:
    """Return the directories that a path lies in, without the root."""
    found = []
    while (path := os.path.dirname(path)) != "/":
        found.append(path)
    return found


def find_devices() -> list[str]:
    """Return the devices that hold filesystems and that this process could write to."""
    found = []
    for folder in ("/dev", "/dev/mapper", "/dev/bsg"):
        with contextlib.suppress(OSError):
            for entry in sorted(os.scandir(folder), key=lambda each: each.name):
                with contextlib.suppress(OSError):
                    seen = entry.stat(follow_symlinks=False)
                    kind = seen.st_mode & 0o170000
                    raw = kind == 0o020000 and DEVICES.fullmatch(entry.path)
                    disk = kind == 0o060000 and not is_empty(seen.st_rdev)
                    if (disk or raw) and os.access(entry.path, os.W_OK):
                        found.append(entry.path)
    return found


def is_empty(number: int) -> bool:
    """Return whether a device of blocks is one that has nothing behind it."""
    if os.major(number) not in LENT:
        return False
    try:
        with open(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}/size", encoding="ascii") as file:
            return int(file.read()) == 0
    except (OSError, ValueError):
        return False


def prepare(home: str, profile: str) -> tuple[list[str], str]:
    """Return the command line of bwrap that holds a home, and why it does not work here, or an empty string."""
    if sys.platform != "linux":
        return [], f"there is no protection of hosts for {sys.platform}"
    program = find_program()
    if program is None:
        return [], "bubblewrap (bwrap) is not installed"
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            mounts = file.read()
    except OSError as error:
        return [], f"the mounts cannot be read: {error.strerror or error}"
    options = make_arguments(home, profile, mounts, root=os.geteuid() == 0, devices=find_devices())
    reading, writing = os.pipe()
    trial = [program, *options, "--", program, "--version"]
    actions = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0), (os.POSIX_SPAWN_DUP2, writing, 2)]
    try:
        child = os.posix_spawn(program, trial, os.environ, file_actions=actions, setsigdef=[signal.SIGCHLD])
    except OSError as error:
        return [], f"{program} cannot be started: {error.strerror or error}"
    finally:
        os.close(writing)
    said = read_in_time(reading, TRY_SECONDS)
    if said is None:
        os.kill(child, signal.SIGKILL)  # what it has started ends with it
    ended = os.waitpid(child, 0)[1]
    if said is None:
        return [], f"{program} made no jail within {TRY_SECONDS:g} s"
    return [program, *options], "" if ended == 0 else said or "bwrap did not work, and said nothing"


def read_in_time(reading: int, seconds: float) -> str | None:
    """Return the first line that comes on a descriptor until its end; None where that does not come in time."""
    deadline, data = time.monotonic() + seconds, b""
    with os.fdopen(reading, "rb", buffering=0) as pipe:
        while select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))[0]:
            some = pipe.read(4096)
            if not some:
                return data.decode(errors="replace").partition("\n")[0].strip()
            data += some
    return None


def start(command: list[str], words: list[str]) -> int:
    """Return how the host ended that bwrap started; a signal that ended both ends this process too."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_BLOCK, PASSED | {signal.SIGCHLD})
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)  # noqa: FBT003 - positional only
    # bwrap waits beside the host, in the same group of processes, and must not die of what a terminal sends to all of
    # them; the signals that are kept from it are given back before the host is started.
    inside = [sys.executable, "-I", "-S", os.path.abspath(__file__), "inside", *words]
    line = [*command, "--json-status-fd", str(writing), *choose_directory(), "--", *inside]
    child = os.posix_spawn(line[0], line, os.environ, setsigdef=[signal.SIGPIPE, signal.SIGXFSZ])
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8", errors="replace") as pipe:  # open to the end: bwrap says more, and would
        found = re.search(r'"child-pid": *([0-9]+)', pipe.readline())  # be ended by a pipe that nobody holds
        code, seen = wait(child, None if found is None else int(found[1]))
    for number in seen:
        if code == 128 + number:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    return code if code >= 0 else 128 - code


def wait(child: int, host: int | None) -> tuple[int, set[int]]:
    """Return how bwrap ended, and the signals that came until then; those that only came here are passed on."""
    seen: set[int] = set()
    while True:
        told = signal.sigwaitinfo(PASSED | {signal.SIGCHLD})
        if told.si_signo == signal.SIGCHLD:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status), seen
            continue
        seen.add(told.si_signo)
        # What the kernel itself sends, for a terminal, reached the host too.
        if told.si_code <= 0 and host is not None:
            with contextlib.suppress(OSError):
                os.kill(host, told.si_signo)


def choose_directory() -> list[str]:
    """Return the options that have the host start where this process is, by the name that the caller has for it."""
    try:
        real, called = os.getcwd(), os.environ.get("PWD", "")
    except OSError:
        return []
    return ["--chdir", called if os.path.isabs(called) and os.path.realpath(called) == real else real]


def become(words: list[str]) -> None:
    """Be the host, with the signals that were kept from bwrap."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores, and the host's own children must not
        signal.signal(number, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED | {signal.SIGCHLD})
    os.execv(words[0], words)


def main(words: list[str]) -> int:
    """Return the exit code of what was asked for.

    Args:
        words: ``why HOME``; or ``require`` or ``prefer``, the home, the profile and the host's words.
    """
    asked, home, *rest = words
    home = os.path.realpath(home)
    if asked == "why":
        _, why = prepare(home, "default")
        print(why)
        return 0
    for name in WRITABLE:  # inside, they could not be made
        with contextlib.suppress(OSError):
            os.mkdir(f"{home}/{name.format(rest[0])}")
    command, why = prepare(home, rest[0])
    if not why:
        return start(command, rest[1:])
    if asked == "prefer":
        sys.stderr.write(f"notice: the home {home} is not protected from this host: {why}\n")
        sys.stderr.flush()
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        os.execv(rest[1], rest[1:])
    pm = os.path.join(home, "bin", "perdure-pm")
    sys.stderr.write(
        f"error: the host is not started: host.protect is require, and the home cannot be protected from it: {why}\n"
        "  try: install bubblewrap, or let the host start all the same:"
        f' "{pm}" config set host.protect prefer && "{pm}" install\n'
    )
    return 1


if __name__ == "__main__":
    if sys.argv[1] == "inside":
        become(sys.argv[2:])
    sys.exit(main(sys.argv[1:]))
