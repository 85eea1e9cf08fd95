"""What a migration makes of one file: its new text, what is left in it, and having it in place of the old one.

Owns: the values that say so, the change as a diff, and the write, which only takes the place of the file that was read.
Does not own: what is moved (migrate).

Keeps: compat-migrate-leaves, compat-migrate-whole-files.
"""

from __future__ import annotations

import difflib
import errno
from dataclasses import dataclass
from pathlib import Path

from perdure_compat.source import Source, lines_of, replace_file


@dataclass(frozen=True, slots=True)
class Left:
    """A use that was not moved, and why."""

    path: Path
    line: int
    written: str
    reason: str
    guarded: bool = False

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: left {self.written}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Migration:
    """What becomes of one file."""

    path: Path
    before: str
    after: str
    moved: int
    left: tuple[Left, ...]
    source: Source

    @property
    def changed(self) -> bool:
        """Whether anything is to be written."""
        return self.before != self.after

    def diff(self) -> str:
        """Return the change as a unified diff."""
        name = self.path.as_posix().lstrip("/")
        lines = (lines_of(self.before), lines_of(self.after))
        return "".join(
            line if line.endswith(("\n", "\r")) else f"{line}\n\\ No newline at end of file\n"
            for line in difflib.unified_diff(*lines, f"a/{name}", f"b/{name}")
        )

    def write(self) -> None:
        """Have the new text in the file.

        Raises:
            OSError: it cannot be written, or it is not the file any more that was read; it is as it was.
            UnicodeEncodeError: a new name cannot be written in the file's encoding; the file is as it was.
        """
        content = self.source.encoded(self.after)
        if self.path.read_bytes() != self.source.encoded(self.before):
            raise OSError(errno.ESTALE, "it was changed in the meantime: run it again", str(self.path))
        replace_file(self.path, content)
