"""What a plugin's directory is: a project that builds, a manifest alone, or nothing that can be installed.

Owns: reading `pyproject.toml` and `plugin.yaml` together, what each may say, and what a build is told of the manifest.
Does not own: the fields (model.manifest), building (ops.snapshots), writing a wheel (ops.generated_wheel). Nothing of
the plugin is run.

The project wins for what it says; where the manifest says otherwise, that is a fault. What only the manifest says is
written into the copy that is built, never into anybody's file. Keeps: manifest-and-project-agree, lint-only-is-none.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from perdure_pm.model.document import Document, Fault
from perdure_pm.model.errors import ManifestInvalid, SourceUnusable
from perdure_pm.model.identity import is_distribution_name, normalise_distribution
from perdure_pm.model.manifest import DEFAULT_GROUP, Manifest, faults_error, find_own_name, parse_manifest
from perdure_pm.store.config import load_file
from perdure_pm.store.layout import Layout
from perdure_pm.store.reading import read_regular

MANIFEST_NAMES = ("plugin.yaml", "plugin.yml")
MAX_PYPROJECT = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginProject:
    """What a directory says of the plugin in it."""

    name: str
    """The distribution's normalised name."""
    manifest: Manifest | None
    buildable: bool
    """Whether a build backend makes the wheel; else PM writes it from the manifest."""
    text: str = ""
    """Of pyproject.toml."""
    table: Mapping[str, Any] = field(default_factory=dict)
    """Its ``[project]``."""

    @property
    def dynamic(self) -> frozenset[str]:
        """The fields that the build itself finds out."""
        return frozenset(str(name) for name in self.table.get("dynamic", ()))

    @property
    def runtime(self) -> str:
        return self.manifest.runtime if self.manifest is not None else "in-process"


def read_plugin_project(layout: Layout, folder: Path, shown: str, *, name: str | None = None) -> PluginProject:
    """Return what the directory says, with every fault of its manifest at once.

    Args:
        layout: the home, below which files are called by their place in it.
        folder: the directory.
        shown: what it is called in messages: where people edit it.
        name: the distribution's name where the files do not say one.

    Raises:
        ManifestInvalid: plugin.yaml has faults, or says otherwise than pyproject.toml.
        SourceUnusable: there is no plugin in it, or pyproject.toml cannot be read.
    """
    document = _read_manifest(layout, folder, shown)
    text, pyproject = _read_pyproject(folder, shown)
    table = pyproject.get("project")
    table = table if isinstance(table, dict) else None
    buildable = table is not None or _is_buildable_otherwise(folder, pyproject)
    manifest, faults = None, []
    if document is not None:
        try:
            manifest = parse_manifest(document)
        except ManifestInvalid as fault:
            if table is None:
                raise
            raise fault from None
        faults += list(_find_disagreements(document, manifest, table or {}))
        if not buildable:
            faults += list(_find_missing(document, manifest))
        if manifest.name is None and (own := _find_name(folder, pyproject, table, manifest) or name):
            faults += find_own_name(document, manifest.requires_plugins, own)
    if faults and document is not None:
        raise faults_error(document.file, faults)
    if not buildable and manifest is None:
        only_tools = " (its pyproject.toml has only tables of tools)" if pyproject else ""
        raise SourceUnusable(
            f"{shown} holds no plugin: neither a project in pyproject.toml nor a plugin.yaml{only_tools}",
            hint="name the plugin's own directory; docs/how-to/write-a-plugin.md says what it holds",
            context={"path": shown},
        )
    name = _find_name(folder, pyproject, table, manifest) or name
    if name is None:
        raise SourceUnusable(
            f"{shown} does not say its name where it can be read without running its build",
            hint=f"say it: perdure-pm plugin add 'NAME @ {shown}', or give it a plugin.yaml with name",
            context={"path": shown},
        )
    return PluginProject(name=name, manifest=manifest, buildable=buildable, text=text, table=table or {})


def complete_pyproject(project: PluginProject, version: str) -> str | None:
    """Return pyproject.toml with what only the manifest says, for the copy that is built; None where nothing is added.

    Args:
        project: what the directory says.
        version: what stands for a version that nobody says.

    Raises:
        SourceUnusable: the file is written in a way that cannot be completed from outside.
    """
    table, manifest = project.table, project.manifest
    if not table:
        return None
    inside: dict[str, str] = {}
    if "version" not in table and "version" not in project.dynamic:
        inside["version"] = json.dumps((manifest.version if manifest else None) or version)
    if manifest is not None:
        if manifest.dependencies and not {"dependencies"} & {*table, *project.dynamic}:
            inside["dependencies"] = json.dumps(list(manifest.dependencies))
        if manifest.requires_python and not {"requires-python"} & {*table, *project.dynamic}:
            inside["requires-python"] = json.dumps(manifest.requires_python)
    behind = _entry_table(project)
    if not inside and not behind:
        return None
    lines = "".join(f"{name} = {value}\n" for name, value in inside.items())
    text = re.sub(
        r"(?m)^[ \t]*\[[ \t]*project[ \t]*\][^\n]*(\n|\Z)",
        lambda m: m[0].rstrip("\n") + "\n" + lines,
        project.text,
        count=1,
    )
    text = f"{text.rstrip()}\n\n{behind}" if behind else text
    try:
        found = tomllib.loads(text)["project"]
        done = all(found.get(name) == json.loads(value) for name, value in inside.items())
    except (tomllib.TOMLDecodeError, KeyError, AttributeError):
        done = False
    if not done:
        raise SourceUnusable(
            f"pyproject.toml of {project.name} lacks {', '.join(inside) or 'its entry point'}, and is written in a way "
            "that it cannot be completed from plugin.yaml",
            hint="say it in pyproject.toml, in a [project] table",
        )
    return text


