"""What `perdure exec` does with a command, and what it shows of the run.

Owns: reading the script, choosing where the record goes, and passing on what came of it. Does not own: running
(tools).
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import anyio

import perdure
from perdure.approvals.ancestry import namespace_here
from perdure.approvals.asking import Asker
from perdure.approvals.running import going_on
from perdure.cli.approving import Decider, authority_for, decider_for, origin_here
from perdure.cli.asking import asker_for, at_a_terminal
from perdure.cli.guard import directory_of, make_guard, own_folders
from perdure.cli.jailing import confinement_of
from perdure.cli.options import ExecuteOptions
from perdure.cli.output import Answer
from perdure.cli.session import Session
from perdure.domain.backend import Backend
from perdure.domain.errors import CommandNeedsApproval, CommandRefused, SettingsInvalid, UsageFault
from perdure.domain.layers import layers_to_json
from perdure.domain.operation import Surface
from perdure.domain.verdict import Ruling
from perdure.guard.service import Guard
from perdure.jail.policy import Mode
from perdure.tools.backends import LOCAL, Backends
from perdure.tools.environment import scrub
from perdure.tools.processes import ask
from perdure.tools.run_record import RunRecord, record_folder
from perdure.tools.sentinels import Sentinels
from perdure.tools.terminal import MOST_OUTPUT, SECONDS, Finished, Request, Terminal
from perdure.tools.ways import place_of

_PROFILE_VARIABLE = "PERDURE_PROFILE"
_SECONDS_TO_INSPECT = 5.0


def execute(session: Session, options: ExecuteOptions) -> Answer:
    """Return what came of a command that the guard let through.

    Raises:
        PerdureError: it was not run, with the reason.
    """
    request = _request(session, options)
    prompt = not options["no_prompt"]
    answerable = at_a_terminal(session) if prompt else session.installation.home.is_dir()
    authority = authority_for(
        Surface(options["context"]), yolo=options["yolo"], answerable=answerable, session=options["session_name"]
    )
    decider = decider_for(session, authority, runs=True)
    seconds = options["answer_within"] or decider.policy.ttl
    asker = asker_for(session, authority, prompt=prompt, seconds=seconds)
    try:
        finished = run_in_terminal(session, request, decider, asker, jail=options["jail"])
    except CommandNeedsApproval as error:
        if prompt and authority.surface is Surface.CLI:
            error.hint = _asking_elsewhere(session, options)
        raise
    return _answer(session, finished, request.backend)


def _asking_elsewhere(session: Session, options: ExecuteOptions) -> str | None:
    """Return the command that has the question wait for an answer from elsewhere; None where none can be kept."""
    if not session.installation.home.is_dir() or not origin_here(session).outside or options["script"] == "-":
        return None
    given = [("--cwd", options["cwd"]), ("--backend", options["backend"]), ("--script", options["script"])]
    words = [word for name, value in given if value is not None for word in (name, value)]
    shell = ["--shell", options["shell"]] if options["shell"] != "bash" else []
    command = ["--", *options["command"]] if options["command"] else []
    return session.installation.app_command("exec", "--no-prompt", *shell, *words, *command)


def run_in_terminal(
    session: Session, request: Request, decider: Decider, asker: Asker | None = None, *, jail: str | None = None
) -> Finished:
    """Run what is requested where it is allowed, and say what is to be said of the run.

    Args:
        session: this invocation.
        request: what is to be run.
        decider: what decides.
        asker: asks a person, where one can be asked.
        jail: the mode that the caller wants, which is not laxer than the profile's.

    Raises:
        PerdureError: it was not run, with the reason.
    """
    folder = record_folder(session.installation, session.environ.get(_PROFILE_VARIABLE) or "default")
    if folder is None:
        session.output.warn(f"there is no home at {session.installation.home}: this run is not recorded")
    backends = backends_of(session)
    decider.isolated = backends.isolated
    guard = make_guard(session.installation)
    try:
        confinement = confinement_of(session, guard, jail)
    except SettingsInvalid:
        # What no setting lets through is told for what it is.
        _require_no_floor(session, guard, request)
        raise
    terminal = Terminal(
        guard=guard,
        decide=decider.decide,
        recheck=decider.recheck,
        asker=asker,
        environ=session.environ,
        own_folders=own_folders(session.installation),
        record=lambda run: RunRecord(folder, run),
        backends=backends,
        confinement=confinement,
        look=lambda: look_at_sentinels(session),
    )
    with going_on(folder, namespace_here()):
        finished = anyio.run(terminal.run, request)
    why_not = next(each.why_not for each in finished.layers if each.name == "jail")
    if why_not is not None and confinement.mode is not Mode.OFF and request.backend == LOCAL:
        session.output.warn(f"the command ran without the jail: {why_not}")
    if finished.gap is not None:
        session.output.warn(f"the jail of this run was not whole: {finished.gap.text}")
        session.output.talk(f"  try: {finished.gap.hint}")
    if finished.damage:
        session.output.warn(f"the run has damaged what Perdure needs: {'; '.join(map(str, finished.damage))}")
        session.output.talk(f"  try: {finished.repair}")
    if finished.survivors:
        left = ", ".join(map(str, finished.survivors))
        session.output.warn(f"these processes of the command could not be ended: {left}")
    if finished.untidy is not None:
        session.output.warn(f"whether something is left in {request.backend} cannot be told: {finished.untidy}")
    if finished.ended == "timed-out":
        session.output.talk(f"the command was ended after {request.seconds:g} s")
    return finished


def _require_no_floor(session: Session, guard: Guard, request: Request) -> None:
    """Have nothing that the floor refuses, whatever the profile says.

    Raises:
        CommandRefused: it does.
    """
    environment = scrub(session.environ, own_folders(session.installation), run="")
    place = place_of(request.backend, request.cwd, request.far_cwd, environment)
    shell = "bash" if request.script is None else request.shell
    verdict = guard.look(request.text, shell=shell, place=place).verdict
    if verdict.floor and verdict.ruling is Ruling.REFUSE:
        why = "; ".join(dict.fromkeys(reason.text for reason in verdict.reasons[:3]))
        raise CommandRefused(
            f"the command was not run: {why}", context={"command": request.text, "verdict": verdict.to_json()}
        )


def backends_of(session: Session) -> Backends:
    """Return the backends of the profile and of its plugins, which are loaded where one of theirs may be meant."""

    def provided() -> list[tuple[str, Backend]]:
        return session.load_with_tools(session.load_boot()).backends()

    def inspect(command: Sequence[str]) -> str | None:
        return ask(command, scrub(session.environ, own_folders(session.installation), run=""), _SECONDS_TO_INSPECT)

    return Backends(file=session.app_file, provided=functools.cache(provided), inspect=inspect)


def look_at_sentinels(session: Session) -> Sentinels:
    """Return what must still be there after a run, as it is now."""
    return Sentinels(
        session.installation,
        session.environ.get(_PROFILE_VARIABLE) or "default",
        prefix=os.path.abspath(sys.prefix),
        code=os.path.dirname(os.path.abspath(perdure.__file__)),
    )


def _request(session: Session, options: ExecuteOptions) -> Request:
    command, script = options["command"], options["script"]
    hint = session.installation.app_command("exec", "--help")
    if bool(command) == (script is not None):
        raise UsageFault("exec takes a COMMAND or --script FILE, one of the two", hint=hint)
    text: str | None = None
    if script is not None:
        try:
            text = sys.stdin.read() if script == "-" else Path(script).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageFault(f"the script {script} cannot be read: {error}", hint=hint) from error
    elif len(command) == 1:
        text, command = command[0], ()
    if "\0" in (text or "".join(command)):
        raise UsageFault("a command cannot hold a NUL character", hint=hint)
    backend, cwd = options["backend"] or LOCAL, options["cwd"]
    if backend != LOCAL and cwd is not None and not cwd.startswith("/"):
        raise UsageFault(f"--cwd names a directory in {backend}, from its top: {cwd} is none", hint=hint)
    return Request(
        command=command,
        script=text,
        shell=options["shell"],
        cwd=directory_of(session, cwd) if backend == LOCAL else cwd or "/",
        backend=backend,
        far_cwd=None if backend == LOCAL else cwd,
        seconds=options["seconds"] or SECONDS,
        most_output=options["most_output"] or MOST_OUTPUT,
    )


def _answer(session: Session, finished: Finished, backend: str) -> Answer:
    stdout, stderr = (data.decode(errors="replace") for data in (finished.stdout, finished.stderr))
    if not session.output.as_json:
        session.output.pass_on(finished.stdout, finished.stderr)
    return Answer(
        data={
            "run": finished.run,
            "verdict": finished.verdict.to_json(),
            "layers": layers_to_json(finished.layers),
            "backend": backend,
            "exit_code": finished.exit_code,
            "ended": finished.ended,
            "seconds": round(finished.seconds, 3),
            "stdout": stdout,
            "stderr": stderr,
            "stdout_bytes_left_out": finished.stdout_cut,
            "stderr_bytes_left_out": finished.stderr_cut,
            "killed": list(finished.killed),
            "survivors": list(finished.survivors),
            "damage": [each.to_json() for each in finished.damage],
            "repair": finished.repair,
            "untidy": finished.untidy,
        },
        text=None,
        exit_code=finished.exit_code,
    )
