"""What config.yaml and a profile's config.yaml may say, and the values they give.

Owns: the keys with their kinds, and turning a read document into a value or into every fault at once, each with its
place. Does not own: reading and writing YAML (store.config). Keeps: text is never taken for a truth value; a key that
nobody knows is reported and kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeGuard

from perdure_pm.model.admission import (
    BUILD_POLICIES,
    EXCEPTION_FORM,
    MOST_DAYS,
    QUARANTINE_DAYS,
    Admission,
    parse_exemption,
)
from perdure_pm.model.document import Document, Fault, Place, describe, dotted, near_miss
from perdure_pm.model.errors import ConfigInvalid, UsageFault
from perdure_pm.model.identity import is_distribution_name, normalise_distribution
from perdure_pm.model.requirement import find_entry_problem, find_requirement_problem, requirement_name

SCHEMA = 1
IMPORT_SECONDS = 30
STAYS_SECONDS = 20
PROTECTIONS = ("off", "prefer", "require")

Typed = bool | str | int | list[str]
"""What a key can be set to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One key that a file may have."""

    name: str
    """Dotted."""
    kind: str
    """boolean, text, url, path, place (a path or a URL), distribution, requirement, choice, number, names,
    requirements, plugins, exceptions or packages (lists), variables (a mapping) or schema."""
    meaning: str
    default: bool | str | int | None = None
    choices: tuple[str, ...] = ()
    """What a choice may be."""
    numbers: tuple[str, int, int] = ("", 0, 0)
    """What a number counts, and the least and the most that it may be."""

    @property
    def place(self) -> Place:
        return tuple(self.name.split("."))


LISTS = {"names": "name", "requirements": "requirement", "plugins": "plugin", "exceptions": "exception"}
"""Kinds of lists → what each entry is."""

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_BETWEEN = re.compile(r",(?![^\[]*\])(?=\s*[A-Za-z0-9])")
"""The comma between two requirements on a command line; those inside of one stand before a sign, or in brackets."""

_SCHEMA_KEY = Key(name="schema", kind="schema", meaning="the form of this file; always 1")

HOME_KEYS: tuple[Key, ...] = (
    _SCHEMA_KEY,
    Key(name="host.name", kind="distribution", meaning="the application that this home hosts"),
    Key(name="host.extras", kind="names", meaning="the host's extras that are installed with it"),
    Key(name="host.requirement", kind="requirement", meaning="the requirement by which the host is had from an index"),
    Key(name="host.wheel", kind="path", meaning="the wheel that the host is installed from"),
    Key(name="host.with", kind="requirements", meaning="what is installed with the host and is no plugin"),
    Key(name="host.commands", kind="names", meaning="the commands that get a launcher; by default all of the host's"),
    Key(
        name="host.plugin-groups",
        kind="names",
        meaning="the entry-point groups that the host loads plugins from; by default all that a plugin declares",
    ),
    Key(name="host.health", kind="text", meaning="the arguments of the first command that show whether the host works"),
    Key(
        name="host.serve",
        kind="text",
        meaning="the arguments with which the first command keeps running, such as a server's, where that is tried too",
    ),
    Key(
        name="host.stays",
        kind="number",
        numbers=("seconds", 1, 600),
        meaning="how long it must keep running with them",
        default=STAYS_SECONDS,
    ),
    Key(name="host.environment", kind="variables", meaning="variables that the host's launchers set"),
    Key(
        name="host.protect",
        kind="choice",
        choices=PROTECTIONS,
        meaning="whether the host is started with this home read-only: require, prefer (where it can be had) or off",
        default=PROTECTIONS[0],
    ),
    Key(
        name="host.python",
        kind="text",
        meaning="the interpreter that generations are built on: a version, which PM keeps in the home, or a path",
    ),
    Key(name="host.checkout", kind="path", meaning="the source tree that the host is built from"),
    Key(
        name="install.lazy",
        kind="boolean",
        meaning="whether anything may be installed that nobody asked for in so many words",
        default=True,
    ),
    Key(name="install.build", kind="names", meaning="what may be built from source where there is no wheel of it"),
    Key(
        name="install.build-with-host",
        kind="names",
        meaning="what may be built from source, with the host where its build can import it",
    ),
    Key(
        name="install.build-policy",
        kind="choice",
        choices=BUILD_POLICIES,
        meaning="whether anything else may be built from source: ask (nobody there: refused), allow or never",
        default=BUILD_POLICIES[0],
    ),
    Key(
        name="install.direct-urls",
        kind="names",
        meaning="what a plugin may require from an address instead of an index",
    ),
    Key(
        name="install.quarantine",
        kind="number",
        numbers=("days", 0, MOST_DAYS),
        meaning="how many days ago what is installed from an index must have been uploaded; 0 for no quarantine",
        default=QUARANTINE_DAYS,
    ),
    Key(
        name="install.quarantine-exceptions",
        kind="exceptions",
        meaning=f"versions of plugins that are let through the quarantine, each as `{EXCEPTION_FORM}`",
    ),
    Key(
        name="install.import-limit",
        kind="number",
        numbers=("seconds", 1, 3600),
        meaning="how long one plugin may take to be imported when what was built is tried",
        default=IMPORT_SECONDS,
    ),
    Key(
        name="packages",
        kind="packages",
        meaning="programs that get a launcher of their own beside the host's, each as the worker protocol has it",
    ),
    Key(name="network.index-url", kind="place", meaning="the package index to use instead of the default one"),
    Key(name="network.proxy", kind="url", meaning="the proxy for http and https"),
    Key(name="network.certificate", kind="path", meaning="a PEM file of the certificate authorities to trust"),
    Key(name="network.wheelhouse", kind="path", meaning="a directory of wheels to use instead of every index"),
    Key(name="network.python-downloads", kind="place", meaning="a list of interpreters to download from"),
    Key(name="network.offline", kind="boolean", meaning="whether to use no network at all", default=False),
)
"""The keys of config.yaml."""

PROFILE_KEYS: tuple[Key, ...] = (
    _SCHEMA_KEY,
    Key(name="plugins", kind="plugins", meaning="the plugins of this profile, in load order"),
    Key(
        name="disabled",
        kind="plugins",
        meaning="names of plugins that stay in the list and are left out; a name counts in every spelling",
    ),
)
"""The keys of profiles/<name>/config.yaml."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeConfig:
    """What config.yaml says; what it does not say is None, or the key's default."""

    host_name: str | None = None
    host_checkout: str | None = None
    host_extras: tuple[str, ...] = ()
    """Normalised and sorted."""
    host_requirement: str | None = None
    host_wheel: str | None = None
    host_with: tuple[str, ...] = ()
    host_commands: tuple[str, ...] = ()
    host_plugin_groups: tuple[str, ...] = ()
    """The only entry-point groups that count, where it names any."""
    host_health: str | None = None
    host_serve: str | None = None
    """The arguments of what must keep running; None where nothing must."""
    host_stays: int = STAYS_SECONDS
    """Seconds."""
    host_python: str | None = None
    host_environment: Mapping[str, str] = field(default_factory=dict)
    host_protect: str = PROTECTIONS[0]
    lazy: bool = True
    build_with_host: tuple[str, ...] = ()
    """Normalised names of what is built from source with the host beside its own tools."""
    import_seconds: int = IMPORT_SECONDS
    """How long one plugin may take to be imported when a candidate is tried."""
    admission: Admission = field(default_factory=Admission)
    """By which rules what an index offers is let in."""
    values: Mapping[str, Typed | None] = field(default_factory=dict)
    """Every key by its dotted name, as model.settings.resolve takes it; only keys that the file has."""
    warnings: tuple[Fault, ...] = ()

    @property
    def build(self) -> tuple[str, ...]:
        """Normalised names of what may be built from source."""
        return self.admission.build

    @property
    def names_host(self) -> bool:
        """Whether the file says where the host comes from."""
        return bool(self.host_checkout or self.host_requirement or self.host_wheel)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileConfig:
    """What a profile's config.yaml says."""

    plugins: tuple[str, ...] = ()
    disabled: tuple[str, ...] = ()
    """As they stand there: in any spelling, with or without versions."""
    warnings: tuple[Fault, ...] = ()


