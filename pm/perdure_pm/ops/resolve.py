"""Resolution: what a generation holds, when plugins from an index join the host.

Owns: what is asked, the laws that an answer keeps, and the resulting requirements. Does not own: the project in which
host and plugins meet (ops.trials), what is said where there is no answer (ops.explanation), nor building.

Keeps: pm-host-lock-is-law: for every package that the host locked, the requirement that is installed is the lock's own
line, hashes included. Without plugins from an index there is nothing to resolve, and the host's lock is the answer.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from perdure_pm.model.errors import (
    ArtefactMissing,
    BuildFailed,
    ConflictRefused,
    IntegrityFault,
    NetworkUnreachable,
    PerdureError,
)
from perdure_pm.ops.build import add_wheelhouse_hashes, split_requirements
from perdure_pm.ops.release import OWN_PREFIX, Release
from perdure_pm.ops.trials import Ground, is_unsolvable, pinned_versions


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """The answer: everything to install beside the release's wheels."""

    requirements: str
    """Pinned and hashed, in the form that uv installs from."""
    lock: str
    """The text of the uv.lock that says so."""


def resolve(
    ground: Ground,
    requirements: Sequence[str],
    *,
    seed: Path | None = None,
    seeded: Collection[str] = (),
    from_cache: bool = False,
) -> Resolution:
    """Return what to install for the host with `requirements`.

    Args:
        ground: the host, whose lock binds, and what is asked of whom; its folder gets `pyproject.toml` and `uv.lock`.
        requirements: the plugins: those from an index as the profile lists them, those with an address by name.
        seed: an earlier answer, whose versions of plugins stay where they still fit.
        seeded: the requirements that the earlier answer was for.
        from_cache: whether it was for all of these, and more: then no index is needed.

    Raises:
        ConflictRefused: the plugins do not fit the host's lock, or each other; nothing was built.
        NetworkUnreachable, ArtefactMissing: nothing could be learned.
    """
    uv, release = ground.uv, ground.release
    project = ground.pose(ground.folder, requirements)
    if seed is not None and seed.is_file():
        ground.filesystem.copy_file(seed, project / "uv.lock")
    try:
        _lock(ground, project, from_cache=seed is not None and from_cache)
    except PerdureError as failure:
        if not is_unsolvable(failure):
            raise
        from perdure_pm.ops.explanation import explain  # only here: what fits needs no explanation

        raise explain(ground, requirements, failure, there=seeded) from failure
    python = ground.interpreter.path
    exported = split_requirements(add_wheelhouse_hashes(uv.export(project, python), uv.network.wheelhouse))
    locked = split_requirements(release.requirements)
    _require_law(exported, locked)
    added = {name: block for name, block in exported.items() if name not in locked}
    _refuse_own_names(added, release, requirements)
    return Resolution(
        requirements=release.requirements + "".join(added[name] for name in sorted(added)),
        lock=(project / "uv.lock").read_text(encoding="utf-8"),
    )


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


def _lock(ground: Ground, project: Path, *, from_cache: bool) -> None:
    uv, python = ground.uv, ground.interpreter.path
    if from_cache:
        with contextlib.suppress(BuildFailed, ArtefactMissing, NetworkUnreachable):
            uv.lock(project, python, from_cache=True, builds=ground.builds)
            return
    uv.lock(project, python, builds=ground.builds, renew=ground.renew)


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
