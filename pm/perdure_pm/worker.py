"""The worker: a fresh interpreter that serves one operation and ends.

Owns: the protocol's side of the child (its private descriptors, the request, progress, callbacks), the receipt around
the operation, and ending the operation from outside: cancel, deadline, signal, death of the caller. Does not own: what
operations exist or do (composition, ops), nor the form of frames (wire).

Before the commit anything may end the operation, after it nothing does. An operation is ended by an exception in the
main thread, so that `finally` blocks run and children die as trees; where the main thread does not come back, a
watchdog closes the receipt and ends the process. More than 500 lines, because every way to end an operation must be
read against every other: they meet in a few lines of state. Invariants: worker-stdout-private,
worker-cancel-before-commit-only, worker-dies-with-caller, receipt-before-work, worker-leaves-no-process,
obligation-carried-forward.
"""

from __future__ import annotations

import contextlib
import os
import queue
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

from perdure_pm import ports, wire
from perdure_pm.adapters import processes
from perdure_pm.adapters.filesystem import LocalFilesystem
from perdure_pm.model.errors import (
    EXIT_DONE,
    EXIT_INTERNAL,
    EXIT_USAGE,
    DeadlineExceeded,
    InternalFault,
    NoSpace,
    OperationCancelled,
    OperationVetoed,
    PerdureError,
    WorkerTransportFault,
)
from perdure_pm.ops.context import Context, Outcome
from perdure_pm.ops.obligations import find_obligations
from perdure_pm.store import receipts
from perdure_pm.store.layout import Layout
from perdure_pm.store.managed import load_stamp, refuse_managed

LISTEN_SECONDS = 1.0
"""How often the death of the caller is looked for beside the end of stdin, which a fork of the caller can keep open."""

HEARTBEAT_SECONDS = 0.5
"""The least time between two heartbeats."""

BACKSTOP_SECONDS = 5.0
"""How long after the deadline the worker ends itself, where the client did not."""

ABANDON_SECONDS = 0.8 * wire.GRACE_SECONDS
"""How long an ended operation may clean up before the watchdog ends the process; the client's patience is longer."""


class Operation(Protocol):
    """What the table of operations holds."""

    @property
    def function(self) -> Callable[[Context, Mapping[str, Any]], Outcome]: ...

    @property
    def mutating(self) -> bool:
        """Whether it may change the home, and so leaves a receipt."""

    @property
    def frees(self) -> bool:
        """Whether it makes room, and so begins on a full disk too."""


@dataclass(frozen=True)
class Request:
    """The one request of this process."""

    id: str
    correlation: str
    operation: str
    arguments: Mapping[str, Any]
    deadline: float | None
    idle_deadline: float | None
    callbacks: frozenset[str]
    packages: Sequence[Any]
    """Registrations, not parsed yet."""


ContextFactory = Callable[[Layout, Request, ports.Reporter], Context]


class Ended(BaseException):
    """Raised in the main thread to end the operation; not an Exception, so that no operation takes it for a fault."""