def parse_home_config(document: Document) -> HomeConfig:
    """Return what config.yaml says.

    Raises:
        ConfigInvalid: it has faults, all of which are named.
    """
    found, warnings = _parse(document, HOME_KEYS)
    values = {name: _as_typed(value) for name, value in found.items()}
    name, checkout, lazy = values.get("host.name"), values.get("host.checkout"), values.get("install.lazy", True)
    environment = found.get("host.environment")
    return HomeConfig(
        host_name=name if isinstance(name, str) else None,
        host_checkout=checkout if isinstance(checkout, str) else None,
        host_extras=tuple(sorted(normalise_distribution(extra) for extra in _texts(found.get("host.extras")))),
        host_requirement=_text(found.get("host.requirement")),
        host_wheel=_text(found.get("host.wheel")),
        host_with=_texts(found.get("host.with")),
        host_commands=_texts(found.get("host.commands")),
        host_plugin_groups=_texts(found.get("host.plugin-groups")),
        host_health=_text(found.get("host.health")),
        host_serve=_text(found.get("host.serve")),
        host_stays=_number(found.get("host.stays"), STAYS_SECONDS),
        host_python=_text(found.get("host.python")),
        host_environment=dict(environment) if isinstance(environment, dict) else {},
        host_protect=_text(found.get("host.protect")) or PROTECTIONS[0],
        lazy=lazy is True,
        build_with_host=_names(found.get("install.build-with-host")),
        import_seconds=_number(found.get("install.import-limit"), IMPORT_SECONDS),
        admission=_admission(found),
        values=values,
        warnings=warnings,
    )


