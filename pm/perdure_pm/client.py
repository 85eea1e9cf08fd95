"""The client: starts a worker, relays what it says, and ends it when it must.

Owns: one call from request to result, both deadlines, cancellation, callbacks, and what a caller's own exceptions do.
Does not own: where a runtime comes from (`acquire`), what operations do, nor the form of frames (wire). Nothing here
runs before the caller asked for an operation that exists, with arguments that are data.

A call reads, decides and ends the worker in the calling thread; there is no other. Invariants: client-unknown-refused,
client-own-receipt, client-own-exception, client-idle-tree-dies, client-early-exit-told.

Standard library only, Python 3.9: imported into parents that have neither YAML nor packaging.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, Protocol

from perdure_pm import wire
from perdure_pm.adapters import processes
from perdure_pm.adapters.worker_process import WORKER_ENTRY, start_worker
from perdure_pm.model.errors import (
    DeadlineExceeded,
    OperationCancelled,
    PerdureError,
    ReceiptMismatch,
    RegistrationInvalid,
    WorkerTransportFault,
)
from perdure_pm.store.layout import Layout, environment_python

STDERR_BYTES = 4000
"""How much of the end of stderr a transport fault quotes."""


class ProgressListener(Protocol):
    """Called like `ports.Reporter.progress`."""

    def __call__(self, stage: str, message: str, *, done: int | None = None, total: int | None = None) -> None: ...


@dataclass(frozen=True)
class Result:
    """How an operation ended, when it did not raise."""

    status: str
    data: Mapping[str, Any]
    receipt: Mapping[str, Any] | None
    """This very operation's receipt as the worker sent it; None of an operation that changes nothing."""
    obligations: Sequence[str]


class Cancellation:
    """Ends the calls that were given it, from any thread and from inside their callbacks; it stays cancelled."""

    def __init__(self) -> None:
        """Cancel nothing yet."""
        self._lock = threading.RLock()  # reentrant: a signal's handler may cancel
        self._cause: str | None = None
        self._listeners: list[Callable[[str], None]] = []

    @property
    def cause(self) -> str | None:
        """Why, or None where nothing was cancelled."""
        return self._cause

    def cancel(self, cause: str = "the caller asked") -> None:
        """Have every call end before its commit, and return at once; a second time changes nothing."""
        with self._lock:
            if self._cause is not None:
                return
            self._cause = cause
            listeners = list(self._listeners)
        for listener in listeners:
            listener(cause)

    @contextlib.contextmanager
    def connected(self, listener: Callable[[str], None]) -> Iterator[None]:
        """Have `listener` called with the cause, also where it was cancelled before."""
        with self._lock:
            self._listeners.append(listener)
            cause = self._cause
        if cause is not None:
            listener(cause)
        try:
            yield
        finally:
            with self._lock:
                self._listeners.remove(listener)


