"""Outcomes: how asking ended, how running ended. The only words that hooks, audit, metrics and the wire use for them.

Owns: the closed lists. Does not own: who may bring them about (approvals).
"""

from __future__ import annotations

from enum import StrEnum


class Outcome(StrEnum):
    """What came of asking. Only a person's explicit no is `DECLINED`."""

    APPROVED = "approved"
    DECLINED = "declined"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    STORE_UNAVAILABLE = "store-unavailable"
    DENIED = "denied"
    """By policy."""


class Cause(StrEnum):
    """Why something was cancelled, though nobody said no."""

    TURN_INTERRUPTED = "turn-interrupted"
    PARENT_ENDED = "parent-ended"
    TURN_ENDED = "turn-ended"
    SESSION_ENDED = "session-ended"
    BATCH_CLOSED = "batch-closed"
    CLIENT_CANNOT_RENDER = "client-cannot-render"
    SURFACE_CLOSED = "surface-closed"
    NO_CHANNEL = "no-channel"
    CALLBACK_ERROR = "callback-error"
    NOTIFY_FAILED = "notify-failed"
    PROMPT_INTERRUPTED = "prompt-interrupted"
    DISPLAY_FAILED = "display-failed"


class Status(StrEnum):
    """Where a proposal is; all but `PENDING` are final."""

    PENDING = "pending"
    APPROVED = "approved"
    DECLINED = "declined"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


class Execution(StrEnum):
    """What became of running it."""

    NOT_STARTED = "not-started"
    DISPATCHING = "dispatching"
    EXECUTED = "executed"
    """A process was started; written there and nowhere else."""
    FAILED_TO_START = "failed-to-start"
    BLOCKED = "blocked"
    UNKNOWN_AFTER_CRASH = "unknown-after-crash"


class Scope(StrEnum):
    """How far an approval reaches."""

    ONCE = "once"
    SESSION = "session"
    ALWAYS = "always"
