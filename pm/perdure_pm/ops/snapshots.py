"""Snapshots: a plugin that is not from an index, copied into the store and built to a wheel once for each digest.

Owns: the digest of a source as it is now, the copy, its wheel, and reading a snapshot back with distrust. Does not own:
which sources a profile lists (selection), what a wheel says of itself (wheel_file), what of a tree counts
(adapters.trees), what a directory is (plugin_project), installing (build).

A snapshot lies at ``store/plugins/<digest>`` and is sealed like a release: everything a generation needs of the plugin
is in it, so the directory, the file or the repository may go. Nothing ever runs from where people edit it. Keeps:
snapshot-built-once, snapshot-outlives-source, snapshot-missing-named.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from perdure_pm.adapters import archives
from perdure_pm.adapters.git import Git
from perdure_pm.adapters.interpreter import Interpreter, target_name
from perdure_pm.adapters.trees import MAX_BYTES, copy_tree, digest_tree, read_tree
from perdure_pm.adapters.uv import Uv
from perdure_pm.model.errors import IntegrityFault, PerdureError, SourceUnusable
from perdure_pm.model.identity import EDITABLE, normalise_distribution
from perdure_pm.model.manifest import Manifest, manifest_from_json
from perdure_pm.model.source import Source
from perdure_pm.ops.build import Wheel
from perdure_pm.ops.context import Context
from perdure_pm.ops.editable_wheel import digest_metadata, write_editable_wheel
from perdure_pm.ops.generated_wheel import write_generated_wheel
from perdure_pm.ops.manifests import read_wheel_manifest
from perdure_pm.ops.plugin_project import PluginProject, complete_pyproject, is_versions, read_plugin_project
from perdure_pm.ops.wheel_file import read_metadata, require_for_here
from perdure_pm.ports import Filesystem
from perdure_pm.store.inventory import hash_file
from perdure_pm.store.layout import Layout
from perdure_pm.store.reading import read_regular

SCHEMA = 1
RECORD = "plugin.json"
MAX_RECORD = 16 << 20
"""Bytes."""
DIGITS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A source as it is now."""

    source: Source
    digest: str
    """Of what would be installed: its files, and what they are built for."""
    manifest: Manifest | None = None
    """What its plugin.yaml says, as far as that is known without a copy."""
    requires_python: str | None = None
    """What its metadata says, as far as that is known without a copy."""
    notice: str = ""
    """What a person should know of where it was taken from."""

    @property
    def external(self) -> Manifest | None:
        """The manifest of a plugin that is a program of its own: never copied, built or installed."""
        return self.manifest if self.manifest is not None and self.manifest.runtime == "external" else None

    def to_json(self) -> dict[str, str | bool]:
        """Return the form that inputs and records hold."""
        mark = {EDITABLE: True} if self.source.editable else {}
        return {"name": self.source.name, "entry": self.source.entry, "digest": self.digest, **mark}


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A source in the store."""

    name: str
    """The distribution's normalised name."""
    requirement: str
    """The name with the extras that were asked for."""
    digest: str
    wheel: Wheel
    manifest: Manifest | None
    requires: tuple[str, ...]
    """What the wheel needs, as its metadata says."""
    requires_python: str | None

    @property
    def version(self) -> str:
        return self.wheel.version


# What is there now


