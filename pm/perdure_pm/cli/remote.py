"""Running an operation in a worker for a person at a terminal.

Owns: the way from a verb to `client.Client` and back: progress to the bar, SIGINT and SIGTERM to a cancellation, the
result to an answer. Does not own: the operation. Keeps: cli-interrupt: an interrupt before the commit leaves everything
as it was, and one after it lets the operation finish and says so.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

from perdure_pm.adapters.processes import replace_process
from perdure_pm.cli import ahead
from perdure_pm.cli.progress import Progress
from perdure_pm.cli.render import Answer, true_hint
from perdure_pm.cli.session import Session, own_home
from perdure_pm.client import Cancellation, Client, Result
from perdure_pm.model.errors import BuildRefused, ConsentMissing, PerdureError
from perdure_pm.store.layout import Layout

SIGNALS = (signal.SIGINT, signal.SIGTERM)


def call(
    session: Session, operation: str, arguments: Mapping[str, Any], show: Callable[[Mapping[str, Any], str], str]
) -> Answer:
    """Return the answer of an operation that ran in a worker.

    Args:
        session: this run.
        operation: its name in the worker's table.
        arguments: its own arguments; the settings are added.
        show: words for people, from the result's data and status.

    Raises:
        PerdureError: whatever the operation raised.
    """
    layout = session.writable_layout()
    _require_own_home(session, layout)
    agreed: dict[str, Any] = {}
    while True:
        try:
            return _answer(session, _run(session, layout, operation, {**arguments, **agreed}), show)
        except ConsentMissing as missing:
            agreed = {"consent": _ask(session, missing, "consent")}
        except BuildRefused as refused:
            if session.dry_run:
                raise
            value = ",".join(_ask(session, refused, "allow"))
            _run(session, layout, "config-set", {"key": refused.context["setting"], "value": value})


def _ask(session: Session, error: PerdureError, what: str) -> list[str]:
    """Return the names in an error's context that a person agrees to.

    Raises:
        PerdureError: the error itself, where there is nothing to agree to or nobody to ask.
        ConsentDeclined: the person said no.
    """
    names, question = error.context.get(what), error.context.get("question")
    if not isinstance(names, list) or not isinstance(question, str):
        raise error
    try:
        session.require_consent(question)
    except ConsentMissing:
        raise error from None
    return [str(name) for name in names]


def _run(session: Session, layout: Layout, operation: str, arguments: Mapping[str, Any]) -> Result:
    """Return the result of an operation that ran in a worker."""
    cancellation = Cancellation()
    # The runtime that runs this command line is one that can serve: it was checked when it started.
    client = Client(
        layout, lambda: Path(sys.executable), environ=session.environ, ahead=lambda: ahead.take(layout.home)
    )
    with Progress(session) as progress, _cancelled_by_signals(cancellation):
        return client.call(
            operation,
            {**arguments, "settings": session.request_settings()},
            cancel=cancellation,
            on_progress=progress,
            on_log=progress.log,
        )


def _require_own_home(session: Session, layout: Layout) -> None:
    """Do nothing where this runtime belongs to the home; else hand over to that home's PM, made where it is missing.

    Homes are self-contained: what changes one is its own PM, from its own seed, which outlives the home that made it.
    """
    own = own_home(sys.prefix)
    if own is None or own.resolve() == layout.home:
        return
    from perdure_pm.ops.seed import seed_source  # the builder's half of PM, for the rare case alone

    bootstrap = seed_source(Layout(own)) / "pm" / "bootstrap.py"
    python = getattr(sys, "_base_executable", None) or sys.executable
    replace_process([python, "-I", bootstrap, "--home", layout.home, "pm", *sys.argv[1:]], session.environ)


def _answer(session: Session, result: Result, show: Callable[[Mapping[str, Any], str], str]) -> Answer:
    receipt = result.receipt
    data = {
        **result.data,
        "receipt": None if receipt is None else receipt.get("id"),
        "obligations": list(result.obligations),
    }
    return Answer(
        status=result.status,
        data=data,
        text=true_hint(show(result.data, result.status), session) or "",
        notices=[f"still to do: {true_hint(obligation, session)}" for obligation in result.obligations],
    )


@contextlib.contextmanager
def _cancelled_by_signals(cancellation: Cancellation) -> Iterator[None]:
    """Have the first SIGINT or SIGTERM cancel, and a second one end the waiting."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    before = {number: signal.getsignal(number) for number in SIGNALS}

    def cancel(number: int, _frame: FrameType | None) -> None:
        if cancellation.cause is not None:
            for other, handler in before.items():
                signal.signal(other, handler)
            raise KeyboardInterrupt
        # In a thread of its own: this handler may have interrupted the very code that holds the client's locks.
        name = signal.Signals(number).name
        threading.Thread(target=cancellation.cancel, args=[name], daemon=True).start()

    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, cancel)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
