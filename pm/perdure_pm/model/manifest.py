"""plugin.yaml: what a plugin says of itself, read without running any of it.

Owns: the fields with their kinds, and turning a read document into a manifest or into every fault at once, each with
its place. Does not own: reading YAML (store.config), what pyproject.toml says (ops.plugin_project), whether a plugin
fits here (model.fit), schemas of settings (model.json_schema).

Types are checked after parsing, by YAML 1.2: what a reader of YAML 1.1 takes for something else (`no`, `1:30`, `010`)
is named, and what a number loses (`1.10`) is refused. Keeps: manifest-every-fault, manifest-no-surprise.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from packaging.markers import InvalidMarker, Marker
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from perdure_pm.model.document import Document, Fault, Place, describe, near_miss
from perdure_pm.model.errors import ManifestInvalid
from perdure_pm.model.identity import is_distribution_name, normalise_distribution
from perdure_pm.model.json_schema import find_schema_problems

FORM = 1
DEFAULT_GROUP = "perdure"
"""The entry-point group of plugins of our own app."""
RUNTIMES = ("in-process", "isolated", "external")

_ENTRY = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*(:[^\W\d]\w*(\.[^\W\d]\w*)*)?")
_GROUP = re.compile(r"\w+(\.\w+)*")
_CAPABILITY = re.compile(r"[a-z][a-z0-9]*([.:-][a-z0-9]+)*")

FIELDS: Mapping[str, tuple[str, str]] = {
    "manifest": ("form", "the form of this file"),
    "name": ("name", "the distribution's name, as it is installed"),
    "version": ("version", "the plugin's version; a number must stand in quotes"),
    "entry": ("entry", "what the host loads; in another host's `group` also a module alone"),
    "group": (
        "group",
        (
            "the entry-point group of `entry`; by default `perdure`, which our own app reads. Another host's plugin "
            "needs it: `group: datasette`"
        ),
    ),
    "requires-host": ("versions", "the versions of the host that it works with"),
    "api": ("number", "the generation of the plugin API that it is written for"),
    "requires-python": ("versions", "the versions of Python that it works with"),
    "dependencies": ("requirements", "what is installed with it"),
    "platforms": ("markers", "where it works; one that holds is enough"),
    "runtime": ("runtime", "where it runs; `isolated` is refused: it is not there yet"),
    "external": (
        "external",
        (
            "of `runtime: external`: a program of its own. Its files are never copied, resolved or changed; a command "
            "with a `/` counts from its directory"
        ),
    ),
    "requires-plugins": ("requirements", "other plugins of the profile that it needs"),
    "settings": ("schema", "what a person may set for it: a schema (draft 2020-12, references to itself only)"),
    "capabilities": ("capabilities", "what of the host it uses"),
}
"""Each field → its kind and its meaning."""
KINDS: Mapping[str, str] = {
    "form": "1",
    "name": "text",
    "version": "text",
    "entry": "`module:attribute`",
    "group": "text",
    "versions": "versions, as in `>=1,<2`",
    "number": "whole number",
    "requirements": "list of requirements",
    "markers": "list of markers",
    "runtime": "`in-process`, `isolated`, `external`",
    "external": "`command`, `check`: lists of words",
    "schema": "JSON Schema of an object",
    "capabilities": "list of words",
}
"""Each kind in words; the reference page has its table from here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a plugin.yaml says; what it does not say is None or empty."""

    name: str | None = None
    """Normalised."""
    version: str | None = None
    entry: str | None = None
    group: str | None = None
    requires_host: str | None = None
    api: int | None = None
    requires_python: str | None = None
    dependencies: tuple[str, ...] | None = None
    """None where the file does not say; empty where it says that there are none."""
    platforms: tuple[str, ...] = ()
    runtime: str = "in-process"
    external_command: tuple[str, ...] = ()
    external_check: tuple[str, ...] = ()
    requires_plugins: tuple[str, ...] = ()
    settings: Mapping[str, object] | None = None
    capabilities: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    """What is odd, and read all the same; each with its place."""

    def to_json(self) -> dict[str, object]:
        """Return the fields that say something, by the names that the file has: the form of boot.json and records."""
        values: dict[str, object] = {
            "name": self.name,
            "version": self.version,
            "entry": self.entry,
            "group": self.group,
            "requires-host": self.requires_host,
            "api": self.api,
            "requires-python": self.requires_python,
            "dependencies": None if self.dependencies is None else list(self.dependencies),
            "platforms": list(self.platforms) or None,
            "runtime": self.runtime if self.runtime != "in-process" else None,
            "external": {
                key: list(words)
                for key, words in (("command", self.external_command), ("check", self.external_check))
                if words
            }
            or None,
            "requires-plugins": list(self.requires_plugins) or None,
            "settings": None if self.settings is None else dict(self.settings),
            "capabilities": list(self.capabilities) or None,
        }
        return {"manifest": FORM, **{name: value for name, value in values.items() if value is not None}}


def parse_manifest(document: Document) -> Manifest:
    """Return what a plugin.yaml says.

    Raises:
        ManifestInvalid: it has faults, all of which are named with line and column.
    """
    reading = _Reading(document)
    data = document.data
    if data is None and not document.faults:
        reading.faults.append(document.fault_at((), "is empty"))
    elif data is not None and not isinstance(data, dict):
        reading.faults.append(document.fault_at((), f"must be a mapping of fields to values, is {describe(data)}"))
    elif isinstance(data, dict):
        for name, value in data.items():
            reading.read(str(name), value)
        reading.check_runtime()
        reading.check_itself()
        reading.find_old_readings(data, ())
    if reading.faults:
        raise faults_error(document.file, reading.faults)
    found = reading.found
    name = found.get("name")
    external = found.get("external") or {}
    settings = found.get("settings")
    return Manifest(
        name=normalise_distribution(name) if isinstance(name, str) else None,
        version=_text(found.get("version")),
        entry=_text(found.get("entry")),
        group=_text(found.get("group")),
        requires_host=_text(found.get("requires-host")),
        api=found["api"] if isinstance(found.get("api"), int) else None,  # type: ignore[arg-type]  # just looked at
        requires_python=_text(found.get("requires-python")),
        dependencies=_texts(found["dependencies"]) if found.get("dependencies") is not None else None,
        platforms=_texts(found.get("platforms")),
        runtime=_text(found.get("runtime")) or "in-process",
        external_command=_texts(external.get("command")) if isinstance(external, dict) else (),
        external_check=_texts(external.get("check")) if isinstance(external, dict) else (),
        requires_plugins=_texts(found.get("requires-plugins")),
        settings=settings if isinstance(settings, dict) else None,
        capabilities=_texts(found.get("capabilities")),
        warnings=tuple(str(warning) for warning in reading.warnings),
    )


def manifest_from_json(data: Mapping[str, object]) -> Manifest:
    """Return the manifest whose `to_json` is `data`: what PM wrote itself, so nothing is checked again."""
    return parse_manifest(Document(file="plugin.yaml", data=dict(data)))


def find_own_name(document: Document, requires_plugins: Sequence[str], name: str) -> list[Fault]:
    """Return a fault for each of a plugin's required plugins that is the plugin itself, by whatever spelling."""
    own = normalise_distribution(name)
    return [
        document.fault_at(("requires-plugins", index), f"names the plugin itself, {name}: it is always there")
        for index, text in enumerate(requires_plugins)
        if normalise_distribution(Requirement(text).name) == own
    ]


