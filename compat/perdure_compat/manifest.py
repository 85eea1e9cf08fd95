"""The manifest: what moved, as data that every tool reads.

Owns: the file's format (schema 1), and every fault in it at once with its place. Does not own: whether the tree is as
the manifest says (lint), and what is made from it (render, scan, migrate).

Keeps: compat-manifest-faults.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

SCHEMA = 1
KINDS = ("moved", "renamed", "module", "import", "restored", "removed")

_DOTTED = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_VERSION = re.compile(
    r"v?\d+(\.\d+)*([._-]?(a|b|c|rc|alpha|beta|pre|preview|dev|post)[._-]?\d*)*(\+[\w.]+)?", re.IGNORECASE
)
_EARLIER = re.compile(r"[._-]?(a|b|c|rc|alpha|beta|pre|preview|dev)[._-]?\d*", re.IGNORECASE)
_HEADER = re.compile(r"\s*\[\[\s*moved\s*\]\]")
_KEYS: Mapping[str, type] = {
    "old": str,
    "new": str,
    "since": str,
    "removed-in": str,
    "kind": str,
    "note": str,
    "loud": bool,
    "warn": bool,
    "constructed-only": bool,
}
_TREE_KEYS: Mapping[str, type] = {"source": str, "docs": str, "ruff": str, "data": str, "archive": str, "lint": list}


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that is wrong, and where."""

    place: str
    text: str

    def __str__(self) -> str:
        return f"{self.place}: {self.text}"


class ManifestFaults(Exception):  # it carries them
    """A manifest that cannot be used."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__("\n".join(map(str, faults)))
        self.faults = tuple(faults)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One name, or one module as a whole, that is not where it was."""

    old_module: str
    old_name: str
    """Empty for a module as a whole."""
    new_module: str
    """Empty where there is no new place."""
    new_name: str
    """Empty where the new place is a module; dotted for an attribute of a class."""
    since: str
    removed_in: str
    kind: str
    note: str = ""
    loud: bool = False
    warn: bool = True
    constructed_only: bool = False
    line: int = 0

    @property
    def old(self) -> str:
        """The full old name."""
        return f"{self.old_module}.{self.old_name}" if self.old_name else self.old_module

    @property
    def new(self) -> str:
        """The full new name, or nothing."""
        return f"{self.new_module}.{self.new_name}" if self.new_name else self.new_module

    @property
    def restored_module(self) -> str:
        """The module beside the facade that holds the body of a restored definition."""
        return f"{self.old_module.rpartition('.')[0] or self.old_module}._restored"

    @property
    def whole(self) -> bool:
        """Whether a module moved with everything in it."""
        return not self.old_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Excepted:
    """Files in which the lint allows old names."""

    path: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What moved in one package."""

    path: Path
    package: str
    entries: tuple[Entry, ...]
    tree: Mapping[str, str | list[str]] = field(default_factory=dict)
    exceptions: tuple[Excepted, ...] = ()

    def place(self, key: str) -> Path | None:
        """Return a place of the project that the manifest names, or None."""
        value = self.tree.get(key)
        return self.path.parent / value if isinstance(value, str) else None

    def at(self, entry: Entry) -> str:
        """Return where an entry is written."""
        return f"{self.path}:{entry.line}"


def load_manifest(path: Path) -> Manifest:
    """Return a manifest that was read whole.

    Raises:
        ManifestFaults: with every fault at once.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ManifestFaults([Fault(str(path), error.strerror or str(error))]) from error
    except UnicodeDecodeError as error:
        raise ManifestFaults([Fault(str(path), f"not UTF-8: {error.reason} at byte {error.start}")]) from error
    return parse_manifest(text, path)


