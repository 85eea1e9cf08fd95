"""A backend: where a command runs, and how it is started there.

Owns: the values that cross between whoever provides a backend and the terminal. Does not own: which backends there are
(tools/backends), starting anything. A backend starts nothing itself: it says which command of this machine takes a
command to where it runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from perdure.domain.record import dataclass, field

NAME = re.compile(r"[a-z][a-z0-9_.-]{0,62}")


@dataclass(frozen=True, slots=True, kw_only=True)
class FarCommand:
    """A command that is to run somewhere."""

    run: str
    """The run's id."""
    command: tuple[str, ...]
    """Program and arguments there; a text for a shell is an argument of that shell."""
    cwd: str | None = None
    """The directory there; None for where one comes out."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that it gets there, besides what it has there anyway."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How it is taken there."""

    command: tuple[str, ...]
    """Program and arguments here."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that this program gets here."""
    cleanup: tuple[str, ...] = ()
    """Program and arguments here that end what is left there; empty where there is no need, or no way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """Where commands run."""

    name: str
    """In lower case; `local` is the machine itself."""
    launch: Callable[[FarCommand], Launch]
    """Says how a command is taken there. It starts nothing."""
    isolated: bool | Callable[[], bool] = False
    """Whether a command there reaches nothing of this machine: no file, no process, no socket of it."""

    def __post_init__(self) -> None:
        """Refuse a backend that nobody could name."""
        if not NAME.fullmatch(str(self.name)):
            raise ValueError(f"a backend's name is in lower case, without blanks, not {self.name!r}")
        if not callable(self.launch):
            raise TypeError(f"backend {self.name}: launch must be callable")
