"""start-on-trial: what a launcher calls instead of the host while a generation is on trial.

Owns: having PM judge the trial, then becoming the launcher again. Does not own: the judgement (ops.trial). Whatever
goes wrong with the judging is said and never keeps the host from starting.
"""

from __future__ import annotations

from typing import NoReturn

import click

from perdure_pm.adapters.processes import replace_process
from perdure_pm.cli.options import Verb
from perdure_pm.cli.render import write_talk
from perdure_pm.cli.session import Session
from perdure_pm.model.errors import PerdureError, UsageFault
from perdure_pm.model.settings import TRIAL_VARIABLE
from perdure_pm.ops.launchers import is_command


@click.command(
    "start-on-trial",
    cls=Verb,
    kind="looking",
    hidden=True,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False, "help_option_names": []},
)
@click.argument("command")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_obj
def start_on_trial(session: Session, command: str, arguments: tuple[str, ...]) -> NoReturn:
    """Judge the trial of the selected generation, then start the host's command."""
    from perdure_pm.cli.remote import call

    if not is_command(command):
        raise UsageFault(f"{command!r} is not the name of a command")
    trial = None
    try:
        session.flags["no-wait"] = True  # a long install elsewhere must not delay a start
        answer = call(session, "trial-judge", {}, lambda _data, _status: "")
        trial = answer.data.get("trial")
        if answer.data.get("failed"):
            text = f"{answer.data['failed']} went back to {answer.data.get('generation')}: {answer.data.get('why')}"
            write_talk(session, "notice", text)
    except Exception as error:  # noqa: BLE001 - also a defect of PM's must not keep the host from starting
        why = error.summary if isinstance(error, PerdureError) else f"{type(error).__name__}: {error}"
        write_talk(session, "notice", f"the trial could not be judged: {why}")
    environment = {**session.environ, TRIAL_VARIABLE: str(trial or "none"), "PERDURE_PROFILE": session.profile}
    replace_process([session.layout.bin / command, *arguments], environment)
