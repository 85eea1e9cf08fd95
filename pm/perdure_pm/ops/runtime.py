"""PM's own runtimes: which there are, which one is selected, and whether it is sound.

Owns: reading runtimes and their pointer, selecting one, and removing what killed builds left. Does not own: building
one (runtime_build), the seed (seed), uv (tool_uv), nor what PM does in it.

Keeps: a runtime is complete before `pm/current` names it; an old one stays for the workers that run from it, and for
the way back.

Standard library only, Python 3.9: this runs before there is a runtime.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perdure_pm import ports
from perdure_pm.model.errors import IntegrityFault, PerdureError
from perdure_pm.ops.launchers import write_pm_launcher
from perdure_pm.ops.seed import select_seed
from perdure_pm.store.inventory import (
    FILE_NAME,
    find_content_changes,
    find_site_packages,
    find_size_changes,
    load_inventory,
)
from perdure_pm.store.layout import Layout, environment_python
from perdure_pm.store.reading import read_regular

SCHEMA = 1
MAX_BYTES = 16 << 20
IDENTITY = re.compile(r"[0-9a-f]{12}(\.[0-9]+)?")


@dataclass(frozen=True)
class Runtime:
    """A sealed runtime."""

    identity: str
    path: Path
    record: dict[str, Any]
    """The contents of its record.json."""

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return environment_python(self.path / "venv")

    @property
    def entry(self) -> Path:
        """The file that starts PM's command line in it."""
        return self.path / "entry.py"

    @property
    def version(self) -> str:
        """The version of PM that it holds."""
        return str(self.record["inputs"].get("version"))

    @property
    def uv_version(self) -> str:
        """The version of the uv that belongs to it."""
        return str(self.record["inputs"]["uv"])


def load_runtime(layout: Layout) -> Runtime | None:
    """Return the selected runtime if its record can be read, else None. Nothing is written or made."""
    try:
        identity = read_regular(layout.runtime_pointer, 64).decode("ascii").strip()
    except (OSError, ValueError):
        return None
    return read_runtime(layout, identity)


def read_runtime(layout: Layout, identity: str) -> Runtime | None:
    """Return the runtime of that name if its record can be read, else None."""
    if not IDENTITY.fullmatch(identity):
        return None
    path = layout.runtime(identity)
    try:
        record = json.loads(read_regular(path / "record.json", MAX_BYTES))
        if record["schema"] != SCHEMA or not isinstance(record["inputs"], dict) or not record["seed"]:
            return None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return Runtime(identity, path, record)


def list_runtimes(layout: Layout) -> list[Runtime]:
    """Return the runtimes that were sealed, the newest first."""
    names = os.listdir(layout.runtimes) if _is_inside(layout, layout.runtimes) else []
    found = [runtime for name in names if (runtime := read_runtime(layout, name)) is not None]
    return sorted(found, key=lambda runtime: (runtime.path / "record.json").stat().st_mtime_ns, reverse=True)


def find_earlier_runtime(layout: Layout) -> Runtime | None:
    """Return the newest sealed runtime beside the selected one whose every byte is as it was built, else None."""
    selected = load_runtime(layout)
    others = (other for other in list_runtimes(layout) if selected is None or other.path != selected.path)
    return next((other for other in others if not find_runtime_problem(other, thorough=True)), None)


def find_runtime_problem(runtime: Runtime, *, thorough: bool = False) -> str:
    """Return what is wrong with a runtime's files, by size or, when `thorough`, by contents, or an empty string."""
    try:
        inventory = load_inventory(runtime.path / FILE_NAME)
        findings = find_size_changes(runtime.path, inventory)
        if thorough and not findings:
            findings = find_content_changes(runtime.path, inventory)
    except PerdureError as error:
        return error.summary
    if findings:
        return str(findings[0])
    return "" if os.access(runtime.python, os.X_OK) else f"its interpreter {os.path.realpath(runtime.python)} is gone"


def is_current(layout: Layout) -> bool:
    """Return whether a sound runtime is selected. Nothing is made, not even a directory."""
    runtime = load_runtime(layout)
    return runtime is not None and not find_runtime_problem(runtime)


def select_runtime(layout: Layout, filesystem: ports.Filesystem, runtime: Runtime) -> None:
    """Have `runtime` selected, with the seed that rebuilds it and the launcher that it holds. The caller has the mutex.

    Already selected it is selected again without a write; what a crash after the pointer left is finished then.
    """
    selected = load_runtime(layout)
    if selected is None or selected.identity != runtime.identity:
        # The commit of a runtime. A crash before this line leaves one that nothing names.
        filesystem.write_durable(layout.runtime_pointer, f"{runtime.identity}\n".encode())
    # A crash here leaves the seed of the runtime before: a rescue would go back to that, and `repair` ends it.
    select_seed(layout, filesystem, str(runtime.record["seed"]))
    if os.path.lexists(layout.rescues):
        filesystem.remove_tree(layout.rescues)
    write_pm_launcher(filesystem, layout, launcher_templates(runtime))


def load_failed_rescues(layout: Layout) -> int:
    """Return how often in a row PM's runtime could not be rebuilt unasked."""
    try:
        return int(layout.rescues.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 0


def note_failed_rescue(layout: Layout, filesystem: ports.Filesystem) -> None:
    """Have one more rebuild counted that nobody asked for and that failed. The caller has the mutex."""
    filesystem.write_durable(layout.rescues, f"{load_failed_rescues(layout) + 1}\n".encode())


def launcher_templates(runtime: Runtime) -> Path | None:
    """Return where the launchers lie that a runtime writes, which may be of another version; None where they do not."""
    with contextlib.suppress(IntegrityFault):
        folder = find_site_packages(runtime.path / "venv") / "perdure_pm" / "launcher"
        if folder.is_dir():
            return folder
    return None


def remove_unfinished(layout: Layout, filesystem: ports.Filesystem) -> list[str]:
    """Remove what killed builds left: unsealed runtimes, half seeds, scratch files. The caller holds the mutex.

    A folder to which a link leads is left alone: what lies there may be somebody else's.
    """
    removed = []
    selected = load_runtime(layout)
    for folder, finished in ((layout.runtimes, "record.json"), (layout.seeds, "pm/bootstrap.py")):
        for path in sorted(folder.iterdir()) if _is_inside(layout, folder) else []:
            unfinished = not (path / finished).is_file() or path.name.startswith(".")
            if path.is_dir() and unfinished and (selected is None or path != selected.path):
                filesystem.remove_tree(path)
                removed.append(path.name)
    if _is_inside(layout, layout.scratch):
        for path in layout.scratch.iterdir():
            filesystem.remove_tree(path)
    return removed


def _is_inside(layout: Layout, folder: Path) -> bool:
    """Return whether a folder of the home is there, and not elsewhere by way of a link."""
    place = os.path.join(os.path.realpath(layout.home), folder.relative_to(layout.home))
    return folder.is_dir() and os.path.realpath(folder) == place
