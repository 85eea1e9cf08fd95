"""What `perdure allow …` shows and keeps: standing answers of the person at the command line.

Owns: choosing where an answer is kept, and its form for people. Does not own: what one covers (approvals.grants), the
list in app.yaml (approvals.allowlist) or the table (a `GrantStore`). Keeps: approvals-not-from-inside.
"""

from __future__ import annotations

import datetime as dt
import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from perdure.approvals.allowlist import AllowlistUnfit
from perdure.approvals.commands import plain_words
from perdure.approvals.grants import DESTRUCTIVE, covers_any_program, grant_of_line, known_keys, stands
from perdure.cli.approving import (
    allowlist_of,
    note_standing,
    owner,
    profile_of,
    require_outside_run,
    store_of,
    way_out,
)
from perdure.cli.guard import directory_of
from perdure.cli.options import AllowOptions
from perdure.cli.output import Answer, columns, printable
from perdure.cli.session import Session
from perdure.domain.errors import EXIT_DONE, EXIT_FOUND, GrantInvalid, GrantNotKept, GrantUnknown, StoreUnavailable
from perdure.domain.grant import Grant
from perdure.domain.json_value import JsonValue
from perdure.domain.proposal import new_id

_MOST_SUGGESTED = 20


def list_grants(session: Session) -> Answer:
    """Return the grants of the profile that stand."""
    now, who = _now(), owner()
    grants = [grant_of_line(line, profile_of(session), who.name, now) for line in allowlist_of(session).entries()]
    unread: StoreUnavailable | None = None
    try:
        with store_of(session, make=False) as store:
            if store is not None:
                grants += [grant for grant in store.grants() if stands(grant, now)]
    except StoreUnavailable as error:
        # The lines of app.yaml count all the same, and are shown.
        unread = error
        session.output.warn(f"no grant that is kept there counts: {error.summary}")
    rows = [("grant", "covers", "until", "by")]
    rows += [(grant.id, grant.shown(), _until(grant), grant.granted_by) for grant in grants]
    return Answer(
        data={
            "profile": profile_of(session),
            "grants": [grant.to_json() for grant in grants],
            "unreadable": None if unread is None else {"code": unread.code, "hint": way_out(session, unread)},
        },
        text=printable("\n".join(columns(rows))) if grants else "Nothing is granted.",
        exit_code=EXIT_DONE if unread is None else EXIT_FOUND,
    )


def add(session: Session, options: AllowOptions) -> Answer:
    """Keep a grant, and return it.

    Raises:
        RefusedInsideRun: whoever asks is part of a run.
        GrantInvalid: nothing may be granted so.
        GrantNotKept: it cannot be written.
    """
    require_outside_run(session, "grant something")
    what = options["what"]
    if not what.split():
        raise GrantInvalid("a grant covers a glob for a command, or a class of reasons, not nothing")
    key = what if what in known_keys() else None
    if key in DESTRUCTIVE:
        raise GrantInvalid(
            f"{key} is never granted for always: what it takes away does not come back", context={"what": what}
        )
    if options["cwd"] is not None and not os.path.isdir(directory_of(session, options["cwd"])):
        raise GrantInvalid(
            f"there is no directory {directory_of(session, options['cwd'])} that the grant could be for",
            context={"cwd": options["cwd"]},
        )
    if key is None and covers_any_program(what):
        session.output.warn(
            f"{what!r} covers every plain command, whatever program it is: of those only what the floor, the rules and "
            "a destructive class say is asked about or refused any more"
        )
    scoped = any(options[name] is not None for name in ("cwd", "path", "hours", "uses"))
    now = _now()
    grant = Grant(
        id=new_id() if scoped else what,
        profile=profile_of(session),
        rule_key=key,
        argv_template=None if key is not None else what,
        cwd_prefix=None if options["cwd"] is None else directory_of(session, options["cwd"]),
        path_prefix=None if options["path"] is None else directory_of(session, options["path"]),
        principal=owner().name,
        created=now,
        expires=None if options["hours"] is None else now + dt.timedelta(hours=options["hours"]),
        uses_left=options["uses"],
        granted_by="allow add",
    )
    if scoped:
        with store_of(session, make=True) as store:
            if store is None:
                raise GrantNotKept(f"there is no home at {session.installation.home} that a grant could be kept in")
            store.add_grant(grant)
    elif not allowlist_of(session).add(what):
        raise GrantNotKept(
            f"{session.app_file.path} was not written, so that nothing is granted",
            context={"path": str(session.app_file.path)},
        )
    else:
        note_standing(session, f"{owner().name}, allow add")
    return Answer(data={"grant": grant.to_json()}, text=printable(f"granted: {grant.shown()} ({grant.id})"))


