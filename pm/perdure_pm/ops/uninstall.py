"""Uninstall: take out of the home what PM put into it, and nothing else.

Owns: the list of what PM makes, the order of removal, and saying what remains. Does not own: asking for consent (cli).

A home may be a directory that was there before, with files, or whole directories, of its user's: so what PM made is
matched by name and form below each of its directories, and a directory goes only when it is empty then. Keeps:
pm-uninstall-own-files: nothing that PM did not make is removed, and no link is followed.

It runs in the process of the command line, not in a worker: a worker's receipt would make the home anew, and this
process may remove the runtime that it was started from only because everything it needs is loaded (`preload`).
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perdure_pm.adapters.occupants import Occupant, find_occupants
from perdure_pm.model.errors import Busy, HomeUnusable, PerdureError
from perdure_pm.ops.context import Context, Outcome
from perdure_pm.ops.exclusive import exclusive
from perdure_pm.store.home import is_launcher
from perdure_pm.store.layout import Layout

_TEMPORARY = r"\..+\.[0-9a-f]{12}\.tmp"

KEPT_WITH_STATE = ("state", "config.yaml", "profiles/*/config.yaml", "profiles/*/app.yaml")
"""What `keep_state` spares: what the host keeps, and what people wrote."""

EVIDENCE = ("pm/seed", "pm/runtimes", "pm/policy", "store/generations", "profiles/*/current")
"""A directory that has none of these is no home, whatever else it has."""
SHOWN_LEFT = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Owned:
    """Members of one directory that PM makes."""

    folder: str
    """Relative to the home; `*` stands for each directory there."""
    names: str
    """A regular expression that a member's whole name matches."""


# In the order of removal: pointers first, so that an uninstall that dies half-way leaves nothing that seems installed;
# PM's runtime and the launchers last, so that the same command can be given again.
OWNED: tuple[Owned, ...] = (
    Owned(folder="profiles/*", names="current|trial|pending|history\\.jsonl|published\\.json|crashes"),
    Owned(folder="store", names=r"releases|plugins|packages|generations|records|trash|labels\.json"),
    Owned(folder="test", names="pm|app"),
    Owned(folder="cache", names="uv|tmp"),
    Owned(folder="receipts/unfinished", names=r"[0-9]{8}T[0-9]{6}\.[0-9]{6}Z-[0-9a-f]{8}"),
    Owned(folder="receipts", names=r"[0-9]{8}T[0-9]{6}\.[0-9]{6}Z-[0-9a-f]{8}\.json"),
    Owned(folder="profiles/*", names=r"config\.yaml|app\.yaml"),
    Owned(folder="", names=r"config\.yaml|\.config\.yaml\.[0-9a-f]{12}\.tmp|state"),
    Owned(folder="tools/uv", names=r"[0-9]+(\.[0-9]+)+[a-z0-9.]*"),
    Owned(folder="python", names=r"(cpython|pypy|graalpy|pyodide)-.+|\.lock|\.temp|\.gitignore"),
    Owned(folder="pm", names="policy|current|runtimes|incoming|seed|activation|rescues"),
)
_FOLDERS = (
    *("store", "test", "cache", "receipts/unfinished", "receipts", "profiles", "tools/uv", "tools", "python"),
    *("pm", "bin", "state"),
)


@dataclass(slots=True, kw_only=True)
class _Sweep:
    """What one uninstall did."""

    removed: list[str]
    failed: list[str]


def uninstall(context: Context, arguments: Mapping[str, Any]) -> Outcome:
    """Have nothing of PM's left in the home.

    Args:
        context: the world.
        arguments: ``keep_state``: spare state/ and the configuration files; ``force``: also while processes run from
            the home.

    Raises:
        Busy: processes run from the home, or another operation is running.
        HomeUnusable: something could not be removed; the rest was.
    """
    layout = context.layout
    keep_state = arguments.get("keep_state") is True
    names = find_removable(layout, keep_state=keep_state)
    if not names:
        return Outcome(status="noop", data={"removed": [], "left": _remaining(layout)})
    occupants = find_occupants(layout.home, beside=frozenset({os.getpid(), os.getppid()}))
    if context.dry_run:
        return Outcome(status="ok", data={"dry_run": True, "remove": names, "processes": _show(occupants)})
    if occupants and arguments.get("force") is not True:
        raise Busy(
            f"{len(occupants)} processes run from {layout.home}, the first: {occupants[0].pid} {occupants[0].command}",
            hint="end them, or give --force, which leaves them running without their files",
            context={"processes": _show(occupants)},
            retry="after-change",
        )
    preload()
    sweep = _Sweep(removed=[], failed=[])
    with exclusive(context, "uninstall"):
        for path in _plan(layout, keep_state=keep_state):
            context.reporter.progress("uninstall", f"removing {_name(layout, path)}")
            _remove(context, path, sweep)
        _remove_folders(layout)
    for path in (layout.mutex_holder, layout.mutex):
        _remove(context, path, sweep)
    _remove_folders(layout)
    with contextlib.suppress(OSError):
        os.rmdir(layout.home)
    data = {"removed": names, "left": _remaining(layout), "processes": _show(occupants)}
    if sweep.failed:
        raise HomeUnusable(
            f"{len(sweep.failed)} could not be removed, the first: {sweep.failed[0]}",
            hint="run the same command again once that is corrected",
            context={**data, "failed": sweep.failed},
            state="needs-recovery",
        )
    return Outcome(status="ok", data=data)


