"""The wheel of a plugin that runs from where it is edited: its metadata, and a path file in the place of its modules.

Owns: what of a built wheel stays, where the modules lie instead, and which files decide that it is made anew. Does not
own: the build of the wheel (ops.snapshots), whose backend runs in a copy and knows nothing of this.

Keeps: editable-runs-in-place: the directory is only read; the wheel holds no module, so what is edited is what runs.

A backend's own editable wheel is not asked for: its hook may be missing, writes into the directory, and answers with
code that runs at every start of the interpreter. A path file is right wherever the directory has every module that the
wheel has; where it has not, that is said by the module's name.
"""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from perdure_pm.adapters.trees import LEFT_OUT, LEFT_OUT_ON_TOP
from perdure_pm.model.errors import SourceUnusable
from perdure_pm.ops.generated_wheel import GENERATOR, write_members
from perdure_pm.store.inventory import hash_file

ROOTS = ("src", "")
"""Where below a plugin's directory its modules may lie; the first that has all of them counts."""
_MODULES = (".py", ".so", ".pyd")
_METADATA = ("pyproject.toml", "setup.py", "setup.cfg", "requirements*.txt", "plugin.y*ml", "*/plugin.y*ml")


def digest_metadata(folder: Path) -> str:
    """Return a digest of what such a wheel is made from: the files with metadata, and the names of top-level modules.

    What a module holds is no part of it: that is read where it is edited, at every start.
    """
    files = sorted({path for below in ROOTS for pattern in _METADATA for path in (folder / below).glob(pattern)})
    said = [(path.relative_to(folder).as_posix(), hash_file(path)) for path in files if path.is_file()]
    names = [sorted(set(_module_names(folder / below))) for below in ROOTS]
    return hashlib.sha256(json.dumps([said, names]).encode()).hexdigest()


def write_editable_wheel(wheel: Path, folder: Path, name: str) -> Path:
    """Have a wheel in the place of `wheel` whose modules are those in `folder`, and return its path.

    Args:
        wheel: as the project's own build made it.
        folder: where people edit it; absolute.
        name: the distribution's normalised name.

    Raises:
        SourceUnusable: the wheel has a module that the directory has not; it is named.
    """
    with zipfile.ZipFile(wheel) as archive:
        held = {path: archive.read(path) for path in archive.namelist() if not path.endswith("/")}
    info = next(path.partition("/")[0] for path in held if path.endswith(".dist-info/METADATA"))
    modules = sorted(_installed_modules(held))
    root = _find_root(folder, modules, name)
    kept = {path: data for path, data in held.items() if _is_kept(path, info)}
    # ASCII whatever the path holds: which encoding a path file is read in depends on the interpreter and its locale.
    line = f"import sys; at = {str(root)!a}; at in sys.path or sys.path.append(at)\n"
    top = sorted({PurePosixPath(path).parts[0].partition(".")[0] for path in modules})
    members = {
        f"__editable__.{name}.pth": line.encode("ascii"),
        **kept,
        f"{info}/WHEEL": GENERATOR.encode(),
        f"{info}/top_level.txt": "".join(f"{word}\n" for word in top).encode(),
    }
    wheel.unlink()
    return write_members(members, info, wheel.with_name(f"{info.removesuffix('.dist-info')}-py3-none-any.whl"))


def _is_kept(path: str, info: str) -> bool:
    """Return whether a file is neither a module nor its data: metadata, and scripts and data beside the packages."""
    top, _, below = path.partition("/")
    if top == info:
        return below != "RECORD" and not below.startswith("RECORD.")
    return top.endswith(".data") and below.partition("/")[0] not in {"purelib", "platlib"}


def _installed_modules(paths: Iterable[str]) -> Iterator[str]:
    """Yield the path below site-packages of each module that a wheel holds."""
    for path in paths:
        top, _, below = path.partition("/")
        kind, _, member = below.partition("/") if top.endswith(".data") else ("purelib", "", path)
        if kind in {"purelib", "platlib"} and member.endswith(_MODULES) and not top.endswith(".dist-info"):
            yield member


def _find_root(folder: Path, modules: list[str], name: str) -> Path:
    missing: list[str] = []
    for root in (folder / below if below else folder for below in ROOTS):
        lacks = [path for path in modules if not (root / path).is_file()]
        if modules and not lacks:
            return root
        missing = lacks if not missing or len(lacks) < len(missing) else missing
    what = f"the module {missing[0]}, which is neither in {folder}/src nor in {folder}" if missing else "no module"
    raise SourceUnusable(
        f"the plugin {name} cannot run from where it is edited: its build makes a wheel with {what}",
        hint="have it made there once, as its own tools do; or add it without --editable",
        context={"path": str(folder), "missing": missing[:20]},
    )


def _module_names(root: Path) -> Iterator[str]:
    """Yield the names in a directory that could be imported from there."""
    try:
        with os.scandir(root) as found:
            for item in found:
                name = item.name if item.is_dir() else item.name.removesuffix(".py")
                counts = (item.is_dir() or name != item.name) and name.isidentifier()
                if counts and name not in LEFT_OUT and name not in LEFT_OUT_ON_TOP:
                    yield name
    except OSError:
        return
