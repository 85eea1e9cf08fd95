"""run, env and path: the host's commands in a person's shell.

Owns: the words. Does not own: which variables are passed (ops.environment).
"""

from __future__ import annotations

import os
from typing import NoReturn

import click

from perdure_pm.cli.options import Verb
from perdure_pm.cli.render import Answer
from perdure_pm.cli.session import Session

SHELL = click.option(
    "--shell",
    type=click.Choice(["sh", "fish", "powershell"]),
    help="Whose syntax to print; by default, that of $SHELL.",
)


@click.command(cls=Verb, context_settings={"allow_interspersed_args": False})
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
@click.pass_obj
def run(session: Session, command: tuple[str, ...]) -> NoReturn:
    """Run a command beside the host.

    COMMAND takes the place of this process, with the host's commands first on PATH and none of PM's variables.
    """
    from perdure_pm.ops.environment import run as become

    become(session.layout, session.profile, command, session.environ)


@click.command(cls=Verb)
@SHELL
@click.pass_obj
def env(session: Session, shell: str | None) -> Answer:
    """Print lines that put the host's commands on a shell's PATH."""
    from perdure_pm.ops.environment import default_shell, is_unset_in_shells, require_generation, shell_lines

    generation = require_generation(session.layout, session.profile)
    unset = sorted(name for name in session.environ if is_unset_in_shells(name))
    lines = shell_lines(shell or default_shell(session.environ), generation.scripts, unset)
    data = {"generation": generation.identity, "path": str(generation.scripts), "unset": unset}
    return Answer(data=data, text="\n".join(lines))


@click.command(cls=Verb)
@SHELL
@click.pass_obj
def path(session: Session, shell: str | None) -> Answer:
    """Print the line that puts the launchers on PATH.

    Nothing is edited: put the line where your shell reads it.
    """
    from perdure_pm.ops.environment import default_shell, shell_lines

    folder = session.layout.bin
    present = str(folder) in session.environ.get("PATH", "").split(os.pathsep)
    lines = shell_lines(shell or default_shell(session.environ), folder)
    notices = ["it is on PATH already"] if present else []
    return Answer(
        status="noop" if present else "ok",
        data={"path": str(folder), "on_path": present, "line": lines[0]},
        text=lines[0],
        notices=notices,
    )