def _admission(found: Mapping[str, object]) -> Admission:
    days = _number(found.get("install.quarantine"), QUARANTINE_DAYS)
    return Admission(
        build_policy=_text(found.get("install.build-policy")) or BUILD_POLICIES[0],
        build=tuple(sorted({*_names(found.get("install.build")), *_names(found.get("install.build-with-host"))})),
        direct_urls=_names(found.get("install.direct-urls")),
        quarantine=timedelta(days=days),
        exemptions=tuple(parse_exemption(text) for text in _texts(found.get("install.quarantine-exceptions"))),
    )


def _names(value: object) -> tuple[str, ...]:
    return tuple(sorted(normalise_distribution(name) for name in _texts(value)))


def _number(value: object, default: int) -> int:
    return value if isinstance(value, int) else default


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _as_typed(value: object) -> Typed | None:
    """Return a value as it is shown: of variables `NAME=VALUE`, of packages their names and versions."""
    if value is None or isinstance(value, (bool, str, int)) or _is_texts(value):
        return value
    if isinstance(value, dict):
        return [f"{name}={text}" for name, text in value.items()]
    entries = value if isinstance(value, list) else [value]
    return [
        f"{entry.get('name', '?')} {entry.get('version', '?')}" if isinstance(entry, dict) else describe(entry)
        for entry in entries
    ]


def _is_texts(value: object) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(isinstance(entry, str) for entry in value)


def _texts(value: object) -> tuple[str, ...]:
    return tuple(str(entry) for entry in value) if isinstance(value, list) else ()


def parse_profile_config(document: Document) -> ProfileConfig:
    """Return what a profile's config.yaml says.

    Raises:
        ConfigInvalid: it has faults, all of which are named.
    """
    found, warnings = _parse(document, PROFILE_KEYS)
    return ProfileConfig(
        plugins=_texts(found.get("plugins")), disabled=_texts(found.get("disabled")), warnings=warnings
    )


def parse_typed(key: Key, text: str) -> Typed:
    """Return the value of `key` that a person typed as `text`: a list's entries stand between commas.

    Raises:
        UsageFault: the text is no such value.
    """
    value: Typed = text
    if key.kind == "boolean":
        value = {"true": True, "false": False}.get(text, text)
    elif key.kind == "number":
        value = int(text) if text.isascii() and text.isdigit() and len(text) < 6 else text
    elif key.kind in LISTS:
        value = [entry.strip(" ,") for entry in _BETWEEN.split(text) if entry.strip(" ,")]
    problems = [message for _, message in _find_problems(key, value, key.place)]
    if key.kind == "schema":
        problems = ["is not to be changed"]
    if problems:
        raise UsageFault(f"{key.name} {problems[0]}", context={"key": key.name, "value": text})
    return value


def find_key(name: str) -> tuple[Key, bool]:
    """Return the key of that dotted name, and whether it belongs to the profile's file.

    Raises:
        UsageFault: there is none; the nearest ones are named.
    """
    for key in HOME_KEYS:
        if key.name == name:
            return key, False
    for key in PROFILE_KEYS:
        if key.name == name:
            return key, True
    names = [key.name for key in (*HOME_KEYS, *PROFILE_KEYS)]
    near = near_miss(name, names)
    raise UsageFault(
        f"there is no setting {name!r}" + (f"; did you mean {near}?" if near else ""),
        hint="the settings are: " + ", ".join(dict.fromkeys(names)),
        context={"key": name},
    )


def _parse(document: Document, keys: Sequence[Key]) -> tuple[dict[str, object], tuple[Fault, ...]]:
    faults = list(document.faults)
    warnings: list[Fault] = []
    found: dict[str, object] = {}
    if document.data is not None and not isinstance(document.data, dict):
        faults.append(document.fault_at((), f"must be a mapping of keys to values, is {describe(document.data)}"))
    else:
        _parse_mapping(document, document.data or {}, (), keys, (found, faults, warnings))
    if faults:
        ordered = sorted(faults, key=lambda fault: (fault.line, fault.column))
        raise ConfigInvalid(
            str(ordered[0]) if len(ordered) == 1 else f"{document.file} has {len(ordered)} faults",
            hint=f"correct {document.file} in the home, then run the same command again",
            context={"file": document.file, "faults": [str(fault) for fault in ordered]},
        )
    return found, tuple(warnings)


