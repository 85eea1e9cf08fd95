"""Runs a command the way an agent's terminal does.

The guard comes first, then a scrubbed environment, bounded output and time, and nothing is left of it at the end.

Owns: the order of these, and the only place from which a command of an agent is started. Does not own: the decision
(approvals), the process itself (processes), what jails it (confinement). Keeps: exec-guard-first, exec-recorded,
exec-output-bounded, exec-tree-ended, exec-environment, exec-damage-told, jail-told.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import functools
import os
import secrets
import shlex
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

import anyio
from anyio.abc import Process

from perdure.approvals.asking import Asker
from perdure.approvals.redact import mask, mask_said
from perdure.approvals.service import Approvals, Asked
from perdure.domain.backend import FarCommand
from perdure.domain.decision import Decision, Stage
from perdure.domain.errors import (
    CommandDenied,
    CommandNeedsApproval,
    CommandNotExecutable,
    CommandNotFound,
    CommandRefused,
    JailUnavailable,
    PerdureError,
    StoreUnavailable,
)
from perdure.domain.json_value import JsonValue
from perdure.domain.layers import Layer, layers_to_json
from perdure.domain.operation import Operation, OperationKind
from perdure.domain.record import dataclass, field
from perdure.domain.verdict import Ruling, Verdict
from perdure.guard.service import Guard, Place, View
from perdure.jail import names
from perdure.jail.policy import Mode
from perdure.jail.service import NAME as JAIL
from perdure.tools import processes
from perdure.tools.approved import Seen, claim
from perdure.tools.attending import attend, exit_code_of
from perdure.tools.backends import LOCAL, Backends
from perdure.tools.capture import Capture
from perdure.tools.confinement import Confinement, Gap, Watch, layers_of, not_jailed
from perdure.tools.environment import scrub, shell_words
from perdure.tools.operands import resolved
from perdure.tools.run_record import RunRecord
from perdure.tools.sentinels import Damage, Sentinels
from perdure.tools.ways import Way, far_way, local_way, look_there, meant_by, place_of

SECONDS = 120.0
"""How long a command may take unless told."""
MOST_OUTPUT = 256 * 1024
"""How many bytes of each stream are kept unless told."""

_FLOOR = frozenset({Stage.CATASTROPHIC, Stage.OWN_FEET})
_Decide = Callable[[Operation, View], Decision]
_ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, *((signal.SIGHUP,) if sys.platform != "win32" else ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is to be run."""

    command: tuple[str, ...] = ()
    """Program and arguments, started without a shell; empty where `script` is set."""
    script: str | None = None
    """A text for `shell`."""
    shell: str = "bash"
    cwd: str
    """Absolute."""
    seconds: float = SECONDS
    most_output: int = MOST_OUTPUT
    kind: OperationKind = OperationKind.COMMAND
    """Which path wants it run."""
    backend: str = LOCAL
    """Where it runs."""
    far_cwd: str | None = None
    """The directory in another backend; None for where one comes out there."""

    @property
    def text(self) -> str:
        """What the guard reads: the script, or the command with its quoting restored."""
        return shlex.join(self.command) if self.script is None else self.script

    @property
    def words(self) -> list[str]:
        """Program and arguments, wherever they run."""
        return list(self.command) if self.script is None else shell_words(self.shell, self.script)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """What came of a run."""

    run: str
    """The run's id."""
    verdict: Verdict
    exit_code: int
    """The command's own; 128 and the signal's number where one ended it; 124 where its time was over."""
    ended: str
    """``exited``, ``signalled``, ``timed-out`` or ``interrupted``."""
    stdout: bytes
    stderr: bytes
    stdout_cut: int
    """How many bytes are left out of `stdout`."""
    stderr_cut: int
    seconds: float
    killed: tuple[int, ...]
    """Processes that the command had started and left."""
    survivors: tuple[int, ...]
    """Those that could not be ended, as where they belong to another user."""
    layers: tuple[Layer, ...]
    """What stood between it and what is protected."""
    gap: Gap | None = None
    """What its jail did not hold."""
    signal: int | None = None
    """The signal that interrupted the run, where one did."""
    damage: tuple[Damage, ...] = ()
    """What is not as it was before the run, of what Perdure needs."""
    repair: str | None = None
    """The command line that repairs it."""
    untidy: str | None = None
    """Why it cannot be told whether something is left in the backend."""


