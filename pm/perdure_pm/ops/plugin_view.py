"""What a profile's plugins are and in which state, read from files alone: nothing is resolved, imported or changed.

Owns: the data of `plugin list` and `plugin info`, in every state of a home. Does not own: how it is shown (cli), what
decides the states (sitting_out, the app's own notes). Keeps: plugins-list-is-cheap: no worker, no scan of metadata, no
look into an environment but for `info`'s one distribution.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from perdure_pm.model.choice import Choice, SitOut
from perdure_pm.model.config import parse_profile_config
from perdure_pm.model.errors import NothingInstalled, UsageFault
from perdure_pm.model.identity import normalise_distribution
from perdure_pm.model.requirement import requirement_name
from perdure_pm.ops.chronicle import selection_of
from perdure_pm.ops.packages_of import recorded_versions
from perdure_pm.store.config import load_file
from perdure_pm.store.crashes import Crash, load_crashes
from perdure_pm.store.generations import Generation, list_generations, load_current, load_files
from perdure_pm.store.layout import Layout
from perdure_pm.store.sit_outs import load_sit_outs

RUNS, DISABLED, SITS_OUT, SKIPPED = "runs", "disabled", "sits-out", "skipped"
PENDING = "not-installed-yet"
LEAVING = "still-runs"
"""Enabled and part of the generation; disabled; left out while it does not fit; left out by the app since it crashed;
listed, and no part of the generation yet; part of it, and not wanted any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What the files of a profile say."""

    choice: Choice
    says: bool
    """Whether the configuration has a list of plugins at all."""
    current: Generation | None
    runs: tuple[str, ...]
    sit_outs: Mapping[str, SitOut]
    crashes: Mapping[str, Crash]


def read_plugins(layout: Layout, profile: str) -> dict[str, Any]:
    """Return the profile's plugins: what the configuration lists, what the selected generation runs, and each's state.

    Raises:
        ConfigInvalid: the profile's configuration has faults.
        IntegrityFault: the pointer or the record is damaged.
    """
    known = _read(layout, profile)
    enabled = [entry for entry in known.choice.enabled() if requirement_name(entry) not in known.sit_outs]
    versions = recorded_versions(known.current)
    return {
        "profile": profile,
        "generation": None if known.current is None else known.current.identity,
        "wanted": list(known.choice.plugins),
        "disabled": [entry for entry in known.choice.plugins if entry not in known.choice.enabled()],
        "runs": list(known.runs),
        "plugins": [] if known.current is None else known.current.record["plugins"],
        "versions": {name: versions[name] for name in map(requirement_name, known.runs) if name in versions},
        "states": _states(known, versions),
        "in_line": enabled == list(known.runs) if known.says else not _still_runs(known),
    }


def read_plugin(layout: Layout, profile: str, wanted: str) -> dict[str, Any]:
    """Return everything that is known of one plugin, which is meant by its distribution, an entry, or its own name.

    Raises:
        UsageFault: the profile has no such plugin.
        ConfigInvalid, IntegrityFault: see `read_plugins`.
    """
    known = _read(layout, profile)
    versions = recorded_versions(known.current)
    record: Mapping[str, Any] = {} if known.current is None else known.current.record
    name = requirement_name(wanted)
    states = {state["name"]: state for state in _states(known, versions)}
    if name not in states:
        own = {normalise_distribution(plugin["name"]): plugin["distribution"] for plugin in record.get("plugins", ())}
        name = normalise_distribution(own.get(name, name))
    if name not in states:
        raise UsageFault(
            f"{wanted} is not among the plugins of the profile {profile}",
            hint="perdure-pm plugin list",
            context={"plugins": sorted(states)},
        )
    found: dict[str, Any] = {"profile": profile, **states[name], "generation": record.get("id")}
    bundled = any(wheel["file"].replace("_", "-").startswith(f"{name}-") for wheel in record.get("wheels", ()))
    found["source"] = "the host's bundle" if bundled else "an index"
    found["entries"] = [
        {"name": plugin["name"], "entry": plugin["entry"]}
        for plugin in record.get("plugins", ())
        if normalise_distribution(plugin["distribution"]) == name
    ]
    found["since"] = None if known.current is None else _since(layout, known.current, name, versions.get(name))
    found |= {"requires": [], "summary": None, "files": None, "bytes": None}
    if known.current is not None and name in versions:
        found |= _look_inside(layout, known.current, name, versions[name])
    return found


def _read(layout: Layout, profile: str) -> _Known:
    document = load_file(layout, layout.profile_config(profile)).document
    config = parse_profile_config(document)
    try:
        current: Generation | None = load_current(layout, profile)
    except NothingInstalled:
        current = None
    runs = () if current is None else selection_of(current)
    says = isinstance(document.data, dict) and "plugins" in document.data
    choice = Choice(plugins=config.plugins if says else runs, disabled=config.disabled)
    enabled = choice.enabled()
    return _Known(
        choice=choice,
        says=says,
        current=current,
        runs=runs,
        sit_outs={item.name: item for item in load_sit_outs(layout, profile) if item.entry in enabled},
        crashes={crash.distribution: crash for crash in load_crashes(layout, profile)},
    )


def _still_runs(known: _Known) -> bool:
    enabled = known.choice.enabled()
    return any(entry not in enabled for entry in known.runs)


def _states(known: _Known, versions: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return each plugin's state: those of the configuration in its order, then what runs beside them."""
    enabled = known.choice.enabled()
    running = {requirement_name(entry) for entry in known.runs}
    listed = {requirement_name(entry) for entry in known.choice.plugins}
    found: list[dict[str, Any]] = []
    for entry in (*known.choice.plugins, *(entry for entry in known.runs if requirement_name(entry) not in listed)):
        name = requirement_name(entry)
        version = versions.get(name) if name in running else None
        crash = known.crashes.get(name)
        why, hint = None, None
        if entry not in known.choice.plugins:
            state, hint = LEAVING, "perdure-pm install"
        elif entry not in enabled:
            state, hint = DISABLED, f"perdure-pm plugin enable {name}"
            if name in running:
                state, hint = LEAVING, "perdure-pm install"
        elif name in known.sit_outs and entry not in known.runs:
            state, why = SITS_OUT, known.sit_outs[name].reason
        elif entry not in known.runs:
            state, hint = PENDING, "perdure-pm install"
        elif crash is not None and crash.version == version:
            state, hint = SKIPPED, f"perdure-pm plugin enable {name}"
            why = f"the app ended while {crash.during} ({crash.at})"
        else:
            state = RUNS
        found.append({"name": name, "entry": entry, "version": version, "state": state, "why": why, "hint": hint})
    return found


