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
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field

import anyio
from anyio.abc import ByteReceiveStream, Process

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
from perdure.domain.verdict import Ruling, Verdict
from perdure.guard.service import Guard, Place, View
from perdure.tools import processes
from perdure.tools.approved import Seen, claim
from perdure.tools.backends import LOCAL, Backends
from perdure.tools.capture import Capture
from perdure.tools.confinement import Confinement, Watch, layers_of, not_jailed
from perdure.tools.environment import scrub, shell_words
from perdure.tools.operands import resolved
from perdure.tools.run_record import RunRecord
from perdure.tools.sentinels import Damage, Sentinels
from perdure.tools.ways import Way, far_way, local_way, place_of

SECONDS = 120.0
"""How long a command may take unless told."""
MOST_OUTPUT = 256 * 1024
"""How many bytes of each stream are kept unless told."""
EXIT_TIMED_OUT = 124

_GRACE_SECONDS = 2.0
_DRAIN_SECONDS = 1.0
_CHUNK = 64 * 1024
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
            JailUnavailable: it has to be jailed, and cannot be; nothing was started.
            RunRecordLost: the run cannot be recorded, so nothing was started.
        """
        run = secrets.token_urlsafe(12)
        record = self.record(run)
        environment = scrub(self.environ, self.own_folders, run)
        way = self._way(request, environment, run)
        hidden = functools.partial(self.confinement.hides_state, way.command[0], request.command, request.script)
        place = place_of(request.backend, request.cwd, request.far_cwd, environment, hidden)
        # A text may take its whole budget to read: nothing else of this process waits for it.
        view, decision = await anyio.to_thread.run_sync(self._decide, request, place, self.decide)
        verdict = view.verdict
        masked = mask(operation := operation_of(request))
        unjailed: JailUnavailable | None = None
        try:
            jail = self._jail(request, way.command[0])
        except JailUnavailable as error:
            unjailed, jail = error, Layer(name="jail", why_not=str(error.context["why_not"]))
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
            return self.confinement.layer_for(program, request.command, request.script)
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
        view = self.guard.look(request.text, shell=shell, place=place)
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
                    process = await self._start(start, watch)
                except OSError as error:
                    failed(error.strerror or str(error))
                    raise _not_started(start.way.command[0], start.way.cwd, error) from error
                except BaseException as error:
                    why = f"{type(error).__name__}: {error}"
                    self._ended(asked, lambda approvals, which: approvals.not_started(which, why))
                    raise
                # What makes the jail has been started; whether it has started the command too, it alone knows.
                pid = process.pid if watch is None else await watch.see_start(process)
                if pid is not None:
                    executed(pid)
                ending = await _attend(process, request.seconds, stdout, stderr, signals, jailed=start.jailed)
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
        exit_code = _exit_code(process, ending)
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
            killed=tuple(ending.killed),
            survivors=tuple(ending.survivors),
            signal=ending.signal,
            layers=start.layers,
            damage=damage,
            repair=sentinels.repair(damage) if sentinels is not None and damage else None,
            untidy=untidy,
        )

    def _ended(self, asked: Asked | None, write: Callable[[Approvals, Asked], None]) -> None:
        """Have an approval say what became of its run; where that cannot be kept, the run goes on all the same."""
        if asked is not None and self.asker is not None:
            with contextlib.suppress(StoreUnavailable):
                write(self.asker.approvals, asked)

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


@dataclass(slots=True)
class _Ending:
    how: str = "exited"
    signal: int | None = None
    killed: list[int] = field(default_factory=list)
    survivors: list[int] = field(default_factory=list)


async def _attend(
    process: Process,
    seconds: float,
    stdout: Capture,
    stderr: Capture,
    signals: AsyncIterator[signal.Signals],
    *,
    jailed: bool,
) -> _Ending:
    """Wait for a command to end, reading what it writes meanwhile, and have nothing of it left whatever happens."""
    ending = _Ending()
    try:
        async with anyio.create_task_group() as readers:
            ends = anyio.Event(), anyio.Event()
            readers.start_soon(_read, process.stdout, stdout, ends[0])
            readers.start_soon(_read, process.stderr, stderr, ends[1])
            await _wait(process, seconds, ending, signals, jailed=jailed)
            # What it left behind may hold the streams open for ever.
            ending.killed, ending.survivors = await processes.end_all(process)
            with anyio.move_on_after(_DRAIN_SECONDS):
                for end in ends:
                    await end.wait()
            readers.cancel_scope.cancel()
    except BaseException:
        with anyio.CancelScope(shield=True):
            await processes.end_all(process)
        raise
    return ending


async def _read(stream: ByteReceiveStream | None, capture: Capture, ended: anyio.Event) -> None:
    try:
        while stream is not None:
            capture.feed(await stream.receive(_CHUNK))
    except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
        pass
    finally:
        ended.set()


async def _wait(
    process: Process, seconds: float, ending: _Ending, signals: AsyncIterator[signal.Signals], *, jailed: bool
) -> None:
    """Have the command end: by itself, when its time is over, or because this process is told to end."""

    async def watch(scope: anyio.CancelScope) -> None:
        async for number in signals:
            ending.signal = int(number)
            scope.cancel()
            return

    with anyio.move_on_after(seconds) as waiting:
        async with anyio.create_task_group() as watchers:
            watchers.start_soon(watch, waiting)
            await process.wait()
            watchers.cancel_scope.cancel()
    if process.returncode is None:
        ending.how = "timed-out" if ending.signal is None else "interrupted"
        processes.ask_to_end(process, ending.signal or signal.SIGTERM, jailed=jailed)
        with anyio.move_on_after(_GRACE_SECONDS):
            await process.wait()
    elif process.returncode < 0:
        ending.how = "signalled"


def _exit_code(process: Process, ending: _Ending) -> int:
    if ending.how == "timed-out":
        return EXIT_TIMED_OUT
    if ending.signal is not None:
        return 128 + ending.signal
    code = process.returncode or 0
    return 128 - code if code < 0 else code
