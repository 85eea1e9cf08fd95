"""Which enabled plugins sit out on this machine, under this interpreter, with this host, and why.

Owns: asking the marker of an entry and the host's bundle, what was learned from a resolution (that a plugin needs
another Python, or does not fit the host), and for how long that holds. Does not own: the resolution (resolve), who
gives way (fitting), what becomes of a plugin that sits out (publish).

Keeps: plugins-sit-out: what does not fit stays in the configuration, is named with its reason, and is part of the next
publication in which it fits.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from packaging.markers import default_environment

from perdure_pm.adapters.interpreter import Interpreter
from perdure_pm.model.choice import SitOut
from perdure_pm.model.errors import PluginUnfit
from perdure_pm.model.fit import find_python_misfit as find_python_misfit_of
from perdure_pm.model.identity import normalise_distribution
from perdure_pm.model.requirement import parse_requirement, parse_source, requirement_name
from perdure_pm.ops.declared import find_distributions, read_requires_python
from perdure_pm.ops.release import Release
from perdure_pm.ops.selection import find_bundle_fault


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


def clashing_with(release: Release, interpreter: Interpreter, others: Sequence[str]) -> dict[str, str]:
    """Return for what it was learned that a plugin clashes: the host with all that it locked, and these entries."""
    beside = {f"plugin {requirement_name(entry)}": entry for entry in others}
    return {"python": interpreter.version, "release": release.digest, **beside}


def find_sit_outs(
    entries: Sequence[str],
    release: Release,
    interpreter: Interpreter,
    known: Sequence[SitOut],
    had: Collection[str] = (),
) -> tuple[SitOut, ...]:
    """Return which of the entries sit out, in their order.

    Args:
        entries: the enabled plugins.
        release: the host.
        interpreter: what the generation is for.
        known: what sat out before; what was learned of an entry holds while the entry and its circumstances stay.
        had: the entries that were enabled before: one that this host's bundle has not sits out, a new one is refused.
    """
    now = circumstances(release, interpreter) | clashing_with(release, interpreter, entries)
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
        elif entry in had and (fault := find_bundle_fault(release, entry)) is not None:
            found.append(SitOut(entry=entry, reason=fault.summary))
    return tuple(found)


def find_python_misfit(entries: Sequence[str], interpreter: Interpreter, said: str) -> SitOut | None:
    """Return which of the entries cannot run on the interpreter, as far as uv's words on a failed resolution tell.

    They are clear where one plugin was tried alone, which is how a resolution that fails is looked into.
    """
    from perdure_pm.adapters.uv_failures import find_python_refusal  # only here: it has many patterns to compile

    refusal = find_python_refusal(said)
    if refusal is None:
        return None
    asked, who, versions = refusal
    entry = next((text for text in entries if requirement_name(text) == normalise_distribution(asked)), None)
    if entry is None:
        return None
    needs = f"it needs Python {versions}" if who.partition("==")[0] == asked else f"{who} needs Python {versions}"
    reason = f"{needs}, and this is {interpreter.version}"
    return SitOut(entry=entry, reason=reason, because={"python": interpreter.version})


class UnfitFound(Exception):
    """Plugins that were installed, and say that they are not for this Python."""

    def __init__(self, sit_outs: tuple[SitOut, ...]) -> None:
        super().__init__(", ".join(map(str, sit_outs)))
        self.sit_outs = sit_outs


def require_fitting(entries: Sequence[str], environment: Path, interpreter: Interpreter) -> None:
    """Return when each of the plugins is for this Python, by its own metadata.

    A resolution heeds only the oldest Python that a distribution is for, and installs what is for older ones too.

    Raises:
        UnfitFound: some are not.
    """
    there = find_distributions(environment)
    found = []
    for entry in entries:
        info = there.get(requirement_name(entry))
        misfit = None if info is None else find_python_misfit_of(read_requires_python(info), interpreter.version)
        if misfit is not None:
            found.append(SitOut(entry=entry, reason=misfit.reason, because={"python": interpreter.version}))
    if found:
        raise UnfitFound(tuple(found))


def refuse_misfit(misfit: SitOut) -> PluginUnfit:
    """Return the refusal of a plugin that a person asks for now, and that would only sit out."""
    return PluginUnfit(
        f"{misfit.name} cannot run here: {misfit.reason}",
        hint=f"build on an interpreter that it runs on: perdure-pm plugin add '{misfit.entry}' --python PATH"
        if set(misfit.because) == {"python"}
        else "add another version of it, or have the host that it is for",
        context={"requirements": [misfit.entry], "reason": misfit.reason},
    )
