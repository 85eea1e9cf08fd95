"""What `perdure approvals …` and `perdure sessions` show and do with proposals.

Owns: their answers as text and data. Does not own: options (commands), who may answer and what comes of it (approvals).
Keeps: answer-by-id-only: an answer names its proposal, also where only one is open.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Sequence

from perdure.approvals.display import visible
from perdure.approvals.service import Approvals
from perdure.cli.approving import is_there, note_standing, owner, require_outside_run
from perdure.cli.asking import approvals_of, store_path
from perdure.cli.output import Answer, columns, printable
from perdure.cli.prompt import question_of
from perdure.cli.session import Session
from perdure.domain.errors import EXIT_DONE, EXIT_FOUND
from perdure.domain.json_value import JsonValue
from perdure.domain.operation import Surface
from perdure.domain.outcome import Scope, Status
from perdure.domain.proposal import Answer as Said
from perdure.domain.proposal import Answerer, Entry, Proposal

_LONGEST = 72
_WATCH_SECONDS = 0.1


def list_entries(session: Session, *, everything: bool, most: int) -> Answer:
    """Return what is open, or everything that is kept."""
    approvals = _known(session)
    if approvals is None:
        return Answer(data={"proposals": []}, text="Nothing was asked yet.")
    store, now = approvals.store, approvals.now()
    store.expire(now)
    entries = store.entries(status=None if everything else Status.PENDING, most=most)
    if session.output.as_json:  # a thousand take as long again in the form that nobody gets
        return Answer(data={"proposals": [_data(entry, now) for entry in entries]}, text=None)
    return Answer(data=None, text=_table(entries, now) if entries else "Nothing is open.")


def show(session: Session, proposal: str) -> Answer:
    """Return everything about one proposal.

    Raises:
        ProposalUnknown: there is none with that id.
    """
    approvals = approvals_of(session)
    now = approvals.now()
    approvals.store.expire(now)
    entry = approvals.store.get(proposal)
    life, asked = entry.life, entry.proposal
    lines = [
        question_of(entry, now) if life.status is Status.PENDING else f"{asked.display}\n\nid:      {asked.id}",
        "",
    ]
    lines += [f"session {asked.session}, asked by {asked.requester.name} at {_at(asked.created)}"]
    lines += [f"{_state(entry)}" + (f", by {life.answered_by}" if life.answered_by else "")]
    if life.reason:
        lines.append(f"reason: {life.reason}")
    if life.status is Status.PENDING:
        waiting = f"{life.waiters} waiting" if life.waiters else "nobody waits for it any more"
        lines += [waiting, "", *_ways(session, asked)]
    return Answer(data=_data(entry, now), text=printable("\n".join(lines)))


def approve(session: Session, proposal: str, scope: str) -> Answer:
    """Approve one proposal; see `_answer`."""
    return _answer(session, proposal, Said(approve=True, scope=Scope(scope)))


def decline(session: Session, proposal: str, reason: str) -> Answer:
    """Decline one proposal; see `_answer`."""
    return _answer(session, proposal, Said(approve=False, reason=reason or None))


def _answer(session: Session, proposal: str, said: Said) -> Answer:
    """Answer one proposal, and return what came of it.

    Raises:
        RefusedInsideRun: this process works for a run.
        AnswerNotAllowed: the proposal is not this person's to answer.
        ProposalUnknown: there is none with that id.
        ProposalSettled: it is settled already.
    """
    require_outside_run(session, "answer a proposal")
    by = Answerer(principal=owner(), surface=Surface.CLI)
    approvals = approvals_of(session)
    entry = approvals.answer(proposal, said, by)
    life = entry.life
    text = f"{proposal}: {life.status.value}"
    if said.approve and life.scope is not None:
        text += f", {life.scope.value}" + ("" if life.scope is said.scope else f" ({said.scope.value} is not possible)")
    if life.orphaned:
        text += "; nobody waits for it any more: this was recorded, the command was NOT run; ask again"
    return Answer(
        data=_data(entry, approvals.now()), text=printable(text), exit_code=EXIT_FOUND if life.orphaned else EXIT_DONE
    )


def watch(session: Session) -> Answer:
    """Show what is open whenever it changes, until it is interrupted; for programs, the next change and no more."""
    approvals = approvals_of(session)
    shown: list[str] | None = None
    version: int | None = None
    while True:
        # The time of one may be over without anybody having written anything.
        now = approvals.now()
        found = approvals.store.version()
        if found != version or shown:
            version = found
            entries = [each for each in approvals.store.entries(status=Status.PENDING) if each.proposal.expires > now]
            ids = [entry.proposal.id for entry in entries]
            if ids != shown:
                if session.output.as_json and shown is not None:
                    return Answer(data={"proposals": [_data(entry, now) for entry in entries]}, text=None)
                if not session.output.as_json:
                    session.output.talk(_table(entries, now) if entries else "Nothing is open.")
                shown = ids
        time.sleep(_WATCH_SECONDS)


def audit(session: Session, *, verify: bool, most: int) -> Answer:
    """Return the audit trail, and whether it is what was written.

    What stands in the operator's file is noted first: the trail is never behind what would count.
    """
    note_standing(session)
    approvals = _known(session)
    if approvals is None:
        return Answer(data={"lines": [], "faults": [], "last": None}, text="Nothing was asked yet.")
    lines = approvals.store.audit(most)
    faults = approvals.store.audit_faults() if verify else []
    rows = [("at", "event", "about", "said")]
    for line in lines:
        said = ", ".join(f"{name} {value}" for name, value in line.said.items() if value is not None)
        rows.append((_at(dt.datetime.fromtimestamp(line.at / 1000, dt.UTC)), line.event, line.subject, said))
    text = columns(rows)
    last = lines[-1].hash if lines else None
    if verify:
        text += ["", *(faults or [f"every row is what was written; the last one's hash is {last}"])]
    return Answer(
        data={
            "lines": [
                {"seq": line.seq, "at": line.at, "event": line.event, "about": line.subject, "said": dict(line.said)}
                for line in lines
            ],
            "faults": list[JsonValue](faults),
            "last": last,
        },
        text=printable("\n".join(text)),
        exit_code=EXIT_FOUND if faults else EXIT_DONE,
    )


def sessions(session: Session) -> Answer:
    """Return the sessions that have asked."""
    approvals = _known(session)
    seen = [] if approvals is None else approvals.store.sessions()
    rows = [("session", "works for", "of", "asked", "open", "waiting", "last")]
    rows += [
        (
            *(each.session, each.parent or "", each.owner, str(each.proposals), str(each.pending)),
            *(str(each.waiting), _at(each.last)),
        )
        for each in seen
    ]
    return Answer(
        data={
            "sessions": [
                {
                    "session": each.session,
                    "parent": each.parent,
                    "owner": each.owner,
                    "proposals": each.proposals,
                    "pending": each.pending,
                    "waiting": each.waiting,
                    "last": each.last.isoformat(),
                }
                for each in seen
            ]
        },
        text=printable("\n".join(columns(rows))) if seen else "No session has asked yet.",
    )


def _known(session: Session) -> Approvals | None:
    """Return the approvals where there are any: looking makes none."""
    return approvals_of(session) if is_there(store_path(session)) else None


def _table(entries: Sequence[Entry], now: dt.datetime) -> str:
    rows = [("id", "state", "left", "risk", "session", "command")]
    for entry in entries:
        asked = entry.proposal
        left = max(0, round((asked.expires - now).total_seconds()))
        open_ = entry.life.status is Status.PENDING
        risk = "unknown" if asked.pinned.risk is None else asked.pinned.risk.value
        rows.append((asked.id, _state(entry), f"{left} s" if open_ else "", risk, asked.session, _short(asked)))
    return printable("\n".join(columns(rows)))


def _short(asked: Proposal) -> str:
    acted = asked.operation
    text = visible(" ".join((acted.script or " ".join(acted.argv) or " ".join(acted.paths)).split()))
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _state(entry: Entry) -> str:
    life = entry.life
    text = life.status.value if life.cause is None else f"{life.status.value} ({life.cause.value})"
    if life.status is not Status.APPROVED:
        return text
    return f"{text}, {life.execution.value}" + (f" ({life.execution_reason})" if life.execution_reason else "")


def _ways(session: Session, asked: Proposal) -> list[str]:
    command = session.installation.app_command
    scopes = [scope.value for scope in asked.pinned.scopes if scope is not Scope.ONCE]
    more = f"   [{' | '.join(['once', *scopes])}]" if scopes else ""
    return [
        f"approve: {command('approvals', 'approve', asked.id)}{more}",
        f"decline: {command('approvals', 'decline', asked.id)}   [reason]",
    ]


def _at(at: dt.datetime) -> str:
    return at.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _data(entry: Entry, now: dt.datetime) -> dict[str, JsonValue]:
    asked, life = entry.proposal, entry.life
    acted, pinned = asked.operation, asked.pinned
    return {
        "id": asked.id,
        "profile": asked.profile,
        "session": asked.session,
        "parent": asked.parent,
        "requester": asked.requester.name,
        "created": asked.created.isoformat(),
        "expires": asked.expires.isoformat(),
        "seconds_left": max(0.0, round((asked.expires - now).total_seconds(), 3)),
        "operation": {
            "kind": acted.kind.value,
            "argv": list[JsonValue](acted.argv),
            "script": acted.script,
            "shell": acted.shell,
            "paths": list[JsonValue](acted.paths),
            "cwd": acted.cwd,
            "backend": acted.backend,
            "environment": list[JsonValue](acted.environment),
            "executable": acted.executable,
            "digests": {digest.path: digest.sha256 for digest in acted.digests},
        },
        "digest": asked.digest,
        "risk": None if pinned.risk is None else pinned.risk.value,
        "reasons": [reason.to_json() for reason in pinned.reasons],
        "scopes": [scope.value for scope in pinned.scopes],
        "default": pinned.default.value,
        "display": asked.display,
        "summary": asked.summary,
        "status": life.status.value,
        "scope": None if life.scope is None else life.scope.value,
        "cause": None if life.cause is None else life.cause.value,
        "reason": life.reason,
        "answered_by": life.answered_by,
        "execution": life.execution.value,
        "execution_reason": life.execution_reason,
        "run": life.run,
        "waiting": life.waiters,
    }
