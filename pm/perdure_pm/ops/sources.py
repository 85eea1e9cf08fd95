"""The sources of a publication: in the store, fitting what they would run in, and asked of a resolution.

Owns: when snapshots are made, what refuses one before anything is resolved, and whether there is anything to resolve.
Does not own: a single snapshot (snapshots), the rules of fitting (model.fit).
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from perdure_pm.adapters.interpreter import Interpreter
from perdure_pm.adapters.uv import Uv
from perdure_pm.model.choice import Choice, SitOut
from perdure_pm.model.errors import IntegrityFault, ManifestInvalid, SourceUnusable
from perdure_pm.model.fit import Misfit, Surroundings, find_misfits, find_python_misfit
from perdure_pm.model.manifest import Manifest, manifest_from_json
from perdure_pm.model.requirement import parse_source, requirement_name
from perdure_pm.model.source import Source
from perdure_pm.ops.base_interpreter import ensure_base
from perdure_pm.ops.builds import with_quarantine
from perdure_pm.ops.context import Context
from perdure_pm.ops.declared import API_GROUP
from perdure_pm.ops.external import find_problem
from perdure_pm.ops.host import make_uv
from perdure_pm.ops.intent import Intent, load_intent
from perdure_pm.ops.release import Release
from perdure_pm.ops.selection import Selection, parse_selection
from perdure_pm.ops.sitting_out import UnfitFound, circumstances, refuse_misfit
from perdure_pm.ops.snapshots import Seen, Snapshot, ensure_snapshot, find_recorded, load_snapshot, look
from perdure_pm.ops.wanted import Wanted, leave_out
from perdure_pm.ops.wheel_file import read_wheel_entries
from perdure_pm.store.generations import Generation, current_generation, load_boot
from perdure_pm.store.layout import Layout


def with_seen(context: Context, wanted: Wanted, intent: Intent, current: Generation | None) -> Wanted:
    """Return what is wanted with its sources as they are now; nothing is copied or built.

    What is known already not to fit sits out.

    Raises:
        SourceUnusable, ManifestInvalid: one cannot be used, or is new and does not fit; it is named.
    """
    recorded = find_recorded(None if current is None else current.record)
    seen = tuple(look(context.layout, source, wanted.interpreter, recorded) for source in wanted.selection.sources)
    return _with_fitting(replace(wanted, seen=seen), intent)


def with_snapshots(context: Context, uv: Uv, wanted: Wanted, intent: Intent) -> Wanted:
    """Have every source of the selection in the store, and return what is wanted with their snapshots.

    Raises:
        SourceUnusable, ManifestInvalid: one cannot be used here, or is new and does not fit; it is named.
        BuildFailed, NetworkUnreachable, ArtefactMissing: a wheel could not be built.
    """
    builds = intent.home.admission.builds
    snapshots = [
        ensure_snapshot(context, uv, seen, wanted.interpreter, builds) for seen in wanted.seen if seen.external is None
    ]
    whole = _with_fitting(_with_programs(context, replace(wanted, snapshots=tuple(snapshots)), intent), intent)
    for snapshot in whole.snapshots:
        _require_group(whole, snapshot)
    return whole


def _with_programs(context: Context, wanted: Wanted, intent: Intent) -> Wanted:
    """Return what is wanted without external plugins that cannot run: one that is new is refused, others sit out."""
    for seen in wanted.seen:
        if seen.external is None:
            continue
        folder = Path(seen.source.path or "")
        problem = find_problem(folder, seen.external, context.environ, context.reporter.heartbeat)
        if problem is None:
            continue
        if seen.source.entry not in (intent.plugins or ()):
            raise SourceUnusable(
                f"the plugin {seen.source.name} cannot run here: {problem}",
                hint=f"install what it needs, or correct external in {folder}/plugin.yaml",
                context={"plugin": seen.source.name, "command": list(seen.external.external_command)},
            )
        wanted = leave_out(wanted, SitOut(entry=seen.source.entry, reason=problem))
    return wanted


def refresh_snapshots(context: Context, sources: Sequence[Source]) -> list[str]:
    """Have the store hold each source as it is now, and return the names of those that it did not. Under the mutex.

    Raises:
        SourceUnusable, ManifestInvalid: one cannot be used; it is named.
        InterpreterMissing, BuildFailed, NetworkUnreachable, ArtefactMissing: a wheel could not be built.
    """
    current = current_generation(context.layout, context.profile)
    rules = load_intent(context).home.admission
    uv = with_quarantine(make_uv(context), rules, context.clock(), [])
    interpreter = ensure_base(context, uv, current)
    copied = []
    for source in sources:
        seen = look(context.layout, source, interpreter, find_recorded(None if current is None else current.record))
        if seen.external is None and load_snapshot(context.layout, seen.digest, source) is None:
            ensure_snapshot(context, uv, seen, interpreter, rules.builds)
            copied.append(source.name)
    return copied


def _with_fitting(wanted: Wanted, intent: Intent) -> Wanted:
    """Return what is wanted without the sources that do not fit: one that is new is refused, the others sit out.

    Looked at again after each round: what needs a plugin that sits out does not fit either.
    """
    while misfits := find_source_misfits(wanted):
        for source in wanted.selection.sources:
            if source.name in misfits:
                out = _sit_out(source.entry, misfits[source.name], wanted, learned=False)
                if source.entry not in (intent.plugins or ()):
                    raise refuse_misfit(out)
                wanted = leave_out(wanted, out)
    return wanted


def require_manifests_fit(context: Context, wanted: Wanted, identity: str) -> None:
    """Return when each plugin from an index can run here, as the plugin.yaml in its own wheel says.

    Known only once the wheels were fetched; what is learned holds for this host and this interpreter.

    Raises:
        UnfitFound: some cannot.
    """
    manifests = load_boot(context.layout, identity).get("manifests", {})
    here = surroundings(wanted, *(manifest_from_json(said) for said in manifests.values()))
    addressed = {source.name for source in wanted.selection.sources}
    found = []
    for entry in wanted.selection.entries:
        name = requirement_name(entry)
        said = manifests.get(name) if name not in addressed else None
        misfits = find_misfits(manifest_from_json(said), here) if said is not None else ()
        if misfits:
            found.append(_sit_out(entry, misfits, wanted, learned=True))
    if found:
        raise UnfitFound(tuple(found))


def _sit_out(entry: str, misfits: Sequence[Misfit], wanted: Wanted, *, learned: bool) -> SitOut:
    """Return a plugin that does not fit; `learned` where that shows only once it was fetched."""
    because = circumstances(wanted.release, wanted.interpreter) if learned else {}
    return SitOut(entry=entry, reason="; ".join(misfit.reason for misfit in misfits), because=because)


def find_source_misfits(wanted: Wanted) -> dict[str, tuple[Misfit, ...]]:
    """Return why sources of the selection cannot run here, as far as it is known, by name; only misfits."""
    facts = {seen.source.name: (seen.manifest, seen.requires_python) for seen in wanted.seen}
    facts |= {snapshot.name: (snapshot.manifest, snapshot.requires_python) for snapshot in wanted.snapshots}
    here = surroundings(wanted, *(manifest for manifest, _ in facts.values()))
    found: dict[str, tuple[Misfit, ...]] = {}
    for name, (manifest, requires_python) in facts.items():
        said = () if manifest is None else find_misfits(manifest, here)
        python = find_python_misfit(requires_python, wanted.interpreter.version)
        already = any(misfit.field == "requires-python" for misfit in said)
        found[name] = (*said, *(() if python is None or already else (python,)))
    return {name: misfits for name, misfits in found.items() if misfits}


def surroundings(wanted: Wanted, *manifests: Manifest | None) -> Surroundings:
    """Return what the plugins of a publication would run in; versions that a resolution is to find are not known.

    Which API the host offers is looked up only where one of `manifests` is about that.
    """
    versions: dict[str, str | None] = dict.fromkeys(wanted.selection.names())
    versions |= {plugin.distribution: plugin.version for plugin in wanted.selection.bundled}
    versions |= {snapshot.name: snapshot.version for snapshot in wanted.snapshots}
    return Surroundings(
        host=wanted.release.name,
        host_version=wanted.release.version,
        python=wanted.interpreter.version,
        implementation=wanted.interpreter.implementation,
        plugins=versions,
        api=_offered_api(wanted.release) if any(said and said.api is not None for said in manifests) else None,
    )


def _offered_api(release: Release) -> frozenset[int] | None:
    """Return the generations of the plugin API that the host's own wheel says it offers; None where it says nothing."""
    wheel = next((wheel for wheel in release.wheels if wheel.distribution == release.name), None)
    declared = {} if wheel is None else read_wheel_entries(wheel.path).get(API_GROUP, {})
    return frozenset(int(name) for name in declared if name.isdecimal()) or None


