"""A wheelhouse that says of itself what it holds, looked at before it is used.

Owns: the file in it that says so, and naming every wheel that is missing or is not what it was. Does not own: making
one (ops.wheelhouse). A directory of wheels without that file is used as it is, and files beside those that it names are
welcome: that is how a wheelhouse is extended. Keeps: wheelhouse-checked.

Standard library only, Python 3.9: PM's own runtime is built from one.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perdure_pm.adapters.interpreter import target_name
from perdure_pm.model.errors import ArtefactMissing, IntegrityFault, PlatformUnsupported
from perdure_pm.model.network import Network
from perdure_pm.store.inventory import hash_file
from perdure_pm.store.reading import read_regular

SCHEMA = 1
FILE_NAME = "wheelhouse.json"
MAX_BYTES = 16 << 20
SHOWN = 8
"""How many files a sentence names; the error's context has all of them."""


@dataclass(frozen=True)
class Carried:
    """One file of a wheelhouse."""

    name: str
    sha256: str
    size: int
    purposes: tuple[str, ...]
    """What needs it: ``pm``, ``host``, ``plugins``."""

    def to_json(self) -> dict[str, Any]:
        """Return the form that the wheelhouse's own file holds."""
        return {"name": self.name, "sha256": self.sha256, "size": self.size, "for": list(self.purposes)}


def require_wheelhouse(network: Network) -> None:
    """Return when every file that the wheelhouse says it holds is there, as it was, for this machine.

    Raises:
        PlatformUnsupported: it is for another kind of machine.
        IntegrityFault: files are not what they were; all of them are named.
        ArtefactMissing: files are missing; all of them are named.
    """
    folder = network.wheelhouse
    if folder is None or not (folder / FILE_NAME).is_file():
        return
    target, files = read_wheelhouse(folder)
    here = target_name()
    if target.replace("-musl", "") != here:
        raise PlatformUnsupported(
            f"the wheelhouse {folder} is for {target}, and this machine is {here}",
            hint=f"make one for it where there is a network: perdure-pm wheelhouse build --platform {here} --out DIR",
            context={"wheelhouse": str(folder), "target": target, "here": here},
        )
    missing = [file.name for file in files if not (folder / file.name).is_file()]
    wrong = [file.name for file in files if file.name not in missing and hash_file(folder / file.name) != file.sha256]
    context = {"wheelhouse": str(folder), "missing": missing, "wrong": wrong}
    if wrong:
        raise IntegrityFault(
            f"the wheelhouse {folder} was changed: {name_some(wrong)} {'is' if len(wrong) == 1 else 'are'} not what "
            "its hash says" + (f", and {name_some(missing)} lacking" if missing else ""),
            hint="copy the wheelhouse again from where it was made",
            context=context,
        )
    if missing:
        raise ArtefactMissing(
            f"the wheelhouse {folder} lacks {name_some(missing)}",
            hint=f"copy what is missing into {folder}, from where the wheelhouse was made",
            context=context,
        )


def read_wheelhouse(folder: Path) -> tuple[str, list[Carried]]:
    """Return what a wheelhouse says it is for, and the files that it says it holds.

    Raises:
        IntegrityFault: what it says cannot be read, or names a place outside it.
    """
    path = folder / FILE_NAME
    try:
        data = json.loads(read_regular(path, MAX_BYTES))
        if data["schema"] != SCHEMA:
            raise ValueError(f"it has schema {data['schema']!r}, and {SCHEMA} is what this version reads")
        files = [
            Carried(str(item["name"]), str(item["sha256"]), int(item["size"]), tuple(map(str, item["for"])))
            for item in data["files"]
        ]
        strange = [file.name for file in files if "/" in file.name or "\\" in file.name or file.name in {"", ".", ".."}]
        if strange:
            raise ValueError(f"it names {strange[0]!r}, which is no file in it")
        return str(data["target"]), files
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise IntegrityFault(
            f"{path} cannot be used: {error}",
            hint=f"copy the wheelhouse again from where it was made, or remove {path} to use it unchecked",
            context={"path": str(path)},
        ) from error


def name_some(names: list[str]) -> str:
    """Return the names as words, the first few where there are many."""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