class Ending:
    """Whether, and why, the operation is to end from outside."""

    def __init__(self, abandon: Callable[[], None], patience: float) -> None:
        """Call `abandon` where the operation has not come back `patience` seconds after it was told to end."""
        self.reason: PerdureError | None = None
        self.committed = False
        self._armed = False
        self._held = False
        self._over = False
        # Reentrant: a signal's handler may run in the main thread while that thread is in one of these methods.
        self._lock = threading.RLock()
        self._abandon = abandon
        self._patience = patience
        self._main = threading.main_thread().ident or 0

    def end(self, reason: PerdureError) -> None:
        """End the operation, from any thread; nothing after the commit, or where it is ending already."""
        with self._lock:
            if self.reason is not None or self.committed or self._over:
                return
            self.reason = reason
        watchdog = threading.Timer(self._patience, self._abandon)
        watchdog.daemon = True
        watchdog.start()
        if sys.platform == "win32":
            import _thread

            _thread.interrupt_main(signal.SIGINT)
        else:
            signal.pthread_kill(self._main, signal.SIGUSR1)  # also ends a system call that the main thread waits in

    def check(self) -> None:
        """Raise the reason where there is one."""
        if self.reason is not None and not self.committed:
            raise self.reason

    def commit(self) -> None:
        """Pass the point of no return, or raise the reason that came before it."""
        self._armed = False
        with self._lock:
            self.check()
            self.committed = True

    def arm(self) -> None:
        """Let signals raise in the main thread from here on."""
        self._armed = True
        if self.reason is not None:
            self.raise_once()

    def disarm(self) -> None:
        """Let nothing raise any more: the operation has come back."""
        self._armed = False
        with self._lock:
            self._over = True

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Let nothing raise in the block, but at its end: a frame that breaks off would break the protocol."""
        self._held = True
        try:
            yield
        finally:
            self._held = False
        self.raise_once()

    def raise_once(self) -> None:
        """Raise `Ended` where the operation runs and is to end; a second time would break off its cleaning up."""
        if self._armed and not self._held and self.reason is not None and not self.committed:
            self._armed = False
            raise Ended


class Channel:
    """The protocol's two descriptors, which nothing else in this process can reach."""

    def __init__(self, incoming: int, outgoing: int) -> None:
        self.incoming = incoming
        self._outgoing = outgoing
        self._gone = False
        self._lock = threading.RLock()
        if sys.platform != "win32":
            os.set_blocking(outgoing, False)

    @classmethod
    def claim(cls) -> Channel:
        """Take descriptors 0 and 1 for the protocol; input becomes empty, and what is printed goes to stderr.

        Done on descriptors, not on `sys.stdout`: a native library writes to 1 without asking Python. The copies are not
        inherited by children.
        """
        channel = cls(os.dup(0), os.dup(1))
        empty = os.open(os.devnull, os.O_RDONLY)
        os.dup2(empty, 0)
        os.close(empty)
        os.dup2(2, 1)
        sys.stdout = sys.stderr
        return channel

    def send(self, kind: str, **fields: Any) -> None:
        """Send a frame; a client that is gone is no fault here, its death is noticed by the listener.

        Never waits for a client that is gone: a fork of it may hold the pipe open and read nothing.
        """
        line = memoryview(wire.encode(kind, **fields))
        with self._lock, contextlib.suppress(OSError):
            while line and not self._gone:
                try:
                    line = line[os.write(self._outgoing, line) :]
                except BlockingIOError:
                    select.select([], [self._outgoing], [], LISTEN_SECONDS)

    def read(self, parent: int) -> bytes:
        """Return what the client sent, or nothing when it is gone."""
        while sys.platform != "win32" and not select.select([self.incoming], [], [], LISTEN_SECONDS)[0]:
            if os.getppid() != parent:
                return b""
        with contextlib.suppress(OSError):
            return os.read(self.incoming, 65536)
        return b""

    def close(self) -> None:
        """Send nothing any more, and what is printed to nowhere: with the client gone, a print would raise."""
        self._gone = True
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        os.close(nowhere)