def want_recorded(
    layout: Layout,
    release: Release,
    record: Mapping[str, Any],
    interpreter: Interpreter,
    entries: Sequence[str] | None = None,
) -> Wanted:
    """Return what a generation was built for, as its record has it: neither configuration nor any place is asked.

    Args:
        layout: the home.
        release: the one that the record names.
        record: the generation's.
        interpreter: what it is to be built on.
        entries: those of its plugins that are wanted; by default all of them.

    Raises:
        IntegrityFault: the store has a snapshot no more, or not as it was; it is named, and no plugin is left out.
    """
    selection = parse_selection(release, record.get("selection", ()) if entries is None else entries)
    seen, snapshots = _recorded_sources(layout, selection, record)
    return Wanted(
        release=release,
        extras=tuple(record["inputs"].get("extras", ())),
        selection=selection,
        interpreter=interpreter,
        choice=Choice(plugins=selection.entries),
        seen=seen,
        snapshots=snapshots,
    )


def _recorded_sources(
    layout: Layout, selection: Selection, record: Mapping[str, Any]
) -> tuple[tuple[Seen, ...], tuple[Snapshot, ...]]:
    """Return the sources of a generation as its record has them, and their snapshots."""
    digests, manifests = find_recorded(record), record.get("manifests", {})
    seen, snapshots = [], []
    for source in selection.sources:
        digest = digests.get(source.entry, "")
        known = load_snapshot(layout, digest, source)
        said = manifests.get(source.name)
        manifest = known.manifest if known is not None else manifest_from_json(said) if said else None
        item = Seen(source=source, digest=digest, manifest=manifest)
        seen.append(item)
        if item.external is not None:
            continue
        if known is None:
            raise IntegrityFault(
                f"the snapshot of the plugin {source.name} is gone from {layout.plugins}, or damaged",
                hint=f"perdure-pm plugin add {shlex.quote(source.entry)}",
                context={"plugin": source.name, "entry": source.entry, "digest": digest},
            )
        snapshots.append(known)
    return tuple(seen), tuple(snapshots)


