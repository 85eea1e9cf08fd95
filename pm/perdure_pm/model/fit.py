"""Whether a plugin fits here: platforms, host, Python, the API's generation, other plugins.

Owns: the rules and their reasons, as values. Does not own: what is done with a plugin that does not fit (ops), nor
where the facts come from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from packaging.markers import Marker, default_environment
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from perdure_pm.model.identity import normalise_distribution
from perdure_pm.model.manifest import Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfit:
    """One reason why a plugin cannot run here."""

    field: str
    """The field of plugin.yaml that says so: ``platforms``, ``requires-host``, ``requires-python``, ``api`` or
    ``requires-plugins``."""
    reason: str
    """In words that name both sides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a plugin would run in."""

    host: str
    host_version: str
    python: str
    """The interpreter's full version."""
    implementation: str = "CPython"
    plugins: Mapping[str, str | None]
    """Normalised name → version of every plugin beside it; None where the version is not known yet."""
    api: frozenset[int] | None = None
    """The generations of the plugin API that the host offers; None where it says nothing of that."""
    platform: Mapping[str, str] | None = None
    """Marker variables of another machine than this one."""

    def markers(self) -> dict[str, str]:
        """Return the variables that markers are about, for the interpreter that is meant."""
        names = {"CPython": "cpython", "PyPy": "pypy"}
        here: dict[str, str] = {name: str(value) for name, value in default_environment().items()}
        return here | {
            "python_full_version": self.python,
            "python_version": ".".join(self.python.split(".")[:2]),
            "platform_python_implementation": self.implementation,
            "implementation_name": names.get(self.implementation, self.implementation.lower()),
            "implementation_version": self.python,
            **(self.platform or {}),
        }


def find_misfits(manifest: Manifest, here: Surroundings) -> tuple[Misfit, ...]:
    """Return every reason why the plugin cannot run in these surroundings; empty where it can."""
    found: list[Misfit] = []
    if manifest.platforms and not any(Marker(text).evaluate(here.markers()) for text in manifest.platforms):
        found.append(Misfit(field="platforms", reason=f"it is for {' or '.join(manifest.platforms)} only"))
    python = find_python_misfit(manifest.requires_python, here.python)
    if python is not None:
        found.append(python)
    if manifest.requires_host is not None and not _holds(manifest.requires_host, here.host_version):
        reason = f"it needs {here.host} {manifest.requires_host}; this is {here.host_version}"
        found.append(Misfit(field="requires-host", reason=reason))
    if manifest.api is not None and here.api is not None and manifest.api not in here.api:
        offered = ", ".join(map(str, sorted(here.api)))
        host = f"{here.host} {here.host_version}"
        reason = f"it is written for generation {manifest.api} of the plugin API; {host} offers {offered}"
        found.append(Misfit(field="api", reason=reason))
    for text in manifest.requires_plugins:
        reason = _find_missing(Requirement(text), here)
        if reason:
            found.append(Misfit(field="requires-plugins", reason=reason))
    return tuple(found)


def find_python_misfit(requires: str | None, python: str) -> Misfit | None:
    """Return the reason why a plugin cannot run on a version of Python, or None where it can."""
    if requires is None or _holds(requires, python):
        return None
    return Misfit(field="requires-python", reason=f"it needs Python {requires}; this is {python}")


def _find_missing(needed: Requirement, here: Surroundings) -> str:
    if needed.marker is not None and not needed.marker.evaluate(here.markers()):
        return ""
    name = normalise_distribution(needed.name)
    if name not in here.plugins:
        return f"it needs the plugin {needed.name}, which is not among the profile's"
    version = here.plugins[name]
    if version is not None and not needed.specifier.contains(version, prereleases=True):
        return f"it needs the plugin {needed.name}{needed.specifier}; the profile has {version}"
    return ""


def _holds(versions: str, version: str) -> bool:
    return SpecifierSet(versions).contains(version, prereleases=True)
