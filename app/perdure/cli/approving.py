"""What decides in this process: the policy of its profile, who it speaks for, and the grants that stand.

Owns: putting these together for the commands that act, and for the one that only shows what they would get. Does not
own: deciding (approvals.decide). Keeps: approvals-dry-run-same, recheck-policy-anew,
approvals-authority-explicit: nothing of the environment makes an authority.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import getpass
import os
import secrets
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from perdure.app_file import PROFILE_VARIABLE, AppFile, AppFileUnfit, find_app_file
from perdure.approvals.allowlist import Allowlist
from perdure.approvals.ancestry import Origin, origin_of_process
from perdure.approvals.assessors import Asked, Assessed, consult
from perdure.approvals.commands import judged
from perdure.approvals.decide import Circumstances, decide, is_for_assessors
from perdure.approvals.grants import grant_of_line
from perdure.approvals.policy import Policy, parse_policy, unreadable
from perdure.approvals.standing import standing
from perdure.cli.session import Session
from perdure.domain.assessment import AssessmentRequest
from perdure.domain.decision import Decision
from perdure.domain.errors import (
    OriginUnproven,
    RefusedInsideRun,
    StoreBusy,
    StoreDamaged,
    StoreNewer,
    StoreUnavailable,
)
from perdure.domain.grant import Grant
from perdure.domain.json_value import JsonValue
from perdure.domain.operation import Authority, Operation, Principal, Surface
from perdure.domain.record import dataclass, field
from perdure.domain.verdict import Ruling
from perdure.guard.service import View

if TYPE_CHECKING:
    from perdure.store.port import StandingLine
    from perdure.store.sqlite import SqliteStore


def policy_of(file: AppFile) -> Policy:
    """Return the policy of a profile; one that refuses everything where its file cannot be read."""
    try:
        file.require_known()
        return parse_policy(file.section("approvals"), file.place("approvals"))
    except AppFileUnfit as fault:
        return unreadable(str(fault))


def owner() -> Principal:
    """Return the person whose account this process runs under."""
    try:
        name = getpass.getuser()
    except (OSError, KeyError):  # an account without a name
        name = "owner"
    return Principal(name=name, owner=True)


def authority_for(context: Surface, *, yolo: bool, answerable: bool, session: str | None = None) -> Authority:
    """Return the authority that a command of the person at the command line has, new for each invocation.

    Args:
        context: what it is run in.
        yolo: whether nothing is asked that need not be.
        answerable: whether a person can answer.
        session: what it belongs to; None for a new one.
    """
    return Authority(
        session=secrets.token_urlsafe(12) if session is None else session,
        surface=context,
        requester=owner(),
        answerable=answerable and context is Surface.CLI,
        yolo=yolo,
    )


def profile_of(session: Session) -> str:
    """Return the profile that this process was started for."""
    return session.environ.get(PROFILE_VARIABLE) or "default"


def require_outside_run(session: Session, what: str) -> None:
    """Have this process be nothing that a run has started.

    Raises:
        RefusedInsideRun: it is.
        OriginUnproven: nobody can tell.
    """
    origin = origin_here(session)
    if origin.run is not None:
        raise RefusedInsideRun(f"what a run has started may not {what}: that is for the person who answers for it")
    if origin.doubt is not None:
        raise OriginUnproven(
            f"this process may not {what}, for it cannot be told that no run has started it: {origin.doubt}; do it in "
            "a terminal that sees all processes above it, in the container where commands run, or outside of any",
            context={"why": origin.doubt},
        )


def origin_here(session: Session) -> Origin:
    """Return where this process comes from."""
    return origin_of_process(session.environ, session.installation.home / "state")


def allowlist_of(session: Session) -> Allowlist:
    """Return the operator's list of the profile."""
    home, profile = session.installation.home, profile_of(session)
    path = session.app_file.path or home / "profiles" / profile / "app.yaml"
    return Allowlist(path, home / "state" / profile / "allowlist.lock", session.output.warn)