class WireReporter:
    """The reporter (ports.Reporter) of an operation in a worker."""

    def __init__(self, channel: Channel, ending: Ending, request: Request) -> None:
        self.answers: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        """Callback results from the listener; None when the caller is gone."""
        self._channel = channel
        self._ending = ending
        self._request = request
        self._call = 0
        self._last_heartbeat = 0.0

    def progress(self, stage: str, message: str, *, done: int | None = None, total: int | None = None) -> None:
        self._ending.check()
        self._send("progress", stage=stage, message=message, done=done, total=total)

    def heartbeat(self) -> None:
        self._ending.check()
        now = time.monotonic()
        if now - self._last_heartbeat >= HEARTBEAT_SECONDS:
            self._last_heartbeat = now
            self._send("heartbeat")

    def callback(self, name: str, payload: dict[str, Any]) -> None:
        self._ending.check()
        if name not in self._request.callbacks:
            return
        self._call += 1
        self._send("callback", call=self._call, name=name, payload=payload, deadline=wire.CALLBACK_DEADLINE)
        refusal = self._await_answer(name)
        # After the commit there is nothing left to refuse; the caller still gets its own exception from the client.
        if refusal is not None and not self._ending.committed:
            raise OperationVetoed(
                f"the caller's {name} callback refused: {refusal}",
                hint="nothing was changed; satisfy the callback, then run the same command again",
                context={"callback": name, "reason": refusal},
            )

    def committed(self) -> None:
        self._ending.commit()
        self._send("committed")

    def _send(self, kind: str, **fields: Any) -> None:
        with self._ending.held():
            self._channel.send(kind, id=self._request.id, **fields)

    def _await_answer(self, name: str) -> str | None:
        """Return why it was refused, or None."""
        until = time.monotonic() + wire.CALLBACK_DEADLINE
        while True:
            try:
                answer = self.answers.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                return f"no answer from {name} within {wire.CALLBACK_DEADLINE:g} seconds"
            if answer is None:
                self._ending.check()
                return None
            if answer["call"] == self._call:
                return None if answer["ok"] else str(answer["reason"] or "no reason given")


