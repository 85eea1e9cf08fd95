"""Install: have the host and the profile's plugins published as they are wanted.

Owns: finding out what is wanted (the request, config.yaml, the profile's config.yaml, else what was there) and, after
the commit, writing down an intent that the request changed. Does not own: publication (publish), releases (release).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from perdure_pm.adapters.interpreter import Interpreter
from perdure_pm.adapters.mutex import held
from perdure_pm.adapters.uv import Uv
from perdure_pm.model.config import SCHEMA, find_key, parse_home_config, parse_profile_config
from perdure_pm.model.errors import (
    ConfigChanged,
    InterpreterMissing,
    LazyInstallRefused,
    NothingInstalled,
    UsageFault,
)
from perdure_pm.model.identity import normalise_distribution
from perdure_pm.ops.context import Context, Outcome
from perdure_pm.ops.publish import Wanted, plan_publication, publish
from perdure_pm.ops.release import Plugin, Release, digest_checkout, ensure_release, load_release
from perdure_pm.ops.runtime import choose_interpreter, ensure_uv, find_interpreter, seed_source
from perdure_pm.store.config import ConfigFile, load_file, plan_change, save_text
from perdure_pm.store.generations import current_generation
from perdure_pm.store.layout import Layout
from perdure_pm.store.policy import mirror_policy


def install(context: Context, arguments: Mapping[str, Any]) -> Outcome:
    """Have what is wanted selected for the profile.

    Args:
        context: the world.
        arguments: ``checkout``: the host's source tree, for a home that has none yet or is to change it.

    Raises:
        ConfigInvalid: a configuration file has faults; all are named.
        NothingInstalled: nobody said what to install.
        LazyInstallRefused: something would have to be built that nobody asked for; nothing was fetched.
        ConfigChanged: a configuration file was edited during the build; nothing was published.
    """
    layout = context.layout
    asked = arguments.get("checkout")
    if asked is not None and not isinstance(asked, str):
        raise UsageFault("checkout must be the path of a directory")
    with held(layout, "install", wait=context.wait, on_wait=lambda holder: _tell_wait(context, holder)):
        home_file = load_file(layout, layout.config)
        profile_file = load_file(layout, layout.profile_config(context.profile))
        config = parse_home_config(home_file.document)
        profile = parse_profile_config(profile_file.document)
        mirror_policy(context.filesystem, layout, lazy=config.lazy, config_digest=home_file.digest)
        chosen = profile.plugins if profile_file.text.strip() else None
        source, notices = _find_source(context, asked or config.host_checkout)

        # What is in the store already answers most calls: no uv, no build, no network.
        release = source if isinstance(source, Release) else load_release(layout, digest_checkout(source))
        interpreter = find_interpreter(layout, context.environ, context.python)
        if release is not None and interpreter is not None:
            wanted = _want(release, chosen, interpreter)
            if not plan_publication(context, wanted)["changes"]:
                outcome = publish(context, None, wanted)
                _write_intent(context, (home_file, profile_file), source, wanted)
                return Outcome(status=outcome.status, data=outcome.data, obligations=notices)
        if context.lazy and not context.lazy_allowed:
            raise LazyInstallRefused(
                "an install is needed that nobody asked for, and lazy installs are off",
                hint=f'"{layout.bin / "perdure-pm"}" install',
            )

        uv = _make_uv(context)
        interpreter = choose_interpreter(layout, uv, context.reporter, context.environ, context.python)
        if release is None and isinstance(source, Path):
            release = ensure_release(uv, context.filesystem, context.reporter, layout, source, interpreter.path)
        assert release is not None  # noqa: S101 - either it was loaded, or the source is a checkout
        wanted = _want(release, chosen, interpreter)
        outcome = publish(
            context, uv, wanted, before_commit=lambda: _require_unchanged(layout, home_file, profile_file)
        )
        if not context.dry_run:
            _write_intent(context, (home_file, profile_file), source, wanted)
        return Outcome(status=outcome.status, data=outcome.data, obligations=notices)


def _make_uv(context: Context) -> Uv:
    lock = seed_source(context.layout) / "pm" / "uv.lock"
    binary = ensure_uv(context.layout, context.filesystem, context.reporter, lock=lock, network=context.network)
    return Uv(binary, context.layout, context.network, context.environ, on_tick=context.reporter.heartbeat)


def _find_source(context: Context, checkout: str | None) -> tuple[Path | Release, tuple[str, ...]]:
    """Return the host's checkout, or, when that is gone, the release that runs now, with a notice."""
    layout = context.layout
    if checkout is not None and (Path(checkout) / "pyproject.toml").is_file():
        return Path(checkout).resolve(), ()
    current = current_generation(layout, context.profile)
    kept = load_release(layout, current.record["host"]["release"]) if current is not None else None
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