def needs_resolution(wanted: Wanted) -> bool:
    """Return whether anything is wanted that the host's own lock does not answer."""
    return bool(wanted.selection.requirements) or any(snapshot.requires for snapshot in wanted.snapshots)


def was_resolved(wanted: Wanted, record: Mapping[str, Any]) -> bool:
    """Return whether the lock of a generation answers all of what is wanted: then no index is needed."""
    before = find_recorded(record)
    same = all(before.get(seen.source.entry) == seen.digest for seen in wanted.seen)
    return same and set(wanted.selection.requirements) <= set(record.get("selection", ()))


def asked_before(record: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what a generation's lock was asked for: requirements, and plugins with an address by name."""
    found = []
    for entry in record.get("selection", ()):
        source = parse_source(str(entry))
        found.append(str(entry) if source is None else source.requirement)
    return tuple(found)


def _require_group(wanted: Wanted, snapshot: Snapshot) -> None:
    """Refuse an entry that this host would never look at."""
    manifest = snapshot.manifest
    if manifest is None or manifest.entry is None or manifest.group is not None or wanted.release.plugins:
        return
    raise ManifestInvalid(
        f"the plugin.yaml of {snapshot.name} names an entry without a group, which is for Perdure's own app, and "
        f"{wanted.release.name} looks for another",
        hint="say the entry-point group that the host reads in plugin.yaml, as in group: datasette",
        context={"plugin": snapshot.name, "host": wanted.release.name},
    )
