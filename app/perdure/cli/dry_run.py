"""What `perdure approvals test` shows: the decision that a command would get, and every stage on the way to it.

Owns: asking the same objects that `exec` asks, and their answer as text. Does not own: deciding (approvals), or
anything that is only needed to run. Keeps: approvals-dry-run-same.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

from perdure.cli.approving import authority_for, decider_for
from perdure.cli.execute import backends_of
from perdure.cli.guard import EXIT_OF, directory_of, make_guard, own_folders, text_of
from perdure.cli.jailing import hides_state
from perdure.cli.options import TestOptions
from perdure.cli.output import Answer, columns, printable
from perdure.cli.session import Session
from perdure.domain.backend import FarCommand
from perdure.domain.decision import Decision
from perdure.domain.operation import Surface
from perdure.tools.backends import LOCAL
from perdure.tools.environment import scrub
from perdure.tools.terminal import Request, operation_of
from perdure.tools.ways import look_there, place_of


def show_decision(session: Session, options: TestOptions) -> Answer:
    """Return what would be decided of a command, with every stage on the way: by the function that decides."""
    command: Sequence[str] = options["command"]
    text, words = text_of(command), len(command) > 1
    backend = options["backend"] or LOCAL
    # As `exec` understands them: where it runs elsewhere, the directory is one of there.
    request = Request(
        command=tuple(command) if words else (),
        script=None if words else text,
        shell=options["shell"],
        cwd=directory_of(session, options["cwd"]) if backend == LOCAL else options["cwd"] or "/",
        far_cwd=None if backend == LOCAL else options["cwd"],
        backend=backend,
    )
    authority = authority_for(Surface(options["context"]), yolo=options["yolo"], answerable=True)
    decider = decider_for(session, authority, runs=False)
    backends = backends_of(session)
    decider.isolated = backends.isolated
    environment = scrub(session.environ, own_folders(session.installation), run="")
    guard = make_guard(session.installation)
    hidden = functools.partial(hides_state, session, guard, request, environment)
    place = place_of(request.backend, request.cwd, request.far_cwd, environment, hidden)
    shell = "bash" if words else request.shell
    if backend == LOCAL:
        view = guard.look(text, shell=shell, place=place)
    else:
        far = FarCommand(run="", command=tuple(request.words), cwd=request.far_cwd)
        view = look_there(guard, text, shell=shell, place=place, backends=backends, name=backend, far=far)
    decision = decider.decide(operation_of(request), view)
    return Answer(
        data={
            "command": text,
            "shell": request.shell,
            "context": options["context"],
            "backend": backend,
            "decision": decision.to_json(),
        },
        text=printable("\n".join(_shown(decision))),
        exit_code=EXIT_OF[decision.ruling],
    )


def _shown(decision: Decision) -> Iterator[str]:
    yield f"{decision.ruling.value} ({decision.code}), risk {decision.risk.value}"
    yield from (f"  {reason.code}: {reason.text}" for reason in decision.reasons)
    if decision.scopes:
        yield f"  a person may say yes: {', '.join(scope.value for scope in decision.scopes)}"
    yield ""
    yield from columns(
        [
            (f"{number}. {step.stage.value}", step.said.value, step.looked_at, step.why)
            for number, step in enumerate(decision.trace, start=1)
        ]
    )
