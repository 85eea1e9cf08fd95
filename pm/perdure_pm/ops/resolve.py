"""Resolution: what a generation holds, when plugins from an index join the host.

Owns: what is asked, the laws that an answer keeps, and the resulting requirements. Does not own: the project in which
host and plugins meet (ops.trials), what is said where there is no answer (ops.explanation), nor building.

Keeps: pm-host-lock-is-law: for every package that the host locked, the requirement that is installed is the lock's own
line, hashes included. Without plugins from an index there is nothing to resolve, and the host's lock is the answer.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from perdure_pm.model.errors import (
    ArtefactMissing,
    BuildFailed,
    ConflictRefused,
    DirectUrlRefused,
    IntegrityFault,
    NetworkUnreachable,
    PerdureError,
)
from perdure_pm.model.identity import normalise_distribution
from perdure_pm.model.lock_view import addressed_names
from perdure_pm.model.network import public_address
from perdure_pm.model.requirement import requirement_name
from perdure_pm.ops.build import add_wheelhouse_hashes, split_requirements
from perdure_pm.ops.release import OWN_PREFIX, Release
from perdure_pm.ops.screening import (
    Screen,
    Screening,
    Watch,
    exact_pins,
    find_behind,
    find_fresh,
    format_cutoff,
    held_back,
    load_ages,
    refuse_behind,
    refuse_fresh,
    spared_exceptions,
)
from perdure_pm.ops.trials import Ground, Locked, is_unsolvable, pinned_versions
from perdure_pm.ops.wheel_file import read_metadata


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """The answer: everything to install beside the release's wheels."""

    requirements: str
    """Pinned and hashed, in the form that uv installs from."""
    lock: str
    """The text of the uv.lock that says so."""
    screening: Mapping[str, Any] | None = None
    """What was found about the ages and the newest releases of what is installed from an index, as plans show it."""


def resolve(
    ground: Ground,
    requirements: Sequence[str],
    screen: Screen,
    *,
    seed: Path | None = None,
    seeded: Collection[str] = (),
    from_cache: bool = False,
    with_ways: bool = True,
) -> Resolution:
    """Return what to install for the host with `requirements`.

    Args:
        ground: the host, whose lock binds, and what is asked of whom; its folder gets `pyproject.toml` and `uv.lock`.
        requirements: the plugins: those from an index as the profile lists them, those with an address by name.
        screen: what the answer is looked at with.
        seed: an earlier answer, whose versions of plugins stay where they still fit.
        seeded: the requirements that the earlier answer was for.
        from_cache: whether it was for all of these, and more: then no index is needed.
        with_ways: whether ways out of a conflict are tried.

    Raises:
        ConflictRefused: the plugins do not fit the host's lock, or each other, or only in disguise; nothing was built.
        QuarantineRefused, DirectUrlRefused, BuildRefused: a rule of the home is in the way.
        NetworkUnreachable, ArtefactMissing: nothing could be learned.
    """
    uv, release = ground.uv, ground.release
    locked = split_requirements(release.requirements)
    project = ground.pose(ground.folder, requirements)
    if seed is not None and seed.is_file():
        ground.filesystem.copy_file(seed, project / "uv.lock")
    pins = exact_pins(requirements)
    new = {requirement_name(text) for text in requirements if text not in seeded and text not in ground.sources}
    watch = Watch(screen, new - pins.keys())
    try:
        ground = _lock_with_accepted(ground, requirements, project, locked, from_cache=seed is not None and from_cache)
    except PerdureError as failure:
        if not is_unsolvable(failure):
            raise
        from perdure_pm.ops.explanation import explain  # only here: what fits needs no explanation

        raise explain(ground, requirements, failure, there=screen.installed, with_ways=with_ways) from failure
    found = _keep_quarantine(ground, project, requirements, screen, locked, seed)
    _refuse_taken(ground, project, locked)
    _refuse_disguises(ground, project, requirements, screen, locked, watch, found)
    python = ground.interpreter.path
    exported = split_requirements(add_wheelhouse_hashes(uv.export(project, python), uv.network.wheelhouse))
    _require_law(exported, locked)
    added = {name: block for name, block in exported.items() if name not in locked}
    _refuse_own_names(added, release, requirements)
    return Resolution(
        requirements=release.requirements + "".join(added[name] for name in sorted(added)),
        lock=(project / "uv.lock").read_text(encoding="utf-8"),
        screening=found.to_json(),
    )