class Client:
    """Calls operations of one home."""

    def __init__(
        self,
        layout: Layout,
        acquire: Callable[[], Path],
        *,
        environ: Mapping[str, str] | None = None,
        entry: Sequence[str] = WORKER_ENTRY,
        operations: Sequence[str] = wire.OPERATION_NAMES,
        grace: float = wire.GRACE_SECONDS,
        ahead: Callable[[], processes.Child | None] | None = None,
    ) -> None:
        """Take what every call needs.

        Args:
            layout: the home.
            acquire: returns the Python of a runtime that can serve (ops.runtime_build); called once for each call.
            environ: the environment to choose the worker's variables from; this process's by default.
            entry: how that Python starts the worker.
            operations: the operations that the worker knows.
            grace: seconds that an ended worker may take to clean up.
            ahead: returns a worker of this home that was started before it was known what to ask, or None.
        """
        self._ahead = ahead
        self._layout = layout
        self._acquire = acquire
        self._environ = os.environ if environ is None else environ
        self._entry = entry
        self._operations = frozenset(operations)
        self._grace = grace

    def call(
        self,
        operation: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        deadline: float | None = None,
        idle_deadline: float | None = wire.IDLE_DEADLINE,
        callbacks: Mapping[str, Callable[[dict[str, Any]], object]] | None = None,
        packages: Sequence[Mapping[str, Any]] = (),
        correlation: str | None = None,
        cancel: Cancellation | None = None,
        on_progress: ProgressListener | None = None,
        on_log: Callable[[str], None] | None = None,
    ) -> Result:
        """Run `operation` in a worker and return its result.

        Args:
            operation: one of `wire.OPERATION_NAMES`.
            arguments: JSON data.
            deadline: seconds that the operation may take, counted from its start; past the commit it finishes all the
                same.
            idle_deadline: seconds without any sign of life after which the worker's whole tree is killed.
            callbacks: by name (`wire.CALLBACK_NAMES`), called in this thread with a dictionary.
            packages: custom package registrations (docs/reference/worker-protocol.md).
            correlation: the caller's id for what this is part of; the receipt carries it.
            cancel: ends the call from elsewhere.
            on_progress: called in this thread.
            on_log: called in this thread with each line that the worker prints; stderr of this process by default.

        Raises:
            KeyError: there is no such operation, or callback; no runtime was acquired.
            TypeError: `arguments` hold something that is not data; no runtime was acquired.
            RegistrationInvalid: `packages` do; no runtime was acquired. From the worker: they are not of the form.
            OperationCancelled, DeadlineExceeded: it was ended before its commit.
            WorkerTransportFault, ProtocolMismatch, ReceiptMismatch: the worker did not keep to the protocol.
            PerdureError: whatever the operation raised, of the same class.
            Exception: the built-in exception that the operation raised, or the very object that a callback raised.
        """
        if operation not in self._operations:
            raise KeyError(f"unknown operation {operation!r}; there are {', '.join(sorted(self._operations))}")
        callbacks = dict(callbacks or {})
        for name in callbacks:
            if name not in wire.CALLBACK_NAMES:
                raise KeyError(f"unknown callback {name!r}; there are {', '.join(wire.CALLBACK_NAMES)}")
        arguments = dict(arguments or {})
        faults = wire.find_code(arguments, "arguments")
        if faults:
            raise TypeError("; ".join(faults))
        faults = wire.find_code(list(packages), "packages")
        if faults:
            raise RegistrationInvalid(
                f"a registration is data, never code: {'; '.join(faults)}",
                hint="register the package as data: docs/reference/worker-protocol.md has the form",
                context={"faults": faults},
            )
        cancellation = cancel if cancel is not None else Cancellation()
        _refuse_cancelled(cancellation)
        python = self._acquire()
        _refuse_cancelled(cancellation)
        request = {
            "v": wire.VERSION,
            "id": os.urandom(16).hex(),
            "correlation": correlation if correlation is not None else os.urandom(16).hex(),
            "operation": operation,
            "arguments": arguments,
            "deadline": deadline,
            "idle_deadline": idle_deadline,
            "callbacks": sorted(name for name in callbacks if name != "progress"),
            "packages": list(packages),
        }
        line = wire.encode("request", **request)  # refused here, where it is too large, before anything starts
        process = self._ahead() if self._ahead is not None else None
        if process is None:
            process = start_worker(python, self._layout.home, self._environ, entry=self._entry)
        conversation = _Conversation(process, request, line, callbacks, on_progress, on_log, self._grace)
        with cancellation.connected(conversation.cancel):
            return conversation.hold()


