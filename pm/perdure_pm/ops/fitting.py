"""What is wanted, resolved, with the plugins left out that do not fit a host which moved under them.

Owns: the resolution of a publication, and who gives way where it fails. Does not own: what clashes (explanation), for
how long a plugin sits out (sitting_out), nor publication (publish).

A host is not held back by its plugins. Where its lock or its Python is not what ran, those that ran and do not fit any
more sit out, as few as possible: one of each clash, the last in load order where several that fit the host do not fit
each other. What a person asks for now is refused where it clashes, and nothing that runs ever sits out for it.

Keeps: plugins-give-way, plugins-never-silently-fewer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from perdure_pm.adapters.uv import Uv
from perdure_pm.model.admission import Admission
from perdure_pm.model.choice import SitOut, names_of
from perdure_pm.model.errors import BuildRefused, ConflictRefused, DirectUrlRefused, PerdureError, QuarantineRefused
from perdure_pm.model.requirement import requirement_name
from perdure_pm.ops.context import Context
from perdure_pm.ops.intent import Intent
from perdure_pm.ops.resolve import Resolution, resolve
from perdure_pm.ops.screening import make_screen
from perdure_pm.ops.sitting_out import clashing_with, find_python_misfit, refuse_misfit
from perdure_pm.ops.sources import asked_before, needs_resolution, was_resolved
from perdure_pm.ops.trials import Ground, said_by_uv
from perdure_pm.ops.wanted import Before, Change, Wanted, find_sealed, leave_out
from perdure_pm.store.generations import Generation
from perdure_pm.store.recorded import recorded_versions

Answer = tuple[Wanted, Generation | None, Resolution | None]
"""What is to be had, and either the generation that is it already or what to install for it."""


def resolve_what_fits(
    context: Context,
    uv: Uv,
    change: Change,
    intent: Intent,
    wanted: Wanted,
    current: Generation | None,
    before: Before,
) -> Answer:
    """Return what is to be had, without the plugins that do not fit any more: they sit out.

    Raises:
        PluginUnfit: one that the profile did not have before needs another Python.
        ConflictRefused: a clash that nothing gives way for; or, where every plugin is to be kept, any.
        PerdureError: see `publish`.
    """
    ask = partial(_answer, context, uv, change, current=current, rules=intent.home.admission)
    answer, outs = _leave_out_what_must(context, ask, change, intent, wanted, before)
    # One that gave way to another may fit after all, once that one gave way itself.
    for out in outs:
        if set(_beside(out)) & {other.entry for other in outs}:
            fewer = tuple(other for other in outs if other is not out)
            try:
                answer, outs = ask(_without(wanted, fewer), with_ways=False), fewer
            except ConflictRefused:
                continue
    return answer


def _leave_out_what_must(
    context: Context,
    ask: Callable[..., Answer],
    change: Change,
    intent: Intent,
    wanted: Wanted,
    before: Before,
) -> tuple[Answer, tuple[SitOut, ...]]:
    """Return an answer for as many of the plugins as were found to fit, and the others."""
    outs: list[SitOut] = []
    while True:
        yields = _may_give_way(wanted, before)
        try:
            return ask(wanted, with_ways=not yields), tuple(outs)
        except PerdureError as failure:
            misfit = find_python_misfit(wanted.selection.entries, wanted.interpreter, said_by_uv(failure))
            if misfit is not None and misfit.entry not in (intent.plugins or ()):
                raise refuse_misfit(misfit) from failure
            leaving = (misfit,) if misfit is not None else find_who_gives_way(failure, wanted, before)
            kept = misfit is None and change.keep_plugins and any(out.entry in before.runs for out in leaving)
            if leaving and not kept:
                for out in leaving:
                    context.reporter.progress("sit-out", str(out))
                outs += leaving
                wanted = _without(wanted, leaving)
                continue
            if not yields or not isinstance(failure, ConflictRefused):
                raise
        # It stays refused, and this time ways out are tried.
        return ask(wanted, with_ways=True), tuple(outs)


def find_who_gives_way(failure: PerdureError, wanted: Wanted, before: Before) -> tuple[SitOut, ...]:
    """Return which plugins sit out so that a conflict is none, one of each clash; none of them where it is refused.

    One that did not run is the first to go; one that runs goes only where the host moved. Where a rule of the home
    refuses what would be installed, one that sat out before and was only looked at again sits out for longer: it must
    not hold up what runs.
    """
    entries = {requirement_name(entry): entry for entry in wanted.selection.entries}
    if isinstance(failure, (QuarantineRefused, BuildRefused, DirectUrlRefused)):
        resting = [entry for entry in entries.values() if entry in before.enabled and entry not in before.runs]
        if not resting:
            return ()
        entry = next((entry for entry in resting if requirement_name(entry) in _named(failure)), resting[-1])
        because = clashing_with(wanted.release, wanted.interpreter, ())
        return (SitOut(entry=entry, reason=failure.summary, because=because),)
    found = []
    for names, reason in _read_clashes(failure, f"{wanted.release.name} {wanted.release.version}"):
        clash = [entries[name] for name in entries if name in names]  # in load order
        idle = [entry for entry in clash if entry not in before.runs]
        if not clash or not before.enabled.issuperset(clash):
            return ()
        if not idle and not _has_moved(wanted, before):
            return ()
        entry = (idle or clash)[-1]
        others = [other for other in clash if other != entry]
        because = clashing_with(wanted.release, wanted.interpreter, others)
        found.append(SitOut(entry=entry, reason=reason, because=because))
    return tuple(found)


def _named(failure: PerdureError) -> set[str]:
    """Return the normalised names of what a rule of the home refused, and of who requires it."""
    fresh: Any = failure.context.get("fresh", [])
    names = {str(one["name"]) for one in fresh}
    return names | {str(failure.context[what]) for what in ("package", "plugin") if what in failure.context}


def _read_clashes(failure: PerdureError, host: str) -> list[tuple[set[str], str]]:
    """Return the normalised names and the reason of each clash that a conflict explains, conflicts in disguise too."""
    if not isinstance(failure, ConflictRefused):
        return []
    clashes: Any = failure.context.get("clashes", [])
    behind: Any = failure.context.get("behind", [])
    found = [(names_of(clash["plugins"]), clash["why"] or f"it does not fit {host}") for clash in clashes]
    for one in behind:
        if one["far"]:
            newest, chosen = one["newest"]["version"], one["chosen"]["version"]
            why = f" ({one['why']})" if one["why"] else ""
            found.append(({one["name"]}, f"{newest} does not fit {host}{why}, and {chosen} only seems to"))
    return found


def _has_moved(wanted: Wanted, before: Before) -> bool:
    """Return whether the host, with all that it locked, or its Python is not what ran."""
    return (wanted.release.digest, wanted.interpreter.release) != (before.release, before.python)


def _may_give_way(wanted: Wanted, before: Before) -> bool:
    entries = before.enabled.intersection(wanted.selection.entries)
    return bool(entries) and (_has_moved(wanted, before) or not entries.issubset(before.runs))


def _beside(out: SitOut) -> list[str]:
    return [entry for what, entry in out.because.items() if what.startswith("plugin ")]


def _without(wanted: Wanted, outs: Sequence[SitOut]) -> Wanted:
    for out in outs:
        wanted = leave_out(wanted, out)
    return wanted


def _answer(
    context: Context,
    uv: Uv,
    change: Change,
    wanted: Wanted,
    *,
    current: Generation | None,
    rules: Admission,
    with_ways: bool,
) -> Answer:
    sealed = None if change.looks_anew else find_sealed(context, wanted)
    if sealed is not None:
        return wanted, sealed, None
    return wanted, None, _resolve(context, uv, wanted, current, rules, anew=change.upgrade, with_ways=with_ways)


def _resolve(
    context: Context,
    uv: Uv,
    wanted: Wanted,
    current: Generation | None,
    rules: Admission,
    *,
    anew: bool,
    with_ways: bool,
) -> Resolution:
    """Return what is to be installed. Without plugins from an index, the host's own lock is the answer."""
    release = wanted.release
    if not needs_resolution(wanted):
        lock = (context.layout.release(release.digest) / "uv.lock").read_text(encoding="utf-8")
        return Resolution(requirements=release.requirements, lock=lock)
    sources = {snapshot.requirement: snapshot.wheel for snapshot in wanted.snapshots}
    asked = (*wanted.selection.requirements, *sources)
    context.reporter.progress("resolve", f"resolving {', '.join(asked)}")
    scratch = context.layout.scratch / f"resolve-{wanted.digest()[:12]}"
    context.filesystem.remove_tree(scratch)
    context.filesystem.make_directories(scratch)
    try:
        ground = Ground(
            uv=uv,
            filesystem=context.filesystem,
            release=release,
            interpreter=wanted.interpreter,
            folder=scratch,
            rules=rules,
            tell=partial(context.reporter.progress, "explain"),
            sources=sources,
            renew=wanted.renew,
        )
        seeding = None if anew else current
        return resolve(
            ground,
            asked,
            make_screen(context, rules, recorded_versions(current)),
            # The versions that the plugins have stay where they still fit; the host's own lock binds in any case.
            seed=None if seeding is None else seeding.path / "uv.lock",
            seeded=() if seeding is None or wanted.renew else asked_before(seeding.record),
            from_cache=seeding is not None and not wanted.renew and was_resolved(wanted, seeding.record),
            with_ways=with_ways,
        )
    finally:
        context.filesystem.remove_tree(scratch)