@dataclass(slots=True, kw_only=True)
class Terminal:
    """Where the commands of an agent are run."""

    guard: Guard
    decide: _Decide
    """The one pipeline, with everything that it depends on at this moment."""
    recheck: _Decide | None = None
    """The same for what a person has approved, which uses nothing up; None where nothing is ever used up."""
    asker: Asker | None = None
    """What asks a person; None where nobody can be asked."""
    environ: Mapping[str, str]
    own_folders: Sequence[str]
    """Directories of commands that are Perdure's own."""
    record: Callable[[str], RunRecord]
    """The record for a run's id."""
    confinement: Confinement
    """What is done about the jail."""
    backends: Backends | None = None
    """Where commands may run besides here."""
    look: Callable[[], Sentinels | None] = lambda: None
    """Looks at what must still be there after a run."""
    now: Callable[[], dt.datetime] = field(default=lambda: dt.datetime.now(dt.UTC))

    async def run(self, request: Request) -> Finished:
        """Run a command, if the guard lets it through, and return what came of it.

        Raises:
            CommandRefused: the floor refuses it; nothing was started.
            CommandDenied: a rule of the operator, or what stands for one, refuses it; nothing was started.
            CommandNeedsApproval: it needs a person's approval, and there is none to ask; nothing was started.
            CommandDeclined: a person said no; nothing was started.
            ApprovalExpired: nobody answered in time; nothing was started.
            ApprovalCancelled: the question was withdrawn, with its cause; nothing was started.
            StoreUnavailable: what was asked or answered cannot be kept; nothing was started.
            CommandBlocked: it is not any more what was approved; nothing was started.
            CommandNotFound: there is no such program.
            CommandNotExecutable: it cannot be started.
            BackendUnknown, BackendFailed: there is no such backend, or it does not say how a command gets there.
            JailUnavailable: it has to be jailed, and cannot be, or not wholly; nothing was started.
            RunRecordLost: the run cannot be recorded, so nothing was started.
        """
        run = secrets.token_urlsafe(12)
        record = self.record(run)
        environment = scrub(self.environ, self.own_folders, run)
        way = self._way(request, environment, run)
        meant = meant_by(request.words, request.script, cwd=request.cwd, environment=environment)
        hidden = functools.partial(self.confinement.hides_state, meant, request.command, request.script)
        place = place_of(request.backend, request.cwd, request.far_cwd, environment, hidden)
        # A text may take its whole budget to read: nothing else of this process waits for it.
        view, decision = await anyio.to_thread.run_sync(self._decide, request, place, self.decide)
        verdict = view.verdict
        masked = mask(operation := operation_of(request))
        unjailed: JailUnavailable | None = None
        try:
            jail = await anyio.to_thread.run_sync(self._jail, request, meant)
        except JailUnavailable as error:
            unjailed, jail = error, Layer(name=JAIL, why_not=str(error.context["why_not"]))
        layers = layers_of(jail)
        record.write(
            "judged",
            self._at(),
            command=None if masked.script is not None else list[JsonValue](masked.argv),
            script=masked.script,
            shell=request.shell,
            cwd=request.cwd,
            backend=request.backend,
            verdict=mask_said(operation, verdict.to_json()),
            decision=mask_said(operation, decision.to_json()),
            layers=layers_to_json(layers),
        )
        asker = self.asker if decision.ruling is Ruling.ASK else None
        if asker is None:
            _require(decision, verdict, request)
        if unjailed is not None:
            raise unjailed
        asked = None if asker is None else await self._approved(asker, request, place, record, run)
        start = _Start(request=request, way=way, layers=layers, jailed=jail.active)
        return await self._started(start, record, run, verdict, asked)

    def _way(self, request: Request, environment: Mapping[str, str], run: str) -> Way:
        words = request.words
        if request.backend == LOCAL or self.backends is None:
            return local_way(words, cwd=request.cwd, environment=environment)
        far = FarCommand(run=run, command=tuple(words), cwd=request.far_cwd)
        return far_way(self.backends, request.backend, far, environ=self.environ, environment=environment)

    def _jail(self, request: Request, program: str) -> Layer:
        if request.backend == LOCAL or self.backends is None:
            layer = self.confinement.layer_for(program, request.command, request.script)
            if layer.active and self.confinement.mode is Mode.REQUIRE:
                self.confinement.require_whole()
            return layer
        return self.confinement.layer_of(request.backend, isolated=self.backends.isolated(request.backend))

    async def _approved(
        self, asker: Asker, request: Request, place: Place, record: RunRecord, run: str
    ) -> Asked | None:
        """Return the approval that this run has claimed; None where it has been granted meanwhile."""

        def note(asked: Asked) -> None:
            life = asked.entry.life
            record.write(
                "asked",
                self._at(),
                proposal=asked.entry.proposal.id,
                outcome=asked.outcome.value,
                cause=None if asked.cause is None else asked.cause.value,
                scope=None if life.scope is None else life.scope.value,
            )

        look = functools.partial(self._look, request, place)
        asked, decision = await claim(
            asker, lambda: look(self.decide), run, note, again=lambda: look(self.recheck or self.decide)
        )
        if asked is None:
            _require(decision, None, request)
        return asked

    def _look(self, request: Request, place: Place, decide: _Decide) -> Seen:
        """Return what would be run now, what is decided of it now, and which directory that is in."""
        view, decision = self._decide(request, place, decide)
        operation, here = operation_of(request), request.backend == LOCAL
        # Which program and which directory are meant elsewhere cannot be looked up here.
        found = os.stat(request.cwd if here else os.sep)
        return Seen(
            operation=resolved(operation, view.reading, place.environment) if here else operation,
            decision=decision,
            view=view,
            place=(found.st_dev, found.st_ino),
        )

    def _decide(self, request: Request, place: Place, decide: _Decide) -> tuple[View, Decision]:
        shell = "bash" if request.script is None else request.shell
        if request.backend == LOCAL or self.backends is None:
            view = self.guard.look(request.text, shell=shell, place=place)
        else:
            far = FarCommand(run="", command=tuple(request.words), cwd=request.far_cwd)
            view = look_there(
                self.guard,
                request.text,
                shell=shell,
                place=place,
                backends=self.backends,
                name=request.backend,
                far=far,
            )
        return view, decide(operation_of(request), view)

    async def _started(
        self, start: _Start, record: RunRecord, run: str, verdict: Verdict, asked: Asked | None
    ) -> Finished:
        request, began = start.request, time.monotonic()
        stdout, stderr = Capture(request.most_output), Capture(request.most_output)

        def executed(pid: int) -> None:
            # A crash between the start and this line leaves the approval as dispatching: the next start says that
            # nobody knows.
            self._ended(asked, lambda approvals, which: approvals.executed(which, pid))
            record.write("executed", self._at(), pid=pid)

        def failed(why: str) -> None:
            self._ended(asked, lambda approvals, which: approvals.not_started(which, why))
            record.write("failed-to-start", self._at(), reason=why)

        watch = Watch() if start.jailed and self.confinement.jail.tells_status else None
        try:
            # Before the start: a signal that comes with it must not end this process and leave the command.
            with anyio.open_signal_receiver(*_ENDING_SIGNALS) as signals:
                try:
                    sentinels = self.look()
                    if asked is not None and start.jailed and self.confinement.mode is Mode.REQUIRE:
                        # Somebody took their time to answer.
                        await anyio.to_thread.run_sync(self.confinement.require_whole)
                    since = names.now()
                    process = await self._start(start, watch)
                    looking = self._look_for_gap(start, since)
                except OSError as error:
                    failed(error.strerror or str(error))
                    raise _not_started(start.way.command[0], start.way.cwd, error) from error
                except JailUnavailable as error:
                    failed(error.summary)
                    raise
                except BaseException as error:
                    why = f"{type(error).__name__}: {error}"
                    self._ended(asked, lambda approvals, which: approvals.not_started(which, why))
                    raise
                # What makes the jail has been started; whether it has started the command too, it alone knows.
                pid = process.pid if watch is None else await watch.see_start(process)
                if pid is not None:
                    executed(pid)
                ending = await attend(process, request.seconds, stdout, stderr, signals, jailed=start.jailed)
            # What makes the jail ends with it, a moment later at times: that is nothing that the command has left.
            own = () if watch is None else (process.pid, watch.status().child)
            if watch is not None and pid is None:
                # Interrupted before anybody could tell, it may have run: that is no failed start.
                if not watch.status().executed and ending.how == "exited":
                    fault = not_jailed(start.way.command[0], stderr.data().decode(errors="replace"))
                    failed(fault.summary)
                    raise fault
                executed(process.pid)
        finally:
            if watch is not None:
                watch.close()
        untidy = await start.way.tidy()
        gap = None if looking is None else await anyio.to_thread.run_sync(looking.result)
        layers = start.layers if gap is None else tuple(_with_gap(each, gap) for each in start.layers)
        exit_code = exit_code_of(process, ending)
        damage = tuple(sentinels.damage()) if sentinels is not None else ()
        record.write(
            "ended",
            self._at(),
            exit_code=exit_code,
            ended=ending.how,
            seconds=round(time.monotonic() - began, 3),
            stdout_bytes=stdout.seen,
            stderr_bytes=stderr.seen,
            survivors=list[JsonValue](ending.survivors),
            damage=[each.to_json() for each in damage],
            gap=None if gap is None else gap.text,
            untidy=untidy,
        )
        return Finished(
            run=run,
            verdict=verdict,
            exit_code=exit_code,
            ended=ending.how,
            stdout=stdout.data(),
            stderr=stderr.data(),
            stdout_cut=stdout.cut,
            stderr_cut=stderr.cut,
            seconds=time.monotonic() - began,
            killed=tuple(pid for pid in ending.killed if pid not in own),
            survivors=tuple(ending.survivors),
            signal=ending.signal,
            layers=layers,
            gap=gap,
            damage=damage,
            repair=sentinels.repair(damage) if sentinels is not None and damage else None,
            untidy=untidy,
        )

    def _ended(self, asked: Asked | None, write: Callable[[Approvals, Asked], None]) -> None:
        """Have an approval say what became of its run; where that cannot be kept, the run goes on all the same."""
        if asked is not None and self.asker is not None:
            with contextlib.suppress(StoreUnavailable):
                write(self.asker.approvals, asked)

    def _look_for_gap(self, start: _Start, since: int) -> Future[Gap | None] | None:
        """Look for what the jail does not hold, while the command runs; where it must hold all, that was looked at."""
        if not start.jailed or self.confinement.mode is Mode.REQUIRE:
            return None
        looker = ThreadPoolExecutor(1)
        looking = looker.submit(self.confinement.gap, since)
        looker.shutdown(wait=False)
        return looking

    async def _start(self, start: _Start, watch: Watch | None) -> Process:
        cwd, command, handed = start.way.cwd, start.way.command, list[int]()
        if start.jailed:
            processes.ensure_startable(command[0], cwd)
            status = None if watch is None else watch.writing
            handed = [] if status is None else [status]
            front = await anyio.to_thread.run_sync(self.confinement.jail.arguments, cwd, status)
            command = [*front, *command]
        process = await processes.start(command, cwd=cwd, environment=start.way.environment, handed=handed)
        if watch is not None:
            watch.started()
        return process

    def _at(self) -> str:
        return self.now().strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Start:
    """A command that may be started."""

    request: Request
    way: Way
    layers: tuple[Layer, ...]
    jailed: bool


