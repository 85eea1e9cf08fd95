"""Custom package registrations: what a caller may ask PM to put on the host's PATH, as data.

Owns: the form of a registration, every fault in one by its place, and which artefact fits a machine. Does not own:
fetching, building or exposing one (ops.packages). Pure. Invariants: registration-is-data, registration-faults-named.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from perdure_pm.model.errors import RegistrationInvalid

KINDS = ("archive", "python-tool")
ANY_TARGET = "any"
HINT = "correct the registration: docs/reference/worker-protocol.md has its form"

BUILT_IN_COMMANDS = frozenset({"perdure", "perdure-pm", "perdure-compat", "pip", "pip3", "pythonw", "uv", "uvx", "uvw"})
"""Commands that are PM's, the host's or an interpreter's own; `python` with any version behind it too."""

_PYTHON = re.compile(r"python[0-9.]*t?")
_NAME = re.compile(r"[a-z0-9]([a-z0-9._-]*[a-z0-9])?")
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_TARGET = re.compile(r"any|[a-z0-9]+(-[a-z0-9_.]+)+")
_URL = re.compile(r"(https?|file)://[^\s]+")
_COMMAND = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
_PART = re.compile(r"[A-Za-z0-9._+@-]+")
# An exact version and nothing that a resolver could choose: no range, no extra, no marker, no address.
_REQUIREMENT = re.compile(
    r"(?P<name>[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?)==(?P<version>[A-Za-z0-9][A-Za-z0-9._+!-]*)"
    r"(?P<hashes>(\s+--hash=sha256:[0-9a-f]{64})*)"
)
_WINDOWS_SUFFIX = re.compile(r"\.(exe|cmd|bat|com|ps1)$", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredArtefact:
    """One archive for one kind of machine."""

    target: str
    """``linux-x86_64`` and the like, or ``any``."""
    url: str | None
    path: str | None
    """An absolute path on this machine. Exactly one of `url` and `path` is given."""
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """One package that a caller registered."""

    name: str
    version: str
    kind: str
    requirement: str | None = None
    """``name==1.2.3``, of a python-tool."""
    hashes: tuple[str, ...] = ()
    """``sha256:…`` of the distributions that may stand for the requirement; empty means any."""
    artefacts: tuple[RegisteredArtefact, ...] = ()
    """Of an archive."""
    executables: tuple[str, ...]
    """Paths inside the archive, or names of the tool's commands. The last part of each is the command's name."""

    @property
    def commands(self) -> dict[str, str]:
        """The command names with the executables behind them."""
        return {command_name(path): path for path in self.executables}


def parse_registrations(raw: object, *, reserved: Collection[str] = ()) -> tuple[Registration, ...]:
    """Return the registrations in `raw`, a list of objects.

    Args:
        raw: what came over the wire.
        reserved: further names that no registration may take: the commands of the host.

    Raises:
        RegistrationInvalid: anything is not as documented; every fault is listed with its place.
    """
    faults: list[str] = []
    found: list[Registration] = []
    if not isinstance(raw, list | tuple):
        faults.append(f"packages: {_called(raw)} where a list of objects belongs")
    else:
        taken = {name.lower() for name in reserved} | BUILT_IN_COMMANDS
        commands = set(taken)
        for index, item in enumerate(raw):
            registration = _Entry(item, f"packages[{index}]", faults).parse(taken, commands)
            if registration is not None:
                taken.add(registration.name)
                found.append(registration)
    if faults:
        raise RegistrationInvalid("; ".join(faults), hint=HINT, context={"faults": faults})
    return tuple(found)


def choose_artefact(registration: Registration, target: str) -> RegisteredArtefact | None:
    """Return the artefact for the machine `target`: its own before one for any; None where there is neither."""
    for wanted in (target, ANY_TARGET):
        for artefact in registration.artefacts:
            if artefact.target == wanted:
                return artefact
    return None


def explain_absence(registration: Registration, target: str) -> str:
    """Return the sentence that says why an archive sits out on the machine `target`."""
    targets = ", ".join(sorted(artefact.target for artefact in registration.artefacts))
    return f"{registration.name} {registration.version} is for {targets}, and this machine is {target}"


def is_builtin_command(name: str) -> bool:
    """Return whether a command is PM's own, the app's, or an interpreter's."""
    return name.lower() in BUILT_IN_COMMANDS or _PYTHON.fullmatch(name.lower()) is not None


def command_name(executable: str) -> str:
    """Return the name of the command that starts `executable`."""
    return _WINDOWS_SUFFIX.sub("", executable.rpartition("/")[2])


class _Entry:
    """One registration while it is parsed: where it stands, and where faults go."""

    def __init__(self, raw: object, place: str, faults: list[str]) -> None:
        self._place = place
        self._faults = faults
        self._is_object = isinstance(raw, Mapping)
        self._raw: Mapping[object, object] = raw if isinstance(raw, Mapping) else {}
        if not self._is_object:
            self._fault("", f"{_called(raw)} where an object belongs")

    def parse(self, taken: set[str], commands: set[str]) -> Registration | None:
        if not self._is_object:
            return None
        before = len(self._faults)
        kind = self._text("kind", lambda text: text in KINDS, f"none of {', '.join(KINDS)}")
        own = {"archive": {"artefacts"}, "python-tool": {"requirement"}}.get(kind, {"artefacts", "requirement"})
        self._refuse_unknown({"name", "version", "kind", "executables"} | own)
        name = self._text("name", _NAME.fullmatch, "not a name of lower-case letters, digits and ._-")
        self._refuse_taken("name", name, taken)
        version = self._text("version", _VERSION.fullmatch, "not a version of letters, digits and ._+-")
        executables = self._executables(commands, plain=kind == "python-tool")
        artefacts = self._artefacts() if kind == "archive" else ()
        requirement, hashes = self._requirement(version) if kind == "python-tool" else (None, ())
        if len(self._faults) > before:
            return None
        return Registration(
            name=name,
            version=version,
            kind=kind,
            requirement=requirement,
            hashes=hashes,
            artefacts=artefacts,
            executables=executables,
        )

    def _executables(self, taken: set[str], *, plain: bool) -> tuple[str, ...]:
        found: list[str] = []
        for index, item in enumerate(self._list("executables")):
            field = f"executables[{index}]"
            if not isinstance(item, str) or not _is_member(item) or (plain and "/" in item):
                form = "the name of a command" if plain else "a relative path inside the archive"
                self._fault(field, f"{_called(item)} is not {form}")
                continue
            command = command_name(item)
            if not _COMMAND.fullmatch(command):
                self._fault(field, f"{command!r} cannot be the name of a command")
            self._refuse_taken(field, command, taken)
            taken.add(command.lower())
            found.append(item)
        return tuple(found)

    def _artefacts(self) -> tuple[RegisteredArtefact, ...]:
        found: list[RegisteredArtefact] = []
        for index, item in enumerate(self._list("artefacts")):
            inner = _Entry(item, f"{self._place}.artefacts[{index}]", self._faults)
            artefact = inner.parse_artefact()
            if artefact is None:
                continue
            if any(other.target == artefact.target for other in found):
                self._fault(f"artefacts[{index}].target", f"a second artefact for {artefact.target}")
            found.append(artefact)
        return tuple(found)

    def parse_artefact(self) -> RegisteredArtefact | None:
        if not self._is_object:
            return None
        before = len(self._faults)
        self._refuse_unknown({"target", "url", "path", "sha256"})
        target = self._text("target", _TARGET.fullmatch, "not a target such as linux-x86_64, nor any")
        sha256 = self._text("sha256", _SHA256.fullmatch, "not 64 lower-case hexadecimal digits")
        url = path = None
        if ("url" in self._raw) == ("path" in self._raw):
            self._fault("", "exactly one of url and path belongs here")
        elif "url" in self._raw:
            url = self._text("url", _URL.fullmatch, "not an http, https or file address")
        else:
            path = self._text("path", _is_absolute, "not an absolute path")
        if len(self._faults) > before:
            return None
        return RegisteredArtefact(target=target, url=url, path=path, sha256=sha256)

    def _requirement(self, version: str) -> tuple[str | None, tuple[str, ...]]:
        text = self._text(
            "requirement", _REQUIREMENT.fullmatch, "not exact: name==version, with --hash=sha256:… behind it or nothing"
        )
        match = _REQUIREMENT.fullmatch(text)
        if match is None:
            return None, ()
        if version and match["version"] != version:
            self._fault("requirement", f"asks for {match['version']}, and version says {version}")
        hashes = tuple(part.removeprefix("--hash=") for part in match["hashes"].split())
        return f"{match['name']}=={match['version']}", hashes

    def _text(self, field: str, fits: Callable[[str], object], otherwise: str) -> str:
        """Return the field's text, or an empty one after noting what is wrong with it."""
        if field not in self._raw:
            self._fault(field, "missing")
            return ""
        value = self._raw[field]
        if not isinstance(value, str):
            self._fault(field, f"{_called(value)} where text belongs")
            return ""
        if not fits(value):
            self._fault(field, f"{value!r} is {otherwise}")
            return ""
        return value

    def _list(self, field: str) -> list[object]:
        value = self._raw.get(field)
        if isinstance(value, list | tuple) and value:
            return list(value)
        self._fault(field, "missing" if field not in self._raw else "a list of at least one belongs here")
        return []

    def _refuse_unknown(self, known: set[str]) -> None:
        for field in self._raw:
            if field not in known:
                self._fault(str(field), "unknown field")

    def _refuse_taken(self, field: str, name: str, taken: Collection[str]) -> None:
        if name.lower() in taken or is_builtin_command(name):
            self._fault(field, f"{name!r} is taken: by PM, by the host, or by another registration")

    def _fault(self, field: str, what: str) -> None:
        self._faults.append(f"{self._place}{'.' + field if field else ''}: {what}")


def _is_member(path: str) -> bool:
    parts = path.split("/")
    return all(_PART.fullmatch(part) and part not in {".", ".."} for part in parts)


def _is_absolute(path: str) -> bool:
    return path.startswith("/") or re.match(r"[A-Za-z]:[\\/]", path) is not None


def _called(value: object) -> str:
    """Return what to call a value that is wrong: text as it is, anything else by its type, so that no code is run."""
    return repr(value) if isinstance(value, str) else type(value).__name__
