"""Wheels and source archives written by hand: for indexes and wheelhouses whose every file is about one thing."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path


def write_wheel(
    folder: Path,
    name: str,
    version: str,
    *,
    requires: Sequence[str] = (),
    metadata: Sequence[str] = (),
    source: str | None = None,
    entries: str | None = None,
    more: Mapping[str, str | bytes] | None = None,
    tag: str = "py3-none-any",
) -> Path:
    """Have a pure wheel in `folder` and return its path; the same arguments give the same bytes.

    Args:
        folder: an existing directory.
        name: the distribution, in any spelling.
        version: its version.
        requires: its requirements.
        metadata: further lines of METADATA.
        source: its module; by default one whose `plugin` is the version.
        entries: its entry_points.txt; by default one that says it is a plugin of our app.
        more: further members; with an empty `source` the module is left out.
        tag: what it runs on.
    """
    module = name.replace("-", "_").replace(".", "_").lower()
    info = f"{module}-{version}.dist-info"
    lines = [f"Name: {name}", f"Version: {version}", *metadata, *(f"Requires-Dist: {text}" for text in requires)]
    members: dict[str, str | bytes] = {
        f"{module}/__init__.py": f'plugin = "{version}"\n' if source is None else source,
        f"{info}/METADATA": "\n".join(["Metadata-Version: 2.3", *lines, ""]),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: {tag}\n",
        f"{info}/entry_points.txt": f"[perdure]\n{module} = {module}:plugin\n" if entries is None else entries,
    }
    if source == "":
        del members[f"{module}/__init__.py"]
    members |= more or {}
    rows = [f"{path},sha256={_digest(data)},{len(_bytes(data))}" for path, data in members.items()]
    members[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,"]) + "\n"
    wheel = folder / f"{module}-{version}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in members.items():
            archive.writestr(zipfile.ZipInfo(path, (2026, 1, 1, 0, 0, 0)), text)
    return wheel


def write_sdist(folder: Path, wheel: Path, *, backend: str, needs: Sequence[str] = (), named: bool = False) -> Path:
    """Have a source archive in `folder` that builds `wheel`, and return its path; the wheel is removed.

    What it needs is learned by building it, as with most old ones. `backend` is what runs at the start of every build,
    in an environment that has what it `needs`. A `named` one says its name and version without a build.
    """
    name, version = wheel.name.split("-")[:2]
    with zipfile.ZipFile(wheel) as archive:
        metadata = archive.read(f"{name}-{version}.dist-info/METADATA").decode()
    build = (
        "import shutil\n"
        f"def build_wheel(folder, settings=None, metadata=None):\n    shutil.copy({wheel.name!r}, folder)\n"
        f"    return {wheel.name!r}\n"
    )
    project = f'[build-system]\nrequires = {json.dumps(list(needs))}\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    if named:
        project += f'[project]\nname = "{name}"\nversion = "{version}"\ndynamic = ["dependencies"]\n'
    members = {
        "pyproject.toml": project.encode(),
        "backend.py": (backend + build).encode(),
        "PKG-INFO": metadata.replace("Metadata-Version: 2.3", "Metadata-Version: 2.1").encode(),
        wheel.name: wheel.read_bytes(),
    }
    archive_path = folder / f"{name}-{version}.tar.gz"
    with tarfile.open(archive_path, "w:gz") as sources:
        for path, data in members.items():
            entry = tarfile.TarInfo(f"{name}-{version}/{path}")
            entry.size = len(data)
            sources.addfile(entry, io.BytesIO(data))
    wheel.unlink()
    return archive_path


def _digest(data: str | bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(_bytes(data)).digest()).rstrip(b"=").decode()


def _bytes(data: str | bytes) -> bytes:
    return data.encode() if isinstance(data, str) else data
