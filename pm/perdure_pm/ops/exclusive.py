"""Holding the home's mutex for an operation, visibly.

Owns: saying who is waited for. Does not own: the lock (adapters.mutex).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from perdure_pm.adapters.mutex import held
from perdure_pm.ops.context import Context


@contextlib.contextmanager
def exclusive(context: Context, operation: str) -> Iterator[None]:
    """Hold the mutex for `operation`; a caller that waits is told for whom.

    Raises:
        Busy: it is taken, and the context does not wait.
    """

    def tell(holder: str) -> None:
        context.reporter.progress("mutex", f"waiting for another operation: {holder}")

    with held(context.layout, operation, wait=context.wait, on_wait=tell):
        yield