def parse_manifest(text: str, path: Path) -> Manifest:
    """Return what the text of a manifest says; `path` is for places.

    Raises:
        ManifestFaults: with every fault at once.
    """
    try:
        raw = tomllib.loads(text)
    except RecursionError as error:
        raise ManifestFaults([Fault(str(path), "not TOML: nested too deeply")]) from error
    except tomllib.TOMLDecodeError as error:
        raise ManifestFaults([Fault(str(path), f"not TOML: {error}")]) from error
    faults: list[Fault] = []
    here = str(path)
    if raw.get("schema") != SCHEMA or not isinstance(raw["schema"], int) or isinstance(raw["schema"], bool):
        faults.append(Fault(here, f"schema is {raw.get('schema')!r}; this reads schema = {SCHEMA}"))
    known = {"schema", "package", "tree", "except", "moved"}
    faults += [Fault(here, f"unknown key {key!r}") for key in sorted(raw.keys() - known)]
    package = raw.get("package")
    if not isinstance(package, str) or not _DOTTED.fullmatch(package):
        faults.append(Fault(here, "package must be the import name of the package whose names moved"))
        package = ""
    tree = _tree(raw.get("tree", {}), here, faults)
    exceptions = _exceptions(raw.get("except", []), here, faults)
    lines = [number for number, line in enumerate(text.splitlines(), 1) if _HEADER.match(line)]
    moved = raw.get("moved", [])
    if not isinstance(moved, list) or not all(isinstance(entry, dict) for entry in moved):
        faults.append(Fault(here, "moved must be an array of tables: [[moved]]"))
        moved = []
    entries = []
    for index, table in enumerate(moved):
        # Written inline (`moved = [{…}]`), the entries have no headers to count.
        line = lines[index] if len(lines) == len(moved) else 0
        place = f"{here}:{line}" if line else f"{here}, entry {index + 1}"
        entry = _entry(table, package, line, place, faults)
        if entry is not None:
            entries.append(entry)
    manifest = Manifest(path=path, package=package, entries=tuple(entries), tree=tree, exceptions=exceptions)
    faults += _between_entries(manifest)
    if faults:
        raise ManifestFaults(faults)
    return manifest


def version_key(version: str) -> tuple[tuple[int, ...], int]:
    """Return what versions are compared by: the release, and a pre-release before it."""
    release = re.match(r"v?(\d+(?:\.\d+)*)", version)
    numbers = [int(part) for part in release.group(1).split(".")] if release else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    rest = version[release.end() :] if release else ""
    return tuple(numbers), -1 if _EARLIER.match(rest) else 0


def has_reached(version: str, removed_in: str) -> bool:
    """Return whether a version is the one in which something goes away, or a later one; `0.6.dev1` comes before 0.6."""
    return version_key(version) >= version_key(removed_in)


def _tree(raw: object, here: str, faults: list[Fault]) -> dict[str, str | list[str]]:
    if not isinstance(raw, dict):
        faults.append(Fault(here, "tree must be a table"))
        return {}
    found: dict[str, str | list[str]] = {}
    for key, value in raw.items():
        wanted = _TREE_KEYS.get(key)
        if wanted is None:
            faults.append(Fault(here, f"tree: unknown key {key!r}; known are {', '.join(_TREE_KEYS)}"))
        elif wanted is list and not (isinstance(value, list) and all(isinstance(item, str) for item in value)):
            faults.append(Fault(here, f"tree: {key} must be a list of paths"))
        elif wanted is str and not isinstance(value, str):
            faults.append(Fault(here, f"tree: {key} must be a path"))
        else:
            found[key] = value
    return found


def _exceptions(raw: object, here: str, faults: list[Fault]) -> tuple[Excepted, ...]:
    found = []
    for index, item in enumerate(raw if isinstance(raw, list) else [raw]):
        if (
            isinstance(item, dict)
            and item.keys() == {"path", "why"}
            and all(isinstance(value, str) and value for value in item.values())
        ):
            found.append(Excepted(path=item["path"], why=item["why"]))
        else:
            faults.append(Fault(f"{here}, except {index + 1}", "an exception has a path (a pattern) and a why"))
    return tuple(found)


