"""Other processes: start one, follow it, end all of a tree, and know one again.

Owns: how PM starts processes (own session, no terminal on stdin, bounded output, one deadline), finding and ending
every descendant, the identity of a process that survives the reuse of its number. Does not own: which command
(adapters/uv, client, the launchers) or what its output means.

A tree is found by parent, never by process group: killing pipx's group was seen to leave its pip or uv running and
writing. Invariants: processes-tree-dies, processes-output-bounded, processes-no-hang-on-open-pipe.

Standard library only, Python 3.9. Linux is the platform these rules were tried on; the others use what they have. More
than 500 lines, because three platforms' answers to each question stand side by side.
"""

from __future__ import annotations

import codecs
import contextlib
import ctypes
import errno
import os
import queue
import select
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NoReturn

from perdure_pm.model.errors import DeadlineExceeded

WAKE_SECONDS = 0.1
"""How long a wait lasts before the exit of the child and the deadline are looked at again."""

TICK_SECONDS = 0.5
"""The least time between two calls of `on_tick`."""

DRAIN_SECONDS = 1.0
"""How long output is still read after the child's exit, where something else keeps the pipe open."""

HEAD_BYTES = 4 * 1024 * 1024
TAIL_BYTES = 1024 * 1024
"""What is kept of each output stream: its start (where data stands) and its end (where an error stands)."""

LINE_BYTES = 64 * 1024
"""A line longer than this reaches `on_line` in pieces."""

DEATH_SECONDS = 5.0
"""How long `kill_tree` waits for what it killed to be gone; only an uninterruptible system call takes any time."""

Child = subprocess.Popen[bytes]
"""A process that `start` started."""

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True)
class Completed:
    """A process that has ended."""

    returncode: int
    """The exit code; negative for the signal that ended it."""
    stdout: str
    stderr: str
    """Decoded with replacement; the middle of what exceeds the bound is left out, and says so."""


def run(
    command: Sequence[str | os.PathLike[str]],
    *,
    environment: Mapping[str, str],
    directory: Path | None,
    timeout: float | None = None,
    on_line: Callable[[str], None] | None = None,
    on_tick: Callable[[], None] | None = None,
) -> Completed:
    """Run `command` to its end in a session of its own, without input, and return its exit code and output.

    Args:
        command: the program and its arguments; no shell.
        environment: the whole environment; nothing is inherited.
        directory: the working directory.
        timeout: seconds that the whole run may last.
        on_line: called in this thread with each line of stderr as it comes, without its line end.
        on_tick: called in this thread at most every `TICK_SECONDS`, only when the tree did something since the last
            call (processor time, I/O, output, members), so that silence means that it hangs.

    Raises:
        DeadlineExceeded: `timeout` passed; the whole tree is dead.
        OSError: the program cannot be started.
        BaseException: whatever a callback or a signal handler raised; the whole tree is dead.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    process = subprocess.Popen(
        [os.fspath(part) for part in command],
        env=dict(environment),
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        start_new_session=True,
        preexec_fn=die_with_parent(),  # noqa: PLW1509 -- see die_with_parent
    )
    pipes = read_pipes(process)
    kept = (_Excerpt(), _Excerpt())
    lines = Lines(on_line)
    pulse = _Pulse(process.pid, on_tick)
    drained_by: float | None = None
    try:
        while pipes.is_open or process.poll() is None:
            for index, chunk in pipes.read(WAKE_SECONDS):
                pulse.heard()
                kept[index].add(chunk)
                if index == 1:
                    lines.feed(chunk)
            now = time.monotonic()
            if deadline is not None and now > deadline and process.poll() is None:
                raise DeadlineExceeded(
                    f"{Path(os.fspath(command[0])).name} did not end within {timeout:g} seconds",
                    hint="run the same command again; the error output in the context says where it stood",
                    context={"command": [os.fspath(part) for part in command], "stderr": kept[1].text()[-4000:]},
                )
            if process.poll() is not None:
                # Something that the child left behind may hold the pipe for ever; its output is not the child's.
                drained_by = drained_by or now + DRAIN_SECONDS
                if now > drained_by:
                    break
            else:
                pulse.tick(now)
        lines.end()
    except BaseException:
        if process.returncode is None:  # once reaped, the number may already be someone else's
            kill_tree(process.pid)
        raise
    finally:
        pipes.close()
        process.wait()
    return Completed(process.returncode, kept[0].text(), kept[1].text())


def start(
    command: Sequence[str | os.PathLike[str]],
    *,
    environment: Mapping[str, str],
    directory: Path | None,
    bound: bool = False,
) -> Child:
    """Start `command` in a session of its own with unbuffered pipes on all three streams, and return it.

    `bound` has it die with this thread, where the system can do that.
    """
    return subprocess.Popen(
        [os.fspath(part) for part in command],
        env=dict(environment),
        cwd=directory,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        start_new_session=True,
        preexec_fn=die_with_parent() if bound else None,  # noqa: PLW1509 -- see die_with_parent
    )


def call(command: Sequence[str | os.PathLike[str]], environment: Mapping[str, str], directory: Path) -> int:
    """Run `command` on the caller's own terminal and streams, and return its exit code."""
    sys.stdout.flush()
    sys.stderr.flush()
    return subprocess.call([os.fspath(part) for part in command], env=dict(environment), cwd=directory)


