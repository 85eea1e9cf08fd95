"""completions: the script by which a shell completes perdure-pm.

Owns: the verb. Does not own: completing itself, which is click's: the script calls the launcher back.
"""

from __future__ import annotations

import click
from click.shell_completion import ShellComplete, get_completion_class

from perdure_pm.cli.options import Verb
from perdure_pm.cli.render import Answer
from perdure_pm.cli.session import PROGRAM
from perdure_pm.model.errors import UsageFault


@click.command(cls=Verb, answers_managed=True)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completions(context: click.Context, shell: str) -> Answer:
    """Print the completion script of a shell."""
    found = get_completion_class(shell)
    if found is None:
        raise UsageFault(f"click has no completion for {shell}")
    completion = found(context.find_root().command, {}, PROGRAM, "_PERDURE_PM_COMPLETE")
    # The base class's: bash's own one first starts a bash to ask for its version.
    script = ShellComplete.source(completion)
    return Answer(data={"shell": shell, "script": script}, text=script)