def _keep_quarantine(
    ground: Ground,
    project: Path,
    requirements: Sequence[str],
    screen: Screen,
    locked: Collection[str],
    seed: Path | None,
) -> Screening:
    """Have nothing in the project's lock that is too new, by resolving again where there is, and say what was found."""
    ages = load_ages(project)
    added = [aged for aged in ages if aged.name not in locked]
    exceptions, warnings = spared_exceptions(screen, requirements, locked, ages)
    found = Screening(days=screen.rules.quarantine.days, exceptions=exceptions, warnings=warnings)
    spared = {exemption.name for exemption in exceptions}
    fresh = find_fresh(added, screen, spared)
    if fresh and screen.cutoff is not None:
        # The seed again, not the answer: uv would take an answer with the same cutoff as it is.
        ground.filesystem.remove_tree(project / "uv.lock")
        if seed is not None and seed.is_file():
            ground.filesystem.copy_file(seed, project / "uv.lock")
        stays = {aged.name for aged in added if screen.installed.get(aged.name) == aged.version}
        undated = {aged.name for aged in ages if aged.newest is None}
        try:
            ground.uv.lock(
                project,
                ground.interpreter.path,
                exclude_newer=format_cutoff(screen.cutoff),
                exempt=sorted({*locked, *spared, *stays, *undated}),
                builds=ground.rules.builds,
                renew=ground.renew,
            )
        except PerdureError as failure:
            if not is_unsolvable(failure):
                raise
            raise refuse_fresh(fresh, screen, requirements, warnings) from failure
        added = [aged for aged in load_ages(project) if aged.name not in locked]
        still = find_fresh(added, screen, spared)
        if still:
            raise refuse_fresh(still, screen, requirements, warnings)
        taken = {aged.name: aged.version for aged in added}
        found.held = [held_back(aged, taken.get(aged.name)) for aged in fresh]
    found.unknown = sorted({aged.name for aged in added if aged.newest is None}) if found.days else []
    return found


def _refuse_disguises(
    ground: Ground,
    project: Path,
    requirements: Sequence[str],
    screen: Screen,
    locked: Collection[str],
    watch: Watch,
    found: Screening,
) -> None:
    """Note in `found` which plugins are behind their newest release, and why; refuse those that are too far behind."""
    ages = load_ages(project)
    behind = find_behind(requirements, ages, locked, watch, screen, ground.interpreter.version, found)
    if not behind:
        return
    from perdure_pm.ops.explanation import why_not  # only here: what is up to date needs no explanation

    chosen = {aged.name: aged.version for aged in ages}
    found.behind = [
        replace(one, why=why_not(ground, chosen, requirements, one.name, one.newest.version)) for one in behind
    ]
    if any(one.far for one in found.behind):
        raise refuse_behind(found.behind, requirements)


def _refuse_own_names(added: Collection[str], release: Release, requirements: Sequence[str]) -> None:
    """Refuse what an index offers under a name of ours: a plugin may need one, and gets the host's own or none."""
    own = [name for name in added if name.startswith(OWN_PREFIX) or name == release.name]
    if own:
        raise ConflictRefused(
            f"{', '.join(requirements)} cannot be installed: {own[0]} comes from the bundle of {release.name} or not "
            f"at all, and {release.version} has no {own[0]}",
            hint="leave out the plugin that needs it",
            context={"requirements": list(requirements), "names": own},
        )


def _lock_with_accepted(
    ground: Ground, requirements: Sequence[str], project: Path, locked: Collection[str], *, from_cache: bool
) -> Ground:
    """Have the project locked, and return the ground with the addresses that plugins require and a person accepted.

    Of a plugin from an index uv never takes an address that is not written into the project, so each comes to light
    here, one after the other. Of a wheel that lies here it takes every one, and those of what it then finds there.

    Raises:
        DirectUrlRefused: one was not accepted by name, or the host locked what it is of.
    """
    _refuse_asked_by_sources(ground, locked)
    while True:
        try:
            _lock(ground, project, from_cache=from_cache)
        except DirectUrlRefused as refused:
            name, url = str(refused.context["package"]), str(refused.context["url"])
            _refuse_unacceptable(refused, locked)
            accepted = f"{name} @ {url}"
            if name not in ground.rules.direct_urls or accepted in ground.accepted:
                raise keep_accepted(refused, ground.rules.direct_urls) from None
            ground = replace(ground, accepted=(*ground.accepted, accepted))
            ground.pose(project, requirements)
        else:
            return ground


