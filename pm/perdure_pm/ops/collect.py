"""Collect: what nothing needs any more is moved to the trash and deleted.

Owns: the facts for the rule of model.retention, and the order of removal. Does not own: the rule. The caller's own
generation, a running process's and a young one never go; one undeletable file stops nothing else, and goes next time.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from perdure_pm.adapters.filesystem import is_temporary
from perdure_pm.adapters.leases import find_users, is_leased
from perdure_pm.adapters.occupants import find_occupants
from perdure_pm.model.errors import IntegrityFault, PerdureError
from perdure_pm.model.lock_view import parse_locked_tool
from perdure_pm.model.retention import NEWEST, YOUNG, Candidate, decide_kept
from perdure_pm.ops.arguments import read_number
from perdure_pm.ops.cache import prune_cache, require_plain_cache
from perdure_pm.ops.context import Context, Outcome
from perdure_pm.ops.exclusive import exclusive
from perdure_pm.ops.receipts_kept import collect_receipts, plan_receipts
from perdure_pm.ops.recovery import recover
from perdure_pm.ops.runtime import list_runtimes, load_runtime, remove_unfinished
from perdure_pm.ops.seed import seed_source
from perdure_pm.ops.snapshots import find_recorded
from perdure_pm.store.generations import Generation, list_generations, list_identities, list_unsealed
from perdure_pm.store.history import find_previous, load_history
from perdure_pm.store.labels import load_labels
from perdure_pm.store.layout import Layout
from perdure_pm.store.pointer import list_profiles, load_pointer, refuse_links
from perdure_pm.store.records import list_kept_records, load_kept_record
from perdure_pm.store.trial import find_ways_back, load_trial


def collect(context: Context, arguments: Mapping[str, Any]) -> Outcome:
    """Have every generation removed that nothing keeps.

    Args:
        context: the world.
        arguments: ``keep``: how many of the newest stay in any case; ``cache``: whether the cache is pruned too.

    Raises:
        IntegrityFault: a pointer or the labels cannot be read: what is needed cannot be told, so nothing goes. Or the
            cache is to be pruned, and a link leads out of it.
    """
    layout = context.layout
    newest = read_number(arguments, "keep", NEWEST)
    with exclusive(context, "collect"):
        if arguments.get("cache") is True:
            require_plain_cache(layout)
        notices = () if context.dry_run else _recover_profiles(context)
        generations, damaged = list_generations(layout)
        kept = plan_collection(layout, generations, now=context.clock(), newest=newest)
        going = [name for name, reasons in kept.items() if not reasons]
        half_built = _find_unsealed(layout)
        data: dict[str, Any] = {
            "removed": going,
            "half_built": half_built,
            "kept": {name: list(reasons) for name, reasons in kept.items() if reasons},
            "damaged": {item.identity: item.reason for item in damaged},
        }
        staying = set(list_identities(layout)).difference(going, half_built)
        if context.dry_run:
            data["receipts"] = len(plan_receipts(context, staying))
            if arguments.get("cache") is True:
                data["cache"], notices = prune_cache(context)
            return Outcome(status="ok", data={**data, "dry_run": True}, obligations=notices)
        left = []
        for name in [*going, *half_built]:
            context.reporter.progress("collect", f"removing {name}")
            left += _discard(context, layout.generation(name))
        _collect_records(context, staying)
        data["releases"] = _collect_releases(context, left)
        data["plugins"] = _collect_plugins(context, left)
        data["runtimes"] = _collect_runtimes(context, left)
        _collect_sources(context, left)
        left += _empty_trash(context)
        remove_unfinished(layout, context.filesystem)
        left += _remove_temporaries(context)
        data["receipts"] = collect_receipts(context, staying)
        data["left"] = left
        if arguments.get("cache") is True:
            data["cache"], said = prune_cache(context)
            notices = (*notices, *said)
        data["removed"] = [name for name in going if str(layout.generation(name)) not in left]
        parts = ("releases", "plugins", "runtimes", "receipts")
        freed = data.get("cache", {}).get("freed")
        changed = going or half_built or freed or any(data[part] for part in parts)
        kept_back = tuple(f"{path} could not be removed yet; the next collect tries again" for path in left)
        return Outcome(
            status="ok" if changed else "noop",
            data=data,
            obligations=(*notices, *kept_back),
        )


def _recover_profiles(context: Context) -> tuple[str, ...]:
    """Have every profile's history say what is selected: what it was selected instead of is young."""
    notices: tuple[str, ...] = ()
    for profile in list_profiles(context.layout):
        notices = (*notices, *recover(replace(context, profile=profile)))
    return notices


