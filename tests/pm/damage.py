"""Damage to homes in tests, and what doctor says of it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from perdure_pm.ops.doctor import examine
from perdure_pm.store.layout import Layout
from tests.pm.fake_host import STUBS


def problems(layout: Layout, *, deep: bool = True) -> list[str]:
    """Return the codes of what is wrong, but for the stubs of these homes."""
    return [code for code, _ in hints(layout, deep=deep)]


def hints(layout: Layout, *, deep: bool = False) -> list[tuple[str, str]]:
    """Return the codes with what is said to help."""
    found = examine(layout, "default", deep=deep)["problems"]
    return [(problem["code"], problem["hint"]) for problem in found if problem["code"] not in STUBS]


def writable(path: Path) -> Path:
    """Return the path, with its directory and itself open to changes."""
    path.parent.chmod(0o755)
    if path.exists():
        path.chmod(0o755 if path.is_dir() else 0o644)
    return path


def remove(path: Path) -> None:
    """Remove a file, or a tree that may be read-only."""
    writable(path)
    if path.is_dir() and not path.is_symlink():
        for folder, _, _ in os.walk(path):
            os.chmod(folder, 0o755)
        shutil.rmtree(path)
    else:
        path.unlink()


def flip(path: Path, offset: int, bit: int = 1) -> None:
    """Change one bit in place: same inode, same size, same time."""
    status = path.stat()
    writable(path)
    with path.open("r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ bit]))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
