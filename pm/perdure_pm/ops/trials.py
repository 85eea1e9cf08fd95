"""Lock-only trials: the generated project in which a host and plugins meet, and having it resolved.

Owns: the project's text, what binds in it, and one resolution of it. Does not own: what is asked (ops.resolve), nor
what follows from an answer. Keeps: pm-host-lock-is-law, as far as it is asked: with `bind` every version that the host
locked is a constraint. Nothing is ever built for a trial that the build policy does not allow.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perdure_pm import ports
from perdure_pm.adapters.interpreter import Interpreter
from perdure_pm.adapters.uv import Uv
from perdure_pm.model.admission import Admission
from perdure_pm.model.errors import PerdureError
from perdure_pm.model.identity import normalise_distribution
from perdure_pm.ops.build import Wheel, split_requirements
from perdure_pm.ops.release import Release

_LINE = re.compile(r"^(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)==(?P<version>[^\s;\\]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What every trial of one resolution shares."""

    uv: Uv
    filesystem: ports.Filesystem
    release: Release
    """The host."""
    interpreter: Interpreter
    folder: Path
    """An existing directory of this resolution's own."""
    rules: Admission = field(default_factory=Admission)
    """By which rules what an index offers is let in."""
    sources: Mapping[str, Wheel] = field(default_factory=dict)
    """The wheels of plugins with an address, by the requirement that asks for each: its name with extras."""
    renew: tuple[str, ...] = ()
    """Normalised names of what is looked up anew although an earlier answer has it."""
    environments: tuple[str, ...] = ()
    """Markers of the machines that an answer must be for; by default this one."""

    tell: Callable[[str], None] = lambda message: None
    """Told what is being tried, where that takes a while."""
    accepted: tuple[str, ...] = ()
    """What plugins require from an address, as requirements with it, and a person accepted by name."""

    def pose(
        self,
        folder: Path,
        requirements: Sequence[str],
        *,
        bind: bool = True,
        hosts: Sequence[str] | None = None,
        constraints: Sequence[str] = (),
    ) -> Path:
        """Have a project at `folder` that asks for `requirements`, and return it.

        Args:
            folder: an existing directory.
            requirements: the plugins.
            bind: whether the host is part of it, and its lock binding.
            hosts: what stands for the host instead, unbound.
            constraints: further constraints.
        """
        release = self.release
        wheels = release.wheels if bind else ()
        named = _hosts(release, [wheel.distribution for wheel in wheels]) if bind else list(hosts or ())
        pins = host_pins(release) if bind else []
        wheels = (*wheels, *(self.sources[text] for text in requirements if text in self.sources))
        write_generated_project(
            self.filesystem,
            folder,
            wheels,
            [*named, *requirements],
            self.interpreter,
            [*pins, *self.accepted, *constraints],
            environments=self.environments,
        )
        return folder

    def try_lock(
        self,
        requirements: Sequence[str],
        *,
        bind: bool = True,
        hosts: Sequence[str] | None = None,
        constraints: Sequence[str] = (),
    ) -> Locked:
        """Return what `requirements` resolve to; arguments as for `pose`.

        Raises:
            PerdureError: to nothing; whether that is a clash, `is_unsolvable` tells of the error.
        """
        trial = self.folder / "trial"
        self.filesystem.remove_tree(trial)
        self.filesystem.make_directories(trial)
        self.pose(trial, requirements, bind=bind, hosts=hosts, constraints=constraints)
        self.uv.lock(trial, self.interpreter.path, builds=self.rules.builds)
        import tomllib  # only here: what fits at once needs no trial

        return Locked(tomllib.loads((trial / "uv.lock").read_text(encoding="utf-8")))

    def fits(self, requirements: Sequence[str]) -> bool:
        """Return whether `requirements` resolve with the host.

        Raises:
            PerdureError: nobody can tell: uv or the network failed.
        """
        try:
            self.try_lock(requirements)
        except PerdureError as error:
            if not is_unsolvable(error):
                raise
            return False
        return True


