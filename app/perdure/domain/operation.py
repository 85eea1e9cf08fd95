"""An operation: what somebody wants done that may need a decision first.

Owns: the values that every path to an action hands to the approvals, and who asks on what authority. Does not own: the
decision (approvals), carrying it out (tools). Everything is frozen: what is approved is what is run.
"""

from __future__ import annotations

import datetime as dt
from enum import StrEnum

from perdure.domain.record import dataclass


class OperationKind(StrEnum):
    """Which path wants to act."""

    COMMAND = "command"
    """A terminal's command line or script."""
    CODE = "code"
    """A program's text for an interpreter, as Python."""
    FILE_READ = "file-read"
    """Decided about where the file is not for everybody, as one with credentials."""
    FILE_WRITE = "file-write"
    FILE_PATCH = "file-patch"
    FILE_MOVE = "file-move"
    FILE_DELETE = "file-delete"
    PLUGIN = "plugin"
    """Something that a plugin asks for in words of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Digest:
    """The contents of a file that an operation would run or read, when it was looked at."""

    path: str
    """Absolute."""
    sha256: str
    """64 hexadecimal digits; empty where the file could not be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """What is to be done, as exactly as it will be."""

    kind: OperationKind
    argv: tuple[str, ...] = ()
    """Program and arguments, started without a shell; empty where `script` is set."""
    script: str | None = None
    """A text for `shell`, or the code."""
    shell: str = "bash"
    paths: tuple[str, ...] = ()
    """The absolute paths that a file operation acts on, in the order in which its tool takes them."""
    cwd: str
    """Absolute."""
    backend: str = "local"
    environment: tuple[str, ...] = ()
    """Names, not values, of variables that the caller sets for it."""
    executable: str | None = None
    """The resolved program; None where there is none, or it is the shell's to find."""
    digests: tuple[Digest, ...] = ()
    diff: str | None = None
    """What a file operation would change; None where that is not known."""


class Surface(StrEnum):
    """Through what somebody speaks to Perdure."""

    CLI = "cli"
    INBOX = "inbox"
    API = "api"
    MCP = "mcp"
    SOCKET = "socket"
    CRON = "cron"
    WEBHOOK = "webhook"
    SINGLE_QUERY = "single-query"


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """A person, as the surface that they came through knows them."""

    name: str
    owner: bool
    """Whether they own the profile; by default nobody else answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Authority:
    """Who may answer what an operation asks, made when a surface connects and revocable.

    It is handed on explicitly. No variable of an environment makes one.
    """

    session: str
    surface: Surface
    requester: Principal
    answerable: bool
    """Whether a person can be asked and can answer here."""
    expires: dt.datetime | None = None
    """Aware; None where it lasts as long as the session."""
    yolo: bool = False
    """Whether the session was started without questions; settled once at its start."""
    parent: str | None = None
    """The session that this one works for."""