def look(layout: Layout, source: Source, interpreter: Interpreter, recorded: Mapping[str, str]) -> Seen:
    """Return a source as it is now, or, where it is gone, as it was when it was last installed.

    Args:
        layout: the home.
        source: what the profile lists.
        interpreter: what it would be built for.
        recorded: entry → digest of the generation that runs now.

    Raises:
        SourceUnusable: it cannot be read, is no plugin, or is gone, and the store has no copy.
        ManifestInvalid: its plugin.yaml has faults.
    """
    built_for = _built_for(interpreter)
    if source.kind == "git":
        digest = _digest("git", source.commit or "", source.subdirectory or "", built_for)
        return _seen(layout, source, digest)
    path = Path(source.path or "")
    if not os.path.lexists(path):
        if source.editable:
            raise _missing(source)  # a copy of what is edited is another plugin than the one that was asked for
        kept = _find_kept(layout, source, recorded)
        if kept is None:
            raise _missing(source)
        notice = f"{path} is gone: {source.name} was taken from the store as it was when it was last installed"
        return replace(_seen(layout, source, kept), notice=notice)
    if source.kind == "directory":
        return _look_at_directory(layout, source, path, built_for)
    if not path.is_file():
        raise SourceUnusable(f"{path} is no file", hint="name a wheel, an sdist or a directory")
    content = hash_file(path)
    # A wheel's name says what it is of and for, and is no part of its bytes.
    digest = _digest("wheel", content, path.name) if source.kind == "wheel" else _digest("sdist", content, built_for)
    return _seen(layout, source, digest)


def _seen(layout: Layout, source: Source, digest: str) -> Seen:
    """Return a source whose copy, where there is one, tells what it is."""
    known = load_snapshot(layout, digest, source)
    if known is None:
        return Seen(source=source, digest=digest)
    return Seen(source=source, digest=digest, manifest=known.manifest, requires_python=known.requires_python)


def _built_for(interpreter: Interpreter) -> str:
    return f"{interpreter.implementation}-{interpreter.release[0]}.{interpreter.release[1]}-{target_name()}"


def find_recorded(record: Mapping[str, Any] | None) -> dict[str, str]:
    """Return the digest of each source of a generation's record, by entry."""
    listed = (record or {}).get("sources", ())
    return {str(item["entry"]): str(item["digest"]) for item in listed if isinstance(item, dict) and "digest" in item}


def _look_at_directory(layout: Layout, source: Source, path: Path, built_for: str) -> Seen:
    if not path.is_dir():
        raise SourceUnusable(f"{path} is neither a directory nor a wheel nor an sdist", hint="name one of them")
    if layout.home == path or path in layout.home.parents:
        raise SourceUnusable(f"{path} holds this home: it is no plugin's directory", hint="name the plugin's own")
    project = read_plugin_project(layout, path, str(path), name=source.name)
    _require_name(source, project.name)
    if project.runtime == "external" and project.manifest is not None:
        manifest = project.manifest
        if source.editable:
            raise SourceUnusable(
                f"{path} says runtime: external: such a plugin runs from its directory in any case",
                hint="add it without --editable",
            )
        said = json.dumps(manifest.to_json(), sort_keys=True)
        return Seen(source=source, digest=_digest("external", str(path), said), manifest=manifest)
    _require_in_process(project)
    requires = project.table.get("requires-python")
    return Seen(
        source=source,
        digest=_digest_directory(source, path, built_for),
        manifest=project.manifest,
        requires_python=requires if isinstance(requires, str) and is_versions(requires) else None,
    )


def _digest_directory(source: Source, path: Path, built_for: str) -> str:
    """Return the digest of the directory at `path`: the source's own, or a copy of it."""
    if source.editable:
        return _digest(EDITABLE, str(source.path), digest_metadata(path), built_for)
    return _digest("directory", digest_tree(read_tree(path)), built_for)


def _missing(source: Source) -> SourceUnusable:
    gone = "runs from" if source.editable else "is to come from"
    lost = "gone" if source.editable else "gone, and the store has no copy of it"
    return SourceUnusable(
        f"the plugin {source.name} {gone} {source.path}, which is {lost}",
        hint=f"put it back, or take the plugin out: perdure-pm plugin remove {source.name}",
        context={"plugin": source.name, "path": source.path},
    )


def _digest(*parts: str) -> str:
    return hashlib.sha256(json.dumps([SCHEMA, *parts]).encode()).hexdigest()[:DIGITS]


