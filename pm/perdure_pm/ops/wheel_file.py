"""What a wheel file says of itself: its name, its requirements, and the machines it is for.

Owns: reading them with distrust, without unpacking or importing anything. Does not own: copying a wheel into the store
(snapshots), the manifest in one (manifests).
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

from packaging.tags import compatible_tags, cpython_tags
from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from perdure_pm.adapters.interpreter import Interpreter, target_name
from perdure_pm.model.errors import SourceUnusable
from perdure_pm.model.identity import normalise_distribution
from perdure_pm.model.source import Source
from perdure_pm.ops.declared import parse_entry_points


def require_for_here(source: Source, wheel: Path, interpreter: Interpreter) -> None:
    """Refuse a wheel that is for another machine or another Python: no setting makes it one for this."""
    try:
        _, version, _, tags = parse_wheel_filename(wheel.name)
    except InvalidWheelFilename:
        return  # its metadata are asked for its name, and say what is wrong
    here = interpreter.release
    fitting = {*cpython_tags(here), *compatible_tags(here, f"cp{here[0]}{here[1]}")}
    if tags.isdisjoint(fitting):
        raise SourceUnusable(
            f"{source.name} {version} has no wheel for this machine in {wheel}: that one is for "
            f"{', '.join(sorted(map(str, tags)))}, and this is Python {here[0]}.{here[1]} on {target_name()}",
            hint="name a wheel for this machine, or an sdist, which is built here",
            context={"path": str(wheel), "tags": sorted(map(str, tags))},
        )


def read_metadata(wheel: Path) -> dict[str, Any]:
    """Return the name, the requirements and the wanted Python of a wheel.

    Raises:
        SourceUnusable: it is no wheel.
    """
    from email.parser import HeaderParser  # 5 ms that only a new snapshot takes

    try:
        with zipfile.ZipFile(wheel) as archive:
            found = [
                name for name in archive.namelist() if name.count("/") == 1 and name.endswith(".dist-info/METADATA")
            ]
            headers = HeaderParser().parsestr(archive.read(found[0]).decode("utf-8"))
        name, version, *_ = wheel.name.split("-")[:2]
    except (OSError, ValueError, IndexError, KeyError, zipfile.BadZipFile) as error:
        raise SourceUnusable(
            f"{wheel.name} is no wheel: {str(error) or 'it has no metadata'}",
            hint="name a wheel as its build made it, name and all",
            context={"path": str(wheel)},
        ) from error
    if normalise_distribution(headers["Name"] or "") != normalise_distribution(name):
        raise SourceUnusable(
            f"{wheel.name} holds {headers['Name']}, which is not what its name says",
            hint="name a wheel as its build made it, name and all",
            context={"path": str(wheel)},
        )
    if not _is_same_version(headers["Version"] or "", version):
        raise SourceUnusable(
            f"{wheel.name} holds version {headers['Version']} of {headers['Name']}, which is not what its name says",
            hint="name a wheel as its build made it, name and all",
            context={"path": str(wheel)},
        )
    return {
        "name": headers["Name"],
        "requires": headers.get_all("Requires-Dist") or [],
        "requires_python": headers["Requires-Python"],
    }


def read_wheel_entries(wheel: Path) -> dict[str, dict[str, str]]:
    """Return the entry points that a wheel declares: group → name → value."""
    with zipfile.ZipFile(wheel) as archive:
        found = [name for name in archive.namelist() if name.endswith(".dist-info/entry_points.txt")]
        return parse_entry_points(archive.read(found[0]).decode("utf-8")) if found else {}


def _is_same_version(said: str, named: str) -> bool:
    """Return whether a wheel's metadata and its file's name say the same version, where both can be read."""
    try:
        return Version(said) == Version(named.replace("_", "-"))
    except InvalidVersion:
        return said.replace("-", "_") == named