def _entry(table: Mapping[str, object], package: str, line: int, place: str, faults: list[Fault]) -> Entry | None:
    old = table.get("old")
    before = f"{old}: " if isinstance(old, str) else ""
    texts = [*_key_faults(table), *_value_faults(table)]
    faults += [Fault(place, f"{before}{text}") for text in texts]
    if texts:
        return None
    kind = str(table.get("kind", "moved"))
    old_module, old_name = _split(str(table["old"]), module=kind == "module")
    new_module, new_name = _split(str(table.get("new", "")), module=kind == "module")
    entry = Entry(
        old_module=old_module,
        old_name=old_name,
        new_module=new_module,
        new_name=new_name,
        since=str(table["since"]),
        removed_in=str(table["removed-in"]),
        kind=kind,
        note=str(table.get("note", "")),
        loud=table.get("loud") is True,
        warn=bool(table.get("warn", kind != "import")),
        constructed_only=table.get("constructed-only") is True,
        line=line,
    )
    faults += [Fault(place, f"{before}{text}") for text in _rule_faults(entry, package)]
    return entry


def _key_faults(table: Mapping[str, object]) -> list[str]:
    kind = table.get("kind", "moved")
    wants_new = kind not in ("removed", "restored")  # not a set: it may be a list in the file
    needed = ["old", "since", "removed-in", *(["new"] if wants_new else [])]
    texts = [f"{key} is missing" for key in needed if key not in table]
    for key, value in table.items():
        if key not in _KEYS:
            texts.append(f"unknown key {key!r}; known are {', '.join(_KEYS)}")
        elif not isinstance(value, _KEYS[key]):
            texts.append(f"{key} must be a {'text' if _KEYS[key] is str else 'true or false'}, not {value!r}")
    if kind not in KINDS:
        texts.append(f"kind is {kind!r}; it is one of {', '.join(KINDS)}")
    return texts


def _value_faults(table: Mapping[str, object]) -> list[str]:
    texts = [
        f"{key} is {value!r}, which is no version"
        for key in ("since", "removed-in")
        if isinstance(value := table.get(key), str) and not _VERSION.fullmatch(value)
    ]
    for key in ("old", "new"):
        value = table.get(key)
        if isinstance(value, str):
            module, _, name = value.partition(":")
            if not _DOTTED.fullmatch(module) or (name and not _DOTTED.fullmatch(name)):
                texts.append(f"{key} is {value!r}, which is neither a dotted name nor module:attribute")
    return texts


def _rule_faults(entry: Entry, package: str) -> list[str]:
    texts = []
    if package and not (entry.old_module == package or entry.old_module.startswith(f"{package}.")):
        texts.append(f"old does not lie in the package {package}")
    if any(part.startswith("_") for part in entry.old.split(".")):
        texts.append("a private name gets no pointer: it may change without one")
    if entry.whole and entry.kind not in {"module", "removed"}:
        texts.append('a module as a whole has kind = "module"')
    if entry.kind == "module" and (entry.old_name or entry.new_name):
        texts.append("a module as a whole moves to a module: there is no attribute in either")
    if version_key(entry.removed_in) <= version_key(entry.since):
        texts.append(f"removed-in {entry.removed_in} is not after since {entry.since}")
    return texts


def _split(dotted: str, *, module: bool) -> tuple[str, str]:
    """Return module and attribute of a dotted name: the attribute is its last part, or what stands after a colon."""
    if ":" in dotted:
        left, _, right = dotted.partition(":")
        return left, right
    if module or "." not in dotted:
        return dotted, ""
    left, _, right = dotted.rpartition(".")
    return left, right


def _between_entries(manifest: Manifest) -> list[Fault]:
    faults = []
    by_old: dict[str, Entry] = {}
    for entry in manifest.entries:
        if entry.old in by_old:
            faults.append(Fault(manifest.at(entry), f"{entry.old} is also at line {by_old[entry.old].line}"))
        by_old.setdefault(entry.old, entry)
    for entry in manifest.entries:
        seen = [entry.old]
        step: Entry | None = entry
        while step is not None and step.new and step.new not in seen:
            seen.append(step.new)
            step = by_old.get(step.new)
        if step is not None and step.new in seen:
            faults.append(Fault(manifest.at(entry), f"{' -> '.join([*seen, step.new])} goes in a circle"))
        elif len(seen) > 2:
            faults.append(Fault(manifest.at(entry), f"{entry.old} moved twice: write {seen[-1]} as its new place"))
    return faults