def _find_kept(layout: Layout, source: Source, recorded: Mapping[str, str]) -> str | None:
    """Return the digest by which a source that is gone is known: the running generation's, else the newest copy's."""
    digest = recorded.get(source.entry)
    if digest is not None:
        return digest  # a generation that is sound needs no copy; where one is needed, `ensure_snapshot` says so
    folders = sorted(layout.plugins.glob(f"*/{RECORD}"), key=lambda path: path.stat().st_mtime_ns, reverse=True)
    for folder in folders:
        try:
            entry = json.loads(folder.read_bytes())["entry"]
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            continue
        if entry == source.entry and load_snapshot(layout, folder.parent.name, source) is not None:
            return folder.parent.name
    return None


# In the store


def load_snapshot(layout: Layout, digest: str, source: Source) -> Snapshot | None:
    """Return the snapshot of that digest, or None where it is not there, not complete, or not what it was."""
    folder = layout.plugin(digest)
    try:
        data = json.loads(read_regular(folder / RECORD, MAX_RECORD))
        if data["schema"] != SCHEMA or data["digest"] != digest or data["name"] != source.name:
            return None
        wheel = Wheel(folder / str(data["wheel"]["file"]), str(data["wheel"]["sha256"]))
        if wheel.path.parent != folder or hash_file(wheel.path) != wheel.sha256:
            return None
        return Snapshot(
            name=source.name,
            requirement=source.requirement,
            digest=digest,
            wheel=wheel,
            manifest=None if data["manifest"] is None else manifest_from_json(data["manifest"]),
            requires=tuple(str(text) for text in data["requires"]),
            requires_python=data["requires_python"],
        )
    except (OSError, ValueError, KeyError, TypeError, PerdureError):
        return None


def ensure_snapshot(
    context: Context, uv: Uv, seen: Seen, interpreter: Interpreter, builds: tuple[str, ...] | None
) -> Snapshot:
    """Have the source in the store, with its wheel, and return it. The caller holds the mutex.

    Args:
        context: the world.
        uv: the uv that builds.
        seen: the source as it is now.
        interpreter: what it is built for.
        builds: normalised names of what a build itself needs and may be built from source; None for everything. To
            name a source is consent to build that one alone.

    Raises:
        SourceUnusable: it is no plugin, holds what no copy can hold, changed while it was copied, or is gone.
        ManifestInvalid: its plugin.yaml has faults.
        BuildFailed, NetworkUnreachable, ArtefactMissing: its wheel could not be built.
    """
    layout, source, filesystem = context.layout, seen.source, context.filesystem
    known = load_snapshot(layout, seen.digest, source)
    if known is not None:
        return known
    if source.path is not None and not os.path.lexists(source.path):
        raise _missing(source)
    context.reporter.progress("plugin", f"copying {source.name} from {source.place}")
    building = layout.scratch / f"plugin-{seen.digest}"
    filesystem.remove_tree(building)
    filesystem.make_directories(building)
    try:
        if source.kind == "wheel":
            wheel, manifest = _copy_wheel(source, building, interpreter), None
        else:
            wheel, manifest = _build(context, uv, seen, interpreter, building, builds)
        return _keep(context, seen, building, wheel, manifest)
    finally:
        filesystem.remove_tree(building)


