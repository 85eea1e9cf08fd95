"""The command lines of docker, podman and ssh that take a command to where it runs.

Owns: their spelling, which options of a person's settings reach the host, and ending what is left on the far side. Does
not own: settings files (backends), starting anything. It is pure. Keeps: backends-quoting, backends-isolated.

ssh hands one text to the login shell over there, so every word is quoted for a POSIX shell; docker and podman pass
words on as they are.
"""

from __future__ import annotations

import re
import shlex

from perdure.approvals.ancestry import RUN_VARIABLE
from perdure.domain.backend import FarCommand, Launch
from perdure.domain.record import dataclass

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_END_SCRIPT = (
    'for p in /proc/[0-9]*; do if { tr "\\000" "\\n" <"$p/environ"; } 2>/dev/null | '
    'grep -qx "' + RUN_VARIABLE + '=$1"; then kill -9 "${p#/proc/}" 2>/dev/null; fi; done; true'
)
"""Ends what carries the run's id in its environment; on a far side without /proc it finds nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A container of docker or podman."""

    program: str
    image: str | None = None
    """A new container of it for each command."""
    container: str | None = None
    """A container that runs already."""
    cwd: str | None = None
    mounts: tuple[str, ...] = ()
    """As ``-v`` takes them."""
    arguments: tuple[str, ...] = ()
    """Further options, before the image or the container."""
    network: str | None = None

    @property
    def plain(self) -> bool:
        """Whether nothing that a person set lets a new container reach the host."""
        return (
            self.image is not None
            and not self.mounts
            and not self.arguments
            and self.network in {None, "none", "bridge"}
        )

    def launch(self, far: FarCommand) -> Launch:
        """Return how a command gets into the container; variables go by name: no list of processes shows them."""
        environment = {**_checked(far), RUN_VARIABLE: far.run}
        options = [word for name in environment for word in ("-e", name)]
        cwd = far.cwd or self.cwd
        options += ["-w", cwd] if cwd is not None else []
        if self.image is not None:
            name = f"perdure-{re.sub(r'[^A-Za-z0-9]', '', far.run).lower()}"
            mounts = [word for mount in self.mounts for word in ("-v", mount)]
            network = ["--network", self.network] if self.network is not None else []
            # Without its own entry point: what was judged is what is run.
            front = ["run", "--rm", "--name", name, "--entrypoint", "", *network, *mounts, *self.arguments, *options]
            command = (self.program, *front, "--", self.image, *far.command)
            return Launch(command=command, environment=environment, cleanup=(self.program, "rm", "-f", name))
        target = self.container or ""
        return Launch(
            command=(self.program, "exec", *self.arguments, *options, "--", target, *far.command),
            environment=environment,
            cleanup=(self.program, "exec", "--", target, "sh", "-c", _END_SCRIPT, "sh", far.run),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ssh:
    """Another machine."""

    program: str
    host: str
    port: int | None = None
    cwd: str | None = None
    arguments: tuple[str, ...] = ()
    """Further options of ssh."""

    def launch(self, far: FarCommand) -> Launch:
        """Return how a command gets there: as one text that the login shell takes apart into the same words."""
        environment = {**_checked(far), RUN_VARIABLE: far.run}
        assigned = [f"{name}={value}" for name, value in environment.items()]
        cwd = far.cwd or self.cwd
        step = f"cd -- {shlex.quote(cwd)} && " if cwd is not None else ""
        text = f"{step}exec env {shlex.join([*assigned, *far.command])}"
        return Launch(
            command=(*self._front(), text),
            cleanup=(*self._front(), shlex.join(["exec", "sh", "-c", _END_SCRIPT, "sh", far.run])),
        )

    def _front(self) -> tuple[str, ...]:
        port = ("-p", str(self.port)) if self.port is not None else ()
        # No terminal, no question, and nothing of this machine goes along: no agent, no display, no forwarding.
        fixed = ("-T", "-a", "-x", "-o", "BatchMode=yes", "-o", "ClearAllForwardings=yes")
        return (self.program, *fixed, *port, *self.arguments, "--", self.host)


def is_plain_container(said: object) -> bool:
    """Return whether a container that runs already reaches nothing of the host, by what ``inspect`` says of it.

    Args:
        said: the object of the container, as docker and podman give it.
    """
    if not isinstance(said, dict):
        return False
    host = said.get("HostConfig")
    if said.get("Mounts") or not isinstance(said.get("Mounts"), list) or not isinstance(host, dict):
        return False
    empty = ("Binds", "Devices", "DeviceRequests", "CapAdd", "VolumesFrom")
    shared = ("PidMode", "IpcMode", "NetworkMode", "UTSMode", "UsernsMode", "CgroupnsMode")
    if host.get("Privileged") is not False or any(host.get(name) for name in empty):
        return False
    if any(str(host.get(name) or "").startswith(("host", "container:", "ns:")) for name in shared):
        return False
    return not any("unconfined" in str(option) for option in host.get("SecurityOpt") or ())


def _checked(far: FarCommand) -> dict[str, str]:
    for name in far.environment:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name of a variable")
    return dict(far.environment)