@dataclass(frozen=True, slots=True)
class Locked:
    """A uv.lock, read."""

    data: dict[str, Any]

    def versions(self) -> dict[str, str]:
        """Return the versions by normalised name; of several, which markers choose between, the last."""
        return {str(entry["name"]): str(entry["version"]) for entry in self._packages() if "version" in entry}

    def requirers(self) -> dict[str, set[str]]:
        """Return the names of what each package depends on, by its own name."""
        found: dict[str, set[str]] = {}
        for entry in self._packages():
            needs = list(entry.get("dependencies", []))
            for extra in entry.get("optional-dependencies", {}).values():
                needs += extra
            found.setdefault(str(entry["name"]), set()).update(str(need["name"]) for need in needs)
        return found

    def addresses(self) -> dict[str, str]:
        """Return where each package comes from that no index has, by its name; paths as the lock has them."""
        found: dict[str, str] = {}
        for entry in self._packages():
            source = entry.get("source", {})
            where = next((source[kind] for kind in ("url", "git", "path", "directory") if kind in source), None)
            if where is not None:
                found[str(entry["name"])] = str(where)
        return found

    def path(self, start: str, end: str) -> tuple[str, ...]:
        """Return the shortest way from one package to what it depends on; empty where there is none."""
        graph = self.requirers()
        ways: list[tuple[str, ...]] = [(start,)]
        seen = {start}
        for way in ways:
            if way[-1] == end:
                return way
            for name in sorted(graph.get(way[-1], set()) - seen):
                seen.add(name)
                ways.append((*way, name))
        return ()

    def _packages(self) -> list[dict[str, Any]]:
        return [entry for entry in self.data.get("package", []) if "virtual" not in entry.get("source", {})]


def is_unsolvable(error: PerdureError) -> bool:
    """Return whether uv came to the answer that there is no solution, for whatever reason."""
    return error.context.get("unsolvable") is True


def said_by_uv(error: PerdureError) -> str:
    """Return uv's own words of a failure."""
    return str(error.context.get("uv", ""))


def write_generated_project(
    filesystem: ports.Filesystem,
    folder: Path,
    wheels: Sequence[Wheel],
    dependencies: Sequence[str],
    interpreter: Interpreter,
    constraints: Sequence[str] = (),
    *,
    environments: Sequence[str] = (),
) -> None:
    """Have a project at `folder` that depends on `dependencies`, for this minor version alone.

    It is for the machines of `environments`, or, where none is named, for this one.
    JSON's strings are TOML's basic strings, so json.dumps writes every value.
    """
    major, minor = interpreter.release
    lines = [
        "# Generated by perdure-pm.",
        "[project]",
        'name = "generation"',
        'version = "0"',
        f'requires-python = "=={major}.{minor}.*"',
        f"dependencies = {json.dumps(list(dependencies))}",
        "[tool.uv]",
        "package = false",
        f"environments = {json.dumps(list(environments) or [_here(interpreter)])}",
    ]
    if constraints:
        lines.append(f"constraint-dependencies = {json.dumps(list(constraints))}")
    if wheels:
        lines.append("[tool.uv.sources]")
        lines += [f"{wheel.distribution} = {{ path = {json.dumps(str(wheel.path))} }}" for wheel in wheels]
    filesystem.write_durable(folder / "pyproject.toml", ("\n".join(lines) + "\n").encode())


def host_pins(release: Release) -> list[str]:
    """Return the host's locked versions as constraints, markers as the lock has them."""
    pins = []
    for block in split_requirements(release.requirements).values():
        head = block.split(" --hash", 1)[0].replace("\\\n", " ").strip()
        pins.append(head)
    return pins


def host_versions(release: Release) -> dict[str, set[str]]:
    """Return the versions that the host locked, and its own, by normalised name."""
    found = {name: pinned_versions(block) for name, block in split_requirements(release.requirements).items()}
    found |= {wheel.distribution: {wheel.version} for wheel in release.wheels}
    return {**found, normalise_distribution(release.name): {release.version}}


def pinned_versions(block: str) -> set[str]:
    """Return the versions that a name is pinned to; several where markers choose between them."""
    return {match["version"] for line in block.splitlines() if (match := _LINE.match(line))}


def _hosts(release: Release, names: Iterable[str]) -> list[str]:
    """Return what stands for the host among the dependencies."""
    return [*(_with_extras(name, release) for name in names), *release.direct]


def _with_extras(name: str, release: Release) -> str:
    return f"{name}[{','.join(release.extras)}]" if name == release.name and release.extras else name


def _here(interpreter: Interpreter) -> str:
    """Return the marker of this machine and interpreter: what lacks a wheel for another one is nobody's trouble."""
    import os
    import platform
    import sys

    machine = (
        f"sys_platform == '{sys.platform}' and platform_machine == '{platform.machine()}' and os_name == '{os.name}'"
    )
    return f"{machine} and platform_python_implementation == '{interpreter.implementation}'"
