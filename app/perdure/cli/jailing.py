"""The jail of this process: what its profile asks for, and what this machine has.

Owns: putting these together, the refusal of a laxer jail than the profile's, and saying which layers are on. Does not
own: the jail (jail), or what is done about it for a run (tools.confinement). Keeps: jail-never-laxer: nothing of the
environment makes it laxer; layers-told.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from perdure import audit_hook
from perdure.app_file import PROFILE_VARIABLE, AppFile, AppFileUnfit
from perdure.cli.session import Session
from perdure.domain.errors import PerdureError, SettingsInvalid, UsageFault
from perdure.domain.layers import Layer
from perdure.guard.service import Guard
from perdure.jail.machine import LinuxSystem
from perdure.jail.names import Names
from perdure.jail.policy import Mode, Policy, PolicyUnfit, parse_policy
from perdure.jail.service import Jail
from perdure.tools.confinement import Confinement, Gap, layers_of
from perdure.tools.run_record import record_folder
from perdure.tools.terminal import Request
from perdure.tools.ways import meant_by


def policy_of(file: AppFile) -> Policy:
    """Return what a profile asks of the jail.

    Raises:
        SettingsInvalid: its file cannot be read, or says something that is not known.
    """
    try:
        file.require_known()
        return parse_policy(file.section("jail"), file.place("jail"))
    except (AppFileUnfit, PolicyUnfit) as fault:
        context = {"path": None if file.path is None else str(file.path)}
        raise SettingsInvalid(
            f"the policy could not be evaluated: {fault}",
            context=context,
        ) from fault


def confinement_of(session: Session, guard: Guard, asked: str | None = None) -> Confinement:
    """Return how commands are confined in this process.

    Args:
        session: has the profile's settings.
        guard: says what is protected.
        asked: the mode that the caller wants.

    Raises:
        SettingsInvalid: the profile's policy cannot be evaluated.
        UsageFault: the caller wants a laxer one than the profile's.
    """
    policy = policy_of(session.app_file)
    mode = None if asked is None else Mode(asked)
    if mode is not None and mode.strictness < policy.mode.strictness:
        raise UsageFault(
            f"--jail {mode} is laxer than this profile's policy, which is {policy.mode}",
            hint=session.installation.app_command("exec", "--help"),
        )
    home = session.installation.home
    names = Names(roots=guard.roots, home=str(home), kept=_kept_names(session))
    jail = Jail(roots=guard.roots, home=str(home), system=LinuxSystem(session.environ), names=names)
    return Confinement(jail=jail, policy=policy, asked=mode, installation=session.installation)


def _kept_names(session: Session) -> Path | None:
    """Return where the count of names is kept; None where nothing of this profile is."""
    folder = record_folder(session.installation, session.environ.get(PROFILE_VARIABLE) or "default")
    return None if folder is None else folder / "names"


def hides_state(session: Session, guard: Guard, request: Request, environment: Mapping[str, str]) -> bool:
    """Return whether the jail that a command of this process would get has the app's own state not be there."""
    try:
        confinement = confinement_of(session, guard)
    except SettingsInvalid:
        return False
    meant = meant_by(request.words, request.script, cwd=request.cwd, environment=environment)
    return confinement.hides_state(meant, request.command, request.script)


def layers_here(session: Session, guard: Guard) -> tuple[tuple[Layer, ...], Gap | None]:
    """Return the layers of this process, the jail as a command would have it, and what that does not hold.

    Raises:
        SettingsInvalid: the profile's policy cannot be evaluated.
    """
    jail, gap = confinement_of(session, guard).look()
    return (*layers_of(jail), _audit_layer(session)), gap


def _audit_layer(session: Session) -> Layer:
    if not audit_hook.is_installed():
        return Layer(name="audit-hook", why_not="it comes with the first plugin, and none is loaded here")
    try:
        boot = session.load_boot()
    except PerdureError:
        boot = None  # which is told elsewhere
    programs = [] if boot is None else [name for name in boot.external if isinstance(name, str)]
    unseen = f"the programs of external plugins are processes of their own: {', '.join(programs)}" if programs else None
    return Layer(name="audit-hook", gap=unseen)