def faults_error(file: str, faults: list[Fault]) -> ManifestInvalid:
    """Return the error that names every one of `faults`."""
    ordered = sorted(faults, key=lambda fault: (fault.line, fault.column))
    said = [str(fault) for fault in ordered]
    return ManifestInvalid(
        said[0] if len(said) == 1 else f"{file} has {len(said)} faults: " + "; ".join(said),
        hint=f"correct {file}, then run the same command again",
        context={"file": file, "faults": said},
    )


@dataclass(slots=True)
class _Reading:
    """One walk over a document."""

    document: Document
    found: dict[str, object] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    warnings: list[Fault] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.faults = list(self.document.faults)

    def read(self, name: str, value: object) -> None:
        place: Place = (name,)
        if any(fault.key == name for fault in self.document.faults):
            return
        if name not in FIELDS:
            near = near_miss(name, list(FIELDS))
            meant = f"; did you mean {near}?" if near else ""
            self.warnings.append(self.document.fault_at(place, f"unknown field, without effect{meant}", at_key=True))
            return
        kind = FIELDS[name][0]
        if value is None:
            self._fault(place, "is empty; say something, or take the line out")
        elif kind in _LISTS:
            self.found[name] = self._read_list(place, value, *_LISTS[kind])
        elif kind in _TEXTS:
            self.found[name] = self._read_text(place, value, _TEXTS[kind])
        elif kind in {"form", "number"}:
            self.found[name] = self._read_number(place, value, only=FORM if kind == "form" else None)
        elif kind == "external":
            self.found[name] = self._read_external(place, value)
        else:
            self._read_schema(place, value)
            self.found[name] = value

    def check_runtime(self) -> None:
        external = self.found.get("runtime") == "external"
        named = isinstance(self.document.data, dict) and "external" in self.document.data
        if external and not named:
            self._fault(("runtime",), "is external, so the field external must say the command")
        elif named and not external:
            self._fault(("external",), "is for a plugin with runtime: external", at_key=True)
        for name in ("entry", "dependencies") if external else ():
            if self.found.get(name):
                self._fault((name,), "does not go with runtime: external, which is never imported", at_key=True)
        entry, group = self.found.get("entry"), self.found.get("group") or DEFAULT_GROUP
        if isinstance(entry, str) and ":" not in entry and group == DEFAULT_GROUP and "group" not in self._faulty():
            self._fault(("entry",), f"must be module:attribute, is {entry!r}")
        if self.found.get("group") and not entry and "entry" not in self._faulty():
            self._fault(("group",), "says where `entry` belongs, and there is no entry", at_key=True)

    def check_itself(self) -> None:
        name = self.found.get("name")
        if isinstance(name, str):
            self.faults += find_own_name(self.document, _texts(self.found.get("requires-plugins")), name)

    def _faulty(self) -> set[str]:
        """Return the fields that have a fault already: what depends on them is not judged."""
        return {fault.key for fault in self.faults}

    def find_old_readings(self, value: object, place: Place) -> None:
        """Warn of every text without quotes that another reader of YAML takes for something else."""
        if isinstance(value, dict):
            for key, below in value.items():
                self.find_old_readings(below, (*place, key))
        elif isinstance(value, list):
            for index, below in enumerate(value):
                self.find_old_readings(below, (*place, index))
        elif isinstance(value, str) and (old := find_old_reading(self.document.texts.get(place, ""))):
            written = self.document.texts[place]
            self.warnings.append(
                self.document.fault_at(
                    place, f'{written} is text here and {old} for readers of YAML 1.1; write "{written}" in quotes'
                )
            )

    def _fault(self, place: Place, message: str, *, at_key: bool = False) -> None:
        self.faults.append(self.document.fault_at(place, message, at_key=at_key))

    def _read_text(self, place: Place, value: object, problem: Callable[[str], str | None]) -> str | None:
        if not isinstance(value, str):
            self._fault(place, self._not_text(place, value))
            return None
        message = "must not be empty" if not value.strip() else problem(value)
        if message:
            self._fault(place, message)
        return None if message else value

    def _not_text(self, place: Place, value: object) -> str:
        written = self.document.texts.get(place)
        if written and not isinstance(value, (dict, list)):
            return f'must be text: write "{written}" in quotes; without them it is {describe(value)}'
        return f"must be text, is {describe(value)}"

    def _read_list(
        self, place: Place, value: object, what: str, problem: Callable[[str], str | None]
    ) -> tuple[str, ...]:
        if isinstance(value, str):
            recovered = _recover_list(value)
            if recovered is None:
                self._fault(place, f"must be a list of {what}, is {describe(value)}")
                return ()
            self.warnings.append(
                self.document.fault_at(place, "is a list written as text; it is read as the list, write it as one")
            )
            value = recovered
        if not isinstance(value, list):
            self._fault(place, f"must be a list of {what}, is {describe(value)}")
            return ()
        entries = [self._read_text((*place, index), entry, problem) for index, entry in enumerate(value)]
        return tuple(entry for entry in entries if entry is not None)

    def _read_number(self, place: Place, value: object, only: int | None) -> int | None:
        written = self.document.texts.get(place, str(value))
        if isinstance(value, bool) or not isinstance(value, int) or not re.fullmatch(r"0|[1-9][0-9]*", written):
            self._fault(place, f"must be {'a whole number' if only is None else only}, is {_show(written, value)}")
            return None
        if only is not None and value != only:
            self._fault(place, f"must be {only}, is {value}; another form needs another version of PM")
        return value

    def _read_external(self, place: Place, value: object) -> dict[str, object]:
        if not isinstance(value, dict):
            self._fault(place, f"must be a mapping with command and check, is {describe(value)}")
            return {}
        found: dict[str, object] = {}
        for key, below in value.items():
            at = (*place, str(key))
            if key not in {"command", "check"}:
                self.warnings.append(self.document.fault_at(at, "unknown field, without effect", at_key=True))
                continue
            words = self._read_list(at, below, "words", lambda word: "must not hold NUL" if "\0" in word else None)
            if not words and isinstance(below, list) and not below:
                self._fault(at, "must hold at least the name of a program")
            found[key] = words
        if "command" not in value:
            self._fault(place, "must say command, the list of words that starts it")
        return found

    def _read_schema(self, place: Place, value: object) -> None:
        for at, message in find_schema_problems(value, place):
            written = self.document.texts.get(at)
            self._fault(at, f"{message} (written {written})" if written and "is a" in message else message)


