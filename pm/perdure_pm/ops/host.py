"""The host of a home: where it comes from and what builds it.

Owns: finding the checkout, or the release that outlived it; the uv for it. Does not own: making releases (ops.release).
"""

from __future__ import annotations

from pathlib import Path

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from perdure_pm.adapters.interpreter import Interpreter
from perdure_pm.adapters.uv import Uv
from perdure_pm.model.errors import InterpreterMissing, NothingInstalled, UsageFault
from perdure_pm.ops.context import Context
from perdure_pm.ops.release import Release, digest_checkout, ensure_release, load_release
from perdure_pm.ops.runtime import ensure_uv, seed_source
from perdure_pm.store.generations import current_generation
from perdure_pm.store.layout import Layout


def make_uv(context: Context) -> Uv:
    """Return the uv that belongs to PM's seed, fetched where it is missing."""
    lock = seed_source(context.layout) / "pm" / "uv.lock"
    binary = ensure_uv(context.layout, context.filesystem, context.reporter, lock=lock, network=context.network)
    return Uv(binary, context.layout, context.network, context.environ, on_tick=context.reporter.heartbeat)


def find_source(context: Context, checkout: str | None) -> tuple[Path | Release, tuple[str, ...]]:
    """Return the host's checkout, or, when that is gone, the release that was made of it, with a notice.

    Raises:
        NothingInstalled: nobody said what to install.
        UsageFault: the checkout is none, and there is nothing else.
    """
    layout = context.layout
    if checkout is not None and (Path(checkout) / "pyproject.toml").is_file():
        return Path(checkout).resolve(), ()
    kept = _find_kept(layout, context.profile, checkout)
    if kept is not None:
        gone = checkout or kept.source
        return kept, (f"the checkout {gone} is gone: {kept.name} {kept.version} was taken from the store",)
    if checkout is not None:
        digest_checkout(Path(checkout))  # raises: says what is wrong with it
    raise NothingInstalled(
        f"{layout.home} does not say yet what to install",
        hint="name the host's checkout: perdure-pm install --checkout DIR",
        context={"home": str(layout.home)},
    )


def _find_kept(layout: Layout, profile: str, checkout: str | None) -> Release | None:
    """Return the release that the profile runs, else, where its generation is gone too, the newest of that checkout."""
    current = current_generation(layout, profile)
    if current is not None:
        return load_release(layout, current.record["host"]["release"])
    folders = sorted(layout.releases.glob("*/release.json"), key=lambda path: path.stat().st_mtime_ns, reverse=True)
    releases = (load_release(layout, path.parent.name) for path in folders)
    return next((release for release in releases if release is not None and release.source == checkout), None)


def find_release(layout: Layout, source: Path | Release) -> Release | None:
    """Return the source's release where the store has it; nothing is built."""
    return source if isinstance(source, Release) else load_release(layout, digest_checkout(source))


def build_release(context: Context, uv: Uv, source: Path | Release, python: Path) -> Release:
    """Have the source's release in the store."""
    if isinstance(source, Release):
        return source
    return ensure_release(uv, context.filesystem, context.reporter, context.layout, source, python)


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
