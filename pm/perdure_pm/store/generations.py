"""Generations on the disk: which there are, and what their files say.

Owns: reading record.json, boot.json and files.json with distrust. Does not own: building and sealing (ops.candidate).
Keeps: no record names a path outside the home; links are refused; what is damaged is named and never taken for absent
by a reader that needs it.

Standard library only, Python 3.9.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from perdure_pm.model.errors import IntegrityFault, NothingInstalled, PerdureError, UsageFault
from perdure_pm.model.identity import parse_generation_number
from perdure_pm.store.inventory import FILE_NAME, Inventory, load_inventory
from perdure_pm.store.layout import Layout, environment_python, environment_scripts
from perdure_pm.store.pointer import damaged, load_pointer, read_plain, refuse_links
from perdure_pm.store.policy import MAX_CONFIG_BYTES
from perdure_pm.store.reading import read_regular

SCHEMA = 1
MAX_BYTES = 16 << 20
RECORD = "record.json"

DAMAGED_RECORD = "record.damaged.json"
"""What a repair calls the record of a generation that it found damaged."""


@dataclass(frozen=True)
class Generation:
    """A sealed generation."""

    identity: str
    path: Path
    record: dict[str, Any]
    """The contents of its record.json, every field of the documented form present."""

    @property
    def number(self) -> int:
        return int(self.record["number"])

    @property
    def environment(self) -> Path:
        return self.path / "venv"

    @property
    def python(self) -> Path:
        return environment_python(self.environment)

    @property
    def scripts(self) -> Path:
        return environment_scripts(self.environment)


@dataclass(frozen=True)
class Damaged:
    """A directory that should be a generation, with a record that cannot be used."""

    identity: str
    reason: str
    newer: bool = False
    """Whether a newer PM wrote it: then nothing is wrong with it, and this PM leaves it alone."""


def load_generation(layout: Layout, identity: str) -> Generation:
    """Return the sealed generation of that id.

    Raises:
        IntegrityFault: there is none, it has no record, or its record is not one.
    """
    if parse_generation_number(identity) is None:
        raise damaged(layout.generations, f"{identity!r} is no generation's id")
    path = layout.generation(identity)
    data = _load_json(layout, path / "record.json")
    problem = find_record_problem(data, identity)
    if problem:
        raise damaged(path / "record.json", problem)
    return Generation(identity, path, data)


def load_current(layout: Layout, profile: str) -> Generation:
    """Return the generation that `profile` runs.

    Raises:
        NothingInstalled: nothing was ever committed.
        IntegrityFault: the pointer or the record is damaged.
    """
    identity = load_pointer(layout, profile)
    if identity is None:
        raise NothingInstalled(
            f"nothing is installed in {layout.home} for the profile {profile}",
            hint="perdure-pm install" if _says_checkout(layout) else "perdure-pm install --checkout DIR",
            context={"home": str(layout.home), "profile": profile},
        )
    return load_generation(layout, identity)


def current_generation(layout: Layout, profile: str) -> Generation | None:
    """Return the generation that `profile` runs, or None where a publication has nothing to go by: none, or damaged."""
    try:
        return load_current(layout, profile)
    except (NothingInstalled, IntegrityFault):
        return None


def load_boot(layout: Layout, identity: str) -> dict[str, Any]:
    """Return the contents of a generation's boot.json.

    Raises:
        IntegrityFault: it is missing or not one.
    """
    path = layout.generation(identity) / "boot.json"
    data = _load_json(layout, path)
    if data.get("schema") != SCHEMA or data.get("generation") != identity or not isinstance(data.get("plugins"), list):
        raise damaged(path, f"it is not the boot file of {identity}")
    return data


def load_files(layout: Layout, identity: str) -> Inventory:
    """Return the inventory that a generation was sealed with.

    Raises:
        IntegrityFault: it is missing or not one.
    """
    path = layout.generation(identity) / FILE_NAME
    refuse_links(layout, path)
    return load_inventory(path)


def list_generations(layout: Layout) -> tuple[list[Generation], list[Damaged]]:
    """Return the sealed generations, newest first, and those with a damaged record; unsealed candidates are neither."""
    sealed: list[Generation] = []
    broken: list[Damaged] = []
    for identity in list_identities(layout):
        try:
            if read_plain(layout, layout.generation(identity) / "record.json", MAX_BYTES) is not None:
                sealed.append(load_generation(layout, identity))
        except IntegrityFault as fault:
            broken.append(Damaged(identity, str(fault.context["reason"]), newer=is_newer(layout, identity)))
    sealed.sort(key=lambda generation: generation.number, reverse=True)
    return sealed, broken


def is_newer(layout: Layout, identity: str) -> bool:
    """Return whether a generation's record says that it is of a form which a newer PM writes."""
    try:
        schema = _load_json(layout, layout.generation(identity) / RECORD).get("schema")
    except IntegrityFault:
        return False
    return isinstance(schema, int) and schema > SCHEMA


