"""Which enabled plugins sit out on this machine, under this interpreter, with this host, and why.

Owns: asking the marker of an entry, and what was learned from a resolution: that a plugin needs another Python. Does
not own: the resolution (resolve), what becomes of a plugin that sits out (publish). Keeps: plugins-sit-out: what does
not fit stays in the configuration, is named with its reason, and is part of the next publication in which it fits.
"""

from __future__ import annotations

from collections.abc import Sequence

from packaging.markers import default_environment

from perdure_pm.adapters.interpreter import Interpreter
from perdure_pm.model.choice import SitOut
from perdure_pm.model.requirement import parse_requirement, parse_source
from perdure_pm.ops.release import Release


def marker_environment(interpreter: Interpreter) -> dict[str, str]:
    """Return what markers are asked about: this machine, and the interpreter that a generation is for."""
    environment = {str(key): str(value) for key, value in default_environment().items()}
    return {
        **environment,
        "python_full_version": interpreter.version,
        "python_version": ".".join(interpreter.version.split(".")[:2]),
        "implementation_version": interpreter.version,
        "platform_python_implementation": interpreter.implementation,
        "implementation_name": interpreter.implementation.lower(),
    }


def circumstances(release: Release, interpreter: Interpreter) -> dict[str, str]:
    """Return what a reason to sit out can depend on."""
    return {"python": interpreter.version, "host": f"{release.name} {release.version}"}


def find_sit_outs(
    entries: Sequence[str], release: Release, interpreter: Interpreter, known: Sequence[SitOut]
) -> tuple[SitOut, ...]:
    """Return which of the entries sit out, in their order.

    Args:
        entries: the enabled plugins.
        release: the host.
        interpreter: what the generation is for.
        known: what sat out before; what was learned of an entry holds while the entry and its circumstances stay.
    """
    now = circumstances(release, interpreter)
    learned = {
        sit_out.entry: sit_out
        for sit_out in known
        if sit_out.because and all(now.get(name) == value for name, value in sit_out.because.items())
    }
    environment = marker_environment(interpreter)
    found: list[SitOut] = []
    for entry in entries:
        # What is at an address says where it fits in its plugin.yaml (ops.sources).
        marker = None if parse_source(entry) is not None else parse_requirement(entry).marker
        if marker is not None and not marker.evaluate(environment):
            found.append(SitOut(entry=entry, reason=f"its marker excludes this machine: {marker}"))
        elif entry in learned:
            found.append(learned[entry])
    return tuple(found)
