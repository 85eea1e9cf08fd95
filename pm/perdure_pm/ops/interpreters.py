"""Which interpreter is built on: one that was named, one that is there, or one that is brought into the home.

Owns: that choice, bringing one in, and whether a recorded one is still there. Does not own: asking an interpreter what
it is (adapters.interpreter), nor the verbs about them (interpreter_verbs).

Keeps: what uv shares between projects is never taken unasked.

Standard library only, Python 3.9: this runs before there is a runtime.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from perdure_pm import ports
from perdure_pm.adapters.interpreter import (
    MINIMUM,
    Interpreter,
    ask_interpreter,
    bare_environment,
    interpreter_from_json,
    running_interpreter,
)
from perdure_pm.adapters.uv import Uv
from perdure_pm.model.errors import IntegrityFault, InterpreterMissing, PerdureError
from perdure_pm.ops.runtime import load_runtime
from perdure_pm.store.inventory import (
    FILE_NAME,
    Finding,
    find_content_changes,
    find_size_changes,
    load_inventory,
    take_inventory,
)
from perdure_pm.store.layout import Layout

FALLBACK_PYTHON = "3.13"
"""What uv brings in where no Python of at least `MINIMUM` was found."""


def find_interpreter(layout: Layout, environ: Mapping[str, str], wanted: str | None) -> Interpreter | None:
    """Return the base interpreter to build on, or None where one must be brought in. Nothing is written.

    It is the wanted one, else the one that PM runs on already, else the one that runs this. A wanted version is one of
    the home's own: what is elsewhere is named by its path. One that uv shares between projects is not taken unasked:
    `uv python uninstall` would pull it from under PM.

    Raises:
        InterpreterMissing: the wanted one does not run, or is too old.
    """
    if wanted is not None:
        if is_version(wanted):
            require_new_enough(wanted, f"Python {wanted}")
            return find_own(layout, wanted)
        path = wanted if os.path.dirname(wanted) else shutil.which(wanted, path=environ.get("PATH"))
        if path is None:
            raise InterpreterMissing(f"there is no {wanted} on the PATH", hint="name another with --python PATH")
        found = ask_interpreter(Path(os.path.abspath(path)), bare_environment())
        require_new_enough(found.version, f"{wanted} is Python {found.version}")
        return found
    present = load_runtime(layout)
    if present is not None and is_still(present.record["inputs"]["python"]):
        recorded = interpreter_from_json(present.record["inputs"]["python"])
        if recorded.release >= MINIMUM:
            return recorded
    running = running_interpreter()
    usable = running.release >= MINIMUM and running.implementation == "CPython"
    return running if usable and not is_shared(running.path, environ, layout) else None


def choose_interpreter(
    layout: Layout,
    filesystem: ports.Filesystem,
    uv: Uv,
    reporter: ports.Reporter,
    environ: Mapping[str, str],
    wanted: str | None,
) -> Interpreter:
    """Return the base interpreter to build on, brought into the home where none was found."""
    found = find_interpreter(layout, environ, wanted)
    if found is not None:
        return found
    request = wanted or FALLBACK_PYTHON
    reporter.progress("python", f"bringing in Python {request}")
    try:
        return bring_in(layout, filesystem, uv, request)
    except PerdureError as error:
        needed = (
            f"Python {wanted} is wanted and is not there"
            if wanted
            else f"Python {MINIMUM[0]}.{MINIMUM[1]} or newer is needed, this is {sys.version.split()[0]}"
        )
        raise InterpreterMissing(
            f"{needed}, and uv could not bring in {request}: {error.summary}",
            hint="name an installed one with --python PATH, or a list of downloads with --python-downloads URL",
            context=error.context,
            retry=error.retry,
        ) from error


def bring_in(layout: Layout, filesystem: ports.Filesystem, uv: Uv, request: str) -> Interpreter:
    """Return the interpreter for a version, installed below the home, read-only. The caller holds the mutex.

    What lies there for that version and does not run, or was never finished, or is damaged, is replaced as a whole.

    Args:
        layout: the home.
        filesystem: where files are written.
        uv: the uv that installs it.
        request: ``3.13`` or ``3.13.2``.
    """
    running = running_interpreter()
    useless = [folder for folder in _own_folders(layout) if _is_named(folder, request) and not _is_complete(folder)]
    if any(folder in running.path.parents and not (folder / FILE_NAME).is_file() for folder in useless):
        # The last rung of a launcher had uv bring it in, without PM, and this runs on it: it is complete.
        filesystem.make_read_only(own_folder(layout, running.path))
        return running
    try:
        for folder in useless:
            for place, _, _ in os.walk(folder):
                os.chmod(place, 0o755)  # else nobody but root could take away what lies there
        found = ask_interpreter(uv.install_interpreter(request, instead=bool(useless)), bare_environment())
        folder = own_folder(layout, found.path)
        if not (folder / FILE_NAME).is_file():
            # Last of all: a directory without it is one whose installation was cut off.
            os.chmod(folder, 0o755)
            filesystem.write_durable(folder / FILE_NAME, take_inventory(folder).to_bytes())
    finally:
        for folder in [path for path in _own_folders(layout) if (path / FILE_NAME).is_file()]:
            filesystem.make_read_only(folder)
    return found


def find_own_damage(layout: Layout, *, thorough: bool = False) -> dict[Path, Finding]:
    """Return the damaged interpreters in the home, each with the first file of it that is not as it was installed."""
    found = {}
    for folder in _own_folders(layout):
        if (folder / FILE_NAME).is_file() and (finding := _find_damage(folder, thorough=thorough)) is not None:
            found[folder] = finding
    return found


def version_of(folder: Path) -> str:
    """Return the version in the name that uv gives an interpreter's directory."""
    return folder.name.partition("-")[2].partition("-")[0]