def find_removable(layout: Layout, *, keep_state: bool) -> list[str]:
    """Return what uninstall would remove, relative to the home, in order."""
    return [_name(layout, path) for path in _plan(layout, keep_state=keep_state)]


def preload() -> None:
    """Have everything in memory that is needed after the runtime's own files are gone."""
    import encodings.idna
    import importlib

    for name in ("json", "traceback", "textwrap", "shutil", "logging", "click", "click.exceptions", "click.formatting"):
        importlib.import_module(name)
    del encodings


def _plan(layout: Layout, *, keep_state: bool) -> list[Path]:
    """Return what is to be removed, in order."""
    if not any(path for pattern in EVIDENCE for path in layout.home.glob(pattern)):
        return []
    kept = {path for pattern in KEPT_WITH_STATE for path in layout.home.glob(pattern)} if keep_state else set()
    if _foreign(layout):
        kept.add(layout.state)
    return [*(path for owned in OWNED for path in _members(layout, owned) if path not in kept), *_launchers(layout)]


def _members(layout: Layout, owned: Owned) -> Iterator[Path]:
    folders = sorted(layout.home.glob(owned.folder)) if owned.folder else [layout.home]
    pattern = re.compile(f"{owned.names}|{_TEMPORARY}" if owned.folder else owned.names)
    for folder in folders:
        if _is_own_folder(layout, folder):
            for name in sorted(os.listdir(folder)):
                # A link is not ours, whatever its name: config.yaml may be one into a dotfiles tree.
                if pattern.fullmatch(name) and not os.path.islink(folder / name):
                    yield folder / name


def _launchers(layout: Layout) -> Iterator[Path]:
    if not _is_own_folder(layout, layout.bin):
        return
    # perdure-pm goes last of all: until then the same command can be given again.
    for name in sorted(os.listdir(layout.bin), key=lambda name: (name.startswith("perdure-pm"), name)):
        path = layout.bin / name
        if path.is_symlink() or not path.is_file():
            continue
        if is_launcher(path):
            yield path


def _is_own_folder(layout: Layout, folder: Path) -> bool:
    """Return whether `folder` is a directory below the home that is reached without a link."""
    while folder != layout.home:
        if folder.is_symlink() or not folder.is_dir():
            return False
        folder = folder.parent
    return folder.is_dir()


def _foreign(layout: Layout) -> list[str]:
    """Return the members of the home that are none of PM's: then state/ may be the user's as well."""
    tops = {name.split("/")[0] for name in _FOLDERS} | {"config.yaml", "mutex", "mutex.json"}
    return [name for name in os.listdir(layout.home) if name not in tops]


def _remove(context: Context, path: Path, sweep: _Sweep) -> None:
    try:
        context.filesystem.remove_tree(path)
        sweep.removed.append(str(path))
    except PerdureError as error:
        # One undeletable file stops nothing else.
        sweep.failed.append(error.summary)


def _remove_folders(layout: Layout) -> None:
    """Remove PM's directories that are empty now; what keeps one from being empty is somebody's and stays."""
    profiles = layout.profile("x").parent
    for folder in [
        *(profiles.iterdir() if _is_own_folder(layout, profiles) else []),
        *(layout.home / f for f in _FOLDERS),
    ]:
        if folder.is_dir() and _is_own_folder(layout, folder) and folder != layout.state:
            with contextlib.suppress(OSError):
                folder.rmdir()


def _remaining(layout: Layout) -> list[str]:
    """Return what is left: the home's members, those of PM's directories one by one."""
    own = {name.split("/")[0] for name in _FOLDERS} - {"state"}
    left: list[str] = []
    for folder, folders, names in os.walk(layout.home):
        here = Path(folder)
        if here == layout.home:
            left += [f"{name}/" for name in folders if name not in own]
            folders[:] = [name for name in folders if name in own]
        links = [name for name in folders if (here / name).is_symlink()]
        left += [_name(layout, here / name) for name in (*names, *links)]
        if len(left) >= SHOWN_LEFT:
            return [*sorted(left[:SHOWN_LEFT]), "..."]
    return sorted(left)


def _name(layout: Layout, path: Path) -> str:
    return path.relative_to(layout.home).as_posix()


def _show(occupants: list[Occupant]) -> list[dict[str, Any]]:
    return [{"pid": occupant.pid, "command": occupant.command} for occupant in occupants]