def _keep(context: Context, seen: Seen, building: Path, wheel: Path, manifest: Manifest | None) -> Snapshot:
    """Have what was built in the store, its record written last, and return it."""
    layout, filesystem, source = context.layout, context.filesystem, seen.source
    metadata = read_metadata(wheel)
    _require_name(source, str(metadata["name"]))
    manifest = manifest or read_wheel_manifest(wheel)
    if manifest is not None and manifest.runtime != "in-process":
        raise SourceUnusable(
            f"the plugin.yaml in {wheel.name} says runtime: {manifest.runtime}; a wheel runs in the host's process",
            hint="take runtime out of it, or add the directory of a program of its own",
        )
    for warning in () if manifest is None else manifest.warnings:
        context.reporter.progress("plugin", f"warning: {warning}")
    if manifest is not None and manifest.name not in {None, source.name}:
        raise SourceUnusable(
            f"the plugin.yaml in {wheel.name} says name: {manifest.name}, and it is installed as {source.name}",
            hint="have both say the same name",
        )
    record = {
        "schema": SCHEMA,
        "digest": seen.digest,
        "name": source.name,
        "version": Wheel(wheel, "").version,
        "kind": source.kind,
        "entry": source.entry,
        "wheel": {"file": wheel.name, "sha256": hash_file(wheel)},
        "manifest": None if manifest is None else manifest.to_json(),
        "requires": metadata["requires"],
        "requires_python": metadata["requires_python"],
    }
    folder = layout.plugin(seen.digest)
    filesystem.remove_tree(folder)  # what a killed build left, or what was damaged since
    filesystem.make_directories(layout.plugins)
    filesystem.make_read_only(building)
    building.chmod(0o755)
    filesystem.flush(building)
    filesystem.rename(building, folder)
    # Written last: a snapshot without it is what a killed build left.
    filesystem.write_durable(folder / RECORD, json.dumps(record, indent=1).encode(), mode=0o444)
    folder.chmod(0o555)
    snapshot = load_snapshot(layout, seen.digest, source)
    if snapshot is None:
        raise IntegrityFault(f"the snapshot that was just made at {folder} cannot be read back")
    return snapshot


def _copy_wheel(source: Source, building: Path, interpreter: Interpreter) -> Path:
    path = Path(source.path or "")
    _check(source, path)
    require_for_here(source, path, interpreter)
    target = building / path.name
    target.write_bytes(path.read_bytes())
    return target


def _check(source: Source, archive: Path) -> None:
    try:
        archives.check_zip(archive)
    except IntegrityFault as fault:
        raise _damaged(source, fault) from fault


def _damaged(source: Source, fault: IntegrityFault) -> SourceUnusable:
    return SourceUnusable(
        f"{source.place} cannot be used: {fault.summary}",
        hint="build the archive anew, or get it again",
        context={"path": source.place, **fault.context},
    )


def _build(
    context: Context, uv: Uv, seen: Seen, interpreter: Interpreter, building: Path, builds: tuple[str, ...] | None
) -> tuple[Path, Manifest | None]:
    """Return the wheel, in `building` beside the sources that it was built from, and the manifest beside them."""
    source, layout, filesystem = seen.source, context.layout, context.filesystem
    kept = building / "source"
    git = fetch_tree(context, source, kept)
    below = kept / source.subdirectory if source.subdirectory else kept
    if not below.is_dir():
        raise SourceUnusable(f"{source.place} has no directory {source.subdirectory}", hint="correct #subdirectory=")
    shown = source.place + (f"/{source.subdirectory}" if source.subdirectory else "")
    project = read_plugin_project(layout, below, shown, name=source.name)
    _require_name(source, project.name)
    _require_in_process(project)
    if project.runtime == "external":
        raise SourceUnusable(
            f"{shown} says runtime: external: such a plugin stays where it is, in a directory",
            hint="clone or unpack it, and add that directory",
        )
    # What is edited in place need only be the same metadata as before it was copied.
    looked_at = Path(source.path or "") if source.editable else kept
    if source.kind == "directory" and _digest_directory(source, looked_at, _built_for(interpreter)) != seen.digest:
        raise SourceUnusable(
            f"{source.place} was changed while it was copied", hint="run the same command again", context={}
        )
    stand_in = f"0+g{source.commit[:9]}" if source.commit else f"0+d{seen.digest}"
    if not project.buildable and project.manifest is not None:
        wheel = write_generated_wheel(below, project.name, project.manifest, stand_in, building)
        return _in_place(source, wheel, kept, filesystem), project.manifest
    # Built from a second copy: backends write beside the sources.
    work = building / "work"
    copy_tree(kept, read_tree(kept), work)
    project_folder = work / source.subdirectory if source.subdirectory else work
    text = complete_pyproject(project, stand_in)
    if text is not None:
        (project_folder / "pyproject.toml").write_text(text, encoding="utf-8")
    variables = {}
    if "version" in project.dynamic or not project.table:
        version = stand_in if git is None else git.describe(source.url or "", source.commit or "")
        if project.manifest is not None and project.manifest.version is not None:
            version = project.manifest.version
        variables = _versions_told(version)
    context.reporter.progress("plugin", f"building {source.name}")
    made = building / "made"
    filesystem.make_directories(made)
    wheel = uv.build_source(project_folder, made, interpreter.path, source.name, builds=builds, variables=variables)
    filesystem.rename(wheel, building / wheel.name)
    for folder in (work, made):
        filesystem.remove_tree(folder)
    _check(source, building / wheel.name)
    # A plugin.yaml in a package is no part of the wheel any more when it runs from where it is edited.
    manifest = project.manifest or (read_wheel_manifest(building / wheel.name) if source.editable else None)
    return _in_place(source, building / wheel.name, kept, filesystem), manifest


