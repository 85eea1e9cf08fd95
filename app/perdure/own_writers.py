"""Who of the app itself writes below protected roots: each by name, and each only where it has to.

Owns: the list, and the context that a writer holds while it writes. Does not own: refusing everybody else
(audit_hook). Keeps: audit-own-writers.

A writer is an object that is handed out once: a module string, a variable or a file says nothing here, so no plugin
becomes one by what it is called. A plugin that goes and takes a writer's object out of a module does it on purpose;
against that nothing in one process helps.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from fnmatch import fnmatchcase

WRITERS: dict[str, tuple[str, ...]] = {
    "allowlist": ("state", "state/**", "profiles/*/app.yaml*"),
    "approvals": ("state", "state/**"),
    "crash-notes": ("profiles/*/crashes", "profiles/*/crashes/**"),
    "held-names": ("state/*/names*",),
    "run-record": ("state", "state/**"),
    "runs-going-on": ("state", "state/*", "state/*/running-in-*"),
}
"""What each may write, relative to the home; `**` stands for everything below."""

_handed_out: set[str] = set()
_writing: ContextVar[Writer | None] = ContextVar("perdure_own_writer", default=None)


class Writer:
    """One of the app's own writers."""

    __slots__ = ("name", "places")

    def __init__(self, name: str, places: tuple[str, ...]) -> None:
        """Know what it may write."""
        self.name = name
        self.places = places

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Have this thread and task write as this writer within the block."""
        before = _writing.set(self)
        try:
            yield
        finally:
            _writing.reset(before)

    def may_write(self, inner: str) -> bool:
        """Return whether this is one of its places.

        Args:
            inner: relative to the home, with slashes.
        """
        return any(
            inner.startswith(place[:-2]) if place.endswith("/**") and "*" not in place[:-3] else _fits(inner, place)
            for place in self.places
        )


def claim(name: str) -> Writer:
    """Return the writer of this name, which nobody gets a second time.

    Raises:
        KeyError: there is no such writer.
        RuntimeError: somebody has it.
    """
    places = WRITERS[name]
    if name in _handed_out:
        raise RuntimeError(f"the writer {name} has been handed out before")
    _handed_out.add(name)
    return Writer(name, places)


def current_writer() -> Writer | None:
    """Return whoever of the app's own writers is at work in this thread and task."""
    return _writing.get()


def _fits(inner: str, place: str) -> bool:
    names, patterns = inner.split("/"), place.split("/")
    if patterns[-1] == "**":
        patterns = patterns[:-1]
        if len(names) <= len(patterns):
            return False
        names = names[: len(patterns)]
    return len(names) == len(patterns) and all(map(fnmatchcase, names, patterns))
