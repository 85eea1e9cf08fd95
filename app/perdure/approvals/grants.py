"""Grants: standing answers of a person, and what each of them covers.

Owns: matching. Does not own: the value (domain.grant), where they are kept (store), or the operator's list in
app.yaml (allowlist), whose lines count as grants of their own. Keeps: approvals-grants-scoped,
approvals-destructive-never-always, approvals-textual-grants, approvals-once-never-stored.
"""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Sequence
from fnmatch import fnmatchcase

from perdure.approvals.commands import Judged
from perdure.approvals.rules import Rule, exactly
from perdure.domain.grant import Grant
from perdure.domain.operation import Authority, Operation
from perdure.domain.outcome import Scope
from perdure.domain.proposal import new_id
from perdure.domain.verdict import OTHER_REASONS
from perdure.guard.classify import reason_codes

DESTRUCTIVE = frozenset(
    {
        "recursive-delete",
        "history-loss",
        "sql-loss",
        "container-loss",
        "disks",
        "infrastructure",
        "kill-by-name",
        "instructions",
    }
)
"""Classes that a person says yes to each time, or for a session: no `always` covers them."""

_ANY_PROGRAMS = ("ls", "git", "python3.12", "frobnicate", "/opt/x/Tool")
"""Programs that have nothing in common."""

_TOO_WIDE = frozenset({"unknown-program"})
"""Classes of which a grant by class would cover whatever nobody has heard of."""


def known_keys() -> frozenset[str]:
    """Return the codes that classification gives, of which each can be the key of a grant."""
    return frozenset(OTHER_REASONS) | reason_codes()


def grant_of_line(line: str, profile: str, principal: str, now: dt.datetime) -> Grant:
    """Return what a line of `command_allowlist` grants: a class where it is called like one, else a command.

    Classes were written with blanks or underscores in older files, which still means them.
    """
    key = "-".join(line.casefold().replace("_", " ").split())
    keyed = key in known_keys()
    return Grant(
        id=line,
        profile=profile,
        rule_key=key if keyed else None,
        argv_template=None if keyed else line,
        principal=principal,
        created=now,
        granted_by="app.yaml",
    )


def covers_any_program(template: str) -> bool:
    """Return whether a glob for commands leaves open which program is meant, as ``*`` does."""
    first = template.split(maxsplit=1)[0]
    return all(fnmatchcase(name, first) for name in _ANY_PROGRAMS)


def find_grant(
    grants: Sequence[Grant], operation: Operation, judged: Judged, authority: Authority, now: dt.datetime
) -> tuple[Grant, ...]:
    """Return the grants that cover an operation together; none where something of it is not covered.

    One with a template covers a plain command by itself. Those with rule keys cover it when each reason that
    classification has against it is the key of one.
    """
    codes = {reason.code for reason in judged.verdict.reasons}
    able = [grant for grant in grants if _applies(grant, operation, judged, authority, now)]
    if codes & DESTRUCTIVE:
        able = [grant for grant in able if not grant.always]
    for grant in able:
        template = grant.argv_template
        if template is not None and judged.plain is not None and Rule(template).covers(judged.plain):
            return (grant,)
    found = {grant.rule_key: grant for grant in reversed(able) if grant.rule_key is not None}
    if codes and codes <= found.keys():
        return tuple(found[code] for code in sorted(codes))
    return ()


def scopes_for(judged: Judged) -> tuple[Scope, ...]:
    """Return how far a yes to what classification asks about may reach: no further than a grant can say."""
    codes = {reason.code for reason in judged.verdict.reasons}
    if judged.plain is None and codes & _TOO_WIDE:
        return (Scope.ONCE,)
    if judged.plain is None or codes & DESTRUCTIVE:
        return (Scope.ONCE, Scope.SESSION)
    return (Scope.ONCE, Scope.SESSION, Scope.ALWAYS)


def grants_of(
    judged: Judged, scope: Scope, *, profile: str, authority: Authority, cwd: str, by: str, now: dt.datetime
) -> tuple[Grant, ...]:
    """Return what a person's yes grants beyond this once: nothing for once, and never more than was asked about.

    A plain command is granted word by word; anything else by the classes that it was asked about for, for the session
    and the directory that it was asked in.
    """
    if scope is Scope.ONCE or scope not in scopes_for(judged):
        return ()
    made = functools.partial(
        Grant,
        profile=profile,
        cwd_prefix=cwd,
        principal=authority.requester.name,
        session=authority.session if scope is Scope.SESSION else None,
        created=now,
        granted_by=by,
    )
    if judged.plain is not None:
        return (made(id=new_id(), argv_template=exactly(judged.plain)),)
    codes = sorted({reason.code for reason in judged.verdict.reasons})
    return tuple(made(id=new_id(), rule_key=code) for code in codes)


def stands(grant: Grant, now: dt.datetime) -> bool:
    """Return whether a grant is neither withdrawn, expired nor used up."""
    return (
        grant.revoked is None
        and (grant.expires is None or now < grant.expires)
        and (grant.uses_left is None or grant.uses_left > 0)
    )


def _applies(grant: Grant, operation: Operation, judged: Judged, authority: Authority, now: dt.datetime) -> bool:
    return (
        stands(grant, now)
        and grant.principal == authority.requester.name
        and (grant.session is None or grant.session == authority.session)
        and (grant.cwd_prefix is None or within(operation.cwd, grant.cwd_prefix))
        and (grant.path_prefix is None or _paths_within(judged, grant.path_prefix))
    )


def _paths_within(judged: Judged, prefix: str) -> bool:
    return bool(judged.changes) and all(within(path, prefix) for path in judged.changes)


def within(path: str, prefix: str) -> bool:
    """Return whether an absolute path without dots is a directory or lies in it, compared by component."""
    if not path.startswith("/") and ":" not in path[:2]:
        return False
    if ".." in path.split("/"):
        return False
    stem = prefix.rstrip("/")
    return path == stem or path.startswith(f"{stem}/")
