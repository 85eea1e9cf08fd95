"""The files and the interpreter that a tool of this invocation works with.

Owns: putting guard, decision and terminal together for them. Does not own: any of these, or the tools.
"""

from __future__ import annotations

import os

from perdure.cli.approving import authority_for, decider_for
from perdure.cli.asking import asker_for, at_a_terminal
from perdure.cli.execute import run_in_terminal
from perdure.cli.guard import directory_of, make_guard
from perdure.cli.options import RunOptions
from perdure.cli.session import Session
from perdure.domain.errors import ToolFailed, UsageFault
from perdure.domain.operation import OperationKind, Surface
from perdure.domain.workspace import CodeResult
from perdure.tools.terminal import Request
from perdure.tools.workspace import LocalWorkspace

_PYTHON = "python.exe" if os.name == "nt" else "python3"
"""Of the PATH that commands get, never the app's own."""


def make_workspace(session: Session, options: RunOptions) -> LocalWorkspace:
    """Return what tools work with in the current directory.

    The person at the terminal is asked, where there is one; whoever is elsewhere, where the options say so.
    """
    prompt = not options["no_prompt"]
    answerable = at_a_terminal(session) if prompt else session.installation.home.is_dir()
    authority = authority_for(Surface.CLI, yolo=False, answerable=answerable, session=options["session_name"])
    decider = decider_for(session, authority, runs=True)
    seconds = options["answer_within"] or decider.policy.ttl
    asker = asker_for(session, authority, prompt=prompt, seconds=seconds) if answerable else None
    try:
        cwd = directory_of(session, None)
    except UsageFault as error:
        raise ToolFailed("the current directory is gone: run it in one that is there") from error

    def start_code(code: str, seconds: float) -> CodeResult:
        request = Request(command=(_PYTHON, "-c", code), cwd=cwd, seconds=seconds, kind=OperationKind.CODE)
        finished = run_in_terminal(session, request, decider, asker)
        return CodeResult(
            exit_code=finished.exit_code,
            stdout=finished.stdout.decode(errors="replace"),
            stderr=finished.stderr.decode(errors="replace"),
            ended=finished.ended,
        )

    return LocalWorkspace(
        cwd=cwd,
        guard=make_guard(session.installation),
        decide=decider.decide,
        recheck=decider.recheck,
        start_code=start_code,
        asker=asker,
    )
