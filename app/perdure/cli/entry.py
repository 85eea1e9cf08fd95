"""Runs a command line and turns whatever comes of it into output and an exit code.

Owns: the one catch-all of this entry point, and confirming a trial once a command has shown that the app is healthy.
Does not own: the commands. Keeps: app-json-envelope, app-exit-codes, app-healthy-start-confirms.
"""

import os
import sys
import time
import traceback
from collections.abc import Mapping, Sequence

import click

from perdure.cli.commands import perdure
from perdure.cli.output import Answer, Output, OutputLostError
from perdure.cli.session import VERDICT_COMMANDS, Session
from perdure.domain.errors import (
    EXIT_FAILED,
    InstallationDamaged,
    InternalFault,
    Interrupted,
    PerdureError,
    StoreUnavailable,
    UsageFault,
    VerdictUsageFault,
)
from perdure.installation import find_installation
from perdure.plugin_manager import describe_exception

TRIAL_VARIABLE = "PERDURE_TRIAL"
"""Holds the generation that is on trial, in the process that PM's launcher started from it."""
SAFE_MODE_VARIABLE = "PERDURE_SAFE_MODE"
"""Says yes where only the app's own code is to be loaded."""
CONFIRM_SECONDS = 5.0
"""How long PM may take to note that this generation stays; it usually takes a third of a second."""


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return the process's exit code."""
    _ensure_streams()
    environ = os.environ
    session = Session(
        installation=find_installation(sys.prefix, sys.executable, environ),
        environ=environ,
        clock=time.perf_counter,
        output=Output(environ=environ, as_json=_says_yes(environ, "PERDURE_JSON")),
        safe_mode=_says_yes(environ, SAFE_MODE_VARIABLE),
    )
    try:
        return _run(session, arguments)
    except BrokenPipeError:
        # Whoever read our data has enough.
        session.output.abandon()
        return EXIT_FAILED
    except OutputLostError as error:
        session.output.abandon()
        session.output.talk(f"error: {error}")
        return EXIT_FAILED


def _run(session: Session, arguments: Sequence[str]) -> int:
    try:
        outcome: object = perdure.main(list(arguments), prog_name="perdure", standalone_mode=False, obj=session)
        if not isinstance(outcome, Answer):
            return outcome if isinstance(outcome, int) else 0
        session.output.answer(session.command, outcome)
    except click.Abort:
        return _fail(session, Interrupted("interrupted"))
    except click.ClickException as error:
        # The option may stand behind the fault that stopped the parser.
        session.output.as_json = session.output.as_json or "--json" in arguments
        words = [] if session.command == "perdure" else session.command.split()
        hint = session.installation.app_command(*words, "--help")
        kind = VerdictUsageFault if session.command in VERDICT_COMMANDS else UsageFault
        return _fail(session, kind(error.format_message(), hint=hint))
    except PerdureError as error:
        return _fail(session, error)
    except KeyboardInterrupt:
        return _fail(session, Interrupted("interrupted"))
    except (BrokenPipeError, OutputLostError):
        raise
    except (ImportError, SyntaxError) as error:
        # Ours are imported when they are needed: one that cannot be is damaged, not defective.
        if session.environ.get("PERDURE_DEBUG", "").strip().lower() in {"1", "true", "yes", "on"}:
            session.output.talk(traceback.format_exc().rstrip())
        hint = session.installation.pm_command("install")
        return _fail(session, InstallationDamaged(f"it cannot be imported: {describe_exception(error)}", hint=hint))
    except Exception as error:  # noqa: BLE001  # the catch-all
        session.output.talk(traceback.format_exc().rstrip())
        return _fail(session, InternalFault(f"a defect in Perdure: {describe_exception(error)}"))
    else:
        if outcome.exit_code == 0:
            _confirm_trial(session)
        return outcome.exit_code


def _confirm_trial(session: Session) -> None:
    """Have this process's generation kept where it is on trial and its plugins work; a PM that cannot is no failure.

    A command that loads no plugins has shown nothing, and safe mode loads none.
    """
    generation = session.installation.host().generation
    if generation is None or session.safe_mode or session.environ.get(TRIAL_VARIABLE) != generation:
        return
    if session.manager is not None and not session.manager.failures:
        from perdure.pm_link import confirm_trial

        confirm_trial(session.installation, generation, session.environ, CONFIRM_SECONDS)


def _fail(session: Session, error: PerdureError) -> int:
    if error.hint is None and isinstance(error, StoreUnavailable):
        from perdure.cli.approving import way_out  # only where something is wrong

        error.hint = way_out(session, error)
    session.output.failure(session.command, error)
    return error.exit_code


def _says_yes(environ: Mapping[str, str], variable: str) -> bool:
    return environ.get(variable, "").strip().lower() in {"1", "true", "yes", "on"}


def _ensure_streams() -> None:
    """Give closed standard streams somewhere to go; otherwise the next file opened would become our stdout."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The lowest free descriptor is the one that is closed.
            os.open(os.devnull, os.O_RDWR)
    # Python gives none to a stream that was closed, also where something has taken its number since.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115  # as long as the process
