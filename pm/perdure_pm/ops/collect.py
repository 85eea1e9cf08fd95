"""Collect: what nothing needs any more is moved to the trash and deleted.

Owns: the facts for the rule of model.retention, and the order of removal. Does not own: the rule. The caller's own
generation, a running process's and a young one never go; one undeletable file stops nothing else, and goes next time.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from perdure_pm.adapters.leases import find_users, is_leased
from perdure_pm.adapters.occupants import find_occupants
from perdure_pm.model.errors import IntegrityFault, PerdureError
from perdure_pm.model.retention import NEWEST, YOUNG, Candidate, decide_kept
from perdure_pm.ops.arguments import read_number
from perdure_pm.ops.context import Context, Outcome
from perdure_pm.ops.exclusive import exclusive
from perdure_pm.ops.runtime import load_runtime, remove_unfinished
from perdure_pm.store.generations import Generation, list_generations, list_unsealed
from perdure_pm.store.history import load_history
from perdure_pm.store.labels import load_labels
from perdure_pm.store.layout import Layout
from perdure_pm.store.pointer import list_profiles, load_pointer


def collect(context: Context, arguments: Mapping[str, Any]) -> Outcome:
    """Have every generation removed that nothing keeps.

    Args:
        context: the world.
        arguments: ``keep``: how many of the newest stay in any case.

    Raises:
        IntegrityFault: a pointer or the labels cannot be read: what is needed cannot be told, so nothing goes.
    """
    layout = context.layout
    newest = read_number(arguments, "keep", NEWEST)
    with exclusive(context, "collect"):
        generations, damaged = list_generations(layout)
        kept = plan_collection(layout, generations, now=context.clock(), newest=newest)
        going = [name for name, reasons in kept.items() if not reasons]
        half_built = list_unsealed(layout)
        data: dict[str, Any] = {
            "removed": going,
            "half_built": half_built,
            "kept": {name: list(reasons) for name, reasons in kept.items() if reasons},
            "damaged": {item.identity: item.reason for item in damaged},
        }
        if context.dry_run:
            return Outcome(status="ok", data={**data, "dry_run": True})
        left = []
        for name in [*going, *half_built]:
            context.reporter.progress("collect", f"removing {name}")
            left += _discard(context, layout.generation(name))
        left += _empty_trash(context)
        data["releases"] = _collect_releases(context, left)
        data["runtimes"] = _collect_runtimes(context, left)
        remove_unfinished(layout, context.filesystem)
        data["left"] = left
        changed = going or half_built or data["releases"] or data["runtimes"]
        return Outcome(
            status="ok" if changed else "noop",
            data=data,
            obligations=tuple(f"{path} could not be removed yet; the next collect tries again" for path in left),
        )


def plan_collection(
    layout: Layout, generations: list[Generation], *, now: datetime, newest: int = NEWEST
) -> dict[str, tuple[str, ...]]:
    """Return the reasons to keep each generation, from what the disk and the processes say now."""
    used = find_users(layout)
    current: set[str] = set()
    previous: set[str] = set()
    deselected: dict[str, datetime] = {}
    for profile in list_profiles(layout):
        selected = load_pointer(layout, profile)
        if selected is not None:
            current.add(selected)
        for selection in load_history(layout, profile):
            if selection.before is not None:
                deselected[selection.before] = max(selection.at, deselected.get(selection.before, selection.at))
            if selection.generation == selected and selection.before is not None:
                last = selection.before
                previous.add(last)
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
            pinned=load_labels(layout).held,
            leased=[
                generation.identity
                for generation in generations
                if generation.identity in used or is_leased(generation.path)
            ],
            now=now,
            newest=newest,
        )
    )


def _built(generation: Generation) -> datetime:
    try:
        return datetime.strptime(generation.record["created"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except ValueError:
        return datetime.now(UTC)


def _discard(context: Context, path: Path) -> list[str]:
    """Move `path` to the trash and delete it; return what could not be deleted.

    The record goes first: what is half in the trash is no generation any more. A rename is one step, so a crash leaves
    either a whole generation or a whole piece of trash.
    """
    layout, filesystem = context.layout, context.filesystem
    filesystem.make_directories(layout.trash)
    target = layout.trash / f"{path.name}.{os.urandom(4).hex()}"
    try:
        os.chmod(path, 0o755)
        filesystem.rename(path, target)
        filesystem.remove_tree(target)
    except (PerdureError, OSError):
        return [str(target if target.exists() else path)]
    return []


def _empty_trash(context: Context) -> list[str]:
    left = []
    for path in sorted(context.layout.trash.iterdir()) if context.layout.trash.is_dir() else []:
        try:
            context.filesystem.remove_tree(path)
        except (PerdureError, OSError):
            left.append(str(path))
    return left


def _collect_releases(context: Context, left: list[str]) -> list[str]:
    """Remove the releases that no generation names."""
    layout = context.layout
    generations, damaged = list_generations(layout)
    if damaged:
        return []  # what a damaged record needs cannot be told
    needed = {str(generation.record["host"]["release"]) for generation in generations}
    gone = []
    for path in sorted(layout.releases.iterdir()) if layout.releases.is_dir() else []:
        if path.name not in needed:
            left += _discard(context, path)
            gone.append(path.name)
    return gone


def _collect_runtimes(context: Context, left: list[str]) -> list[str]:
    """Remove PM's old runtimes that no process runs from, but for the newest two."""
    layout = context.layout
    selected = load_runtime(layout)
    if selected is None:
        raise IntegrityFault(f"{layout.runtime_pointer} cannot be read", hint="perdure-pm self rebuild")
    others = [path for path in layout.runtimes.iterdir() if path != selected.path]
    others.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    gone = []
    now = context.clock().timestamp()
    for path in others[1:]:
        if now - path.stat().st_mtime > YOUNG.total_seconds() and not find_occupants(path):
            left += _discard(context, path)
            gone.append(path.name)
    return gone