def _refuse_asked_by_sources(ground: Ground, locked: Collection[str]) -> None:
    """Refuse what plugins with an address of their own require from one, before anybody is asked there.

    That it is for another machine is no excuse: uv asks at the address all the same. Extras that are not wanted are.
    """
    for asked, wheel in ground.sources.items():
        extras = Requirement(asked).extras or {""}
        for text in read_metadata(wheel.path)["requires"]:
            needed = Requirement(text)
            if needed.url is None:
                continue
            optional = needed.marker is not None and "extra" in str(needed.marker)
            if needed.marker and optional and not any(needed.marker.evaluate({"extra": extra}) for extra in extras):
                continue
            name = normalise_distribution(needed.name)
            _refuse_address(ground, locked, f"{wheel.distribution} {wheel.version}", name, needed.url)


def _refuse_taken(ground: Ground, project: Path, locked: Collection[str]) -> None:
    """Refuse what the project's lock has from an address that nobody accepted: what a wheel from there requires."""
    text = (project / "uv.lock").read_text(encoding="utf-8")
    here = {wheel.distribution for wheel in (*ground.release.wheels, *ground.sources.values())}
    addressed = addressed_names(text)
    if addressed is not None and addressed <= {*locked, *here}:
        return
    import tomllib  # only here: it takes 100 ms for fifty packages

    lock = Locked(tomllib.loads(text))
    for name, address in lock.addresses().items():
        if name not in locked and name not in here:
            who = next((one for one, needs in sorted(lock.requirers().items()) if name in needs), "a plugin")
            _refuse_address(ground, locked, f"{who} {lock.versions().get(who, '')}".rstrip(), name, address)


def _refuse_address(ground: Ground, locked: Collection[str], who: str, name: str, url: str) -> None:
    refused = DirectUrlRefused(
        f"{who} requires {name} from {public_address(url)} and not from an index",
        context={"plugin": who.partition(" ")[0], "package": name, "url": public_address(url)},
    )
    _refuse_unacceptable(refused, locked)
    if name not in ground.rules.direct_urls:
        raise keep_accepted(refused, ground.rules.direct_urls)


def _refuse_unacceptable(refused: DirectUrlRefused, locked: Collection[str]) -> None:
    """Refuse an address that no setting lets in."""
    name, url = str(refused.context["package"]), str(refused.context["url"])
    if name in locked:
        why = f"the host's lock decides about {name}"
    elif url.startswith("file:") or "://" not in url:
        why = "an address on this machine is none"
    else:
        return
    raise DirectUrlRefused(
        f"{refused.summary}, and {why}", hint=f"leave out {refused.context['plugin']}", context=refused.context
    ) from refused


def keep_accepted(refused: DirectUrlRefused, accepted: Sequence[str]) -> DirectUrlRefused:
    """Return the refusal with a hint that keeps what is accepted already: a setting is written as a whole."""
    names = ",".join(sorted({*accepted, str(refused.context["package"])}))
    hint = f"where you trust that address: perdure-pm config set install.direct-urls {names}"
    return DirectUrlRefused(refused.summary, hint=hint, context=refused.context)


def _lock(ground: Ground, project: Path, *, from_cache: bool) -> None:
    uv, python = ground.uv, ground.interpreter.path
    if from_cache:
        with contextlib.suppress(BuildFailed, ArtefactMissing, NetworkUnreachable):
            uv.lock(project, python, from_cache=True, builds=ground.rules.builds)
            return
    uv.lock(project, python, builds=ground.rules.builds, renew=ground.renew)


def _require_law(exported: Mapping[str, str], locked: Mapping[str, str]) -> None:
    moved = {
        name: [sorted(pinned_versions(locked[name])), sorted(pinned_versions(block))]
        for name, block in exported.items()
        if name in locked and not pinned_versions(block) <= pinned_versions(locked[name])
    }
    if moved:
        name, (before, after) = next(iter(moved.items()))
        raise IntegrityFault(
            f"the resolver moved {name} from the host's {', '.join(before)} to {', '.join(after)}; nothing was built",
            hint="perdure-pm plan",
            context={"moved": moved},
        )
