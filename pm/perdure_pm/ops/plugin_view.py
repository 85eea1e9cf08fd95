"""What a profile's plugins are and in which state, read from files alone: nothing is resolved, imported or changed.

Owns: the data of `plugin list` and `plugin info`, in every state of a home. Does not own: how it is shown (cli), what
decides the states (sitting_out, the app's own notes). Keeps: plugins-list-is-cheap: no worker, no scan of metadata, no
look into an environment but for `info`'s one distribution; and, where the configuration is what was published last,
neither YAML nor a requirement is read, which takes longer than all the rest.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from perdure_pm.model.errors import IntegrityFault, NothingInstalled, UsageFault
from perdure_pm.model.identity import is_editable, normalise_distribution
from perdure_pm.store.crashes import Crash, load_crashes
from perdure_pm.store.generations import Generation, list_generations, load_boot, load_current, load_files
from perdure_pm.store.layout import Layout
from perdure_pm.store.policy import MAX_CONFIG_BYTES
from perdure_pm.store.published import load_published
from perdure_pm.store.reading import read_regular
from perdure_pm.store.recorded import moved_names_of, recorded_versions, selection_of

RUNS, DISABLED, SITS_OUT, SKIPPED = "runs", "disabled", "sits-out", "skipped"
EXTERNAL = "external"
PENDING = "not-installed-yet"
LEAVING = "still-runs"
"""Enabled and part of the generation; disabled; left out while it does not fit; left out by the app since it crashed; a
program of its own beside the generation; listed, and no part of the generation yet; part of it, and not wanted any
more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What the files of a profile say."""

    listed: tuple[tuple[str, str], ...]
    """The configuration's entries with their normalised names; what runs, where it lists none."""
    disabled: frozenset[str]
    """Normalised names."""
    says: bool
    """Whether the configuration has a list of plugins at all."""
    current: Generation | None
    runs: tuple[tuple[str, str], ...]
    """The generation's entries with their normalised names."""
    reasons: Mapping[str, str]
    """Why plugins sit out, by entry."""
    crashes: Mapping[str, Crash]


def read_plugins(layout: Layout, profile: str) -> dict[str, Any]:
    """Return the profile's plugins: what the configuration lists, what the selected generation runs, and each's state.

    Raises:
        ConfigInvalid: the profile's configuration has faults.
        IntegrityFault: the pointer or the record is damaged.
    """
    known = _read(layout, profile)
    running = [entry for entry, _ in known.runs]
    enabled = [entry for entry, name in known.listed if name not in known.disabled]
    fitting = [entry for entry in enabled if entry not in known.reasons or entry in running]
    versions = recorded_versions(known.current)
    in_line = fitting == running if known.says else set(running) <= set(enabled)
    return {
        "profile": profile,
        "generation": None if known.current is None else known.current.identity,
        "wanted": [entry for entry, _ in known.listed] if known.says else [],
        "disabled": [entry for entry, name in known.listed if name in known.disabled],
        "runs": running,
        "plugins": [] if known.current is None else known.current.record["plugins"],
        "versions": {name: versions[name] for _, name in known.runs if name in versions},
        "states": _states(known, versions),
        "in_line": in_line,
    }


def read_plugin(layout: Layout, profile: str, wanted: str) -> dict[str, Any]:
    """Return everything that is known of one plugin, which is meant by its distribution, an entry, or its own name.

    Raises:
        UsageFault: the profile has no such plugin.
        ConfigInvalid, IntegrityFault: see `read_plugins`.
    """
    from perdure_pm.model.requirement import requirement_name

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
    state = states[name]
    found: dict[str, Any] = {"profile": profile, **state, "generation": record.get("id")}
    bundled = any(wheel["file"].replace("_", "-").startswith(f"{name}-") for wheel in record.get("wheels", ()))
    address = state["entry"].partition("@")[2].strip()
    found["source"] = address or ("the host's bundle" if bundled else "an index")
    found["entries"] = [
        {"name": plugin["name"], "entry": plugin["entry"]}
        for plugin in record.get("plugins", ())
        if normalise_distribution(plugin["distribution"]) == name
    ]
    found["since"] = None if known.current is None else _since(layout, known.current, name, versions.get(name))
    found |= {"requires": [], "requires_python": None, "summary": None, "files": None, "bytes": None, "manifest": None}
    # A damaged generation still answers with what the record says.
    with contextlib.suppress(IntegrityFault, OSError):
        if known.current is not None and name in versions:
            found |= _look_inside(layout, known.current, name, versions[name])
    with contextlib.suppress(IntegrityFault):
        if known.current is not None and state["entry"] in dict(known.runs):
            found["manifest"] = load_boot(layout, known.current.identity).get("manifests", {}).get(name)
    return found