class _Conversation:
    """One call, from the worker's start to its end."""

    def __init__(
        self,
        process: processes.Child,
        request: Mapping[str, Any],
        line: bytes,
        callbacks: Mapping[str, Callable[[dict[str, Any]], object]],
        on_progress: ProgressListener | None,
        on_log: Callable[[str], None] | None,
        grace: float,
    ) -> None:
        self._process = process
        self._request = request
        self._line = line
        self._callbacks = callbacks
        self._on_progress = on_progress
        self._grace = grace
        self._pipes = processes.read_pipes(process)
        self._decoder = wire.Decoder("worker")
        self._log = processes.Lines(on_log if on_log is not None else _print_log)
        self._log_end = bytearray()
        self._greeted = False
        self._committed = False
        self._spare = False
        """Whether a worker past its commit is left to finish on its own."""
        self._started = self._heard = time.monotonic()
        self._ending: PerdureError | None = None
        """Why the worker was told to end."""
        self._ended_at = 0.0
        self._own: BaseException | None = None
        """What a callback raised."""
        self._lock = threading.RLock()

    def hold(self) -> Result:
        """Return the result, or raise; either way the worker's tree is gone, or finishes a commit on its own."""
        try:
            frame = self._converse()
            self._await_exit()
            return self._conclude(frame)
        except BaseException as error:
            broken = isinstance(error, PerdureError) and error is not self._own
            if not broken and self._greeted and self._process.poll() is None:
                # The caller's own exception, an interrupt from the keyboard among them: let the worker end in order.
                # A second interrupt ends the waiting, but not a worker that is past its commit.
                self._spare = True
                self._end(OperationCancelled("cancelled"), f"{type(error).__name__} in the caller")
                self._await_exit()
                self._spare = False
            raise
        finally:
            self._close()

    def cancel(self, cause: str) -> None:
        """Tell the worker to end; from any thread."""
        self._end(OperationCancelled(f"cancelled: {cause}", context={"cause": cause}), cause)

    def _converse(self) -> dict[str, Any]:
        """Relay frames until the result, and return it."""
        gone_since: float | None = None
        while True:
            for index, chunk in self._pipes.read(processes.WAKE_SECONDS):
                if index == 1:
                    self._take_log(chunk)
                    continue
                for frame in self._decoder.feed(chunk):
                    if self._take(frame):
                        return frame
                self._heard = time.monotonic()  # after the callbacks: their time is not the worker's silence
            now = time.monotonic()
            if self._process.poll() is None:
                self._enforce(now)
                continue
            gone_since = gone_since or now
            if not self._pipes.is_open or now > gone_since + processes.DRAIN_SECONDS:
                self._raise_gone()

    def _take(self, frame: dict[str, Any]) -> bool:
        """Act on one frame; return whether it is the result."""
        kind = frame["type"]
        if not self._greeted:
            if kind != "hello":
                raise WorkerTransportFault(f"the worker began with a {kind} frame", context=self._context())
            wire.require_version(frame["versions"], they="worker", we="client")
            with self._lock:  # a cancellation comes before the request, which is then not made, or after it
                self._greeted = True
                if self._ending is not None:
                    raise self._ending
                self._send(self._line)
            return False
        # An empty id is the answer to something that was no request; its error says what.
        if frame.get("id") != self._request["id"] and not (kind == "result" and frame["id"] == "" and frame["error"]):
            raise ReceiptMismatch(
                f"the worker answered another request: {frame.get('id')}",
                hint="run the same command again",
                context={"expected": self._request["id"], "received": frame.get("id")},
            )
        if kind == "progress":
            self._tell_progress(frame)
        elif kind == "callback":
            self._answer(frame)
        elif kind == "committed":
            self._committed = True
        return bool(kind == "result")

    def _tell_progress(self, frame: Mapping[str, Any]) -> None:
        told = {name: frame[name] for name in ("stage", "message", "done", "total")}
        try:
            if self._on_progress is not None:
                self._on_progress(told["stage"], told["message"], done=told["done"], total=told["total"])
            if "progress" in self._callbacks:
                self._callbacks["progress"](told)
        except BaseException as error:
            self._own = error
            raise

    def _answer(self, frame: Mapping[str, Any]) -> None:
        """Call the caller's callback; an exception refuses the operation, and is raised when the worker has ended."""
        reason = None
        callback = self._callbacks.get(frame["name"])
        if callback is None:
            raise WorkerTransportFault(
                f"the worker asked for a callback that was not offered: {frame['name']}", context=self._context()
            )
        try:
            callback(dict(frame["payload"]))
        except Exception as error:  # noqa: BLE001 -- a caller's code may raise anything, and gets it back
            self._own = error if self._own is None else self._own
            reason = f"{type(error).__name__}: {error}"
        except BaseException as error:
            self._own = error
            raise
        self._send(
            wire.encode("callback_result", id=self._request["id"], call=frame["call"], ok=reason is None, reason=reason)
        )

    def _enforce(self, now: float) -> None:
        """End the worker where a deadline says so; raise where it was told to and did not."""
        idle = self._request["idle_deadline"]
        deadline = self._request["deadline"]
        if self._ending is not None:
            if now > self._ended_at + self._grace and not self._committed:
                raise self._ending
        elif deadline is not None and now > self._started + deadline and not self._committed:
            self._end(self._too_late("did not end", deadline), f"not done within {deadline:g} seconds")
        if idle is not None and now > self._heard + idle + (self._grace if self._ending is not None else 0):
            # After the commit too: what hangs would hang for ever, and either state on disk is whole.
            fault = self._too_late("gave no sign of life", idle)
            if self._ending is not None:
                raise fault
            self._end(fault, f"no sign of life for {idle:g} seconds")

    def _too_late(self, what: str, seconds: float) -> DeadlineExceeded:
        return DeadlineExceeded(
            f"{self._request['operation']} {what} within {seconds:g} seconds and was ended with its process tree",
            hint="run the same command again",
            context={"seconds": seconds, "stderr": self._context()["stderr"]},
            state="needs-recovery" if self._committed else "unchanged",
        )

    def _end(self, reason: PerdureError, cause: str) -> None:
        with self._lock:
            if self._ending is not None:
                return
            self._ending = reason
            self._ended_at = time.monotonic()
            if self._greeted:
                self._send(wire.encode("cancel", id=self._request["id"], cause=cause))

    def _send(self, line: bytes) -> None:
        """Send, as long as there is someone: a worker that is gone is noticed where it is read."""
        stdin = self._process.stdin
        if stdin is None:
            return
        with self._lock, contextlib.suppress(OSError, ValueError):
            processes.write_all(stdin, line, self._grace)

    def _await_exit(self) -> None:
        """Give the worker its grace to end, reading what it still says; one past its commit gets its idle deadline."""
        until = time.monotonic() + self._grace
        while self._process.poll() is None and time.monotonic() < until:
            for index, chunk in self._pipes.read(processes.WAKE_SECONDS):
                if index == 1:
                    self._take_log(chunk)
                    continue
                with contextlib.suppress(PerdureError):
                    kinds = [frame["type"] for frame in self._decoder.feed(chunk)]
                    self._committed = self._committed or "committed" in kinds
                    if self._committed:
                        until = time.monotonic() + (self._request["idle_deadline"] or wire.IDLE_DEADLINE)

    def _conclude(self, frame: Mapping[str, Any]) -> Result:
        receipt = frame["receipt"]
        if receipt is not None:
            for name in ("correlation", "operation"):
                if receipt.get(name) != self._request[name]:
                    raise ReceiptMismatch(
                        f"the receipt carries another {name}: {receipt.get(name)!r}, not {self._request[name]!r}",
                        hint="see what was recorded: perdure-pm receipts",
                        context={"expected": self._request[name], "received": receipt.get(name)},
                    )
        if self._own is not None:
            if frame["error"] is None and hasattr(self._own, "add_note"):
                self._own.add_note(f"{self._request['operation']} had been committed before this was raised")
            raise self._own
        if frame["error"] is not None:
            if frame["status"] == "cancelled" and self._ending is not None:
                raise self._ending
            raise wire.decode_error(frame["error"])
        return Result(frame["status"], frame["data"], receipt, tuple(frame["obligations"]))

    def _raise_gone(self) -> NoReturn:
        if self._ending is not None and not self._committed:
            raise self._ending
        code = self._process.returncode
        how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        last = self._context()["stderr"].strip().rpartition("\n")[2]
        raise WorkerTransportFault(
            f"the worker {how} before it gave a result" + (f": {last}" if last else ""),
            hint="run the same command again; if it happens again: perdure-pm self rebuild",
            context={"exit_code": code, **self._context()},
            state="needs-recovery" if self._committed else "unchanged",
        )

    def _context(self) -> dict[str, Any]:
        return {
            "operation": self._request["operation"],
            "stderr": bytes(self._log_end).decode("utf-8", "replace"),
        }

    def _take_log(self, chunk: bytes) -> None:
        self._log_end += chunk
        del self._log_end[:-STDERR_BYTES]
        self._log.feed(chunk)

    def _close(self) -> None:
        """End what is left, with its whole tree."""
        spared = self._spare and self._committed
        if self._process.poll() is None and not spared:
            processes.kill_tree(self._process.pid)
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        self._pipes.close()
        if not spared:
            self._process.wait()
        self._log.end()


def _refuse_cancelled(cancellation: Cancellation) -> None:
    if cancellation.cause is not None:
        raise OperationCancelled(f"cancelled: {cancellation.cause}", context={"cause": cancellation.cause})


def _print_log(line: str) -> None:
    sys.stderr.write(line + "\n")


def settle(layout: Layout, runtime: str, environ: Mapping[str, str]) -> None:
    """Have the launchers be what a runtime that was just selected writes, where its version knows such a request.

    Asked of that runtime itself: what stands in its launchers is its own business.
    """
    python = environment_python(layout.runtime(runtime) / "venv")
    with contextlib.suppress(PerdureError):
        Client(layout, lambda: python, environ=environ).call("self-settle", {"settings": {}})