def revoke(session: Session, what: str) -> Answer:
    """Withdraw a grant by its id, which for a line of app.yaml is the line.

    Raises:
        RefusedInsideRun: whoever asks is part of a run.
        GrantUnknown: there is none.
        GrantNotKept: the file cannot be written.
    """
    require_outside_run(session, "withdraw a grant")
    try:
        gone = allowlist_of(session).remove(what)
    except (AllowlistUnfit, OSError) as fault:
        raise GrantNotKept(str(fault), context={"path": str(session.app_file.path)}) from fault
    if gone:
        note_standing(session, f"{owner().name}, allow revoke")
    else:
        with store_of(session, make=False) as store:
            gone = store is not None and store.revoke_grant(what, _now())
    if not gone:
        hint = session.installation.app_command("allow", "list")
        raise GrantUnknown(f"there is no grant {what!r} that stands", hint=hint, context={"grant": what})
    return Answer(data={"revoked": what}, text=printable(f"withdrawn: {what}"))


def suggest(session: Session) -> Answer:
    """Return which commands people were asked about most, as grants that could be given; none is."""
    counts: Counter[str] = Counter()
    for decision, words in _asked(session):
        reasons = decision.get("reasons")
        codes = (
            {str(reason.get("code")) for reason in reasons if isinstance(reason, dict)}
            if isinstance(reasons, list)
            else set()
        )
        if not codes & DESTRUCTIVE and not decision.get("skips_nothing"):
            counts[_template(words)] += 1
    rows = [("asked", "a grant that would cover it")]
    rows += [(str(count), template) for template, count in counts.most_common(_MOST_SUGGESTED)]
    listed: list[JsonValue] = [
        {"template": template, "asked": count} for template, count in counts.most_common(_MOST_SUGGESTED)
    ]
    text = "\n".join(columns(rows)) if counts else "Nothing was asked about that a grant could cover."
    return Answer(data={"suggestions": listed}, text=printable(text))


def _asked(session: Session) -> Iterator[tuple[dict[str, object], tuple[str, ...]]]:
    """Yield what the run record has of plain commands that classification asked about."""
    folder = session.installation.home / "state" / profile_of(session)
    for path in sorted(folder.glob("runs-*.jsonl"))[-3:]:
        for line in _lines(path):
            decision = line.get("decision")
            if line.get("event") != "judged" or not isinstance(decision, dict) or decision.get("ruling") == "allow":
                continue
            if decision.get("stage") not in {"classification", "authority"}:
                continue
            command, script = line.get("command"), line.get("script")
            words = tuple(map(str, command)) if isinstance(command, list) else plain_words(str(script or ""))
            if words:
                yield decision, words


def _lines(path: Path) -> Iterator[dict[str, object]]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for text in file:
                try:
                    line: object = json.loads(text)
                except ValueError:  # one that a crash cut
                    continue
                if isinstance(line, dict):
                    yield line
    except OSError:
        return


def _template(words: tuple[str, ...]) -> str:
    """Return a glob for a command and its subcommand, with anything behind."""
    head = words[:2] if len(words) > 1 and words[1].isidentifier() else words[:1]
    return " ".join([*head, "*"]) if len(words) > len(head) else " ".join(head)


def _until(grant: Grant) -> str:
    said = [] if grant.expires is None else [grant.expires.strftime("%Y-%m-%d %H:%MZ")]
    said += [] if grant.uses_left is None else [f"{grant.uses_left} uses"]
    said += [] if grant.session is None else [f"session {grant.session}"]
    return ", ".join(said) or "no end"


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)