def _want(release: Release, chosen: tuple[str, ...] | None, interpreter: Interpreter) -> Wanted:
    try:
        fits = SpecifierSet(release.requires_python).contains(interpreter.version, prereleases=True)
    except InvalidSpecifier as error:
        raise UsageFault(f"{release.name} has an unreadable requires-python: {error}") from error
    if not fits:
        raise InterpreterMissing(
            f"{release.name} {release.version} needs Python {release.requires_python}; this is {interpreter.version}",
            hint="name another interpreter with --python PATH",
        )
    return Wanted(release=release, plugins=_select(release, chosen), interpreter=interpreter)


def _select(release: Release, chosen: tuple[str, ...] | None) -> tuple[Plugin, ...]:
    """Return the plugins that the profile names, in its order; a profile that says nothing has the whole bundle."""
    if chosen is None:
        return release.plugins
    bundle = {plugin.distribution for plugin in release.plugins}
    unknown = [name for name in chosen if normalise_distribution(name) not in bundle]
    if unknown:
        raise UsageFault(
            f"{release.name} {release.version} has no plugin {unknown[0]} in its bundle",
            hint=f"take it out of the profile's config.yaml; the bundle has: {', '.join(sorted(bundle)) or 'nothing'}",
            context={"plugins": unknown},
        )
    names = dict.fromkeys(normalise_distribution(name) for name in chosen)
    return tuple(plugin for name in names for plugin in release.plugins if plugin.distribution == name)


def _require_unchanged(layout: Layout, *files: ConfigFile) -> None:
    """Refuse the commit when a person edited what this operation was built from."""
    for file in files:
        if load_file(layout, file.path).digest != file.digest:
            raise ConfigChanged(
                f"{file.document.file} was changed during the build; nothing was published",
                hint="run the same command again",
                context={"path": str(file.path)},
            )


def _write_intent(
    context: Context, files: tuple[ConfigFile, ConfigFile], source: Path | Release, wanted: Wanted
) -> None:
    """Bring the configuration in line with what was published. A crash before this is finished by the next install."""
    home: dict[str, str | list[str]] = {"host.name": wanted.release.name}
    if isinstance(source, Path):
        home["host.checkout"] = str(source)
    profile: dict[str, str | list[str]] = {}
    if not files[1].text.strip():
        profile["plugins"] = [plugin.distribution for plugin in wanted.plugins]
    for read, values in zip(files, (home, profile), strict=True):
        file = load_file(context.layout, read.path)
        if file.digest != read.digest:
            continue  # edited meanwhile: the hand edit wins, and the next install picks it up
        if not file.text.strip() and values:
            save_text(context.filesystem, file, f"schema: {SCHEMA}\n")
        for name, value in values.items():
            key, in_profile = find_key(name)
            file = load_file(context.layout, read.path)
            text = plan_change(file, key, value, in_profile=in_profile)
            if text != file.text:
                save_text(context.filesystem, file, text)
    config = load_file(context.layout, context.layout.config)
    lazy = parse_home_config(config.document).lazy
    mirror_policy(context.filesystem, context.layout, lazy=lazy, config_digest=config.digest)


def _tell_wait(context: Context, holder: str) -> None:
    context.reporter.progress("mutex", f"waiting for another operation: {holder}")
