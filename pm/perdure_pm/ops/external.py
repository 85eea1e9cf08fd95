"""External plugins: programs of their own beside the host, whether they can run, and how a generation lists them.

Owns: looking for the program, running its check, and the form in boot.json. Does not own: starting one
(launcher/external.py), nor what becomes of one that cannot run (sources, doctor). Its files are looked at, and never
touched. Keeps: external-checked.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perdure_pm.adapters.processes import run
from perdure_pm.model.errors import DeadlineExceeded
from perdure_pm.ops.environment import is_left_out
from perdure_pm.store.generations import load_boot
from perdure_pm.store.layout import Layout

if TYPE_CHECKING:
    from perdure_pm.model.manifest import Manifest
    from perdure_pm.ops.snapshots import Seen

CHECK_SECONDS = 10.0
SHOWN = 200


def find_problem(
    folder: Path, manifest: Manifest, environ: Mapping[str, str], on_tick: Callable[[], None] | None = None
) -> str | None:
    """Return why the program of a plugin in `folder` cannot run here, or None where it can.

    Args:
        folder: the plugin's directory, from which a command with a separator counts.
        manifest: what its plugin.yaml says.
        environ: has the PATH; what leads a Python somewhere else is not passed on.
        on_tick: called while the check runs.
    """
    path = environ.get("PATH", os.defpath)
    words = {"its program": manifest.external_command, "what checks it": manifest.external_check}
    for what, command in words.items():
        if command and not _is_there(folder, command[0], path):
            where = f"in {folder}" if os.path.dirname(command[0]) else "on PATH"
            there = os.path.dirname(command[0]) and (folder / command[0]).is_file()
            return f"{what}, {command[0]}, is not {'executable' if there else where}"
    if not manifest.external_check:
        return None
    shown = f"its check, {shlex.join(manifest.external_check)},"
    program = manifest.external_check[0]
    found = str(folder / program) if os.path.dirname(program) else shutil.which(program, path=path) or program
    kept = {name: value for name, value in environ.items() if not is_left_out(name)}
    try:
        completed = run(
            [found, *manifest.external_check[1:]],
            environment={**kept, "PATH": path},
            directory=folder,
            timeout=CHECK_SECONDS,
            on_tick=on_tick,
        )
    except DeadlineExceeded:
        return f"{shown} did not end within {CHECK_SECONDS:g} seconds"
    except OSError as error:
        return f"{shown} cannot be started: {error.strerror or error}"
    if completed.returncode == 0:
        return None
    lines = [line.strip() for line in (completed.stderr or completed.stdout).splitlines() if line.strip()]
    return f"{shown} ended with {completed.returncode}" + (f": {lines[-1][:SHOWN]}" if lines else "")


def list_programs(seen: Iterable[Seen]) -> list[dict[str, Any]]:
    """Return the form that boot.json has: how each program is started, and where."""
    return [
        {
            "name": item.source.name,
            "command": list(item.external.external_command),
            "directory": item.source.path,
        }
        for item in seen
        if item.external is not None
    ]


def read_programs(layout: Layout, identity: str) -> dict[str, tuple[Path, Manifest]]:
    """Return the external plugins of a generation: name → directory and manifest.

    Raises:
        IntegrityFault: its boot.json cannot be read.
    """
    boot = load_boot(layout, identity)
    if not boot.get("external"):
        return {}
    from perdure_pm.model.manifest import manifest_from_json  # 20 ms that a home without any does not take

    return {
        str(item["name"]): (Path(str(item["directory"])), manifest_from_json(boot["manifests"][item["name"]]))
        for item in boot["external"]
    }


def _is_there(folder: Path, program: str, path: str) -> bool:
    if os.path.dirname(program):
        inside = folder / program
        return inside.is_file() and os.access(inside, os.X_OK)
    return shutil.which(program, path=path) is not None