def plan_collection(
    layout: Layout, generations: list[Generation], *, now: datetime, newest: int = NEWEST
) -> dict[str, tuple[str, ...]]:
    """Return the reasons to keep each generation, from what the disk and the processes say now."""
    used, labels = find_users(layout), load_labels(layout)
    current: set[str] = set()
    previous: set[str] = set()
    deselected: dict[str, datetime] = {}
    for profile in list_profiles(layout):
        selected = load_pointer(layout, profile)
        if selected is not None:
            current.add(selected)
        with contextlib.suppress(IntegrityFault):  # a damaged trial is dropped at the next start, and goes nowhere
            previous |= set(find_ways_back(load_trial(layout, profile)))
        history = load_history(layout, profile)
        for selection in history:
            if selection.before is not None:
                deselected[selection.before] = max(selection.at, deselected.get(selection.before, selection.at))
        before = find_previous(history, selected)
        if before is not None:
            previous.add(before)
            if before == history[-1].generation:  # a crash kept its line from being written: it went just now
                deselected[before] = now
    candidates = [
        Candidate(
            identity=generation.identity,
            number=generation.number,
            touched=max(_built(generation), deselected.get(generation.identity, _built(generation))),
        )
        for generation in generations
    ]
    return dict(
        decide_kept(
            candidates,
            current=current,
            previous=previous,
            pinned=labels.pinned,
            named=labels.named.values(),
            leased=[
                generation.identity
                for generation in generations
                if generation.identity in used or is_leased(generation.path)
            ],
            now=now,
            newest=newest,
        )
    )


def _find_unsealed(layout: Layout) -> list[str]:
    """Return what was never sealed, or was found damaged, but for that from which a process still runs."""
    used = find_users(layout)
    return [name for name in list_unsealed(layout) if name not in used and not is_leased(layout.generation(name))]