def _since(layout: Layout, current: Generation, name: str, version: str | None) -> str | None:
    """Return the oldest kept generation from which on, without a gap, this version of the plugin was there."""
    if version is None:
        return None
    since = None
    sealed, _ = list_generations(layout)
    for generation in sealed:  # newest first
        if generation.number > current.number:
            continue
        if recorded_versions(generation).get(name) != version:
            break
        since = generation.identity
    return since


def _look_inside(layout: Layout, current: Generation, name: str, version: str) -> dict[str, Any]:
    """Return what the plugin's own metadata says, and the files it brought; nothing of it is imported."""
    from importlib.metadata import PathDistribution

    from perdure_pm.store.inventory import find_site_packages

    site = find_site_packages(current.environment)
    folder = next(
        (
            path
            for path in site.glob("*.dist-info")
            if normalise_distribution(path.name.partition("-")[0]) == name
            and path.name.removesuffix(".dist-info").endswith(f"-{version}")
        ),
        None,
    )
    if folder is None:
        return {}
    distribution = PathDistribution(folder)
    headers = distribution.metadata
    inside = load_files(layout, current.identity).files
    prefix = site.relative_to(current.path).as_posix()
    named = {f"{prefix}/{file}" for file in distribution.files or ()}
    sizes = [entry.size for path, entry in inside.items() if path in named]
    return {
        "summary": headers["Summary"] if "Summary" in headers else None,  # noqa: SIM401 - its type has no get
        "requires": [text for text in distribution.requires or () if "extra ==" not in text],
        "requires_python": headers["Requires-Python"] if "Requires-Python" in headers else None,  # noqa: SIM401 - the same
        "files": len(sizes),
        "bytes": sum(sizes),
    }