def list_unsealed(layout: Layout) -> list[str]:
    """Return the ids of what is not sealed: what killed builds left, and what a repair found damaged."""
    return [name for name in list_identities(layout) if not (layout.generation(name) / "record.json").exists()]


def find_generation(layout: Layout, wanted: str, labels: Mapping[str, str]) -> Generation:
    """Return the sealed generation that a person means: by number, id, the id's beginning, or label.

    Raises:
        UsageFault: none, or more than one, is meant.
        IntegrityFault: its record cannot be used.
    """
    if wanted in labels:
        return load_generation(layout, labels[wanted])
    if parse_generation_number(wanted) is not None:
        names = [name for name in list_identities(layout) if name == wanted]
    elif wanted.isascii() and wanted.isdecimal():
        names = [name for name in list_identities(layout) if parse_generation_number(name) == int(wanted)]
    else:
        names = [name for name in list_identities(layout) if "-" in wanted and name.startswith(wanted)]
    if len(names) != 1:
        raise UsageFault(
            f"{wanted!r} names {'no' if not names else 'more than one'} generation of this home",
            hint="perdure-pm history",
            context={"wanted": wanted, "found": names},
        )
    return load_generation(layout, names[0])


def next_number(layout: Layout) -> int:
    """Return a number that no generation of this home has, sealed or not, in the trash, or gone with a record kept."""
    beside = (name.partition(".")[0] for folder in (layout.trash, layout.records) for name in _names(folder))
    taken = [*list_identities(layout), *beside]
    return 1 + max((parse_generation_number(name) or 0 for name in taken), default=0)


def _says_checkout(layout: Layout) -> bool:
    """Return whether config.yaml says what to install, as far as that can be seen without reading YAML."""
    try:
        return b"checkout:" in read_regular(layout.config, MAX_CONFIG_BYTES)
    except OSError:
        return False


def list_identities(layout: Layout) -> list[str]:
    """Return the names of the directories of generations, sealed or not."""
    try:
        refuse_links(layout, layout.generations)
    except IntegrityFault:
        return []
    return [name for name in _names(layout.generations) if parse_generation_number(name) is not None]


def _names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _load_json(layout: Layout, path: Path) -> dict[str, Any]:
    data = read_plain(layout, path, MAX_BYTES)
    if data is None:
        raise damaged(path, "it is missing")
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise damaged(path, "it is not JSON") from error
    if not isinstance(value, dict):
        raise damaged(path, "it does not hold an object")
    return value


_FORM: dict[str, type] = {
    "id": str,
    "number": int,
    "inputs": dict,
    "inputs_digest": str,
    "created": str,
    "profile": str,
    "host": dict,
    "interpreter": dict,
    "target": str,
    "uv": str,
    "packages": list,
    "plugins": list,
    "requirements": str,
    "wheels": list,
}
_PARTS: dict[str, tuple[str, ...]] = {
    "host": ("name", "version", "source", "release"),
    "interpreter": ("path", "version", "implementation"),
    "packages": ("name", "version"),
    "plugins": ("name", "distribution", "version", "entry"),
    "wheels": ("file", "sha256", "path"),
}
"""Fields that hold text, of the objects in these fields."""


def find_record_problem(data: dict[str, Any], identity: str) -> str:
    """Return what is wrong with a record, or an empty string."""
    if data.get("schema") != SCHEMA:
        return f"its schema is {data.get('schema')!r}, and this version of PM reads {SCHEMA}"
    for name, kind in _FORM.items():
        if not isinstance(data.get(name), kind):
            return f"its {name} is missing or not {kind.__name__}"
    if data["id"] != identity or data["number"] != parse_generation_number(identity):
        return f"it is the record of {data['id']}"
    for name, parts in _PARTS.items():
        for value in data[name] if isinstance(data[name], list) else [data[name]]:
            if not isinstance(value, dict) or not all(isinstance(value.get(part), str) for part in parts):
                return f"its {name} lack one of {', '.join(parts)}"
    commands = data["host"].get("commands")
    if not isinstance(commands, list) or not all(isinstance(name, str) and "/" not in name for name in commands):
        return "its host's commands are not a list of names"
    outside = next((wheel["path"] for wheel in data["wheels"] if not _is_inside(wheel["path"])), None)
    return f"it names {outside!r}, which is outside the home" if outside else ""


def _is_inside(relative: str) -> bool:
    path = PurePosixPath(relative)
    return (
        bool(path.parts) and not path.is_absolute() and ".." not in path.parts and not {"\\", ":", "\0"} & set(relative)
    )


def known_inventory(layout: Layout, generation: Generation) -> Inventory:
    """Return a sealed generation's inventory; an empty one where it cannot be read, which only costs time."""
    try:
        return load_files(layout, generation.identity)
    except PerdureError:
        return Inventory({}, {})
