"""A worker that is on its way while the command line is still being read.

Owns: telling from the first words alone which operation will probably be asked for, and that one process. Does not own:
what is asked (remote): a guess that was wrong costs a process that was told nothing, did nothing and ends. It saves a
fifth of every short operation.

Little is imported here: this runs before everything else of the command line.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from perdure_pm.adapters import processes
from perdure_pm.adapters.worker_process import start_worker

OPERATIONS: dict[tuple[str, ...], str] = {
    ("collect",): "collect",
    ("config", "set"): "config-set",
    ("confirm",): "confirm",
    ("install",): "install",
    ("label",): "label",
    ("pin",): "pin",
    ("plan",): "install",
    ("plugin", "add"): "plugin-add",
    ("plugin", "disable"): "plugin-disable",
    ("plugin", "enable"): "plugin-enable",
    ("plugin", "remove"): "plugin-remove",
    ("plugin", "update"): "plugin-update",
    ("python", "install"): "python-install",
    ("python", "uninstall"): "python-uninstall",
    ("repair",): "repair",
    ("rollback",): "rollback",
    ("self", "rebuild"): "self-rebuild",
    ("self", "rollback"): "self-rollback",
    ("self", "update"): "self-update",
    ("stage",): "stage",
    ("upgrade",): "upgrade",
    ("wheelhouse", "build"): "wheelhouse-build",
}
"""Verbs that a worker serves, where they are the first words."""

ELSEWHERE = ("--home", "--help", "-h")
"""Flags (or their beginnings) after which this home, or any worker, may not be what is wanted."""

_started: dict[Path, processes.Child] = {}
"""At most one, by its home."""


def expect(words: Sequence[str]) -> str:
    """Return the operation that a command line will ask for, or nothing where that cannot be told."""
    if any(word.startswith(ELSEWHERE) for word in words):
        return ""
    return OPERATIONS.get(tuple(words[:1])) or OPERATIONS.get(tuple(words[:2]), "")


def start(words: Sequence[str], environ: Mapping[str, str], home: Path) -> None:
    """Have a worker of the home on its way where one will be asked; never raises."""
    operation = expect(words)
    if operation:
        try:
            _started[home] = start_worker(Path(sys.executable), home, environ, expected=operation)
        except OSError:
            _started.clear()  # the client tries again, and says what is wrong


def take(home: Path) -> processes.Child | None:
    """Return the worker of the home that is on its way, once; one of another home is let go."""
    found = None
    for place, child in list(_started.items()):
        if place == home and child.poll() is None:
            found = child
            continue
        for stream in (child.stdin, child.stdout, child.stderr):
            if stream is not None:
                stream.close()
    _started.clear()
    return found
