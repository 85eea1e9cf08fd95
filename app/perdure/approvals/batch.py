"""Batches: adjacent terminal calls of one turn, which a person sees as a whole before any of them runs.

Owns: which calls belong together, preparing them at once, starting them one after the other, and what a decision that
was prepared is still good for. Does not own: the pipeline (decide), asking (service), running (tools): they are handed
in. Keeps: batch-all-before-any, batch-in-order, batch-single-use, batch-stale, batch-every-call-answered,
batch-own-proposals.

A prepared decision is a hint with an expiry, not an approval that lies around: whatever differs at dispatch from what
was prepared either does not start or takes the ordinary path.
"""

from __future__ import annotations

import contextlib
import copy
import math
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from enum import StrEnum

import anyio

from perdure.approvals.decide import Prepared
from perdure.domain.json_value import JsonValue
from perdure.domain.operation import Operation
from perdure.domain.outcome import Cause
from perdure.domain.record import dataclass, field
from perdure.domain.verdict import Ruling

SECONDS = 30.0
"""How long preparing one call may take, without the time that a person takes."""


class BatchFault(Exception):
    """A prepared call is not what it was prepared as."""


class ArgumentsChanged(BatchFault):
    """What is to be run is another command than the one that was decided about; it is not started."""


class Replayed(BatchFault):
    """A call is dispatched a second time."""


class Ended(StrEnum):
    """What became of one call."""

    RAN = "ran"
    FAILED = "failed"
    """It ran, and failed."""
    REFUSED = "refused"
    NOT_STARTED = "not-started"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of a tool, as an agent made it."""

    id: str
    tool: str
    arguments: Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What the agent is told of one call."""

    call: str
    ended: Ended
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparation:
    """What came of running middleware and pipeline for one call, without starting anything."""

    operation: Operation
    host_access: bool
    """Whether its backend reaches this machine."""
    decided: Prepared


class Patience:
    """The time that preparing one call may take; a person's does not count."""

    def __init__(self, scope: anyio.CancelScope) -> None:
        """Know the scope that ends with the time."""
        self._scope = scope

    @contextlib.contextmanager
    def person(self) -> Iterator[None]:
        """Have the time stand still within the block."""
        left = self._scope.deadline - anyio.current_time()
        self._scope.deadline = math.inf
        try:
            yield
        finally:
            self._scope.deadline = anyio.current_time() + left


class Ticket:
    """The decision that was prepared for one call, good for one dispatch of exactly it."""

    def __init__(self, call: str, prepared: Preparation | None, stale: Callable[[], bool]) -> None:
        """Know what was decided; None where the call takes the ordinary path."""
        self._call = call
        self._prepared = prepared
        self._stale = stale
        self._used = False

    def claim(self, call: str, operation: Operation, *, host_access: bool) -> Prepared | None:
        """Return the decision for what is about to be started, None where the ordinary pipeline has to decide.

        Args:
            call: the id of the call that is dispatched.
            operation: what middleware made of it now.
            host_access: whether its backend reaches this machine now.

        Raises:
            Replayed: it was claimed before.
            ArgumentsChanged: it is another call, command, backend, or another reach; nothing may be started.
        """
        if self._used:
            raise Replayed(f"call {call} was dispatched before")
        self._used = True
        prepared = self._prepared
        if prepared is None:
            return None
        if call != self._call or _bound(operation) != _bound(prepared.operation) or host_access != prepared.host_access:
            raise ArgumentsChanged(f"call {call} is not what was decided about: it was not started")
        person_said_no = prepared.decided.ruling is Ruling.REFUSE and prepared.decided.by_person
        if person_said_no:
            return prepared.decided
        if self._stale() or operation.cwd != prepared.operation.cwd:
            return None
        return prepared.decided


def _bound(operation: Operation) -> tuple[object, ...]:
    """Return everything of an operation that a decision is bound to, but the directory."""
    return (
        *(operation.kind, operation.argv, operation.script, operation.shell, operation.paths),
        *(operation.backend, operation.environment, operation.executable, operation.digests, operation.diff),
    )


