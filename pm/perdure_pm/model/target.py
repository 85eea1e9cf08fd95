"""Machines and Pythons that wheels are chosen for, this one or another.

Owns: the names of targets, which wheels run on one, and what markers say there. Does not own: which packages are needed
(ops.wheelhouse).
"""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from packaging.markers import Marker
from packaging.tags import Tag, compatible_tags, cpython_tags, mac_platforms, platform_tags
from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from perdure_pm.model.errors import UsageFault

MACHINES = {"linux": ("x86_64", "aarch64"), "darwin": ("x86_64", "arm64"), "win32": ("amd64", "arm64")}
MUSL = "-musl"
OLDEST_GLIBC, NEWEST_GLIBC = 5, 28
"""Minor versions of glibc 2 that another Linux is taken to have: what has been in every distribution since 2019."""
MACOS = (14, 0)
"""The macOS that another machine is taken to have."""
_SYSTEMS = {"linux": ("posix", "Linux"), "darwin": ("posix", "Darwin"), "win32": ("nt", "Windows")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One kind of machine, with one minor version of CPython."""

    name: str
    """``linux-x86_64``, as `target_name` gives it; with ``-musl`` for a Linux without glibc."""
    python: str
    """``3.12``."""

    @property
    def system(self) -> str:
        """What ``sys.platform`` says there."""
        return self.name.split("-")[0]

    @property
    def machine(self) -> str:
        """What ``platform.machine()`` says there, in lower case."""
        return self.name.split("-")[1]

    def choose(self, names: Sequence[str]) -> str | None:
        """Return which of these wheels is the best one for the target; None where none of them runs there."""
        order = {tag: rank for rank, tag in enumerate(self._tags())}
        ranked = [
            (min(ranks), name) for name in names if (ranks := [order[tag] for tag in _tags_of(name) & order.keys()])
        ]
        return min(ranked)[1] if ranked else None

    def wants(self, marker: Marker | None) -> bool:
        """Return whether a marker is true there for some patch version of the Python."""
        return marker is None or any(marker.evaluate(self._environment(patch)) for patch in (0, 99))

    @property
    def platform(self) -> str:
        """The same in uv's words."""
        if self.system == "linux":
            kind = "musllinux_1_2" if self.name.endswith(MUSL) else f"manylinux_2_{NEWEST_GLIBC}"
            return f"{self.machine}-{kind}"
        machine = {"arm64": "aarch64", "amd64": "x86_64"}.get(self.machine, self.machine)
        return f"{machine}-{'apple-darwin' if self.system == 'darwin' else 'pc-windows-msvc'}"

    def _environment(self, patch: int) -> dict[str, str]:
        os_name, system = _SYSTEMS[self.system]
        return {
            "os_name": os_name,
            "sys_platform": self.system,
            "platform_system": system,
            "platform_machine": self.machine.upper() if self.system == "win32" else self.machine,
            "platform_release": "",
            "platform_version": "",
            "platform_python_implementation": "CPython",
            "implementation_name": "cpython",
            "implementation_version": f"{self.python}.{patch}",
            "python_version": self.python,
            "python_full_version": f"{self.python}.{patch}",
            "extra": "",
        }

    def _tags(self) -> Iterator[Tag]:
        major, minor = (int(part) for part in self.python.split("."))
        platforms, abi = list(self._platforms()), f"cp{major}{minor}"
        yield from cpython_tags((major, minor), [abi], platforms)
        yield from compatible_tags((major, minor), abi, platforms)

    def _platforms(self) -> Iterator[str]:
        if self.name == this_target():
            yield from platform_tags()
        elif self.system == "darwin":
            yield from mac_platforms(MACOS, self.machine)
        elif self.system == "win32":
            yield f"win_{self.machine}"
        else:
            if self.name.endswith(MUSL):
                yield from (f"musllinux_1_{minor}_{self.machine}" for minor in (2, 1, 0))
            else:
                for minor in range(NEWEST_GLIBC, OLDEST_GLIBC - 1, -1):
                    yield f"manylinux_2_{minor}_{self.machine}"
                    older = {17: "2014", 12: "2010", 5: "1"}.get(minor)
                    if older:
                        yield f"manylinux{older}_{self.machine}"
            yield f"linux_{self.machine}"


def this_target() -> str:
    """Return the name of the target that this machine is."""
    musl = MUSL if next(platform_tags(), "").startswith("musllinux") else ""
    return f"{sys.platform}-{platform.machine().lower()}{musl}"


def parse_target(name: str | None, python: str) -> Target:
    """Return the target of that name; without one, this machine.

    Raises:
        UsageFault: there is none of that name, or it is for a Python that PM does not run on.
    """
    if not re.fullmatch(r"3\.(1[1-9]|[2-9][0-9])", python):
        raise UsageFault(f"PM and the app need Python 3.11 or newer, and {python} was asked for", hint="--python 3.12")
    known = [f"{system}-{machine}" for system, machines in MACHINES.items() for machine in machines]
    known += [f"{known_name}{MUSL}" for known_name in known if known_name.startswith("linux")]
    if name is None or name == this_target():
        return Target(name=this_target(), python=python)
    if name not in known:
        raise UsageFault(
            f"there is no platform {name!r}", hint=f"one of: {', '.join(known)}", context={"platform": name}
        )
    return Target(name=name, python=python)


def _tags_of(name: str) -> frozenset[Tag]:
    try:
        return parse_wheel_filename(name)[3]
    except InvalidWheelFilename:
        return frozenset()