def _read(layout: Layout, profile: str) -> _Known:
    try:
        current: Generation | None = load_current(layout, profile)
    except NothingInstalled:
        current = None
    published = load_published(layout, profile)
    reasons = {} if published is None else {str(item["entry"]): str(item["reason"]) for item in published.sit_outs}
    entries = () if current is None else selection_of(current)
    if published is not None and published.config == _digest(layout, profile):
        listed, disabled, says = published.plugins, published.disabled, True
        names = dict(listed)
        missing = [entry for entry in entries if entry not in names]
        runs = tuple((entry, names[entry]) for entry in entries) if not missing else _with_names(entries)
    else:
        listed, disabled, says = _read_configuration(layout, profile)
        runs = _with_names(entries)
    return _Known(
        listed=listed if says else runs,
        disabled=disabled,
        says=says,
        current=current,
        runs=runs,
        reasons=reasons,
        crashes={crash.distribution: crash for crash in load_crashes(layout, profile)},
    )


def _read_configuration(layout: Layout, profile: str) -> tuple[tuple[tuple[str, str], ...], frozenset[str], bool]:
    """Return the entries with their names, the names that are disabled, and whether there is a list at all."""
    from perdure_pm.model.choice import names_of
    from perdure_pm.model.config import parse_profile_config
    from perdure_pm.store.config import load_file

    document = load_file(layout, layout.profile_config(profile)).document
    config = parse_profile_config(document)
    says = isinstance(document.data, dict) and "plugins" in document.data
    return _with_names(config.plugins), frozenset(names_of(config.disabled)), says


def _with_names(entries: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    if not entries:
        return ()
    from perdure_pm.model.requirement import requirement_name

    return tuple((entry, requirement_name(entry)) for entry in entries)


def _digest(layout: Layout, profile: str) -> str | None:
    try:
        return hashlib.sha256(read_regular(layout.profile_config(profile), MAX_CONFIG_BYTES)).hexdigest()
    except (OSError, IntegrityFault):
        return None


def _states(known: _Known, versions: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return each plugin's state: those of the configuration in its order, then what runs beside them."""
    running, running_names = dict(known.runs), {name for _, name in known.runs}
    listed_names = {name for _, name in known.listed}
    beside = [(entry, name) for entry, name in known.runs if name not in listed_names]
    moved = moved_names_of(known.current)
    found: list[dict[str, Any]] = []
    for at, (entry, name) in enumerate((*known.listed, *beside)):
        version = versions.get(name) if name in running_names else None
        crash = known.crashes.get(name)
        why, hint = None, None
        if at >= len(known.listed) or (name in known.disabled and name in running_names):
            state, hint = LEAVING, "perdure-pm install"
        elif name in known.disabled:
            state, hint = DISABLED, f"perdure-pm plugin enable {name}"
        elif entry not in running and entry in known.reasons:
            state, why = SITS_OUT, known.reasons[entry]
        elif entry not in running:
            state, hint = PENDING, "perdure-pm install"
        elif name not in versions:
            state = EXTERNAL
        elif crash is not None and crash.version == version:
            state, hint = SKIPPED, f"perdure-pm plugin enable {name}"
            why = f"the app ended while {crash.during} ({crash.at})"
        else:
            state = RUNS
        shown = {"name": name, "entry": entry, "version": version, "editable": is_editable(entry)}
        uses = [use for use in moved if use["distribution"] == name and name in running_names]
        found.append({**shown, "state": state, "why": why, "hint": hint, "moved_names": uses})
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
