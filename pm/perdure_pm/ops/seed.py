"""The seed: what rebuilds PM without a checkout, and what of a source determines a runtime.

Owns: what a seed is made of, writing, selecting and finding one, and telling that it is damaged. Does not own: building
a runtime of it (runtime_build).

Standard library only, Python 3.9: this runs before there is a runtime.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from typing import Any

from perdure_pm import __version__, ports
from perdure_pm.adapters.interpreter import target_name
from perdure_pm.model.errors import IntegrityFault, PerdureError
from perdure_pm.model.lock_view import parse_locked_tool
from perdure_pm.store.inventory import hash_file, hash_tree
from perdure_pm.store.layout import Layout
from perdure_pm.store.reading import read_regular

_RESEED = 'python3 pm/bootstrap.py --home "{home}" up   (in a checkout of Perdure)'


def seed_source(layout: Layout) -> Path:
    """Return the seed that rebuilds PM.

    Raises:
        IntegrityFault: the home has none.
    """
    with contextlib.suppress(OSError, ValueError):
        name = _read_pointer(layout.seed_pointer)
        if re.fullmatch(r"[0-9a-f]{12}", name) and (layout.seed(name) / "pm" / "bootstrap.py").is_file():
            return layout.seed(name)
    raise IntegrityFault(
        f"the seed that rebuilds PM is gone from {layout.seeds}",
        hint=_RESEED.format(home=layout.home),
    )


def find_seed_problem(layout: Layout) -> str:
    """Return what is wrong with the seed that rebuilds PM, or an empty string."""
    try:
        read_source(layout, seed_source(layout))
    except PerdureError as error:
        return error.summary
    return ""


def read_source(layout: Layout, source: Path) -> dict[str, Any]:
    """Return what of a checkout or a seed determines a runtime, beside the interpreter.

    Raises:
        IntegrityFault: it is neither, or a seed that is damaged.
    """
    lock = source / "pm" / "uv.lock"
    try:
        inputs = {
            "version": __version__,
            "lock": hash_file(lock),
            "sources": hash_tree(seed_members(source)),
            "target": target_name(),
            "uv": parse_locked_tool(lock.read_text(encoding="utf-8"), "uv").version,
        }
    except (OSError, UnicodeDecodeError) as error:
        raise IntegrityFault(
            f"{source} is not a checkout of Perdure, nor a seed: {error}",
            hint="run bootstrap.py from a complete checkout",
        ) from error
    if source.parent == layout.seeds and not inputs["sources"].startswith(source.name):
        raise IntegrityFault(
            f"the seed that rebuilds PM is damaged: {source} is not what it was written as",
            hint=_RESEED.format(home=layout.home),
        )
    return inputs


def seed_members(source: Path) -> dict[str, Path]:
    """Return what a seed is made of, by its name in the seed."""
    names = ("pm/bootstrap.py", "pm/pyproject.toml", "pm/uv.lock", "pm/perdure_pm", "compat/pyproject.toml")
    return {name: source / name for name in (*names, "compat/perdure_compat")}


def write_seed(layout: Layout, filesystem: ports.Filesystem, source: Path, digest: str) -> str:
    """Have a seed of `source`, whose members hash to `digest`, in the home, and return its name; it is not selected."""
    name = digest[:12]
    target = layout.seed(name)
    if target == source or (target.is_dir() and hash_tree(seed_members(target)) == digest):
        return name
    if target.exists():
        filesystem.remove_tree(target)
    building = layout.seeds / f".{name}-{os.urandom(4).hex()}"
    for member, path in seed_members(source).items():
        files = [path] if path.is_file() else [file for file in sorted(path.rglob("*")) if file.is_file()]
        for file in files:
            if "__pycache__" in file.parts:
                continue
            copy = building / member / file.relative_to(path) if file != path else building / member
            filesystem.make_directories(copy.parent)
            filesystem.copy_file(file, copy)
    filesystem.make_read_only(building)
    os.chmod(building, 0o755)
    filesystem.flush(building)
    filesystem.rename(building, target)
    os.chmod(target, 0o555)
    return name


def select_seed(layout: Layout, filesystem: ports.Filesystem, name: str) -> None:
    """Have the seed of that name be what rebuilds PM; nothing is written where it is already, or is not there."""
    selected = None
    with contextlib.suppress(OSError, ValueError):
        selected = _read_pointer(layout.seed_pointer)
    if selected != name and layout.seed(name).is_dir():
        filesystem.write_durable(layout.seed_pointer, f"{name}\n".encode())


def _read_pointer(path: Path) -> str:
    return read_regular(path, 64).decode("ascii").strip()
