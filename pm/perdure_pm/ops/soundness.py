"""Whether a sealed generation can be started as it is.

Owns: the quick check that comes before a selection (sizes, links, packages that were added, and the interpreter with
its version), and the whole list of what is wrong, by size or by every byte. Does not own: what is done about it
(repair).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from perdure_pm.adapters.interpreter import ask_interpreter, bare_environment, is_library, running_interpreter
from perdure_pm.model.errors import IntegrityFault, PerdureError
from perdure_pm.ops.launchers import read_library
from perdure_pm.ports import Filesystem
from perdure_pm.store.generations import Generation, load_files
from perdure_pm.store.inventory import (
    FILE_NAME,
    Finding,
    Inventory,
    find_added,
    find_content_changes,
    find_owners,
    find_size_changes,
)
from perdure_pm.store.layout import Layout

STRANGE = "is no part of this generation"


def find_damage(layout: Layout, generation: Generation) -> str:
    """Return what keeps the generation from starting, or an empty string (10 ms for 5,000 files)."""
    try:
        inventory = load_files(layout, generation.identity)
        findings = find_size_changes(generation.path, inventory) or _find_strangers(generation, inventory)
    except PerdureError as error:
        return error.summary
    return str(findings[0]) if findings else _find_interpreter_problem(layout, generation)


def _find_strangers(generation: Generation, inventory: Inventory) -> list[Finding]:
    """Return what lies among the packages and is none: what an installer added that got past the refusal of pip."""
    known: dict[str, set[str]] = {}
    for names in (inventory.files, inventory.links):
        for name in names:
            packages, found, below = name.partition("/site-packages/")
            if found:
                known.setdefault(packages + "/site-packages", {"__pycache__"}).add(below.partition("/")[0])
    if not known:
        return []
    folder = min(known, key=len)  # the outermost one; another is some package's own
    added = sorted(set(os.listdir(generation.path / folder)) - known[folder])
    # Some wheels leave a directory with nothing in it, which no list of files has.
    return [Finding(f"{folder}/{name}", STRANGE) for name in added if _holds_any(generation.path / folder / name)]


def _holds_any(path: Path) -> bool:
    return not path.is_dir() or path.is_symlink() or any(names for _, _, names in os.walk(path))


def find_all_damage(
    layout: Layout, generation: Generation, *, deep: bool, hashes: dict[tuple[int, int], str] | None = None
) -> list[Finding]:
    """Return everything that is wrong with a generation, each file with the distribution that it belongs to.

    Args:
        layout: the home.
        generation: a sealed one.
        deep: whether every byte is read, and not only every size.
        hashes: see `store.inventory.find_content_changes`.
    """
    try:
        inventory = load_files(layout, generation.identity)
    except PerdureError as error:
        return [Finding(FILE_NAME, error.summary)]
    if deep:
        findings = [
            *find_content_changes(generation.path, inventory, hashes),
            *(Finding(name, STRANGE) for name in find_added(generation.path, inventory) if _matters(name)),
        ]
    else:
        findings = find_size_changes(generation.path, inventory) or _find_strangers(generation, inventory)
    if findings:
        owners = find_owners(generation.environment)
        findings = [
            replace(finding, distribution=_owner(owners, finding.path.removeprefix("venv/"))) for finding in findings
        ]
    problem = _find_interpreter_problem(layout, generation)
    return [*findings, Finding("venv", problem)] if problem else findings


def _owner(owners: Mapping[str, str], path: str) -> str:
    """Return the distribution of a file; byte code is its module's, and a file of a dist-info names it itself."""
    found = owners.get(path)
    if found is None and "/__pycache__/" in path:
        folder, _, name = path.rpartition("/__pycache__/")
        found = owners.get(f"{folder}/{name.partition('.')[0]}.py")
    if found is None:
        found = next((part[: -len(".dist-info")] for part in path.split("/") if part.endswith(".dist-info")), "")
    return found


def _matters(name: str) -> bool:
    """Return whether a file that nobody sealed changes what runs: byte code does not, without its source."""
    return name.startswith("venv/") and not (name.endswith(".pyc") and "/__pycache__/" in name)


def _find_interpreter_problem(layout: Layout, generation: Generation) -> str:
    """Return what keeps a generation's interpreter from running it, or an empty string."""
    if not os.access(generation.python, os.X_OK):
        return f"its interpreter {os.path.realpath(generation.python)} is gone"
    library = read_library(layout, generation.path)
    if library is not None and not is_library(library):  # as its launcher has it, which does not start it then
        return f"the standard library of its interpreter is gone ({library})"
    return _find_other_python(generation)


def _find_other_python(generation: Generation) -> str:
    """Return what is wrong where the interpreter became another minor version, which does not find the packages."""
    recorded = str(generation.record["interpreter"]["version"])
    try:
        version = _present_version(generation)
    except PerdureError as error:
        return error.summary
    if version.split(".")[:2] == recorded.split(".")[:2]:
        return ""
    return f"it was built for Python {recorded}, and its interpreter is now {version}"


def find_changed_python(generation: Generation) -> str:
    """Return what changed where a sound generation's interpreter has another patch version, or an empty string.

    That is no damage: it runs, and stays to go back to. What is selected is rebuilt for the present one by a repair.
    """
    recorded = str(generation.record["interpreter"]["version"])
    version = _present_version(generation)
    return "" if version == recorded else f"it was built for Python {recorded}, and its interpreter is now {version}"


def _present_version(generation: Generation) -> str:
    if str(running_interpreter().path) == os.path.realpath(generation.python):  # then nothing need be started
        return running_interpreter().version
    return ask_interpreter(generation.python, bare_environment()).version


def ensure_read_only(filesystem: Filesystem, generation: Generation) -> None:
    """Have a sealed generation read-only, which a crash right after its record was written kept it from being."""
    if stat.S_IMODE(generation.path.stat().st_mode) & 0o222:
        filesystem.make_read_only(generation.path)


def require_sound(layout: Layout, generation: Generation) -> None:
    """Return when the generation can be started.

    Raises:
        IntegrityFault: it cannot.
    """
    damage = find_damage(layout, generation)
    if damage:
        raise IntegrityFault(
            f"generation {generation.identity} is damaged: {damage}",
            hint="choose another: perdure-pm history",
            context={"generation": generation.identity, "damage": damage},
        )
