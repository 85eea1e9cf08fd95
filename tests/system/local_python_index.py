"""Archives and a downloads list made of a CPython of this machine, so that uv can install one without the internet.

Owns: making an installed CPython relocatable and describing it in uv's download format. Does not own: what is tested
with it. Linux with glibc on x86_64 or aarch64, and readelf (binutils). The archive has the shape that uv expects
(python/{bin,include,lib}); an absolute run path is rewritten to $ORIGIN, and the prefix in _sysconfigdata to /install,
which uv patches at installation.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

MACHINES = {"x86_64": "x86_64", "aarch64": "aarch64"}


def write_downloads(target: Path, prefix: Path) -> Path:
    """Return a downloads list in `target` that offers the CPython installed at `prefix`.

    Raises:
        ValueError: it cannot be made relocatable.
    """
    target.mkdir(parents=True)
    asked: list[str | Path] = [
        prefix / "bin" / "python3",
        "-I",
        "-c",
        "import platform; print(platform.python_version())",
    ]
    version = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    archive = _write_archive(target, prefix, version)
    major, minor, patch = (int(part) for part in re.findall(r"\d+", version)[:3])
    machine = MACHINES[platform.machine()]
    entry = {
        "name": "cpython",
        "arch": {"family": machine, "variant": None},
        "os": "linux",
        "libc": "gnu",
        "major": major,
        "minor": minor,
        "patch": patch,
        "prerelease": "",
        "variant": None,
        "build": "20260101",
        "url": archive.as_uri(),
        "sha256": hashlib.sha256(archive.read_bytes()).hexdigest(),
    }
    listing = target / "downloads.json"
    listing.write_text(json.dumps({f"cpython-{version}-linux-{machine}-gnu": entry}, indent=1), encoding="utf-8")
    return listing


def _write_archive(target: Path, prefix: Path, version: str) -> Path:
    name = f"python{version.rpartition('.')[0]}"
    archive = target / f"cpython-{version}-local.tar.gz"
    skip = shutil.ignore_patterns("__pycache__", "*.a", "*-gdb.py", "test", "tests", "idle_test", "site-packages")
    with tempfile.TemporaryDirectory(dir=target) as scratch:
        root = Path(scratch) / "python"
        shutil.copytree(prefix / "lib", root / "lib", symlinks=True, ignore=skip)
        (root / "lib" / name / "site-packages").mkdir()
        if (prefix / "include").is_dir():
            shutil.copytree(prefix / "include", root / "include", symlinks=True)
        (root / "bin").mkdir()
        shutil.copy2((prefix / "bin" / name).resolve(), root / "bin" / name)
        for link in ("python3", "python"):
            (root / "bin" / link).symlink_to(name)
        _relocate(root, prefix / "lib")
        for data in (root / "lib" / name).glob("_sysconfigdata_*.py"):
            data.write_text(data.read_text(encoding="utf-8").replace(str(prefix), "/install"), encoding="utf-8")
        with tarfile.open(archive, "w:gz", compresslevel=1) as tar:
            tar.add(root, "python")
    return archive


def _relocate(root: Path, library: Path) -> None:
    """Rewrite the run path `library` of every binary below `root` to one relative to the binary."""
    old = os.fsencode(library) + b"\0"
    for path in root.rglob("*"):
        if path.is_symlink() or not path.is_file():
            continue
        data = path.read_bytes()
        if data[:4] != b"\x7fELF" or old not in data:
            continue
        if "PATH" not in subprocess.run(["readelf", "-d", path], capture_output=True, text=True, check=True).stdout:
            continue
        relative = os.path.relpath(root / "lib", path.parent)
        new = (b"$ORIGIN" if relative == "." else b"$ORIGIN/" + relative.encode()) + b"\0"
        if len(new) > len(old):
            raise ValueError(f"{library}: the path is too short to rewrite in {path}")
        path.write_bytes(data.replace(old, new + b"\0" * (len(old) - len(new))))
