"""What the guard asks the filesystem.

Owns: the questions, and the answers of the machine this runs on. Does not own: what follows from an answer (paths,
roots). It is the only module of the guard that touches the filesystem; everything else works with any `Probe`.
Nothing here raises: what cannot be seen is answered as if it were not there, and the lexical comparison stands.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Sequence
from typing import Protocol

from perdure.domain.record import dataclass

MOST_NAMES = 4_096
"""A directory with more entries is not looked through for links; the comparison by name stands without it."""
LARGEST_TEXT = 64 * 1024
"""A file that is read at all, such as pyvenv.cfg or a pointer, is smaller by far."""

LONGEST_KEPT = 1_024
"""What is known of a longer path is not kept: a hostile one has thousands of directories above it."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Which file a path leads to, whatever it is called."""

    device: int
    inode: int
    directory: bool


class Probe(Protocol):
    """What has to be known of a filesystem."""

    @property
    def case_sensitive(self) -> bool:
        """Whether names that differ in case alone are two files."""

    @property
    def drives(self) -> bool:
        """Whether paths begin with the letter of a drive."""

    def real(self, path: str, /) -> str:
        """Return the absolute path without links; components that do not exist stay as they are."""

    def link(self, path: str, /) -> str | None:
        """Return what the link at the path itself says, or None where there is no link."""

    def identity(self, path: str, /) -> Identity | None:
        """Return what the path leads to, links followed."""

    def names(self, directory: str, /) -> Sequence[str]:
        """Return the names in a directory; none where there is none, or where there are too many."""

    def text(self, path: str, /) -> str | None:
        """Return the text of a small file, or None."""

    def is_directory(self, path: str, /) -> bool | None:
        """Return whether the path is a directory, links followed; None where that cannot be told."""

    def script(self, path: str, /) -> str | None:
        """Return the whole text of a small file, or None."""

    def held(self, path: str, /) -> bool:
        """Return whether a living process holds the kernel lock on a file; what cannot be told is held."""

    def changed(self, path: str, /) -> int | None:
        """Return a number that is another one when a file or a directory was changed; None where there is none."""


def _read(path: str, size: int) -> bytes | None:
    """Return the beginning of a file; None of what is no file: opening a pipe would wait for somebody to write."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        with open(handle, "rb") as file:
            return file.read(size) if stat.S_ISREG(os.fstat(handle).st_mode) else None
    except (OSError, ValueError):
        return None


class Snapshot:
    """The filesystem as one verdict sees it: what was asked once is not asked again.

    The words of a command count from one directory, so that most of the way to each is that to the others.
    """

    def __init__(self, probe: Probe) -> None:
        """Know nothing yet."""
        self._probe = probe
        self.case_sensitive = probe.case_sensitive
        self.drives = probe.drives
        self.is_directory = probe.is_directory
        self.names = probe.names
        self.text = probe.text
        self.script = probe.script
        self.held = probe.held
        self.changed = probe.changed
        self._real: dict[str, str] = {}
        self._links: dict[str, str | None] = {}
        self._identities: dict[str, Identity | None] = {}

    def real(self, path: str) -> str:
        if len(path) > LONGEST_KEPT:
            return self._probe.real(path)
        if (found := self._real.get(path)) is None:
            found = self._real[path] = self._found(path)
        return found

    def _found(self, path: str) -> str:
        folder, _, name = path.rpartition("/")
        if self.drives or not folder or name in {"", ".", ".."}:
            return self._probe.real(path)
        if (above := self._real.get(folder)) is None:
            above = self._real[folder] = self._probe.real(folder)
        here = f"{above.rstrip('/')}/{name}"
        return here if self.link(here) is None else self._probe.real(path)

    def link(self, path: str) -> str | None:
        if len(path) > LONGEST_KEPT:
            return self._probe.link(path)
        if path not in self._links:
            self._links[path] = self._probe.link(path)
        return self._links[path]

    def identity(self, path: str) -> Identity | None:
        if len(path) > LONGEST_KEPT:
            return self._probe.identity(path)
        if path not in self._identities:
            self._identities[path] = self._probe.identity(path)
        return self._identities[path]


class Machine:
    """The filesystem of this machine."""

    @property
    def case_sensitive(self) -> bool:
        return sys.platform not in {"darwin", "win32"}

    @property
    def drives(self) -> bool:
        return sys.platform == "win32"

    def real(self, path: str) -> str:
        try:
            return os.path.realpath(path)
        except (OSError, ValueError):
            return os.path.normpath(path)

    def link(self, path: str) -> str | None:
        try:
            return os.readlink(path)
        except (OSError, ValueError):
            return None

    def identity(self, path: str) -> Identity | None:
        try:
            found = os.stat(path)
        except (OSError, ValueError):
            return None
        return Identity(found.st_dev, found.st_ino, stat.S_ISDIR(found.st_mode))

    def names(self, directory: str) -> Sequence[str]:
        found: list[str] = []
        try:
            with os.scandir(directory) as entries:
                for entry in entries:
                    if len(found) == MOST_NAMES:
                        return ()
                    found.append(entry.name)
        except (OSError, ValueError):
            return ()
        return found

    def text(self, path: str) -> str | None:
        read = _read(path, LARGEST_TEXT)
        return read.decode(errors="surrogateescape") if read is not None else None

    def is_directory(self, path: str) -> bool | None:
        found = self.identity(path)
        return found is not None and found.directory

    def script(self, path: str) -> str | None:
        read = _read(path, LARGEST_TEXT + 1)
        try:
            return read.decode() if read is not None and len(read) <= LARGEST_TEXT else None
        except ValueError:
            return None

    def held(self, path: str) -> bool:
        try:
            import fcntl
        except ImportError:  # Windows
            return True
        try:
            handle = os.open(path, os.O_RDONLY)
        except (OSError, ValueError):
            return False
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
        finally:
            os.close(handle)
        return False

    def changed(self, path: str) -> int | None:
        try:
            return os.stat(path).st_mtime_ns
        except (OSError, ValueError):
            return None
