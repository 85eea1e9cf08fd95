"""Whether a sealed generation can be started as it is.

Owns: the quick check that comes before a selection: sizes, links, packages that were
added, and the interpreter with its version. Does not own:
the deep one, nor any repair.
"""

from __future__ import annotations

import os
import stat

from perdure_pm.adapters.interpreter import ask_interpreter, is_library, running_interpreter
from perdure_pm.model.errors import IntegrityFault, PerdureError
from perdure_pm.ops.build import bare_environment
from perdure_pm.ops.launchers import read_library
from perdure_pm.ports import Filesystem
from perdure_pm.store.generations import Generation, load_files
from perdure_pm.store.inventory import Finding, Inventory, find_size_changes
from perdure_pm.store.layout import Layout


def find_damage(layout: Layout, generation: Generation) -> str:
    """Return what keeps the generation from starting, or an empty string (10 ms for 5,000 files)."""
    try:
        inventory = load_files(layout, generation.identity)
        findings = find_size_changes(generation.path, inventory) or _find_strangers(generation, inventory)
    except PerdureError as error:
        return error.summary
    if findings:
        return str(findings[0])
    if not os.access(generation.python, os.X_OK):
        return f"its interpreter {generation.python} does not run"
    library = read_library(layout, generation.path)
    if library is not None and not is_library(library):  # as its launcher has it, which does not start it then
        return f"the standard library of its interpreter is gone ({library})"
    return _find_other_python(generation)


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
    return [Finding(f"{folder}/{name}", "is no part of this generation") for name in added]


def _find_other_python(generation: Generation) -> str:
    """Return what is wrong where the interpreter became another minor version, which does not find the packages."""
    recorded = generation.record["interpreter"]
    version = running_interpreter().version
    if str(running_interpreter().path) != os.path.realpath(generation.python):  # else nothing need be started
        try:
            version = ask_interpreter(generation.python, bare_environment()).version
        except PerdureError as error:
            return error.summary
    if version.split(".")[:2] == recorded["version"].split(".")[:2]:
        return ""
    return f"it was built for Python {recorded['version']}, and its interpreter is now {version}"


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