def _parse_mapping(
    document: Document,
    data: Mapping[str, object],
    above: Place,
    keys: Sequence[Key],
    into: tuple[dict[str, object], list[Fault], list[Fault]],
) -> None:
    found, faults, warnings = into
    by_part = {key.place[len(above)]: key for key in keys if key.place[: len(above)] == above}
    for part, value in data.items():
        place = (*above, part)
        key = by_part.get(part)
        if key is None:
            near = near_miss(part, [str(name) for name in by_part])
            meant = f"; did you mean {near}?" if near else ""
            warnings.append(document.fault_at(place, f"unknown key, kept but without effect{meant}", at_key=True))
        elif key.place != place:
            # A section: its keys are below; an empty one, as commenting all of them out leaves it, says nothing.
            if isinstance(value, dict):
                _parse_mapping(document, value, place, keys, into)
            elif value is not None:
                faults.append(document.fault_at(place, f"must be a mapping of keys to values, is {describe(value)}"))
        else:
            found[key.name] = value
            faults += [
                document.fault_at(at, message)
                for at, message in _find_problems(key, value, place)
                if not any(fault.key == dotted(at) for fault in document.faults)
            ]


def _find_problems(key: Key, value: object, place: Place) -> Iterator[tuple[Place, str]]:
    """Yield what is wrong with a key's value. Empty (null) means not set, but never for a truth value."""
    if key.kind == "boolean":
        if not isinstance(value, bool):
            yield place, f"must be true or false, is {describe(value)}"
    elif key.kind == "schema":
        if value != SCHEMA or isinstance(value, bool):
            yield place, f"must be {SCHEMA}, is {describe(value)}; another form needs another version of PM"
    elif key.kind in LISTS:
        yield from _find_list_problems(value, place, LISTS[key.kind])
    elif key.kind == "packages":
        # What is in it is judged when they are installed (ops.configured_packages): a fault stops nothing else.
        if value is not None and not isinstance(value, list):
            yield place, f"must be a list of packages, is {describe(value)}"
    elif key.kind == "variables":
        yield from _find_variable_problems(value, place)
    elif value is not None:
        message = _find_plain_problem(key, value)
        if message:
            yield place, message


def _find_plain_problem(key: Key, value: object) -> str | None:
    if key.kind == "number":
        unit, least, most = key.numbers
        fits = isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
        return None if fits else f"must be a whole number of {unit} from {least} to {most}, is {describe(value)}"
    if key.kind == "choice":
        choices = f"{', '.join(key.choices[:-1])} or {key.choices[-1]}"
        return None if value in key.choices else f"must be {choices}, is {describe(value)}"
    return _find_text_problem(key.kind, value)


def _find_list_problems(value: object, place: Place, kind: str) -> Iterator[tuple[Place, str]]:
    if value is None:
        return
    if not isinstance(value, list):
        yield place, f"must be a list of {kind}s, is {describe(value)}"
        return
    seen: dict[str, int] = {}
    for index, entry in enumerate(value):
        message = _find_text_problem(kind, entry)
        if message:
            yield (*place, index), message
        elif (first := seen.setdefault(_name_of(str(entry), kind), index)) != index:
            yield (*place, index), f"names {entry} again, which is {dotted((*place, first))}"


def _name_of(entry: str, kind: str) -> str:
    return parse_exemption(entry).name if kind == "exception" else requirement_name(entry)


def _find_variable_problems(value: object, place: Place) -> Iterator[tuple[Place, str]]:
    if value is None:
        return
    if not isinstance(value, dict):
        yield place, f"must be a mapping of variables to texts, is {describe(value)}"
        return
    for name, text in value.items():
        at = (*place, str(name))
        if not _VARIABLE.fullmatch(str(name)):
            yield at, "is not the name of a variable"
        elif not isinstance(text, str) or "\0" in text:
            yield at, f"must be text (write it in quotes), is {describe(text)}"


def _find_text_problem(kind: str, value: object) -> str | None:
    if not isinstance(value, str):
        return f"must be text, is {describe(value)}"
    if not value.strip() or "\0" in value:
        return f"must not be {describe(value)}"
    if kind in {"distribution", "name"} and not is_distribution_name(value):
        return f"must be a distribution's name, is {describe(value)}"
    if kind == "requirement":
        return find_requirement_problem(value)
    if kind == "plugin":
        return find_entry_problem(value)
    if kind == "exception":
        try:
            parse_exemption(value)
        except UsageFault as fault:
            return fault.summary
    if kind == "url" and "://" not in value:
        return f"must be a URL with its scheme, such as http://, is {describe(value)}"
    return None
