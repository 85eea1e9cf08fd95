"""A machine that exists in a description only, as a corpus of command lines gives it.

Owns: answering a probe's questions from a table of links. Does not own: the format of a corpus (corpus).
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence

from perdure.domain.record import dataclass, field
from perdure.guard.links import follow
from perdure.guard.patterns import with_letters
from perdure.guard.probe import Identity


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutProbe:
    """Answers for a machine on which nothing is known but its links and a few directories."""

    links: Mapping[str, str] = field(default_factory=dict)
    """Absolute path of each link, and where it leads to."""
    directories: frozenset[str] = frozenset()
    scripts: Mapping[str, str] = field(default_factory=dict)
    """Absolute path of each script whose text is known."""
    case_sensitive: bool = True
    drives: bool = False

    def real(self, path: str) -> str:
        """Return the path without the links of the table."""
        return follow(self._spelled(path), self.link)

    def link(self, path: str) -> str | None:
        """Return what the table says of a path."""
        return self.links.get(self._spelled(path))

    def identity(self, _path: str, /) -> Identity | None:
        """Return nothing: there is no disk."""
        return None

    def names(self, directory: str) -> Sequence[str]:
        """Return the links and directories of the table that lie in a directory."""
        folder = self._spelled(directory).rstrip("/")
        known = (*self.links, *self.directories)
        return sorted({path.rpartition("/")[2] for path in known if posixpath.dirname(path) == (folder or "/")})

    def text(self, _path: str, /) -> str | None:
        """Return nothing: there is no disk."""
        return None

    def held(self, _path: str, /) -> bool:
        """Return that nothing is held."""
        return False

    def is_directory(self, path: str) -> bool | None:
        """Return whether the table has the path as a directory; None where it does not say."""
        return True if self.real(path) in self.directories else None

    def script(self, path: str) -> str | None:
        """Return what the table has as a script."""
        return self.scripts.get(self.real(path))

    def changed(self, _path: str, /) -> int | None:
        """Return that nothing changes."""
        return None

    def _spelled(self, path: str) -> str:
        return with_letters(path) if self.drives else path
