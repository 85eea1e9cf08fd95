"""The plugin.yaml that a wheel carries: read from the archive, or from where it was installed; nothing is imported.

Owns: where in a wheel it may stand (``<package>/plugin.yaml``), and telling it from other tools' files of that name.
Does not own: its fields (model.manifest), that of a directory (plugin_project).
"""

from __future__ import annotations

import csv
import zipfile
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from perdure_pm.model.errors import SourceUnusable
from perdure_pm.model.identity import normalise_distribution
from perdure_pm.model.manifest import Manifest, parse_manifest
from perdure_pm.ops.plugin_project import MANIFEST_NAMES
from perdure_pm.store.inventory import find_site_packages
from perdure_pm.store.reading import read_regular

MAX_BYTES = 1 << 20


def read_wheel_manifest(wheel: Path) -> Manifest | None:
    """Return the manifest in a wheel, or None where it has none.

    Raises:
        ManifestInvalid: it has faults, all of which are named.
    """
    with zipfile.ZipFile(wheel) as archive:
        name = _choose(archive.namelist())
        if name is None or archive.getinfo(name).file_size > MAX_BYTES:
            return None
        return _parse(archive.read(name), f"{wheel.name}/{name}")


def read_installed_manifests(environment: Path, names: Iterable[str]) -> dict[str, Manifest]:
    """Return the manifest of each of the distributions that carries one, from the files that were installed.

    Raises:
        ManifestInvalid: one has faults, all of which are named.
        SourceUnusable: one asks for a way to run that is not there.
    """
    wanted = set(names)
    found: dict[str, Manifest] = {}
    site = find_site_packages(environment)
    for info in site.glob("*.dist-info"):
        name = normalise_distribution(info.name.partition("-")[0])
        if name not in wanted:
            continue
        path = _choose(_recorded(info / "RECORD"))
        if path is None:
            continue
        manifest = _parse(read_regular(site / path, MAX_BYTES), path)
        if manifest is not None:
            if manifest.runtime != "in-process":
                raise SourceUnusable(
                    f"the plugin {name} wants runtime: {manifest.runtime}, which a plugin from an index cannot have",
                    hint=f"leave {name} out",
                )
            found[name] = manifest
    return found


def _recorded(record: Path) -> list[str]:
    try:
        with record.open(encoding="utf-8", newline="") as file:
            return [row[0] for row in csv.reader(file) if row]
    except (OSError, ValueError, csv.Error):
        return []


def _choose(names: Iterable[str]) -> str | None:
    """Return the manifest's path among a wheel's: beside a package's modules, and nowhere deeper."""
    paths = [PurePosixPath(name) for name in names]
    found = [
        path
        for path in paths
        if path.name in MANIFEST_NAMES and len(path.parts) == 2 and not path.parts[0].endswith((".dist-info", ".data"))
    ]
    return str(min(found)) if found and ".." not in found[0].parts else None


def _parse(data: bytes, name: str) -> Manifest | None:
    from perdure_pm.store.yaml_text import read_document

    try:
        document = read_document(data.decode("utf-8").removeprefix("\ufeff"), name)
    except UnicodeDecodeError:
        return None
    # Other tools have files of that name, too: in a package, only one that says its form is ours.
    if not isinstance(document.data, dict) or not isinstance(document.data.get("manifest"), int):
        return None
    return parse_manifest(document)