def _entry_table(project: PluginProject) -> str:
    """Return the table of the manifest's entry, where the project declares no entry point of that group."""
    manifest = project.manifest
    if manifest is None or manifest.entry is None or "entry-points" in project.dynamic:
        return ""
    group = manifest.group or DEFAULT_GROUP
    if group in (project.table.get("entry-points") or {}):
        return ""
    name = manifest.name or project.name
    return f"[project.entry-points.{json.dumps(group)}]\n{json.dumps(name)} = {json.dumps(manifest.entry)}\n"


def _read_manifest(layout: Layout, folder: Path, shown: str) -> Document | None:
    there = [name for name in MANIFEST_NAMES if (folder / name).is_file()]
    if not there:
        return None
    document = load_file(layout, folder / there[0], name=f"{shown}/{there[0]}").document
    if len(there) > 1:
        fault = Fault(file=document.file, line=0, column=0, key="", message=f"stands beside {there[1]}; keep one")
        raise faults_error(document.file, [*document.faults, fault])
    return document


def _read_pyproject(folder: Path, shown: str) -> tuple[str, dict[str, Any]]:
    path = folder / "pyproject.toml"
    if not path.is_file():
        return "", {}
    try:
        text = read_regular(path, MAX_PYPROJECT).decode("utf-8").replace("\r\n", "\n")
        return text, tomllib.loads(text)
    except (OSError, ValueError) as error:
        raise SourceUnusable(
            f"{shown}/pyproject.toml cannot be read: {error}",
            hint="correct it, then run the same command again",
            context={"path": f"{shown}/pyproject.toml"},
        ) from error


def _is_buildable_otherwise(folder: Path, pyproject: Mapping[str, Any]) -> bool:
    """Return whether a directory without ``[project]`` is a project of an older form: what only lints is none."""
    if (folder / "setup.py").is_file():
        return True
    if "build-system" not in pyproject:
        return False
    tools = pyproject.get("tool", {})
    return (folder / "setup.cfg").is_file() or "name" in tools.get("poetry", {}) or "metadata" in tools.get("flit", {})


def _find_name(
    folder: Path, pyproject: Mapping[str, Any], table: Mapping[str, Any] | None, manifest: Manifest | None
) -> str | None:
    """Return the distribution's name by the first place that says it."""
    tools = pyproject.get("tool", {})
    flit = tools.get("flit", {}).get("metadata", {})
    places = [
        (table or {}).get("name"),
        tools.get("poetry", {}).get("name"),
        flit.get("dist-name") or flit.get("module"),
        _name_of_setup(folder / "setup.cfg"),
        manifest.name if manifest is not None else None,
    ]
    found = next((name for name in places if isinstance(name, str) and is_distribution_name(name)), None)
    return None if found is None else normalise_distribution(found)


def _name_of_setup(path: Path) -> str | None:
    import configparser  # 2 ms, and only for a plugin of the old kind

    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read_string(path.read_text(encoding="utf-8"))
        return parser.get("metadata", "name", fallback=None)
    except (OSError, ValueError, configparser.Error):
        return None


def _find_missing(document: Document, manifest: Manifest) -> Iterator[Fault]:
    """Yield what a manifest must say where there is no project beside it."""
    if manifest.name is None:
        yield document.fault_at((), "lacks name, and there is no project in pyproject.toml that says it")
    if manifest.runtime == "in-process" and manifest.entry is None:
        yield document.fault_at((), "lacks entry (module:attribute), and there is no project in pyproject.toml")


def _find_disagreements(document: Document, manifest: Manifest, table: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield where the manifest says otherwise than ``[project]``, which is what is installed."""
    said = {
        "name": (manifest.name, table.get("name"), normalise_distribution),
        "version": (manifest.version, table.get("version"), _version),
        "requires-python": (manifest.requires_python, table.get("requires-python"), _versions),
    }
    for name, (own, other, form) in said.items():
        if own is not None and isinstance(other, str) and form(own) != form(other):
            yield document.fault_at((name,), f"is {own}, and pyproject.toml says {other}, which is what is installed")
    listed = table.get("dependencies")
    if manifest.dependencies is not None and isinstance(listed, list):
        different = _requirements(manifest.dependencies) ^ _requirements(listed)
        if different:
            differ = ", ".join(sorted(different))
            yield document.fault_at(
                ("dependencies",), f"differs from pyproject.toml's, which are installed, in: {differ}"
            )
    group = manifest.group or DEFAULT_GROUP
    entries = (table.get("entry-points") or {}).get(group)
    if manifest.entry is not None and isinstance(entries, dict) and manifest.entry not in entries.values():
        theirs = ", ".join(map(str, entries.values()))
        yield document.fault_at(
            ("entry",), f"is {manifest.entry}, and pyproject.toml's entry points of {group} are: {theirs}"
        )


def is_versions(text: str) -> bool:
    """Return whether a text is a set of versions; a build that says otherwise fails by itself."""
    return isinstance(_versions(text), SpecifierSet)


def _version(text: str) -> object:
    try:
        return Version(text)
    except InvalidVersion:
        return text


def _versions(text: str) -> object:
    try:
        return SpecifierSet(text)
    except InvalidSpecifier:
        return text


def _requirements(texts: Any) -> frozenset[str]:
    found = set()
    for text in texts:
        try:
            requirement = Requirement(str(text))
        except InvalidRequirement:
            found.add(str(text))
            continue
        requirement.name = normalise_distribution(requirement.name)
        found.add(str(requirement))
    return frozenset(found)