_given_umask: int | None = None
"""The umask that this process was started with, where it is another one now."""


def keep_owner_bits() -> None:
    """Have what this process and its children make usable by its owner, whatever the umask takes from others.

    With an owner's bit in the umask, what was just written could not be read, and no program that was installed could
    be started, not even by root.
    """
    global _given_umask  # noqa: PLW0603 - the umask is the process's own
    given = os.umask(0o077)
    os.umask(given & ~0o700)
    if given & 0o700 and _given_umask is None:
        _given_umask = given


def replace_process(command: Sequence[str | os.PathLike[str]], environment: Mapping[str, str]) -> NoReturn:
    """Become `command`; on Windows, which cannot, run it and exit with its code.

    Raises:
        OSError: it cannot be started.
    """
    arguments = [os.fspath(part) for part in command]
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # a stream that was closed from the start
            stream.flush()
    if sys.platform == "win32":
        raise SystemExit(subprocess.call(arguments, env=dict(environment)))
    # Python ignores it, and what is ignored stays so across exec: `yes | head` in that command would complain.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    if _given_umask is not None:
        os.umask(_given_umask)
    os.execve(arguments[0], arguments, dict(environment))


# Ending a tree


def kill_tree(pid: int) -> None:
    """End `pid` and every descendant, also those in groups and sessions of their own.

    Each is stopped before its children are looked for, so that none can start another or orphan one meanwhile. With the
    calling process's own number, its descendants end and it stays.

    Raises:
        ValueError: `pid` is 1 or no process number.
    """
    if pid <= 1:
        raise ValueError(f"process {pid} is never ended with its tree")
    own = os.getpid()
    if sys.platform == "win32":
        for root in descendants(own) if pid == own else [pid]:
            subprocess.run(["taskkill", "/T", "/F", "/PID", str(root)], capture_output=True, check=False)
        return
    frozen: set[int] = set()
    try:
        if pid != own and _signal(pid, signal.SIGSTOP):
            frozen.add(pid)
        while True:
            fresh = [member for member in descendants(pid) if member not in frozen]
            if not fresh:
                break
            for member in fresh:
                frozen.add(member)
                _signal(member, signal.SIGSTOP)
    finally:
        # Also when this was interrupted: a stopped process must never stay behind.
        for member in frozen:
            _signal(member, signal.SIGKILL)
    until = time.monotonic() + DEATH_SECONDS
    while any(_runs(member) for member in frozen) and time.monotonic() < until:
        time.sleep(0.005)


def descendants(pid: int) -> list[int]:
    """Return every process below `pid`, parents before children, without the calling process."""
    children: dict[int, list[int]] = {}
    for member, parent in _parents():
        children.setdefault(parent, []).append(member)
    found: list[int] = []
    seen = {pid, os.getpid()}
    pending = [pid]
    while pending:
        for member in children.get(pending.pop(0), []):
            if member not in seen:
                seen.add(member)
                found.append(member)
                pending.append(member)
    return found


def become_subreaper() -> None:
    """Adopt descendants whose parent ends (Linux), so that this process still finds them; elsewhere nothing."""
    if _prctl is not None:
        _prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with_parent() -> Callable[[], None] | None:
    """Return what a child must call before it starts its program so that it dies with this process (Linux), or None.

    The kernel ties it to the *thread* that starts the child; `run` waits in that thread. It is a `preexec_fn`, which is
    safe here because it makes one system call through a function that was looked up before the fork.
    """
    if _prctl is None:
        return None
    prctl = _prctl
    parent = os.getpid()

    def bind() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it died before the call above
            os._exit(1)

    return bind


# Knowing a process again


def boot_id() -> str:
    """Return what names this boot of the machine, or an empty string where the system does not say."""
    if sys.platform.startswith("linux"):
        return _read("/proc/sys/kernel/random/boot_id").strip()
    if sys.platform == "darwin":
        return _ask(["sysctl", "-n", "kern.boottime"]).strip()
    return ""


def process_start(pid: int) -> str | None:
    """Return when `pid` started, in a form to be compared only, or None where it does not run or nothing tells."""
    if sys.platform.startswith("linux"):
        fields = _stat(pid)
        return None if fields is None or fields[0] in {"Z", "X"} else fields[19]
    if sys.platform == "win32":
        return None
    return _ask(["ps", "-o", "lstart=", "-p", str(pid)]).strip() or None