def _in_place(source: Source, wheel: Path, kept: Path, filesystem: Filesystem) -> Path:
    """Return the wheel, or, for a plugin that is to run from where it is edited, the one that leads there."""
    if not source.editable:
        return wheel
    filesystem.remove_tree(kept)  # the copy is not what runs
    return write_editable_wheel(wheel, Path(source.path or ""), source.name)


def fetch_tree(context: Context, source: Source, target: Path) -> Git | None:
    """Have the source's tree at `target`, a new directory; return the git that knows its repository, if there is one.

    Raises:
        SourceUnusable, NetworkUnreachable, ArtefactMissing: it could not be had, or holds what no copy can hold.
    """
    if source.kind == "directory":
        path = Path(source.path or "")
        copy_tree(path, read_tree(path, on_member=context.reporter.heartbeat), target)
        return None
    git = None
    archive = Path(source.path or "")
    if source.kind == "git":
        git = make_git(context, source.commit or "")
        git.fetch(source.url or "", source.commit or "")
        archive = target.with_name("archive.tar")
        git.archive(source.commit or "", archive)
        for name in git.find_submodules(source.commit or ""):
            context.reporter.progress("plugin", f"{source.place}: the submodule {name} is left out")
    unpacked = target.with_name("unpacked")
    try:
        archives.unpack(archive, unpacked, on_member=context.reporter.heartbeat, max_bytes=MAX_BYTES)
    except IntegrityFault as fault:
        raise _damaged(source, fault) from fault
    # An sdist holds one directory, named for the project and its version.
    inside = sorted(unpacked.iterdir())
    top = inside[0] if source.kind == "sdist" and len(inside) == 1 and inside[0].is_dir() else unpacked
    copy_tree(top, read_tree(top), target)
    context.filesystem.remove_tree(unpacked)
    if git is not None:
        archive.unlink()
    return git


def make_git(context: Context, key: str) -> Git:
    """Return a git with a scratch repository of its own, which later steps of the same operation find again."""
    name = hashlib.sha256(key.encode()).hexdigest()[:DIGITS]
    folder = context.layout.scratch / f"git-{name}"
    return Git(folder, context.network, context.environ, on_tick=context.reporter.heartbeat)


def _versions_told(version: str) -> dict[str, str]:
    """Return what tells backends that take the version from VCS data, which no copy has, the version."""
    return {"SETUPTOOLS_SCM_PRETEND_VERSION": version, "PDM_BUILD_SCM_VERSION": version, "PBR_VERSION": version}


def _require_name(source: Source, name: str) -> None:
    if normalise_distribution(name) != source.name:
        raise SourceUnusable(
            f"{source.place} is the plugin {normalise_distribution(name)}, and is to be installed as {source.name}",
            hint=f"list it by its own name: {normalise_distribution(name)} @ …",
            context={"name": name, "wanted": source.name},
        )


def _require_in_process(project: PluginProject) -> None:
    if project.runtime == "isolated":
        raise SourceUnusable(
            f"the plugin {project.name} wants runtime: isolated, which this version of Perdure does not have",
            hint="have it run in the host's process: runtime: in-process",
            context={"plugin": project.name},
        )
