"""What a profile selects: plugins of the host's bundle, requirements from an index, and sources with an address.

Owns: reading the entries of a profile's list, and telling one kind from the other. Does not own: the file (ops.intent),
resolving (ops.resolve).

Keeps: pm-own-names-never-on-an-index: a name that begins with ``perdure-`` comes from the host's bundle, from a source
that the profile names with its address, or not at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perdure_pm.model.errors import UsageFault
from perdure_pm.model.requirement import parse_requirement, parse_source, requirement_name
from perdure_pm.model.source import Source
from perdure_pm.ops.release import OWN_PREFIX, Plugin, Release


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """A profile's plugins in load order."""

    entries: tuple[str, ...]
    """As the configuration has them."""
    bundled: tuple[Plugin, ...]
    requirements: tuple[str, ...]
    """What an index is asked for."""
    sources: tuple[Source, ...] = ()
    """What is taken from a directory, a file or a repository."""

    def names(self) -> tuple[str, ...]:
        """Return the normalised distribution names in load order."""
        return tuple(requirement_name(entry) for entry in self.entries)


def parse_selection(release: Release, entries: Sequence[str] | None) -> Selection:
    """Return what a list of entries selects; None stands for the host's whole bundle.

    Raises:
        UsageFault: an entry is no requirement, stands there twice, or names a plugin that the bundle lacks.
    """
    bundle = {plugin.distribution: plugin for plugin in release.plugins}
    if entries is None:
        entries = tuple(bundle)
    bundled: list[Plugin] = []
    requirements: list[str] = []
    sources: list[Source] = []
    seen: set[str] = set()
    for text in entries:
        name = requirement_name(text)
        if name in seen:
            raise UsageFault(f"{name} stands in the list of plugins twice", hint="take one of them out")
        seen.add(name)
        fault = find_bundle_fault(release, text)
        if fault is not None:
            raise fault
        source = parse_source(text)
        if source is not None:
            sources.append(source)
        elif name in bundle:
            bundled.append(bundle[name])
        else:
            requirements.append(text)
    return Selection(
        entries=tuple(entries), bundled=tuple(bundled), requirements=tuple(requirements), sources=tuple(sources)
    )


def find_bundle_fault(release: Release, text: str) -> UsageFault | None:
    """Return why an entry does not go with what the host brings itself, or None where it does.

    A source must not stand in for the host or a plugin of its bundle: their bytes are the release's.
    """
    name, source = requirement_name(text), parse_source(text)
    version = next((plugin.version for plugin in release.plugins if plugin.distribution == name), None)
    if source is not None:
        if version is None and name != release.name:
            return None
        return UsageFault(
            f"{source.place} is named {name}, which {release.name} {release.version} brings itself",
            hint=f"give the plugin another name, or list {name} without an address",
            context={"plugin": name},
        )
    if version is not None:
        if parse_requirement(text).specifier.contains(version, prereleases=True):
            return None
        return UsageFault(
            f"{release.name} comes with {name} {version}, which {text!r} excludes",
            hint=f"write {name} without a version",
        )
    if name.startswith(OWN_PREFIX) or name == release.name:
        bundle = ", ".join(sorted(plugin.distribution for plugin in release.plugins))
        return UsageFault(
            f"{release.name} {release.version} has no plugin {name} in its bundle",
            hint=f"the bundle has: {bundle or 'nothing'}",
            context={"plugin": name},
        )
    return None