def is_alive(pid: int, start: str | None) -> bool:
    """Return whether the process that had number `pid` and started at `start` still runs.

    Without a start to compare, any process of that number counts, so a live one is never taken for dead.
    """
    if pid <= 0:
        return False
    if start is not None:
        return process_start(pid) == start
    if sys.platform == "win32":
        return str(pid) in _ask(["tasklist", "/NH", "/FI", f"PID eq {pid}"])
    return _exists(pid)


def identity() -> tuple[int, str, str | None]:
    """Return the number, boot and start of this process: what `still_runs` knows it by."""
    return os.getpid(), boot_id(), process_start(os.getpid())


def still_runs(pid: int, boot: str, start: str | None) -> bool:
    """Return whether the process with that `identity` still runs; none survives a boot."""
    return boot == boot_id() and is_alive(pid, start)


# Reading pipes


class Pipes:
    """The output pipes of one process, read by the calling thread: no thread that a stuck pipe could leak."""

    def __init__(self, files: Sequence[IO[bytes]]) -> None:
        """Take over `files`; they are closed with this."""
        self._files = list(files)
        self._nap = 0.0005
        self._selector = selectors.DefaultSelector()
        for index, file in enumerate(self._files):
            self._selector.register(file, selectors.EVENT_READ, index)

    @property
    def is_open(self) -> bool:
        """Whether one of them can still give data."""
        return bool(self._selector.get_map())

    def read(self, timeout: float) -> list[tuple[int, bytes]]:
        """Return what came, each with the index of its pipe, after at most `timeout` seconds."""
        if not self.is_open:
            # A process that ends closes its pipes a moment before it can be reaped; one that lives on is not hurried.
            time.sleep(min(timeout, self._nap))
            self._nap = min(2 * self._nap, 0.01)
            return []
        found = []
        for key, _ in self._selector.select(timeout):
            chunk = os.read(key.fd, 65536)
            if chunk:
                found.append((int(key.data), chunk))
            else:
                self._selector.unregister(key.fileobj)
        return found

    def close(self) -> None:
        """Close all of them, whoever else still holds them."""
        self._selector.close()
        for file in self._files:
            file.close()


class ThreadedPipes:
    """The same where pipes cannot be waited for (Windows): a thread each, which ends with its pipe."""

    def __init__(self, files: Sequence[IO[bytes]]) -> None:
        """Take over `files`."""
        self._queue: queue.Queue[tuple[int, bytes]] = queue.Queue(maxsize=64)
        self._open = set(range(len(files)))
        self._closed = False
        for index, file in enumerate(files):
            threading.Thread(target=self._pump, args=(index, file), daemon=True).start()

    def _pump(self, index: int, file: IO[bytes]) -> None:
        chunk = b"first"
        while chunk and not self._closed:
            try:
                chunk = os.read(file.fileno(), 65536)
            except (OSError, ValueError):
                chunk = b""
            self._queue.put((index, chunk))
        file.close()

    @property
    def is_open(self) -> bool:
        return bool(self._open)

    def read(self, timeout: float) -> list[tuple[int, bytes]]:
        try:
            index, chunk = self._queue.get(timeout=timeout)
        except queue.Empty:
            return []
        if chunk:
            return [(index, chunk)]
        self._open.discard(index)
        return []

    def close(self) -> None:
        """Let the threads end with their next read; nothing can end a read that waits."""
        self._closed = True
        with contextlib.suppress(queue.Empty):
            while True:
                self._queue.get_nowait()


def read_pipes(process: subprocess.Popen[bytes]) -> Pipes | ThreadedPipes:
    """Return the reader of `process`'s stdout (index 0) and stderr (index 1)."""
    files = [file for file in (process.stdout, process.stderr) if file is not None]
    return ThreadedPipes(files) if sys.platform == "win32" else Pipes(files)


def write_all(file: IO[bytes], data: bytes, timeout: float) -> None:
    """Write `data` to a pipe of `start`, also where its reader is slow.

    Raises:
        TimeoutError: the reader took nothing for `timeout` seconds (Windows cannot tell, and waits).
        OSError: the reader is gone.
    """
    rest = memoryview(data)
    if sys.platform == "win32":
        while rest:
            rest = rest[file.write(rest) :]
        return
    handle = file.fileno()
    os.set_blocking(handle, False)
    while rest:
        try:
            rest = rest[os.write(handle, rest) :]
        except BlockingIOError:
            if not select.select([], [handle], [], timeout)[1]:
                raise TimeoutError(f"the reader took nothing for {timeout:g} seconds") from None