def _built(generation: Generation) -> datetime:
    try:
        return datetime.strptime(generation.record["created"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except ValueError:
        return datetime.now(UTC)


def _discard(context: Context, path: Path) -> list[str]:
    """Move `path` to the trash, which is emptied at the end; return it where it cannot be moved.

    A rename is one step, so a crash leaves either a whole generation or a whole piece of trash.
    """
    layout, filesystem = context.layout, context.filesystem
    try:
        refuse_links(layout, layout.trash)
        filesystem.make_directories(layout.trash)
        if not path.is_symlink():
            os.chmod(path, 0o755)  # a directory that is read-only cannot be moved to another one
        filesystem.rename(path, layout.trash / f"{path.name}.{os.urandom(4).hex()}")
    except (PerdureError, OSError):
        return [str(path)]
    return []


def _empty_trash(context: Context) -> list[str]:
    left = []
    for path in _members(context.layout, context.layout.trash):
        try:
            context.filesystem.remove_tree(path)
        except (PerdureError, OSError):
            left.append(str(path))
    return left


def _remove_temporaries(context: Context) -> list[str]:
    """Remove what durable writes left that a crash cut off; return what could not be removed.

    Only where no file is written without the mutex, but for receipts: there, what another process may be writing right
    now stays.
    """
    layout = context.layout
    profiles = [layout.profile(name) for name in list_profiles(layout)]
    left = []
    for folder in (layout.home, layout.bin, layout.pm, layout.store, layout.records, layout.receipts, *profiles):
        for path in _members(layout, folder):
            try:
                age = context.clock().timestamp() - path.lstat().st_mtime
                if is_temporary(path.name) and (folder != layout.receipts or age > YOUNG.total_seconds()):
                    context.filesystem.remove_tree(path)
            except (PerdureError, OSError):
                left.append(str(path))
    return left


def _members(layout: Layout, folder: Path) -> list[Path]:
    """Return what lies in a folder of the home; nothing where a link leads to it: what it leads to is not PM's."""
    try:
        refuse_links(layout, folder)
    except IntegrityFault:
        return []
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _collect_records(context: Context, staying: Collection[str]) -> None:
    """Remove the copies of records whose generation is gone, but for what a profile runs or ran last."""
    layout = context.layout
    needed = set(staying)
    for profile in list_profiles(layout):
        needed.update(filter(None, [load_pointer(layout, profile)]))
        needed.update(entry.generation for entry in load_history(layout, profile)[-1:])
    for identity in list_kept_records(layout):
        if identity not in needed:
            context.filesystem.remove_tree(layout.kept_record(identity))


def _collect_releases(context: Context, left: list[str]) -> list[str]:
    """Remove the releases that no generation names, nor the record that one which is gone can be rebuilt from."""
    layout = context.layout
    generations, damaged = list_generations(layout)
    if damaged:
        return []  # what a damaged record needs cannot be told
    kept = [load_kept_record(layout, identity) for identity in list_kept_records(layout)]
    records = [*(generation.record for generation in generations), *(record for record in kept if record is not None)]
    needed = {str(record["host"]["release"]) for record in records}
    gone = []
    for path in _members(layout, layout.releases):
        if path.name not in needed:
            left += _discard(context, path)
            gone.append(path.name)
    return gone


def _collect_plugins(context: Context, left: list[str]) -> list[str]:
    """Remove the snapshots of plugins that no generation was built from."""
    generations, damaged = list_generations(context.layout)
    if damaged:
        return []  # what a damaged record needs cannot be told
    kept = (load_kept_record(context.layout, identity) for identity in list_kept_records(context.layout))
    records = [*(generation.record for generation in generations), *kept]
    needed = {digest for record in records for digest in find_recorded(record).values()}
    gone = []
    for path in _members(context.layout, context.layout.plugins):
        if path.name not in needed:
            left += _discard(context, path)
            gone.append(path.name)
    return gone


def _collect_runtimes(context: Context, left: list[str]) -> list[str]:
    """Remove PM's old runtimes that no process runs from, but for the newest two."""
    layout = context.layout
    selected = load_runtime(layout)
    if selected is None:
        return []  # which one is needed cannot be told
    others = [path for path in _members(layout, layout.runtimes) if path != selected.path and path.is_dir()]
    others.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    gone = []
    now = context.clock().timestamp()
    for path in others[1:]:
        if now - path.stat().st_mtime > YOUNG.total_seconds() and not find_occupants(path):
            left += _discard(context, path)
            gone.append(path.name)
    return gone


def _collect_sources(context: Context, left: list[str]) -> None:
    """Remove the seeds and the uv of PM's old versions, and what an update that was killed had unpacked.

    What any runtime that is there was built from stays: a rollback of PM brings that back too.
    """
    layout = context.layout
    try:
        seeds = {seed_source(layout).name}
    except IntegrityFault:
        return  # which one is needed cannot be told
    runtimes = list_runtimes(layout)
    seeds |= {str(runtime.record["seed"]) for runtime in runtimes}
    versions = {runtime.uv_version for runtime in runtimes}
    for name in seeds:
        with contextlib.suppress(OSError, ValueError, PerdureError):
            lock = (layout.seed(name) / "pm" / "uv.lock").read_text(encoding="utf-8")
            versions.add(parse_locked_tool(lock, "uv").version)
    now = context.clock().timestamp()
    going = [path for path in _members(layout, layout.seeds) if path.is_dir() and path.name not in seeds]
    tools = layout.uv("x").parent.parent
    going += [path for path in _members(layout, tools) if versions and path.is_dir() and path.name not in versions]
    going += _members(layout, layout.incoming)
    for path in going:
        if now - path.stat().st_mtime > YOUNG.total_seconds() and not find_occupants(path):
            left += _discard(context, path)
