"""What is known of the shell that a text is for, and of the machine it would run on.

Owns: the values that a caller hands to reading. Does not own: how they are found out; reading itself touches nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from perdure.domain.record import dataclass, field

BUDGET = 0.1
"""Seconds that reading one text may take, unless somebody waits for nothing."""


class Probe(Protocol):
    """Answers what only the machine can tell. None stands for "not known" and is always a safe answer.

    Part of what `perdure.guard.probe.Probe` answers.
    """

    @property
    def drives(self) -> bool:
        """Whether paths begin with the letter of a drive."""
        ...

    def is_directory(self, path: str) -> bool | None:
        """Return whether an absolute path is a directory now, links followed."""
        ...

    def link(self, path: str) -> str | None:
        """Return where a link at the path itself leads to, None where there is none or it is not known."""
        ...

    def script(self, path: str) -> str | None:
        """Return the text of a small file, None where there is none, or it is large, or no text."""
        ...


class NoProbe:
    """The probe of a machine that nothing is known of."""

    drives = False

    def is_directory(self, path: str) -> bool | None:  # noqa: ARG002  # whatever it is
        """Return that it is not known."""
        return None

    def link(self, path: str) -> str | None:  # noqa: ARG002  # whatever it is
        """Return that it is not known."""
        return None

    def script(self, path: str) -> str | None:  # noqa: ARG002  # whatever it is
        """Return that it is not known."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """The shell that would run the text."""

    directory: str
    """Absolute; where the shell is."""
    home: str
    """Absolute; what ``~`` stands for while ``HOME`` is not assigned."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """The variables that the shell is started with."""
    complete: bool = False
    """Whether no other variable can be set, so that ``${X:-y}`` is ``y`` for a name that is not in `environment`."""
    user: str = ""
    hosts: frozenset[str] = frozenset({"localhost", "127.0.0.1", "::1", "ip6-localhost"})
    """Names of this machine, for ``ssh``."""
    probe: Probe = field(default_factory=NoProbe)
    seconds: float = BUDGET
    """How long reading may take altogether."""
