"""Plugins that use names which moved, as their files say: nothing of a plugin is imported.

Owns: where the tables of moved names are found (each package may ship one, most of all the host), which files of a
plugin are read, and the result as JSON values. Does not own: what a use is, and the migration (perdure_compat).

Keeps: plugins-moved-names.
"""

from __future__ import annotations

import csv
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from perdure_pm.model.errors import SourceUnusable
from perdure_pm.ops.declared import find_distributions
from perdure_pm.store.inventory import find_site_packages
from perdure_pm.store.recorded import say_use

if TYPE_CHECKING:  # what reads tables and sources is loaded where there is a table: most hosts have none
    from perdure_compat.findings import Finding
    from perdure_compat.index import Index
    from perdure_compat.manifest import Manifest
    from perdure_compat.source import Unreadable

TABLE = "moved-names.toml"
"""The file beside a package's modules that says what moved in it."""
MOST = 200
"""How many uses of one plugin are kept; a record is read by every `status`."""


def load_tables(environment: Path) -> Index | None:
    """Return what installed packages say of their moved names, or None where none of them says anything.

    A table that cannot be read, or speaks of another package, is passed over: it is no fault of any plugin's.
    """
    tables = sorted(find_site_packages(environment).glob(f"*/{TABLE}"))
    if not tables:
        return None
    from perdure_compat.index import Index
    from perdure_compat.manifest import ManifestFaults, load_manifest

    found: list[Manifest] = []
    for path in tables:
        try:
            manifest = load_manifest(path)
        except ManifestFaults:
            continue
        if manifest.package == path.parent.name and manifest.entries:
            found.append(manifest)
    return Index(found) if found else None


def find_installed_uses(environment: Path, names: Iterable[str]) -> list[dict[str, Any]]:
    """Return the uses in the installed files of plugins, which are named by their normalised distributions."""
    index = load_tables(environment)
    if index is None:
        return []
    site = find_site_packages(environment)
    there = find_distributions(environment)
    found: list[dict[str, Any]] = []
    for name in dict.fromkeys(names):
        findings = _scan(_installed_files(site, there[name]), index) if name in there else []
        found += [_to_json(name, finding, site) for finding in findings[:MOST]]
    return found


def find_wheel_uses(wheel: Path, index: Index) -> list[str]:
    """Return the uses in the files of a wheel, in words."""
    from perdure_compat.findings import find_in_bytes
    from perdure_compat.source import PYTHON

    said: list[str] = []
    with zipfile.ZipFile(wheel) as archive:
        for name in sorted(archive.namelist()):
            if not name.endswith(PYTHON):
                continue
            parts = PurePosixPath(name).with_suffix("").parts
            package = parts[-1] == "__init__"
            module = ".".join(parts[:-1] if package else parts)
            found = find_in_bytes(Path(name), archive.read(name), index, module, package)
            said += [f"{name}:{each.line}: {each.text()}" for each in _told(found)]
    return said


def find_uses_below(folder: Path, index: Index) -> list[str]:
    """Return the uses in a directory's Python files, in words."""
    from perdure_compat.scan import files_below  # it loads what publishing does not need

    return [
        f"{finding.path.relative_to(folder)}:{finding.line}: {finding.text()}"
        for finding in _scan(files_below([folder]), index)
    ]


def fix_below(folder: Path, index: Index, *, write: bool) -> str:
    """Have a directory's files use the new names; return what was done in words.

    Raises:
        SourceUnusable: a file cannot be written. Those before it are.
    """
    from perdure_compat.migrate import migrate_files
    from perdure_compat.scan import files_below

    found, _ = migrate_files(files_below([folder]), index)
    changed = [migration for migration in found if migration.changed]
    for migration in changed if write else ():
        try:
            migration.write()
        except (OSError, UnicodeEncodeError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise SourceUnusable(f"{migration.path} cannot be written: {reason}") from error
    moved = sum(migration.moved for migration in changed)
    verb = "moved" if write else "would move"
    return f"{verb} {moved} uses in {len(changed)} files"


def say_uses(uses: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return one sentence for each plugin that uses old names: how many, the first, and until when it works."""
    said = []
    for name in dict.fromkeys(use["distribution"] for use in uses):
        own = [use for use in uses if use["distribution"] == name]
        more = f" and {len(own) - 1} more" if len(own) > 1 else ""
        said.append(f"{name} uses names that moved: {say_use(own[0])}{more} (perdure-pm plugin info {name})")
    return tuple(said)


def _scan(files: Iterable[Path], index: Index) -> list[Finding]:
    """Return what breaks when names go; what is guarded or only a text is not told, nor what cannot be read."""
    from perdure_compat.findings import find_in_file

    found: list[Finding] = []
    for path in files:
        found += _told(find_in_file(path, index))
    return found


def _told(found: list[Finding] | Unreadable) -> list[Finding]:
    from perdure_compat.findings import INFO

    return [finding for finding in found if finding.reach != INFO] if isinstance(found, list) else []


def _installed_files(site: Path, info: Path) -> list[Path]:
    try:
        with (info / "RECORD").open(newline="", encoding="utf-8") as record:
            named = [row[0] for row in csv.reader(record) if row and row[0].endswith(".py")]
    except (OSError, ValueError):
        return []
    return [path for name in named if ".." not in name and (path := site / name).is_file()]


def _to_json(name: str, finding: Finding, site: Path) -> dict[str, Any]:
    return {
        "distribution": name,
        "file": finding.path.relative_to(site).as_posix(),
        "line": finding.line,
        "old": finding.written,
        "new": finding.entry.new or None,
        "until": finding.entry.removed_in,
        "reach": finding.reach,
        "text": finding.text(),
    }
