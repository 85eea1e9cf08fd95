"""The wheel of a plugin that is a manifest and a module, without a project: written by PM, nothing is run for it.

Owns: which files go into it, and its form. Does not own: the manifest (model.manifest). The same files give the same
bytes.

Into the wheel goes the module that `entry` names: a package with everything in it, or one file, from the directory
itself or from its `src`. What stands beside it is a test, a note or another plugin's, and would collide with theirs.
"""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Mapping
from pathlib import Path

from packaging.version import Version

from perdure_pm.model.errors import SourceUnusable
from perdure_pm.model.manifest import DEFAULT_GROUP, Manifest

_DATE = (1980, 1, 1, 0, 0, 0)
GENERATOR = "Wheel-Version: 1.0\nGenerator: perdure-pm\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
"""The WHEEL file of every wheel that PM writes itself."""


def write_generated_wheel(folder: Path, name: str, manifest: Manifest, version: str, target: Path) -> Path:
    """Have the wheel in the directory `target`, and return its path.

    Args:
        folder: the plugin's files.
        name: the distribution's normalised name.
        manifest: what its plugin.yaml says, with an entry.
        version: the wheel's version where the manifest says none.
        target: an existing directory.

    Raises:
        SourceUnusable: the module that `entry` names is not there.
    """
    module = (manifest.entry or "").partition(":")[0].partition(".")[0]
    root = next((place for place in (folder, folder / "src") if _holds(place, module)), None)
    if root is None:
        raise SourceUnusable(
            f"the plugin {name} has no module {module}, which the entry {manifest.entry} of its plugin.yaml names",
            hint=f"put {module}.py or {module}/__init__.py beside plugin.yaml, or correct entry",
            context={"module": module},
        )
    version = str(Version(manifest.version or version))
    package = root / module
    paths = sorted(path for path in package.rglob("*") if path.is_file()) if package.is_dir() else []
    members = {path.relative_to(root).as_posix(): path.read_bytes() for path in paths or [root / f"{module}.py"]}
    escaped = name.replace("-", "_")
    info = f"{escaped}-{version}.dist-info"
    metadata = [f"Name: {name}", f"Version: {version}"]
    metadata += [f"Requires-Python: {manifest.requires_python}"] if manifest.requires_python else []
    metadata += [f"Requires-Dist: {requirement}" for requirement in manifest.dependencies or ()]
    group = manifest.group or DEFAULT_GROUP
    texts = {
        "METADATA": "\n".join(["Metadata-Version: 2.1", *metadata, ""]),
        "WHEEL": GENERATOR,
        "entry_points.txt": f"[{group}]\n{manifest.name or name} = {manifest.entry}\n",
    }
    members |= {f"{info}/{path}": text.encode() for path, text in texts.items()}
    return write_members(members, info, target / f"{escaped}-{version}-py3-none-any.whl")


def write_members(members: Mapping[str, bytes], info: str, wheel: Path) -> Path:
    """Have a wheel that holds `members` and, in its directory `info`, their RECORD; return its path."""
    rows = [f"{_quoted(path)},sha256={_digest(data)},{len(data)}" for path, data in members.items()]
    record = ("\n".join([*rows, f"{info}/RECORD,,"]) + "\n").encode()
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in {**members, f"{info}/RECORD": record}.items():
            member = zipfile.ZipInfo(path, _DATE)
            member.external_attr = 0o644 << 16
            member.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(member, data)
    return wheel


def _holds(place: Path, module: str) -> bool:
    return (place / module / "__init__.py").is_file() or (place / f"{module}.py").is_file()


def _quoted(path: str) -> str:
    """Return a path as RECORD, which is CSV, has it."""
    return '"' + path.replace('"', '""') + '"' if {",", '"', "\n"} & set(path) else path


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