def operation_of(request: Request) -> Operation:
    """Return what a request asks for, as the approvals take it."""
    return Operation(
        kind=request.kind,
        argv=request.command if request.script is None else (),
        script=request.script,
        shell=request.shell,
        cwd=request.cwd,
        backend=request.backend,
    )


def _with_gap(layer: Layer, gap: Gap) -> Layer:
    return replace(layer, gap=gap.text) if layer.name == JAIL else layer


def _require(decision: Decision, verdict: Verdict | None, request: Request) -> None:
    if decision.ruling is Ruling.ALLOW:
        return
    why = "; ".join(dict.fromkeys(reason.text for reason in decision.reasons[:3]))
    context: dict[str, JsonValue] = {
        "command": request.text,
        "verdict": None if verdict is None else verdict.to_json(),
        "decision": decision.to_json(),
    }
    if decision.stage in _FLOOR:
        if decision.ruling is Ruling.REFUSE:
            raise CommandRefused(f"the command was not run: {why}", context=context)
    elif decision.ruling is Ruling.REFUSE and decision.stage is not Stage.AUTHORITY:
        raise CommandDenied(f"the command was not run: {why}", context=context)
    raise CommandNeedsApproval(
        f"the command was not run: it needs a person's approval, and nobody can be asked here: {why}", context=context
    )


def _not_started(program: str, cwd: str, error: OSError) -> PerdureError:
    context: dict[str, JsonValue] = {"program": program, "cwd": cwd}
    if not os.path.isdir(cwd):
        return CommandNotExecutable(f"there is no directory {cwd} to run {program} in", context=context)
    kind = CommandNotFound if isinstance(error, FileNotFoundError) else CommandNotExecutable
    return kind(f"{program} cannot be started: {error.strerror or error}", context=context)
