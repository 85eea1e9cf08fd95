"""Who is asked by a command line, and who may answer through it.

Owns: opening the profile's approvals, and the channel that fits the streams. Does not own: asking (approvals), the
policy (approving). Keeps: approvals-not-from-inside: a process that works for a run is not asked at its keyboard.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from perdure.approvals.asking import SECONDS, Asker
from perdure.approvals.display import display
from perdure.approvals.redact import mask
from perdure.approvals.service import Approvals, Channel
from perdure.cli.approving import origin_here, profile_of
from perdure.cli.prompt import Elsewhere, Terminal
from perdure.cli.session import Session
from perdure.domain.errors import StoreUnavailable
from perdure.domain.operation import Authority
from perdure.domain.outcome import Cause
from perdure.store.port import ProposalStore


def store_path(session: Session) -> Path:
    """Return where the profile's approvals are.

    Raises:
        StoreUnavailable: there is no home, or no such profile can be.
    """
    home, profile = session.installation.home, profile_of(session)
    if not home.is_dir() or os.sep in profile or profile.startswith("."):
        raise StoreUnavailable(f"there is no place for the approvals of profile {profile!r} in {home}")
    return home / "state" / profile / "approvals.db"


def approvals_of(session: Session) -> Approvals:
    """Return the approvals of the profile; nothing is opened before it is needed."""

    def open_store() -> ProposalStore:
        # 6 ms that only a command which asks or answers has to take.
        from perdure.store.sqlite import SqliteStore

        return SqliteStore(store_path(session), profile_of(session))

    return Approvals(open_store=open_store)


def at_a_terminal(session: Session) -> bool:
    """Return whether a person sits at the streams of this process."""
    return sys.stdin.isatty() and sys.stderr.isatty() and origin_here(session).outside


def asker_for(session: Session, authority: Authority, *, prompt: bool, seconds: float | None) -> Asker:
    """Return what asks for a command.

    Args:
        session: this process.
        authority: on whose it runs.
        prompt: whether the person at this terminal is asked, and not one in another.
        seconds: how long the question stays open.
    """
    talk, approvals = session.output.talk, approvals_of(session)
    elsewhere = Elsewhere(talk=talk, command=session.installation.app_command)
    channel: Channel = Terminal(talk=talk, now=approvals.now) if prompt else elsewhere
    return Asker(
        approvals=approvals,
        authority=authority,
        profile=profile_of(session),
        channel=channel,
        mask=mask,
        display=lambda operation, decision: display(operation, decision, authority.requester),
        seconds=seconds or SECONDS,
        interrupted=Cause.PROMPT_INTERRUPTED if prompt else Cause.TURN_INTERRUPTED,
    )
