"""The host of a home: where it comes from and what builds it.

Owns: finding the checkout, or the release that outlived it; the uv for it. Does not own: making releases (ops.release).
"""

from __future__ import annotations

import os
from pathlib import Path

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from perdure_pm.adapters.interpreter import Interpreter
from perdure_pm.adapters.uv import Uv
from perdure_pm.model.admission import Admission
from perdure_pm.model.config import HomeConfig
from perdure_pm.model.errors import InterpreterMissing, NothingInstalled, UsageFault
from perdure_pm.ops.builds import with_quarantine
from perdure_pm.ops.carried import require_wheelhouse
from perdure_pm.ops.context import Context
from perdure_pm.ops.host_lock import HostSpec, find_locked, lock_host
from perdure_pm.ops.release import Release, digest_checkout, ensure_release, load_release
from perdure_pm.ops.screening import make_screen
from perdure_pm.ops.seed import seed_source
from perdure_pm.ops.tool_uv import ensure_uv
from perdure_pm.store.generations import Generation, current_generation
from perdure_pm.store.layout import Layout


def make_uv(context: Context) -> Uv:
    """Return the uv that belongs to PM's seed, fetched where it is missing; a wheelhouse is looked at first."""
    require_wheelhouse(context.network)
    lock = seed_source(context.layout) / "pm" / "uv.lock"
    binary = ensure_uv(context.layout, context.filesystem, context.reporter, lock=lock, network=context.network)
    return Uv(binary, context.layout, context.network, context.environ, on_tick=context.reporter.heartbeat)


HostSource = Path | HostSpec | Release
"""A checkout, a requirement or a wheel, or, where that is gone, what was made of it."""


def find_source(
    context: Context, checkout: str | None, config: HomeConfig, current: Generation | None
) -> tuple[HostSource, tuple[str, ...]]:
    """Return where the host comes from: its checkout, or, when that is gone, the release made of it, with a notice.

    A home that names a requirement or a wheel has that, unless a checkout was asked for now.

    Raises:
        NothingInstalled: nobody said what to install.
        UsageFault: the checkout is none, and there is nothing else.
    """
    layout = context.layout
    if checkout is None and (config.host_requirement or config.host_wheel):
        wheel = None if config.host_wheel is None else Path(layout.home, config.host_wheel)
        requirement = None if wheel is not None else config.host_requirement
        return HostSpec(requirement=requirement, wheel=wheel, beside=config.host_with), ()
    # A crash of the first install before config.yaml named the checkout: the record has it.
    # What came in a payload names no place: its release is all there is of the host.
    recorded = None if current is None else str(current.record["host"]["source"])
    checkout = checkout or config.host_checkout or recorded or None
    if checkout is not None and os.path.isfile(os.path.join(checkout, "pyproject.toml")):
        return Path(checkout).resolve(), ()
    kept = _find_kept(layout, context.profile, checkout)
    if kept is not None:
        place = checkout or kept.source
        if not place:
            return kept, ()
        gone = f"the checkout {place} is gone"
        if os.path.isdir(place):
            gone = f"{place} is no checkout any more, it has no pyproject.toml"
        return kept, (f"{gone}: {kept.name} {kept.version} was taken from the store",)
    if checkout is not None:
        digest_checkout(Path(checkout))  # raises: says what is wrong with it
    raise NothingInstalled(
        f"{layout.home} does not say yet what to install",
        hint="perdure-pm host init REQUIREMENT   (or install --checkout DIR, for a host's source tree)",
        context={"home": str(layout.home)},
    )


def _find_kept(layout: Layout, profile: str, checkout: str | None) -> Release | None:
    """Return the release that the profile runs, else, where its generation is gone too, the newest of that checkout."""
    current = current_generation(layout, profile)
    if current is not None:
        return load_release(layout, current.record["host"]["release"])
    folders = sorted(layout.releases.glob("*/release.json"), key=lambda path: path.stat().st_mtime_ns, reverse=True)
    releases = (load_release(layout, path.parent.name) for path in folders)
    return next((release for release in releases if release is not None and release.source == (checkout or "")), None)


def find_release(layout: Layout, source: HostSource, current: Generation | None) -> Release | None:
    """Return the source's release where the store has it; nothing is built and nothing resolved."""
    if isinstance(source, Release):
        return source
    if isinstance(source, HostSpec):
        return find_locked(layout, source, None if current is None else str(current.record["host"]["release"]))
    return load_release(layout, digest_checkout(source))


def build_release(
    context: Context,
    uv: Uv,
    source: HostSource,
    interpreter: Interpreter,
    rules: Admission,
    current: Generation | None,
) -> Release:
    """Return the source's release, in the store: built from a checkout, or locked as an index answers now.

    Args:
        context: the world.
        uv: the uv to build or to ask with.
        source: what the host is had from.
        interpreter: what it is for.
        rules: by which of an index's offers are let in, and may be built to learn what they need.
        current: the generation that runs now: what it holds was let in before.
    """
    if isinstance(source, Release):
        return source
    if isinstance(source, HostSpec):
        packages = [] if current is None else current.record["packages"]
        installed = {str(package["name"]): str(package["version"]) for package in packages}
        screen = make_screen(context, rules, installed)
        uv = with_quarantine(uv, rules, screen.now, [] if current is None else [current.path / "uv.lock"])
        return lock_host(uv, context.filesystem, context.reporter, context.layout, source, interpreter, screen)
    return ensure_release(uv, context.filesystem, context.reporter, context.layout, source, interpreter.path)


def require_python(release: Release, interpreter: Interpreter) -> None:
    """Return when the host runs on the interpreter.

    Raises:
        InterpreterMissing: it does not.
    """
    try:
        fits = SpecifierSet(release.requires_python).contains(interpreter.version, prereleases=True)
    except InvalidSpecifier as error:
        raise UsageFault(f"{release.name} has an unreadable requires-python: {error}") from error
    if not fits:
        raise InterpreterMissing(
            f"{release.name} {release.version} needs Python {release.requires_python}; this is {interpreter.version}",
            hint="name another interpreter with --python PATH",
        )