def _find_damage(folder: Path, *, thorough: bool) -> Finding | None:
    try:
        inventory = load_inventory(folder / FILE_NAME)
    except IntegrityFault as fault:
        return Finding(FILE_NAME, fault.summary)
    changed = find_size_changes(folder, inventory) or (find_content_changes(folder, inventory) if thorough else [])
    return changed[0] if changed else None


def _is_complete(folder: Path) -> bool:
    """Return whether an interpreter's directory is one that was finished, runs, and is as it was installed."""
    if _is_unfinished(folder) or _ask_own(folder) is None:
        return False
    return not (folder / FILE_NAME).is_file() or _find_damage(folder, thorough=True) is None


def _is_named(folder: Path, request: str) -> bool:
    return folder.name.startswith("cpython-") and _answers(version_of(folder), request)


def require_new_enough(version: str, what: str) -> None:
    """Return when a version is one that PM and what it hosts run on.

    Raises:
        InterpreterMissing: it is too old; `what` says in words what is.
    """
    if version_key(version)[:2] < MINIMUM:
        raise InterpreterMissing(
            f"{what}; PM and the app need {MINIMUM[0]}.{MINIMUM[1]} or newer",
            hint="name a newer one with --python PATH, or leave it out and one is brought in",
        )


def is_version(request: str) -> bool:
    """Return whether a request names a version, and not a path or a command."""
    return re.fullmatch(r"3(\.[0-9]+){1,2}", request) is not None


def fits(layout: Layout, environ: Mapping[str, str], recorded: Mapping[str, str], wanted: str | None) -> bool:
    """Return whether a recorded interpreter is what is wanted; where nothing is, each one is."""
    if wanted is None:
        return True
    path = Path(recorded["path"])
    if is_version(wanted):
        return layout.interpreters in path.parents and _answers(recorded["version"], wanted)
    named = wanted if os.path.dirname(wanted) else shutil.which(wanted, path=environ.get("PATH"))
    return named is not None and os.path.realpath(named) == str(path)


def list_own(layout: Layout) -> list[Interpreter]:
    """Return the interpreters in the home that run, the newest first."""
    found = [interpreter for folder in _own_folders(layout) if (interpreter := _ask_own(folder)) is not None]
    return sorted(found, key=lambda interpreter: version_key(interpreter.version), reverse=True)


def _ask_own(folder: Path) -> Interpreter | None:
    for path in (folder / "bin" / "python3", folder / "python.exe"):
        if os.access(path, os.X_OK):
            with contextlib.suppress(PerdureError):
                return ask_interpreter(path, bare_environment())
    return None


def find_own(layout: Layout, request: str) -> Interpreter | None:
    """Return the newest interpreter in the home that answers a version and was completely installed, else None."""
    for found in list_own(layout) if layout.interpreters.is_dir() else []:
        if _answers(found.version, request) and not is_unfinished(layout, found):
            return found
    return None


def is_unfinished(layout: Layout, interpreter: Interpreter) -> bool:
    """Return whether the installation of an interpreter in the home was cut off."""
    return _is_unfinished(own_folder(layout, interpreter.path))


def _is_unfinished(folder: Path) -> bool:
    """Return whether a directory has neither the list of its files, which is written last, nor is read-only.

    A copy of a home may have lost its modes; what a launcher had uv bring in has no list.
    """
    return not (folder / FILE_NAME).is_file() and bool(stat.S_IMODE(folder.stat().st_mode) & 0o222)


def own_folder(layout: Layout, python: Path) -> Path:
    """Return the directory below the home's interpreters that `python` lies in."""
    return (
        layout.interpreters / Path(os.path.realpath(python)).relative_to(os.path.realpath(layout.interpreters)).parts[0]
    )


def version_key(version: str) -> tuple[int, ...]:
    """Return what versions of Python are ordered by; a pre-release counts as its release."""
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def _answers(version: str, request: str) -> bool:
    return version == request or version.startswith(f"{request}.")


def _own_folders(layout: Layout) -> list[Path]:
    """Return the directories of interpreters in the home; uv's links to them, by minor version, are none."""
    folder = layout.interpreters
    if folder.is_symlink() or not folder.is_dir():
        return []
    return [
        path for path in sorted(folder.iterdir()) if path.name[0] != "." and path.is_dir() and not path.is_symlink()
    ]


def is_still(recorded: Mapping[str, Any]) -> bool:
    """Return whether the recorded interpreter is still there in the recorded version."""
    running = running_interpreter()
    if str(running.path) == recorded["path"]:
        return bool(running.version == recorded["version"])
    with contextlib.suppress(PerdureError, OSError):
        return ask_interpreter(Path(recorded["path"]), bare_environment()).version == str(recorded["version"])
    return False


def is_shared(path: Path, environ: Mapping[str, str], layout: Layout) -> bool:
    """Return whether `path` lies in the directory of interpreters that uv shares, and not in this home's own."""
    if layout.interpreters in path.parents:
        return False
    user = Path(os.path.expanduser("~"))
    data = Path(environ.get("XDG_DATA_HOME") or user / ".local" / "share")
    shared = [data / "uv" / "python", user / ".local" / "share" / "uv" / "python"]
    if environ.get("UV_PYTHON_INSTALL_DIR"):
        shared.append(Path(environ["UV_PYTHON_INSTALL_DIR"]))
    return any(Path(os.path.realpath(folder)) in path.parents for folder in shared)
