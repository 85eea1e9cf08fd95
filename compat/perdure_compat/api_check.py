"""The public API of two versions of a package, compared.

Owns: which vanished names the manifest accounts for. Does not own: finding them: griffe does, which the extra `check`
brings.

Keeps: compat-check.
"""

from __future__ import annotations

from pathlib import Path

from perdure_compat.index import Index
from perdure_compat.manifest import Fault, Manifest


class NoGriffe(Exception):  # says what is missing
    """The library that reads APIs is not installed."""


def check(manifest: Manifest, old: Path, new: Path) -> list[Fault]:
    """Return the public names that are in the tree `old` and not in `new`, and that no entry points from.

    Raises:
        NoGriffe: the extra is not installed.
        FileNotFoundError: one of the trees does not hold the package.
    """
    try:
        import griffe
    except ImportError as error:
        raise NoGriffe("griffelib is not installed: install perdure-compat[check]") from error
    versions = []
    for place in (old, new):
        folder = place.joinpath(*manifest.package.split("."))
        if not folder.is_dir() and not folder.with_suffix(".py").is_file():
            raise FileNotFoundError(f"{place} does not hold the package {manifest.package}")
        loaded = griffe.load(
            manifest.package, search_paths=[str(place)], try_relative_path=False, resolve_aliases=False
        )
        versions.append(loaded)
    index = Index([manifest])
    before, after = (_public(each, manifest.package) for each in versions)
    faults = []
    for name, where in sorted(before.items()):
        parts = name.split(".")
        # What lies in a vanished module or class is told with it, once.
        if name in after or any(
            ".".join(parts[:end]) in before and ".".join(parts[:end]) not in after for end in range(1, len(parts))
        ):
            continue
        if index.find(parts) is None and not _all_moved(name, before, index):
            faults.append(Fault(where, f"{name} vanished, and no entry of {manifest.path} says where to"))
    return faults


def _all_moved(module: str, before: dict[str, str], index: Index) -> bool:
    """Return whether every public name of a vanished module has an entry of its own."""
    inside = [name for name in before if name.startswith(f"{module}.")]
    return bool(inside) and all(index.find(name.split(".")) is not None for name in inside)


def _public(node: object, name: str) -> dict[str, str]:
    """Return the public names below an object of griffe's, with their places; an alias's own members are not its."""
    found: dict[str, str] = {}
    for key, member in getattr(node, "members", {}).items():
        full = f"{name}.{key}"
        alias = bool(getattr(member, "is_alias", False))
        if key.startswith("_") or (alias and not getattr(member, "is_public", False)):
            continue
        found[full] = (
            f"{getattr(member, 'filepath', '')}:{getattr(member, 'alias_lineno' if alias else 'lineno', None) or 1}"
        )
        if not alias and (getattr(member, "is_module", False) or getattr(member, "is_class", False)):
            found.update(_public(member, full))
    return found
