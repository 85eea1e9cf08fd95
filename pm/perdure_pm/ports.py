"""What operations need of the world, as protocols: each has a second implementation that is not a mock.

Owns: the signatures. Does not own: implementations (adapters), nor the choice of one (composition). The second
implementations are the fault-injecting filesystem of tests/pm/faults and the worker's reporter on the wire.

Standard library only, Python 3.9 at run time.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol


class Filesystem(Protocol):
    """Effects on files. Everything that changes the home goes through one of these, so that a fault can be injected."""

    def make_directories(self, path: Path) -> None:
        """Make `path` and its parents; what exists already is fine."""

    def write_durable(self, path: Path, data: bytes, *, mode: int = 0o644) -> None:
        """Replace `path` by `data`, all or nothing, also across a power loss; a link there is replaced itself."""

    def append_durable(self, path: Path, data: bytes) -> None:
        """Append `data` to `path` in one write and flush it."""

    def copy_file(self, source: Path, target: Path) -> None:
        """Copy contents and mode."""

    def link_files(self, *links: tuple[str | Path, str | Path]) -> None:
        """Have each second path be the same file as the first, or a copy of it where there are no hard links."""

    def rename(self, source: Path, target: Path) -> None:
        """Rename within the home and flush both directories."""

    def remove_tree(self, path: Path) -> None:
        """Remove `path`, read-only members included, never following a link."""

    def make_read_only(self, tree: Path) -> None:
        """Take the write bits from every file and directory below `tree`, links left alone."""

    def flush(self, path: Path) -> None:
        """Flush all that was written to the filesystem that holds `path`, in one call where the kernel has one."""

    def free_bytes(self, path: Path) -> int:
        """Return the bytes that this user may still write on the filesystem that holds `path`."""


class Reporter(Protocol):
    """Where an operation tells how far it is and asks the caller's callbacks."""

    def progress(self, stage: str, message: str, *, done: int | None = None, total: int | None = None) -> None:
        """Tell of progress; also the point at which a cancellation is noticed (raises OperationCancelled)."""

    def callback(self, name: str, payload: dict[str, Any]) -> None:
        """Call the caller's callback `name` if it registered one; raises OperationVetoed where it refuses."""

    def heartbeat(self) -> None:
        """Tell that something moved (a child used the processor, bytes came), where there is nothing to show for it.

        Only real progress calls this: an idle deadline ends an operation that is silent.
        """

    def committed(self) -> None:
        """Pass the point of no return: called immediately *before* the write of the pointer.

        Until here a cancellation ends the operation, and this raises OperationCancelled where one is waiting; from here
        on none does. Before the write, because a cancellation between the write and this call would report an operation
        as cancelled that has happened; a write that then fails has merely not been cancellable.
        """
