"""Which packages a generation holds, or would hold, and how two sets differ.

Owns: reading versions off a record and off a resolution. Does not own: resolving (resolve) or building.
"""

from __future__ import annotations

from collections.abc import Sequence

from packaging.markers import Marker
from packaging.requirements import Requirement

from perdure_pm.adapters.interpreter import Interpreter
from perdure_pm.model.lock_view import parse_version
from perdure_pm.ops.build import Wheel, split_requirements
from perdure_pm.ops.resolve import Resolution
from perdure_pm.ops.sitting_out import marker_environment
from perdure_pm.store.generations import Generation


def compare_packages(before: dict[str, str], after: dict[str, str]) -> list[dict[str, str | None]]:
    """Return the packages that were added, removed or moved, by name, with both versions."""
    return [
        {"name": name, "from": before.get(name), "to": after.get(name)}
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    ]


def resolved_versions(wheels: Sequence[Wheel], resolution: Resolution, interpreter: Interpreter) -> dict[str, str]:
    """Return name → version of what the answer installs on this machine: its markers are asked."""
    environment = marker_environment(interpreter)
    found = {wheel.distribution: wheel.version for wheel in wheels}
    for name, block in split_requirements(resolution.requirements).items():
        for line in block.splitlines():
            text = line.partition(" --hash")[0].rstrip(" \\")
            if not text.strip() or line.startswith((" ", "#")):
                continue
            requirement = Requirement(text)
            if requirement.marker is None or Marker(str(requirement.marker)).evaluate(environment):
                pinned = next(iter(requirement.specifier), None)
                # What has an address has its version in the lock.
                version = parse_version(resolution.lock, name) if pinned is None else pinned.version
                if version is not None:
                    found[name] = version
    return found


def recorded_versions(generation: Generation | None) -> dict[str, str]:
    """Return name → version of what a generation holds."""
    return {} if generation is None else {entry["name"]: entry["version"] for entry in generation.record["packages"]}