class _Excerpt:
    """The start and the end of a stream, whatever its length."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = 0

    def add(self, chunk: bytes) -> None:
        room = HEAD_BYTES - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[room:]
        if len(self._tail) > 2 * TAIL_BYTES:  # twice, so that the cost of moving bytes is paid rarely
            self._cut()

    def _cut(self) -> None:
        excess = len(self._tail) - TAIL_BYTES
        if excess > 0:
            del self._tail[:excess]
            self._dropped += excess

    def text(self) -> str:
        self._cut()
        note = f"\n[{self._dropped} bytes left out]\n" if self._dropped else ""
        if not note:
            return (self._head + self._tail).decode("utf-8", "replace")
        return self._head.decode("utf-8", "replace") + note + self._tail.decode("utf-8", "replace")


class Lines:
    """Lines as they come; a character or a marker split across two reads is whole again here."""

    def __init__(self, on_line: Callable[[str], None] | None) -> None:
        """Call `on_line` with each; without it, nothing is decoded."""
        self._on_line = on_line
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pending = ""

    def feed(self, chunk: bytes, *, final: bool = False) -> None:
        """Pass on what `chunk` completes."""
        if self._on_line is None:
            return
        *whole, self._pending = (self._pending + self._decoder.decode(chunk, final)).split("\n")
        if len(self._pending) > LINE_BYTES:
            whole.append(self._pending)
            self._pending = ""
        for line in whole:
            self._on_line(line.rstrip("\r"))

    def end(self) -> None:
        """Pass on the last line, which has no end."""
        self.feed(b"", final=True)
        if self._on_line is not None and self._pending:
            self._on_line(self._pending.rstrip("\r"))
        self._pending = ""


class _Pulse:
    """Calls `on_tick` when the tree did something since the last time."""

    def __init__(self, pid: int, on_tick: Callable[[], None] | None) -> None:
        self._pid = pid
        self._on_tick = on_tick
        self._last_look = time.monotonic()
        self._last_seen: object = None
        self._heard = False

    def heard(self) -> None:
        self._heard = True

    def tick(self, now: float) -> None:
        if self._on_tick is None or now - self._last_look < TICK_SECONDS:
            return
        self._last_look = now
        seen = _activity([self._pid, *descendants(self._pid)]) if sys.platform.startswith("linux") else now
        moved = self._heard or seen != self._last_seen
        self._heard = False
        self._last_seen = seen
        if moved:
            self._on_tick()


def _activity(tree: Iterable[int]) -> dict[int, tuple[str, ...]]:
    """Return processor time and bytes moved of every member: equal twice means that nothing happened between."""
    found = {}
    for member in tree:
        fields = _stat(member)
        if fields is not None:
            io = tuple(line for line in _read(f"/proc/{member}/io").splitlines() if not line.startswith("sysc"))
            found[member] = (fields[11], fields[12], *io)
    return found


# What the system tells


def _stat(pid: int) -> list[str] | None:
    """Return the fields of /proc/PID/stat from the state (field 3 of proc(5)) on; the name before it holds anything."""
    text = _read(f"/proc/{pid}/stat")
    return text.rpartition(")")[2].split() if text else None


def _parents() -> Iterable[tuple[int, int]]:
    """Return (process, parent) of every process that can be seen."""
    if sys.platform.startswith("linux"):
        pairs = []
        for name in os.listdir("/proc"):
            if name.isdigit():
                fields = _stat(int(name))
                if fields is not None:
                    pairs.append((int(name), int(fields[1])))
        return pairs
    if sys.platform == "win32":
        listing = _ask(["wmic", "process", "get", "ProcessId,ParentProcessId", "/format:csv"])
        rows = [line.strip().split(",") for line in listing.splitlines()]
        return [(int(row[2]), int(row[1])) for row in rows if len(row) == 3 and row[2].isdigit()]
    rows = [line.split() for line in _ask(["ps", "-axo", "pid=,ppid="]).splitlines()]
    return [(int(row[0]), int(row[1])) for row in rows if len(row) == 2]


def _runs(pid: int) -> bool:
    if sys.platform.startswith("linux"):
        return process_start(pid) is not None
    return _exists(pid)


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError as error:
        return error.errno == errno.EPERM
    return True


def _signal(pid: int, number: int) -> bool:
    """Send a signal; False where the process is gone or belongs to someone else."""
    try:
        os.kill(pid, number)
    except OSError:
        return False
    return True


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _ask(command: Sequence[str]) -> str:
    """Return what a program of the system prints, or nothing where it is missing."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=False,
            timeout=10,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace")


def _find_prctl() -> Callable[..., int] | None:
    if not sys.platform.startswith("linux"):
        return None
    try:
        function: Callable[..., int] = ctypes.CDLL(None).prctl
    except (OSError, AttributeError):
        return None
    return function


_prctl = _find_prctl()
