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
    holds = {"": True}  # most lines have the same few markers, and to read one takes longer than all the rest
    found = {wheel.distribution: wheel.version for wheel in wheels}
    for name, block in split_requirements(resolution.requirements).items():
        for line in block.splitlines():
            text = line.partition(" --hash")[0].rstrip(" \\")
            if not text.strip() or line.startswith((" ", "#")):
                continue
            head, _, marker = text.partition(" ; ")
            if marker not in holds:
                holds[marker] = Marker(marker).evaluate(environment)
            if holds[marker]:
                # What has an address has its version in the lock.
                pinned = None if " @ " in head else next(iter(Requirement(head).specifier), None)
                version = parse_version(resolution.lock, name) if pinned is None else pinned.version
                if version is not None:
                    found[name] = version
    return found