class Server:
    """Serves the one request."""

    def __init__(
        self,
        layout: Layout,
        channel: Channel,
        operations: Mapping[str, Operation],
        make_context: ContextFactory,
        *,
        patience: float = ABANDON_SECONDS,
    ) -> None:
        self._layout = layout
        self._channel = channel
        self._operations = operations
        self._make_context = make_context
        self._filesystem: ports.Filesystem = LocalFilesystem()
        self._ending = Ending(self._abandon, patience)
        self._requests: queue.SimpleQueue[Request | None] = queue.SimpleQueue()
        self._request: Request | None = None
        self._reporter: WireReporter | None = None
        self._receipt: receipts.Receipt | None = None
        self._finishing = threading.Lock()
        self._parent = os.getppid()

    def serve(self) -> int:
        """Serve one request to its end; return the process's exit code."""
        self._install_signals()
        processes.become_subreaper()
        self._channel.send("hello", v=wire.VERSION, versions=list(wire.VERSIONS), pid=os.getpid())
        threading.Thread(target=self._listen, name="listener", daemon=True).start()
        request = self._requests.get()
        if request is None:
            return EXIT_DONE  # the client went away, or was refused, before it asked for anything
        if request.deadline is not None:
            backstop = threading.Timer(request.deadline + BACKSTOP_SECONDS, self._end_late, [request.deadline])
            backstop.daemon = True
            backstop.start()
        outcome, error = self._perform(request)
        if not self._finishing.acquire(blocking=False):
            threading.Event().wait()  # the watchdog was first: it ends this process
        self._finish(outcome, error)
        return EXIT_DONE

    # The operation

    def _perform(self, request: Request) -> tuple[Outcome | None, BaseException | None]:
        """Return the operation's outcome, or what ended it."""
        operation = self._operations.get(request.operation)
        reporter = self._reporter
        if operation is None or reporter is None:  # the listener makes the reporter with the request
            return None, KeyError(f"unknown operation: {request.operation}")
        if operation.mutating:
            try:
                stamp = load_stamp(sys.prefix)
                if stamp is not None:
                    refuse_managed(stamp, request.operation)
                self._open_receipt(request, frees=operation.frees)
            except PerdureError as refusal:
                return None, refusal
        outcome: Outcome | None = None
        fault: BaseException | None = None
        try:
            try:
                self._ending.arm()
                outcome = operation.function(self._make_context(self._layout, request, reporter), request.arguments)
            except Ended:
                raise
            except BaseException as raised:  # noqa: BLE001 -- the one catch-all: an engine's SystemExit is a result too
                fault = raised
            self._ending.disarm()
        except Ended:  # wherever it came, also on the way out
            self._ending.disarm()
        # What an operation started ends with it, also what left its tree: this process adopted that.
        processes.kill_tree(os.getpid())
        if outcome is not None:
            malformed = self._find_fault(outcome)
            return (outcome, None) if malformed is None else (None, malformed)
        reason = self._ending.reason
        if reason is None or self._ending.committed:
            return None, fault
        if fault is not None and fault is not reason:
            reason.__cause__ = fault
        return None, reason

    def _open_receipt(self, request: Request, *, frees: bool) -> None:
        now = datetime.now(UTC)
        closed: list[receipts.Receipt] = []
        try:
            closed = receipts.close_interrupted(
                self._filesystem, self._layout, now=now, still_runs=processes.still_runs
            )
        except NoSpace:
            if not frees:
                raise  # the next operation with room closes them
        for receipt in closed:
            sys.stderr.write(f"{receipt.operation} of process {receipt.pid} was interrupted; its receipt says so now\n")
        self._receipt = receipts.open_receipt(
            self._filesystem,
            self._layout,
            operation=request.operation,
            correlation=request.correlation,
            writer=receipts.Writer(*processes.identity()),
            now=now,
            frees=frees,
        )

    @staticmethod
    def _find_fault(outcome: Outcome) -> PerdureError | None:
        faults = wire.find_code(outcome.data, "data")
        if outcome.status not in wire.STATUSES:
            faults.append(f"status: {outcome.status!r}")
        return InternalFault(f"the operation's outcome is not data: {'; '.join(faults)}") if faults else None

    def _finish(self, outcome: Outcome | None, error: BaseException | None) -> None:
        """Finish the receipt and send the result."""
        status, data, obligations = "failed", {}, list[str]()
        described = None
        if outcome is not None:
            status, data, obligations = outcome.status, dict(outcome.data), list(outcome.obligations)
        elif error is not None:
            status = wire.status_of(error)
            if error is self._ending.reason and isinstance(error, DeadlineExceeded):
                status = "cancelled"
            described = wire.encode_error(error)
            if described["code"] == InternalFault.code and described["builtin"] is None:
                import traceback  # only here: nearly no operation ends so

                traceback.print_exception(error, file=sys.stderr)
        if self._receipt is not None:
            # However it ended: what an earlier operation left for a person to do is told until it is done.
            obligations += [text for text in find_obligations(self._layout) if text not in obligations]
            try:
                self._receipt = receipts.finish(
                    self._filesystem,
                    self._layout,
                    self._receipt,
                    status=status,
                    now=datetime.now(UTC),
                    data=data,
                    error=described,
                    obligations=obligations,
                )
            except PerdureError as fault:
                # The outcome stands; that its record does not is for a person to know.
                obligations.append(f"the receipt could not be written: {fault.summary}")
                self._receipt = replace(
                    self._receipt, status=status, data=data, error=described, obligations=tuple(obligations)
                )
        self._send_result(status, data, described, obligations)

    def _send_result(
        self, status: str, data: dict[str, Any], error: dict[str, Any] | None, obligations: list[str]
    ) -> None:
        request_id = self._request.id if self._request is not None else ""
        receipt = self._receipt
        try:
            self._channel.send(
                "result",
                id=request_id,
                status=status,
                data=data,
                error=error,
                receipt=None if receipt is None else receipt.to_json(),
                obligations=obligations,
            )
        except WorkerTransportFault as fault:
            place = "" if receipt is None else f"; all of it is in {self._layout.receipts / receipt.name}"
            self._channel.send(
                "result",
                id=request_id,
                status=status,
                data={},
                error=error and {**error, "context": {}},
                receipt=None if receipt is None else {**receipt.to_json(), "data": {}, "error": None},
                obligations=[f"the result was left out: {fault.summary}{place}"],
            )

    # Ending it from outside

    def _install_signals(self) -> None:
        def wake(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 -- the signature of a handler
            self._ending.raise_once()

        def end(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 -- the signature of a handler
            name = signal.Signals(number).name
            self._ending.end(OperationCancelled(f"cancelled: {name} to the worker", context={"cause": name}))
            self._ending.raise_once()

        if sys.platform != "win32":
            signal.signal(signal.SIGUSR1, wake)
        signal.signal(signal.SIGTERM, end)
        signal.signal(signal.SIGINT, end if sys.platform != "win32" else wake)

    def _listen(self) -> None:
        """Take the client's frames until it is gone."""
        decoder = wire.Decoder("client")
        gone: PerdureError = OperationCancelled(
            "cancelled: the caller's process ended", context={"cause": "the caller's process ended"}
        )
        try:
            while chunk := self._channel.read(self._parent):
                for frame in decoder.feed(chunk):
                    self._take(frame)
        except PerdureError as fault:
            gone = fault
            if self._request is None:
                self._refuse(fault)
        else:
            self._channel.close()
        self._ending.end(gone)
        self._requests.put(None)
        if self._reporter is not None:
            self._reporter.answers.put(None)

    def _take(self, frame: dict[str, Any]) -> None:
        if frame["type"] == "request":
            if self._request is not None:
                raise WorkerTransportFault("a second request: a worker serves one")
            wire.require_version([frame["v"]], they="client", we="worker")
            request = Request(
                id=frame["id"],
                correlation=frame["correlation"],
                operation=frame["operation"],
                arguments=frame["arguments"],
                deadline=frame["deadline"],
                idle_deadline=frame["idle_deadline"],
                callbacks=frozenset(frame["callbacks"]),
                packages=frame["packages"],
            )
            self._reporter = WireReporter(self._channel, self._ending, request)
            self._request = request
            self._requests.put(request)
            return
        if self._request is None or self._reporter is None or frame["id"] != self._request.id:
            raise WorkerTransportFault(f"a {frame['type']} for another request: {frame['id']}")
        if frame["type"] == "cancel":
            cause = frame["cause"]
            self._ending.end(OperationCancelled(f"cancelled: {cause}", context={"cause": cause}))
        else:
            self._reporter.answers.put(frame)

    def _refuse(self, fault: PerdureError) -> None:
        """Answer a first frame that is no request of ours, so that its sender learns why."""
        self._channel.send(
            "result",
            id="",
            status="failed",
            data={},
            error=wire.encode_error(fault),
            receipt=None,
            obligations=[],
        )

    def _end_late(self, seconds: float) -> None:
        self._ending.end(
            DeadlineExceeded(
                f"the operation did not end within {seconds:g} seconds",
                hint="run the same command again",
                context={"deadline": seconds},
            )
        )

    def _abandon(self) -> None:
        """End the process where the main thread does not come back: the watchdog's last resort, in its own thread."""
        if not self._finishing.acquire(blocking=False):
            return  # the operation came back after all
        processes.kill_tree(os.getpid())
        self._finish(None, self._ending.reason)
        os._exit(EXIT_INTERNAL)


def main(
    arguments: Sequence[str] | None = None,
    *,
    operations: Mapping[str, Operation] | None = None,
    make_context: ContextFactory | None = None,
    patience: float = ABANDON_SECONDS,
) -> int:
    """Serve one request on stdin and stdout; return the exit code.

    Args:
        arguments: the command line: ``--home DIR``, and ``--expect OPERATION`` where it is known what will come.
        operations: the table, in the place of composition's.
        make_context: the factory, in the place of composition's.
        patience: see `Ending`.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    # Not argparse, whose import takes longer than a worker's start should.
    if words[::2] not in (["--home"], ["--home", "--expect"]) or len(words) % 2:
        sys.stderr.write("usage: python -I -m perdure_pm.worker --home DIR [--expect OPERATION]   (PM starts it)\n")
        return EXIT_USAGE
    layout = Layout(Path(words[1]))
    # Before anything else is imported: what prints on import must not print into the protocol.
    channel = Channel.claim()
    processes.keep_owner_bits()
    if operations is None or make_context is None:
        from perdure_pm import composition

        operations, make_context = composition.OPERATIONS, composition.make_context
        composition.load_ahead(words[3] if len(words) > 2 else "")
    return Server(layout, channel, operations, make_context, patience=patience).serve()


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    os._exit(code)  # what an interpreter tidies at its end is gone with the process; the client waits for that end
