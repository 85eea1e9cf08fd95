"""A host's release: its wheels and its lock, taken from a checkout once and kept in the store.

Owns: what of a checkout counts, its digest, building its wheels, reading their entry points. Does not own: which
release a generation uses (install), nor environments (build). A release outlives its checkout: everything a generation
needs of the host is in it.
"""

from __future__ import annotations

import json
import shlex
import zipfile
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from perdure_pm import ports
from perdure_pm.adapters.uv import Uv
from perdure_pm.model.errors import ConfigInvalid, IntegrityFault, UsageFault
from perdure_pm.model.identity import normalise_distribution
from perdure_pm.model.lock_view import parse_local_sources
from perdure_pm.ops.build import Wheel, build_wheels
from perdure_pm.ops.declared import PLUGIN_GROUP, parse_entry_points
from perdure_pm.store.inventory import hash_file, hash_tree
from perdure_pm.store.layout import Layout

SCHEMA = 1
BUNDLE_GROUP = "bundled"
"""The dependency group of the host's root project that names the plugins it ships with."""
OWN_PREFIX = "perdure-"
"""How the names begin that are the host's bundle's, and never an index's."""
LEFT_OUT = frozenset({".git", ".hg", ".venv", "venv", "__pycache__", "node_modules", "build", "dist", ".tox", ".nox"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    """A plugin that a wheel of the release declares."""

    name: str
    distribution: str
    version: str
    entry: str
    """``module:attribute``."""

    def to_json(self) -> dict[str, str]:
        """Return the form that boot.json and records hold."""
        return {"name": self.name, "distribution": self.distribution, "version": self.version, "entry": self.entry}


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """What one release holds."""

    digest: str
    """Twelve hex digits over the sources it was built from."""
    name: str
    """The host's distribution."""
    version: str
    requires_python: str
    commands: tuple[str, ...]
    wheels: tuple[Wheel, ...]
    plugins: tuple[Plugin, ...]
    """The bundle: what a profile may enable."""
    requirements: str
    """The host's lock for the host and its bundle, pinned and hashed."""
    source: str
    """The checkout it came from."""
    groups: tuple[str, ...]
    """The dependency groups that `requirements` holds beside the host's own."""
    offered_extras: tuple[str, ...]
    """The extras that the host declares."""
    extras: tuple[str, ...] = ()
    """The extras that `requirements` holds."""
    direct: tuple[str, ...] = ()
    """What a resolution with plugins asks for by name, beside the wheels: the host, pinned, and what comes with it."""


def load_release(layout: Layout, digest: str) -> Release | None:
    """Return a release of the store, or None where it is not there or not complete."""
    folder = layout.release(digest)
    try:
        data = json.loads((folder / "release.json").read_bytes())
        if data["schema"] != SCHEMA or data["digest"] != digest:
            return None
        wheels = tuple(Wheel(folder / entry["file"], entry["sha256"]) for entry in data["wheels"])
        if any(hash_file(wheel.path) != wheel.sha256 for wheel in wheels):
            return None
        return Release(
            digest=digest,
            name=data["host"]["name"],
            version=data["host"]["version"],
            requires_python=data["host"]["requires_python"],
            commands=tuple(data["commands"]),
            wheels=wheels,
            plugins=tuple(Plugin(**entry) for entry in data["plugins"]),
            requirements=data["requirements"],
            source=data["source"],
            groups=tuple(data["groups"]),
            offered_extras=tuple(data["extras"]),
            direct=tuple(data.get("direct", ())),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def digest_checkout(checkout: Path) -> str:
    """Return the digest of what of a checkout gets into its release.

    Raises:
        UsageFault: it is not the checkout of a project with a lock.
    """
    require_checkout(checkout)
    members: dict[str, Path] = {"uv.lock": checkout / "uv.lock"}
    try:
        for folder in _local_projects(checkout):
            for path in _project_members(folder):
                members[path.relative_to(checkout).as_posix()] = path
        return hash_tree(members)[:12]
    except OSError as error:  # a pipe, a link to a folder: what no wheel can hold either
        raise UsageFault(
            f"{error.filename or checkout} cannot be read: {error.strerror or error}",
            hint="put a plain file or folder in its place, or remove it",
            context={"path": str(error.filename or checkout)},
        ) from error


def require_checkout(checkout: Path) -> None:
    """Return when `checkout` is the checkout of a project with a lock.

    Raises:
        ConfigInvalid, UsageFault: it is not; what is wrong is named.
    """
    _load_project(checkout)


def ensure_release(
    uv: Uv, filesystem: ports.Filesystem, reporter: ports.Reporter, layout: Layout, checkout: Path, python: Path
) -> Release:
    """Have the release of a checkout in the store, and return it."""
    digest = digest_checkout(checkout)
    known = load_release(layout, digest)
    if known is not None:
        return known
    reporter.progress("release", f"building the wheels of {checkout.name}")
    project = _load_project(checkout)
    folder = layout.release(digest)
    if folder.exists():  # what a killed build left, or what was damaged since
        filesystem.remove_tree(folder)
    wheels = build_wheels(uv, filesystem, layout, _local_projects(checkout), folder, python)
    name = str(project["project"]["name"]).lower().replace("_", "-")
    host = next(wheel for wheel in wheels if wheel.distribution == name)
    groups = [BUNDLE_GROUP] if BUNDLE_GROUP in project.get("dependency-groups", {}) else []
    release = Release(
        digest=digest,
        name=name,
        version=host.version,
        requires_python=str(project["project"].get("requires-python", "")),
        commands=tuple(sorted(_entry_points(host).get("console_scripts", {}))),
        wheels=tuple(wheels),
        plugins=tuple(plugin for wheel in wheels for plugin in _plugins(wheel)),
        requirements=uv.export(checkout, python, groups=groups),
        source=str(checkout),
        groups=tuple(groups),
        offered_extras=tuple(
            sorted(normalise_distribution(extra) for extra in project["project"].get("optional-dependencies", {}))
        ),
    )
    return keep_release(filesystem, layout, release, checkout)


def keep_release(filesystem: ports.Filesystem, layout: Layout, release: Release, project: Path) -> Release:
    """Have a release in the store, whose wheels lie in its directory already, with the lock of `project`; return it.

    Raises:
        IntegrityFault: it cannot be read back.
    """
    folder = layout.release(release.digest)
    for member in ("pyproject.toml", "uv.lock"):  # what the lock is read with again, for other extras
        filesystem.copy_file(project / member, folder / member)
    data = {
        "schema": SCHEMA,
        "digest": release.digest,
        "host": {"name": release.name, "version": release.version, "requires_python": release.requires_python},
        "source": release.source,
        "commands": list(release.commands),
        "wheels": [{"file": wheel.path.name, "sha256": wheel.sha256} for wheel in release.wheels],
        "plugins": [plugin.to_json() for plugin in release.plugins],
        "requirements": release.requirements,
        "groups": list(release.groups),
        "extras": list(release.offered_extras),
        "direct": list(release.direct),
    }
    filesystem.make_read_only(folder)
    folder.chmod(0o755)
    # Written last: a release without it is what a killed operation left.
    filesystem.write_durable(folder / "release.json", json.dumps(data, indent=1).encode(), mode=0o444)
    folder.chmod(0o555)
    kept = load_release(layout, release.digest)
    if kept is None:
        raise IntegrityFault(f"the release that was just kept at {folder} cannot be read back")
    return kept


def require_extras(release: Release, extras: Collection[str]) -> None:
    """Return when the host declares every one of `extras`.

    Raises:
        UsageFault: it does not.
    """
    unknown = sorted(set(extras) - set(release.offered_extras))
    if unknown:
        raise UsageFault(
            f"{release.name} {release.version} has no extra {unknown[0]}",
            hint=f"its extras are: {', '.join(release.offered_extras) or 'none'}",
            context={"extras": unknown},
        )


def with_extras(uv: Uv, layout: Layout, release: Release, extras: Collection[str], python: Path) -> Release:
    """Return the release with the requirements that its lock holds for `extras` too."""
    if not extras:
        return release
    chosen = tuple(sorted(extras))
    folder = layout.release(release.digest)
    return replace(release, extras=chosen, requirements=uv.export(folder, python, groups=release.groups, extras=chosen))


@lru_cache(maxsize=2)
def _read_toml(text: str) -> dict[str, Any]:
    """Return what a text says; that of a checkout's own project is asked for twice, and nobody changes it."""
    import tomllib

    return tomllib.loads(text)


def _load_project(checkout: Path) -> dict[str, Any]:
    try:
        project = _read_toml((checkout / "pyproject.toml").read_text(encoding="utf-8"))
        if not isinstance(project.get("project", {}).get("name"), str):
            raise ConfigInvalid(f"{checkout / 'pyproject.toml'} has no [project] name")
        if not (checkout / "uv.lock").is_file():
            raise UsageFault(
                f"{checkout} has no uv.lock: a host is installed exactly as it was locked",
                hint=f"uv lock --project {shlex.quote(str(checkout))}",
            )
    except FileNotFoundError as error:
        raise UsageFault(
            f"{checkout} is not the checkout of a project: it has no pyproject.toml"
            if checkout.is_dir()
            else f"{checkout} is not there",
            hint="name the directory that holds the host's pyproject.toml and uv.lock with --checkout DIR",
            context={"path": str(checkout)},
        ) from error
    except (OSError, ValueError) as error:
        raise ConfigInvalid(f"{checkout / 'pyproject.toml'} cannot be read: {error}") from error
    return project


def _local_projects(checkout: Path) -> list[Path]:
    """Return the source trees that the lock takes from the checkout itself, the host's own first."""
    folders = {checkout}
    try:
        places = parse_local_sources((checkout / "uv.lock").read_text(encoding="utf-8"))
    except ValueError as error:
        raise ConfigInvalid(
            f"{checkout / 'uv.lock'} cannot be read: {error}",
            hint="get the checkout back as it was released, or lock it again: "
            f"uv lock --project {shlex.quote(str(checkout))}",
        ) from error
    for place in places:
        folders.add((checkout / place).resolve())
    outside = [folder for folder in folders if folder != checkout and checkout.resolve() not in folder.parents]
    if outside and outside != [checkout.resolve()]:
        raise UsageFault(
            f"{checkout / 'uv.lock'} takes {outside[0]} from outside the checkout",
            hint="keep the sources of a host inside its checkout",
        )
    found = {folder.resolve() for folder in folders} - {checkout.resolve()}
    for folder in sorted(found):
        if not (folder / "pyproject.toml").is_file():
            raise UsageFault(
                f"{checkout / 'uv.lock'} takes a project from {folder}, which has no pyproject.toml",
                hint="get the checkout back as it was released, or lock it again: "
                f"uv lock --project {shlex.quote(str(checkout))}",
            )
    return [checkout, *sorted(checkout / folder.relative_to(checkout.resolve()) for folder in found)]


def _project_members(folder: Path) -> Iterable[Path]:
    """Return what of a project gets into its wheel: for uv_build the module, else all but caches and VCS data."""
    try:
        project = _read_toml((folder / "pyproject.toml").read_text(encoding="utf-8"))
    except ValueError as error:
        raise ConfigInvalid(f"{folder / 'pyproject.toml'} cannot be read: {error}") from error
    yield folder / "pyproject.toml"
    if project.get("build-system", {}).get("build-backend") != "uv_build":
        for path in sorted(folder.iterdir()):
            if path.name not in LEFT_OUT and path.name != "pyproject.toml":
                yield path
        return
    backend = project.get("tool", {}).get("uv", {}).get("build-backend", {})
    module = backend.get("module-name") or str(project["project"]["name"]).replace("-", "_")
    yield folder / backend.get("module-root", "src") / module
    readme = project["project"].get("readme")
    if isinstance(readme, str):
        yield folder / readme
    yield from sorted(folder.glob("LICEN[CS]E*"))


def _entry_points(wheel: Wheel) -> dict[str, dict[str, str]]:
    with zipfile.ZipFile(wheel.path) as archive:
        found = [name for name in archive.namelist() if name.endswith(".dist-info/entry_points.txt")]
        return parse_entry_points(archive.read(found[0]).decode()) if found else {}


def _plugins(wheel: Wheel) -> list[Plugin]:
    return [
        Plugin(name=name, distribution=wheel.distribution, version=wheel.version, entry=entry)
        for name, entry in _entry_points(wheel).get(PLUGIN_GROUP, {}).items()
    ]
