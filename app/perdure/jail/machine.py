"""What this machine has to make a jail with.

Owns: finding bwrap, the mounts, the devices, and trying a jail once. Does not own: what is held (plan), or running a
command (tools). It is the only module of the jail that asks the system or starts anything.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Protocol

from perdure.jail import bubblewrap, seatbelt
from perdure.jail.mounts import Mount, parse_mounts

TRY_SECONDS = 10.0
_CAP_SYS_ADMIN = 21
_PLACES = ("/usr/bin", "/bin", "/usr/local/bin", "/run/current-system/sw/bin", "/usr/sbin", "/sbin")
_DEVICE_FOLDERS = ("/dev", "/dev/mapper", "/dev/bsg")
_RAW = ("mem", "kmem", "port", "sg[0-9]*", "nvme[0-9]*", "ng[0-9]*")
"""Devices that are not of blocks and reach a disk or the memory all the same."""
_SIZE = "/sys/dev/block/{}:{}/size"
_LENT = (7, 43)
"""The numbers of drivers (loop, nbd) whose devices are there before anything is behind them."""


class System(Protocol):
    """What a jail has to know and do, outside of itself."""

    def program(self) -> str | None:
        """Return where the program is that makes jails; None where there is none to be trusted."""

    def distrusted(self) -> str | None:
        """Return where such a program is that is not to be trusted; None where there is none either."""

    def is_root(self) -> bool:
        """Return whether this process has the rights of root."""

    def may_mount(self) -> bool:
        """Return whether this process has the right to change mounts, which root has and may have lost."""

    def is_read_only(self, path: str) -> bool:
        """Return whether a path lies on a mount that is read-only."""

    def mounts(self) -> Sequence[Mount]:
        """Return every mount that this process sees."""

    def devices(self) -> tuple[str, ...]:
        """Return the devices that hold filesystems and that this process could write to."""

    def try_out(self, command: Sequence[str]) -> str | None:
        """Return why a jailed command could not be run; None where it could."""


class LinuxSystem:
    """This machine, where it is Linux or macOS."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        """Know where programs are looked for after the system's own directories."""
        self._path = environ.get("PATH", "")
        self._devices: tuple[object, tuple[tuple[str, int], ...]] = (None, ())

    def program(self) -> str | None:
        if sys.platform == "darwin":
            return seatbelt.PROGRAM if os.access(seatbelt.PROGRAM, os.X_OK) else None
        if sys.platform != "linux":
            return None
        # One that a run could have put there would jail nothing.
        return next((found for found in self._programs() if not is_replaceable(found)), None)

    def distrusted(self) -> str | None:
        return next(filter(is_replaceable, self._programs()), None) if sys.platform == "linux" else None

    def _programs(self) -> Iterator[str]:
        for folder in (*_PLACES, *filter(os.path.isabs, self._path.split(os.pathsep))):
            if (found := shutil.which("bwrap", path=folder)) is not None:
                yield found

    def is_root(self) -> bool:
        return hasattr(os, "geteuid") and os.geteuid() == 0

    def may_mount(self) -> bool:
        try:
            with open("/proc/self/status", encoding="ascii", errors="replace") as file:
                found = next(line for line in file if line.startswith("CapEff:"))
            return bool(int(found.split()[1], 16) >> _CAP_SYS_ADMIN & 1)
        except (OSError, StopIteration, ValueError):
            return True

    def is_read_only(self, path: str) -> bool:
        try:
            return bool(os.statvfs(path).f_flag & os.ST_RDONLY)
        except OSError:
            return False

    def mounts(self) -> Sequence[Mount]:
        try:
            with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
                return parse_mounts(file.read())
        except OSError:
            return ()

    def devices(self) -> tuple[str, ...]:
        # The directories change when a device comes or goes; looking through them takes a third of a whole jail.
        stamp = tuple(map(_changed, _DEVICE_FOLDERS))
        if self._devices[0] != stamp:
            self._devices = stamp, tuple(each for each in _devices() if os.access(each[0], os.W_OK))
        # Hiding one takes as long as looking at ten.
        return tuple(path for path, number in self._devices[1] if not _is_empty(number))

    def try_out(self, command: Sequence[str]) -> str | None:
        try:
            done = subprocess.run(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                timeout=TRY_SECONDS,
                check=False,
            )
        except OSError as error:
            return f"{command[0]} cannot be started: {error.strerror or error}"
        except subprocess.TimeoutExpired:
            return f"{command[0]} took more than {TRY_SECONDS:g} s"
        if done.returncode == 0:
            return None
        said = done.stderr.decode(errors="replace")
        return bubblewrap.explain_failure(said) if sys.platform == "linux" else " ".join(said.split()) or "no reason"


def is_replaceable(program: str) -> bool:
    """Return whether a user who is not root could have put this program there; root could have put anything.

    What a user owns counts whatever its mode is, because the mode is the owner's; so does every directory and every
    link on the way, because whoever can name one anew decides what the path leads to.

    Args:
        program: absolute.
    """
    if not hasattr(os, "geteuid") or os.geteuid() == 0:
        return False
    real = os.path.realpath(program)
    return os.access(real, os.W_OK) or _is_own(real) or any(_can_rename(entry) for entry in _way_to(program))


def _way_to(path: str) -> Iterator[str]:
    """Return every entry that is gone through to the file, the links that lead to another one first."""
    left, seen = [path], set[str]()
    while left:
        entry = ""
        names = os.path.normpath(left.pop()).split(os.sep)[1:]
        for place, name in enumerate(names):
            entry = f"{entry}{os.sep}{name}"
            if entry in seen:
                continue
            seen.add(entry)
            with contextlib.suppress(OSError):
                target = os.path.join(os.path.realpath(os.path.dirname(entry)), os.readlink(entry))
                left.append(os.path.join(target, *names[place + 1 :]))
            yield entry


def _can_rename(entry: str) -> bool:
    """Return whether this user can have the directory hold something else by that name."""
    folder = os.path.dirname(entry)
    try:
        found = os.stat(folder)
    except OSError:
        return True  # what cannot be looked at is not known to be anybody's
    may = os.access(folder, os.W_OK) and (not found.st_mode & stat.S_ISVTX or _is_own(entry))
    return may or found.st_uid == os.geteuid()


def _is_own(path: str) -> bool:
    try:
        return os.lstat(path).st_uid == os.geteuid()
    except OSError:
        return True


def _changed(folder: str) -> int | None:
    try:
        return os.stat(folder).st_mtime_ns
    except OSError:
        return None


def _is_empty(number: int) -> bool:
    """Return whether a device is one that has nothing behind it: what is put there then is what this process sees."""
    if os.major(number) not in _LENT:
        return False
    try:
        with open(_SIZE.format(os.major(number), os.minor(number)), encoding="ascii") as file:
            return int(file.read()) == 0
    except (OSError, ValueError):
        return False


def _devices() -> Iterator[tuple[str, int]]:
    for folder in _DEVICE_FOLDERS:
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            try:
                seen = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            raw = folder == "/dev/bsg" or any(fnmatchcase(entry.name, pattern) for pattern in _RAW)
            if stat.S_ISBLK(seen.st_mode):
                yield entry.path, seen.st_rdev
            elif stat.S_ISCHR(seen.st_mode) and raw:
                yield entry.path, 0