def is_there(path: Path) -> bool:
    """Return whether there is anything of that name; what cannot be told is left to whoever opens it, and says why."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def way_out(session: Session, error: StoreUnavailable) -> str | None:
    """Return a command line that helps where the approvals cannot be opened, read or written."""
    place = error.context.get("path")
    if not isinstance(place, str):
        return None
    path = Path(place)
    if isinstance(error, StoreNewer):
        return session.installation.pm_command("upgrade")
    if isinstance(error, StoreBusy):
        return session.installation.app_command("approvals", "list")
    if isinstance(error, StoreDamaged):
        aside = str(path.parent / f"damaged-{dt.datetime.now(dt.UTC):%Y%m%dT%H%M%SZ}")
        if sys.platform == "win32":
            return f'mkdir "{aside}" && move "{path}*" "{aside}"'
        # What is beside it belongs to it: a journal of another database would be read into the new one.
        return f"mkdir {shlex.quote(aside)} && mv {shlex.quote(place)}* {shlex.quote(aside)}"
    folder = next(each for each in path.parents if each.is_dir())
    if sys.platform == "win32":
        return f'icacls "{folder}"'
    return f"ls -la {shlex.quote(str(folder))} && df -h {shlex.quote(str(folder))}"


@contextlib.contextmanager
def store_of(session: Session, *, make: bool) -> Iterator[SqliteStore | None]:
    """Return a block in which the profile's approvals are open.

    None where there is no home to have any; without `make`, also where none were kept yet.

    Raises:
        StoreUnavailable: they cannot be opened.
    """
    home, profile = session.installation.home, profile_of(session)
    path = home / "state" / profile / "approvals.db"
    if not (home.is_dir() if make else is_there(path)):
        yield None
        return
    from perdure.store.sqlite import SqliteStore

    store = SqliteStore(path, profile)
    try:
        yield store
    finally:
        store.close()


@contextlib.contextmanager
def counting_without(session: Session) -> Iterator[None]:
    """Return a block after which grants that cannot be read count for nothing, and that is said once.

    What needs an approval is refused for the same reason when it is asked about; the rest does not need the file.
    """
    try:
        yield
    except StoreUnavailable as error:
        session.output.warn_once(f"no grant that is kept there counts: {error.summary}")


def what_stands(
    session: Session, entries: Sequence[str], policy: Policy, by: str | None = None
) -> tuple[frozenset[StandingLine], dict[str, JsonValue]] | None:
    """Return what of the operator's file stands, and what the trail says of a change.

    None where that is not for this process to note: it belongs to a run, or the file cannot be read.

    Args:
        session: this invocation.
        entries: the lines of the file's list.
        policy: what else the file says.
        by: who has changed it, where that is known.
    """
    if policy.faults or not origin_here(session).outside:
        return None
    path = session.app_file.path
    said: dict[str, JsonValue] = {"by": by or "an edit of the file, seen now", "file": str(path)}
    with contextlib.suppress(OSError):
        if path is not None and by is None:
            said["edited"] = dt.datetime.fromtimestamp(path.stat().st_mtime, dt.UTC).isoformat(timespec="seconds")
    return standing(entries, policy), said


def note_standing(session: Session, by: str | None = None) -> None:
    """Have the trail say what of the operator's file stands now; what cannot be noted is warned of."""
    policy = policy_of(find_app_file(session.installation, session.environ))
    stands = what_stands(session, allowlist_of(session).entries(), policy, by)
    if stands is None:
        return
    with counting_without(session), store_of(session, make=bool(stands[0])) as store:
        if store is not None:
            store.note_standing(stands[0], dt.datetime.now(dt.UTC), stands[1])


