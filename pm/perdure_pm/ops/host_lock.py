"""Locking a host that is not a checkout: an index's requirement, or a wheel.

Owns: resolving it once, and keeping the answer as a release in the store: from then on that lock is law, until an
upgrade. Does not own: releases of checkouts (ops.release), resolving plugins (ops.resolve).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from perdure_pm import ports
from perdure_pm.adapters.interpreter import Interpreter
from perdure_pm.adapters.uv import Uv
from perdure_pm.model.errors import ArtefactMissing, PerdureError, UsageFault
from perdure_pm.model.identity import normalise_distribution
from perdure_pm.model.requirement import parse_requirement, requirement_name
from perdure_pm.ops.build import Wheel, add_wheelhouse_hashes, split_requirements
from perdure_pm.ops.release import Release, keep_release, load_release
from perdure_pm.ops.screening import Screen, find_fresh, format_cutoff, load_ages, refuse_fresh, spared_exceptions
from perdure_pm.ops.trials import is_unsolvable, pinned_versions, write_generated_project
from perdure_pm.store.inventory import hash_file
from perdure_pm.store.layout import Layout

MISTYPED = (
    "where the name is mistyped: perdure-pm host init NAME --yes   (else name what has it: --index-url URL, or "
    "--wheelhouse DIR)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSpec:
    """A host by requirement or by wheel, and what is installed with it."""

    requirement: str | None
    wheel: Path | None
    beside: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The normalised name of the host's distribution."""
        if self.wheel is not None:
            return normalise_distribution(self.wheel.name.split("-")[0])
        return requirement_name(self.requirement or "")

    def text(self) -> str:
        """Return the form by which a release of this host is known again."""
        wheel = None if self.wheel is None else str(self.wheel)
        return json.dumps({"requirement": self.requirement, "wheel": wheel, "with": list(self.beside)})


def lock_host(
    uv: Uv,
    filesystem: ports.Filesystem,
    reporter: ports.Reporter,
    layout: Layout,
    spec: HostSpec,
    interpreter: Interpreter,
    screen: Screen,
) -> Release:
    """Have the host resolved as the index answers now, its lock in the store, and return the release.

    Args:
        uv: the uv to ask.
        filesystem: where the release is written.
        reporter: who is told.
        layout: the home.
        spec: what to lock.
        interpreter: what it is for.
        screen: what the answer is looked at with; its rules say what may be built from source to learn what it needs.

    Raises:
        UsageFault: the wheel is not there.
        NetworkUnreachable, ArtefactMissing, BuildFailed: nothing could be resolved.
        QuarantineRefused: it, or something that it requires, is too new, and nothing older fits.
    """
    reporter.progress("lock", f"locking {spec.requirement or spec.name}")
    if spec.wheel is not None and not spec.wheel.is_file():
        raise UsageFault(f"there is no wheel {spec.wheel}", hint="perdure-pm host init PATH-OF-A-WHEEL --yes")
    project = layout.scratch / f"host-{hashlib.sha256(spec.text().encode()).hexdigest()[:12]}"
    filesystem.remove_tree(project)
    filesystem.make_directories(project)
    try:
        wheels = [] if spec.wheel is None else [Wheel(spec.wheel, hash_file(spec.wheel))]
        asked = [*([] if spec.requirement is None else [spec.requirement]), *spec.beside]
        write_generated_project(
            filesystem, project, wheels, [*(wheel.distribution for wheel in wheels), *asked], interpreter
        )
        lock = partial(uv.lock, project, interpreter.path, final_only=True, builds=screen.rules.builds)
        try:
            lock()
        except ArtefactMissing as fault:
            if spec.requirement is None or spec.name not in fault.summary:
                raise
            raise ArtefactMissing(fault.summary, hint=MISTYPED, context=fault.context) from fault
        _keep_quarantine(lock, filesystem, reporter, project, asked, screen)
        requirements = add_wheelhouse_hashes(uv.export(project, interpreter.path), uv.network.wheelhouse)
        digest = hashlib.sha256(f"{spec.text()}\n{requirements}\n{[w.sha256 for w in wheels]}".encode()).hexdigest()[
            :12
        ]
        known = load_release(layout, digest)
        if known is not None:
            return known
        return _keep(filesystem, layout, spec, project, wheels, requirements, digest)
    finally:
        filesystem.remove_tree(project)


def _keep_quarantine(
    lock: Callable[..., None],
    filesystem: ports.Filesystem,
    reporter: ports.Reporter,
    project: Path,
    asked: Sequence[str],
    screen: Screen,
) -> None:
    """Have nothing in the project's lock that is too new, by locking again where there is."""
    ages = load_ages(project)
    exceptions, warnings = spared_exceptions(screen, asked, (), ages)
    spared = {exemption.name for exemption in exceptions}
    fresh = find_fresh(ages, screen, spared)
    if not fresh or screen.cutoff is None:
        return
    filesystem.remove_tree(project / "uv.lock")
    stays = {aged.name for aged in ages if screen.installed.get(aged.name) == aged.version or aged.newest is None}
    try:
        lock(exclude_newer=format_cutoff(screen.cutoff), exempt=sorted(spared | stays))
    except PerdureError as failure:
        if not is_unsolvable(failure):
            raise
        raise refuse_fresh(fresh, screen, asked, warnings, verb="host init") from failure
    still = find_fresh(load_ages(project), screen, spared)
    if still:
        raise refuse_fresh(still, screen, asked, warnings, verb="host init")
    names = ", ".join(f"{aged.name} {aged.version}" for aged in fresh)
    reporter.progress("quarantine", f"in quarantine, older releases are taken: {names}")


def find_locked(layout: Layout, spec: HostSpec, preferred: str | None) -> Release | None:
    """Return the release that this host was locked to: the preferred one, else the newest."""
    names = [] if preferred is None else [preferred]
    folders = sorted(layout.releases.glob("*/release.json"), key=lambda path: path.stat().st_mtime_ns, reverse=True)
    for name in [*names, *(path.parent.name for path in folders)]:
        release = load_release(layout, name)
        if release is not None and release.source == spec.text():
            return release
    return None


def _keep(
    filesystem: ports.Filesystem,
    layout: Layout,
    spec: HostSpec,
    project: Path,
    wheels: list[Wheel],
    requirements: str,
    digest: str,
) -> Release:
    folder = layout.release(digest)
    filesystem.remove_tree(folder)
    filesystem.make_directories(folder)
    kept = []
    for wheel in wheels:
        filesystem.copy_file(wheel.path, folder / wheel.path.name)
        kept.append(Wheel(folder / wheel.path.name, wheel.sha256))
    version = wheels[0].version if wheels else min(pinned_versions(split_requirements(requirements).get(spec.name, "")))
    direct = list(spec.beside)
    if spec.requirement is not None:
        extras = ",".join(sorted(parse_requirement(spec.requirement).extras))
        direct.insert(0, f"{spec.name}{f'[{extras}]' if extras else ''}=={version}")
    release = Release(
        digest=digest,
        name=spec.name,
        version=version,
        requires_python="",
        commands=(),
        wheels=tuple(kept),
        plugins=(),
        requirements=requirements,
        source=spec.text(),
        groups=(),
        offered_extras=(),
        direct=tuple(direct),
    )
    return keep_release(filesystem, layout, release, project)
