"""Which backends there are, and whether one is isolated.

Owns: reading `backends:` of app.yaml, those that plugins provide, and the one answer on isolation. Does not own: the
command lines (far_commands), starting (terminal), what isolation relaxes (approvals). Keeps: backends-isolated: what is
not known, cannot be asked, or raises is not isolated, and the answer is a plain bool.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from perdure.app_file import AppFile, AppFileUnfit
from perdure.domain.backend import NAME, Backend, FarCommand, Launch
from perdure.domain.errors import BackendFailed, BackendUnknown
from perdure.domain.record import dataclass, field
from perdure.tools.far_commands import Container, Ssh, is_plain_container

LOCAL = "local"
_CONTAINERS = ("docker", "podman")
_KEYS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        _CONTAINERS, ("kind", "image", "container", "cwd", "mounts", "arguments", "network", "program", "environment")
    ),
    "ssh": ("kind", "host", "port", "cwd", "arguments", "program", "environment"),
}
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Configured:
    """A backend, and the variables that go there."""

    backend: Backend
    environment: tuple[str, ...] = ()
    """Names of variables of this process that a command gets there."""


@dataclass(slots=True, kw_only=True)
class Backends:
    """The backends of one profile."""

    file: AppFile
    provided: Callable[[], Iterable[tuple[str, Backend]]] = tuple
    """The backends of plugins, each with the plugin's name; asked where the file has none of the name."""
    inspect: Callable[[Sequence[str]], str | None] = lambda command: None
    """Returns what a command of this machine prints, or None where it fails; for asking about a container."""
    _read: dict[str, Configured] | None = field(default=None, init=False)

    def find(self, name: str) -> Configured:
        """Return the backend of this name.

        Raises:
            BackendUnknown: there is none, or what app.yaml says of backends cannot be used.
        """
        configured = self._configured()
        if name in configured:
            return configured[name]
        known = [LOCAL, *configured]
        for _plugin, backend in self.provided():
            if backend.name == name and name not in {LOCAL, *configured}:
                return Configured(backend=backend)
            known.append(backend.name)
        raise BackendUnknown(
            f"there is no backend {name!r}; there are {', '.join(dict.fromkeys(known))}", context={"backend": name}
        )

    def launch(self, name: str, far: FarCommand) -> Launch:
        """Return how a command is taken to a backend.

        Raises:
            BackendUnknown: there is no such backend.
            BackendFailed: it cannot say.
        """
        backend = self.find(name).backend
        try:
            launch: object = backend.launch(far)
        except Exception as error:
            raise BackendFailed(
                f"backend {name}: {type(error).__name__}: {error}", context={"backend": name}
            ) from error
        if not isinstance(launch, Launch) or not launch.command or not all(isinstance(w, str) for w in launch.command):
            raise BackendFailed(f"backend {name} does not say how a command is started", context={"backend": name})
        return launch

    def words(self, name: str, far: FarCommand) -> tuple[str, ...]:
        """Return what is started on this machine, as the guard reads it: an engine by the name that it goes by.

        Raises:
            BackendUnknown, BackendFailed: as for `launch`.
        """
        command = self.launch(name, far).command
        return ("docker", *command[1:]) if isinstance(self.find(name).backend, Container) else tuple(command)

    def isolated(self, name: str) -> bool:
        """Return whether a command there reaches nothing of this machine; False wherever that is not sure."""
        if name == LOCAL:
            return False
        try:
            declared: object = self.find(name).backend.isolated
            return bool(declared() if callable(declared) else declared)
        except Exception:  # noqa: BLE001  # whatever is wrong with a provider, it is no reason to trust it
            return False

    def _configured(self) -> dict[str, Configured]:
        if self._read is None:
            try:
                self._read = self._parse(self.file.section("backends"))
            except AppFileUnfit as fault:
                raise BackendUnknown(str(fault)) from fault
        return self._read

    def _parse(self, section: object) -> dict[str, Configured]:
        if section is None:
            return {}
        place = self.file.place("backends")
        if not isinstance(section, dict):
            raise BackendUnknown(f"{place} must be a mapping of names to settings")
        faults: list[str] = []
        found: dict[str, Configured] = {}
        for name, settings in section.items():
            where = f"{place}.{name}"
            if not isinstance(name, str) or not NAME.fullmatch(name) or name == LOCAL:
                faults.append(f"{where}: a backend's name is in lower case, and not `{LOCAL}`")
            elif (made := self._make(name, settings, where, faults)) is not None:
                found[name] = made
        if faults:
            raise BackendUnknown("; ".join(faults), context={"faults": list(faults)})
        return found

    def _make(self, name: str, settings: object, where: str, faults: list[str]) -> Configured | None:
        kind = settings.get("kind") if isinstance(settings, dict) else None
        if not isinstance(settings, dict) or not isinstance(kind, str) or kind not in _KEYS:
            faults.append(f"{where}.kind must be one of {', '.join(_KEYS)}")
            return None
        before = len(faults)
        faults += [f"{where}: there is no setting {key}" for key in settings if key not in _KEYS[kind]]
        texts = {
            key: _text(settings, key, where, faults)
            for key in ("image", "container", "cwd", "network", "host", "program")
        }
        lists = {key: _list(settings, key, where, faults) for key in ("mounts", "arguments", "environment")}
        port: object = settings.get("port")
        faults += [
            f"{where}.environment: {each!r} is no name"
            for each in lists["environment"]
            if not _VARIABLE.fullmatch(each)
        ]
        program = texts["program"] or kind
        if kind == "ssh":
            if settings.get("host") is None:
                faults.append(f"{where}.host is missing")
            if port is not None and (isinstance(port, bool) or not isinstance(port, int) or not 0 < port < 65_536):
                faults.append(f"{where}.port must be a number from 1 to 65535")
        elif (settings.get("image") is None) == (settings.get("container") is None):
            faults.append(f"{where} takes image or container, one of the two")
        if len(faults) > before:
            return None
        if kind == "ssh":
            ssh = Ssh(
                program=program,
                host=texts["host"] or "",
                port=port if isinstance(port, int) else None,
                cwd=texts["cwd"],
                arguments=lists["arguments"],
            )
            return Configured(backend=Backend(name=name, launch=ssh.launch), environment=lists["environment"])
        container = Container(
            program=program,
            image=texts["image"],
            container=texts["container"],
            cwd=texts["cwd"],
            mounts=lists["mounts"],
            arguments=lists["arguments"],
            network=texts["network"],
        )
        backend = Backend(name=name, launch=container.launch, isolated=lambda: self._is_isolated(container))
        return Configured(backend=backend, environment=lists["environment"])

    def _is_isolated(self, container: Container) -> bool:
        if container.container is None:
            return container.plain
        if container.arguments:
            return False
        said = self.inspect([container.program, "inspect", "--type", "container", "--", container.container])
        found: object = json.loads(said) if said is not None else None
        return isinstance(found, list) and len(found) == 1 and is_plain_container(found[0])


def _text(settings: Mapping[object, object], key: str, where: str, faults: list[str]) -> str | None:
    value = settings.get(key)
    if value is None:
        return None
    if not isinstance(value, str) or not value or value.startswith("-") or "\0" in value:
        faults.append(f"{where}.{key} must be a text that is no option")
        return None
    return value


def _list(settings: Mapping[object, object], key: str, where: str, faults: list[str]) -> tuple[str, ...]:
    value = settings.get(key)
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        faults.append(f"{where}.{key} must be a list of texts")
        return ()
    return tuple(value)