@dataclass(slots=True, kw_only=True)
class Decider:
    """The pipeline with everything that it depends on."""

    policy: Policy
    """As it was read last."""
    authority: Authority
    reread: Callable[[], Policy] | None = None
    """Returns the policy as it stands now; None where it cannot change."""
    grants: Callable[[dt.datetime], tuple[Grant, ...]] = field(default=lambda now: ())
    spend: Callable[[str, dt.datetime], bool] | None = None
    """Counts one use of a grant and says whether it had one left; None where nothing will be run."""
    isolated: Callable[[str], bool] = field(default=lambda backend: False)
    assess: Asked | None = None
    """Asks the plugins that the policy names; None where there are none."""
    now: Callable[[], dt.datetime] = field(default=lambda: dt.datetime.now(dt.UTC))

    def decide(self, operation: Operation, view: View) -> Decision:
        """Return what may follow an operation, as things are now; the grants that cover it are used once."""
        return self._decided(operation, view, self.spend)

    def recheck(self, operation: Operation, view: View) -> Decision:
        """Return what may follow what a person has approved, as things are now: their answer uses up no grant."""
        return self._decided(operation, view, None)

    def _decided(self, operation: Operation, view: View, spend: Callable[[str, dt.datetime], bool] | None) -> Decision:
        now = self.now()
        if self.reread is not None:
            self.policy = self.reread()
        # What cannot be evaluated refuses everything but what the floor has a word for; and what nothing speaks against
        # needs no grant, so that it does not depend on whether those can be read.
        needless = self.policy.faults or view.verdict.ruling is Ruling.ALLOW
        grants = () if needless else self.grants(now)
        seen = judged(operation, view.reading, view.verdict)
        isolated = self.isolated(operation.backend)
        assessors, assessments = self.policy.assessors, tuple[Assessed, ...]()
        while True:
            at = Circumstances(now=now, grants=grants, isolated=isolated, assessments=assessments)
            decision = decide(operation, seen, self.authority, self.policy, at)
            if self.assess is not None and assessors.names and not assessments and is_for_assessors(decision):
                assessments = consult(self.assess, assessors.names, assessors.seconds, operation, decision)
                continue
            counted = [grant.id for grant in grants if grant.id in decision.grants and grant.uses_left is not None]
            spent = [grant for grant in counted if spend is not None and not spend(grant, now)]
            if not spent:
                return decision
            # Another process had the last use of it between the two looks.
            grants = tuple(grant for grant in grants if grant.id not in spent)


def decider_for(session: Session, authority: Authority, *, runs: bool) -> Decider:
    """Return what decides in this process; what is wrong with the policy is said.

    Args:
        session: this invocation.
        authority: who it speaks for.
        runs: whether what is allowed is run, and uses up what it is granted by.

    Raises:
        RefusedInsideRun: it would be laxer than the run that it belongs to.
    """
    if authority.yolo or authority.surface is not Surface.CLI:
        require_outside_run(session, "choose what it is asked about")
    reread = _following(session)
    allowlist, profile, who = allowlist_of(session), profile_of(session), authority.requester.name

    def grants(now: dt.datetime) -> tuple[Grant, ...]:
        lines = (
            [grant_of_line(line, profile, who, now) for line in allowlist.entries()]
            if authority.requester.owner
            else []
        )
        stands = what_stands(session, allowlist.entries(), reread()) if runs else None
        kept: Sequence[Grant] = ()
        with counting_without(session), store_of(session, make=bool(stands and stands[0])) as store:
            if store is not None:
                if stands is not None:
                    store.note_standing(stands[0], now, stands[1])
                kept = store.live_grants(profile, authority.session, now)
        return (*lines, *kept)

    def spend(grant: str, now: dt.datetime) -> bool:
        with counting_without(session), store_of(session, make=False) as store:
            return store is not None and store.use_grant(grant, now)
        return False

    return Decider(
        policy=reread(),
        authority=authority,
        reread=reread,
        grants=grants,
        spend=spend if runs else None,
        assess=assessors_of(session),
    )


def _following(session: Session) -> Callable[[], Policy]:
    """Return what returns the policy as it stands now, and says what is wrong with it once.

    A question may stay open for minutes: what the operator writes meanwhile counts when it is answered.
    """
    file = session.app_file
    policy: Policy | None = None

    def read() -> Policy:
        nonlocal file, policy
        found = find_app_file(session.installation, session.environ)
        if policy is None or found.path != file.path or not file.holds_what_was_read():
            if policy is not None:
                file = found
            policy = policy_of(file)
            for warning in policy.warnings:
                session.output.warn_once(warning)
        return policy

    return read


def assessors_of(session: Session) -> Asked:
    """Return what asks the plugins of this process; they are loaded when the first question comes."""

    def ask(names: Sequence[str], request: AssessmentRequest, seconds: float) -> Iterable[tuple[str, object]]:
        manager = session.manager or session.load(session.load_boot())
        known = len(manager.failures)
        answers = manager.assess(names, request, seconds)
        for failure in manager.failures[known:]:
            session.output.warn(str(failure))
        return answers

    return ask
