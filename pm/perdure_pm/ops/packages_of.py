"""Which packages a generation would hold.

Owns: reading versions off a resolution. Does not own: those of a record (store.recorded), resolving (resolve).
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