def batches(calls: Sequence[Call], *, terminal: str, can_show: bool) -> list[list[Call]]:
    """Return the calls of a turn in groups: what stands together is prepared together, one alone takes its own way.

    A call of another tool is a barrier. Calls without an id, and those whose id another has too, stand alone; so does
    everything where nobody can be shown several questions at once.
    """
    ids = [call.id for call in calls]
    groups: list[list[Call]] = []
    open_group = False
    for call in calls:
        fits = can_show and call.tool == terminal and bool(call.id) and ids.count(call.id) == 1
        if fits and open_group:
            groups[-1].append(call)
        else:
            groups.append([call])
        open_group = fits
    return groups


@dataclass(slots=True, kw_only=True)
class Batch:
    """One group of calls on its way."""

    calls: Sequence[Call]
    prepare: Callable[[Call, Patience], Awaitable[Preparation | None]]
    """Runs middleware and pipeline for a copy of a call, and asks where a person has to; starts nothing. None, or an
    exception, where the call takes the ordinary path."""
    run: Callable[[Call, Ticket], Awaitable[Result]]
    """Runs a call, claiming its ticket right before the start."""
    publish: Callable[[Result], Awaitable[None]]
    """Commits the result of a call: the next one starts afterwards."""
    withdraw: Callable[[Cause], Awaitable[None]]
    """Cancels what is still asked for this batch, and nothing else."""
    seconds: float = SECONDS
    results: dict[str, Result] = field(default_factory=dict, init=False)
    """What each call got, in the order in which it was published."""
    _begun: set[str] = field(default_factory=set, init=False)
    _stale: bool = field(default=False, init=False)
    _closed: bool = field(default=False, init=False)

    async def go(self) -> Sequence[Result]:
        """Prepare all calls, run them in order, and return a result for each of them, whatever happens."""
        cause = Cause.BATCH_CLOSED
        try:
            tickets = await self._prepare_all()
            if tickets is None:
                late = "not started: preparing the calls took too long"
                await self._rest(Ended.NOT_STARTED, late, late)
            else:
                await self._run_all(tickets)
        except Exception:
            raise
        except BaseException:
            cause = Cause.TURN_INTERRUPTED
            raise
        finally:
            self._closed = True
            with anyio.CancelScope(shield=True):
                try:
                    await self.withdraw(cause)
                finally:
                    await self._rest(
                        Ended.CANCELLED, f"not started: {cause.value}", f"ended while it ran: {cause.value}"
                    )
        return [self.results[call.id] for call in self.calls]

    async def _prepare_all(self) -> dict[str, Ticket] | None:
        """Return a ticket for every call; None where one could not be prepared in time."""
        made: dict[str, Preparation | None] = {}
        wedged = False

        async def one(call: Call) -> None:
            nonlocal wedged
            with anyio.move_on_after(self.seconds) as scope:
                try:
                    prepared = await self.prepare(copy.deepcopy(call), Patience(scope))
                except Exception:  # noqa: BLE001  # whatever it is, the ordinary path will say it
                    prepared = None
                # What comes when the batch is closed was never prepared.
                if not self._closed:
                    made[call.id] = prepared
                return
            wedged = True
            group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            for call in self.calls:
                group.start_soon(one, call)
        if wedged:
            return None
        return {call.id: Ticket(call.id, made[call.id], lambda: self._stale) for call in self.calls}

    async def _run_all(self, tickets: Mapping[str, Ticket]) -> None:
        for call in self.calls:
            self._begun.add(call.id)
            try:
                result = await self.run(call, tickets[call.id])
            except BatchFault as fault:
                result = Result(call=call.id, ended=Ended.NOT_STARTED, text=str(fault))
            except Exception as error:  # noqa: BLE001  # a call that breaks is a result, too
                result = Result(call=call.id, ended=Ended.FAILED, text=f"it failed: {type(error).__name__}")
            await self._published(result)

    async def _published(self, result: Result) -> None:
        if self._closed or result.call in self.results:
            return
        # First what is true, then what may fail: a result that cannot be committed is still what happened.
        self.results[result.call] = result
        await self.publish(result)
        # Success never makes good again what a failure before it has made doubtful.
        self._stale = self._stale or result.ended is not Ended.RAN

    async def _rest(self, ended: Ended, text: str, begun: str) -> None:
        """Give every call a result that has none yet, also where it cannot be committed."""
        for call in self.calls:
            if call.id not in self.results:
                said = begun if call.id in self._begun else text
                self.results[call.id] = Result(call=call.id, ended=ended, text=said)
                with contextlib.suppress(Exception):
                    await self.publish(self.results[call.id])