def _find_problem_of(kind: str) -> Callable[[str], str | None]:
    """Return the check of one kind of text."""

    def check(text: str) -> str | None:
        try:
            if kind == "versions":
                SpecifierSet(text)
            elif kind == "version":
                Version(text)
            elif kind == "requirements":
                Requirement(text)
            else:
                Marker(text)
        except (InvalidSpecifier, InvalidVersion, InvalidRequirement, InvalidMarker) as error:
            return f"is {_KINDS[kind]}, is the text {text!r}: {str(error).splitlines()[0]}"
        return None

    return check


_KINDS = {
    "versions": "not a set of versions such as >=1,<2",
    "version": "not a version such as 1.2.0",
    "requirements": "not a requirement such as NAME>=1,<2",
    "markers": "not a marker such as sys_platform == 'linux'",
}
_LISTS: Mapping[str, tuple[str, Callable[[str], str | None]]] = {
    "requirements": ("requirements", _find_problem_of("requirements")),
    "markers": ("markers", _find_problem_of("markers")),
    "capabilities": (
        "capabilities",
        lambda text: None if _CAPABILITY.fullmatch(text) else f"is not a capability such as network: {text!r}",
    ),
}
_TEXTS: Mapping[str, Callable[[str], str | None]] = {
    "name": lambda text: None if is_distribution_name(text) else f"must be a distribution's name, is {text!r}",
    "version": _find_problem_of("version"),
    "versions": _find_problem_of("versions"),
    "entry": lambda text: None if _ENTRY.fullmatch(text) else f"must be module:attribute, is {text!r}",
    "group": lambda text: None if _GROUP.fullmatch(text) else f"must be an entry-point group, is {text!r}",
    "runtime": lambda text: None if text in RUNTIMES else f"must be one of {', '.join(RUNTIMES)}, is {text!r}",
}


def find_old_reading(written: str) -> str | None:
    """Return what YAML 1.1 reads where YAML 1.2 reads text, or None where both read the same."""
    if written.lower() in {"y", "yes", "on"}:
        return "true"
    if written.lower() in {"n", "no", "off"}:
        return "false"
    if re.fullmatch(r"[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?", written):
        return "a number to the base of 60"
    return None


def _recover_list(text: str) -> list[object] | None:
    """Return the list that somebody's tool wrote as text, which older plugins have; None where it is none."""
    if not (text.strip().startswith("[") and text.strip().endswith("]")):
        return None
    try:
        value: object = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    return value if isinstance(value, list) and all(isinstance(entry, str) for entry in value) else None


def _show(written: str, value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and written != str(value):
        return f"{written}, which readers of YAML take for different numbers"
    return describe(value)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _texts(value: object) -> tuple[str, ...]:
    return tuple(value) if isinstance(value, (list, tuple)) else ()
