"""The one builder: PM's own runtime, the app's generations, tool packages and test environments come from here.

Owns: wheels from source trees, environments from hashed requirements, byte code. Does not own: where a thing is
published, nor what is in it. Online, mirror, wheelhouse and offline differ only in the arguments that adapters.uv gives
to uv.

Standard library only, Python 3.9.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from perdure_pm import ports
from perdure_pm.adapters.processes import run
from perdure_pm.adapters.uv import Uv
from perdure_pm.model.errors import IntegrityFault
from perdure_pm.model.identity import normalise_distribution
from perdure_pm.store.inventory import find_record_deviations, find_site_packages, hash_file
from perdure_pm.store.layout import Layout, environment_python

COMPILE_SECONDS = 600.0
SHOWN_FINDINGS = 20
_PINNED = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)==(?P<version>[^\s;\\]+)")


@dataclass(frozen=True)
class Wheel:
    """A wheel that was built from a source tree."""

    path: Path
    sha256: str

    @property
    def distribution(self) -> str:
        """The distribution's normalised name."""
        return self.path.name.split("-")[0].lower().replace("_", "-")

    @property
    def version(self) -> str:
        """The distribution's version."""
        return self.path.name.split("-")[1]

    def requirement(self) -> str:
        """Return the hashed requirement that installs this very file."""
        return f"{self.distribution} @ {self.path.absolute().as_uri()} --hash=sha256:{self.sha256}"


def build_wheels(
    uv: Uv, filesystem: ports.Filesystem, layout: Layout, sources: Sequence[Path], target: Path, python: Path
) -> list[Wheel]:
    """Return one wheel for each source tree, in `target`.

    A tree that lies elsewhere is never written to: uv builds into a scratch directory and the wheel is renamed.
    """
    filesystem.make_directories(target)
    wheels = []
    for source in sources:
        scratch = layout.scratch / f"wheel-{secrets.token_hex(6)}"
        filesystem.make_directories(scratch)
        try:
            built = uv.build_wheel(source, scratch, python)
            filesystem.rename(built, target / built.name)
        finally:
            filesystem.remove_tree(scratch)
        wheels.append(Wheel(target / built.name, hash_file(target / built.name)))
    return wheels


def build_environment(
    uv: Uv,
    filesystem: ports.Filesystem,
    *,
    environment: Path,
    python: Path,
    requirements: str,
    wheels: Sequence[Wheel] = (),
) -> None:
    """Have a complete, compiled environment at `environment`, its contents checked against every RECORD.

    Args:
        uv: the uv to build with.
        filesystem: where files are written.
        environment: a path that does not exist yet; its parent does, and gets `requirements.txt`.
        python: the base interpreter's real path.
        requirements: pinned and hashed requirements.
        wheels: further wheels to install.

    Raises:
        IntegrityFault: what was installed is not what the distributions' RECORD files say.
    """
    uv.make_environment(environment, python)
    text = "".join([requirements, *(wheel.requirement() + "\n" for wheel in wheels)])
    listing = environment.with_name("requirements.txt")
    filesystem.write_durable(listing, text.encode())
    uv.install(environment, listing)
    compile_environment(environment)
    findings = find_record_deviations(find_site_packages(environment))
    if findings:
        raise IntegrityFault(
            f"{len(findings)} files are not what their distributions say, the first: {findings[0]}",
            hint="delete the cache directory below the home, then run the same command again",
            context={"findings": [str(finding) for finding in findings[:SHOWN_FINDINGS]]},
        )


def build_tool_environment(
    uv: Uv,
    filesystem: ports.Filesystem,
    *,
    environment: Path,
    python: Path,
    requirement: str,
    hashes: Collection[str] = (),
) -> None:
    """Have an environment for one tool from an index, its requirements locked first, in a project beside it.

    Args:
        uv: the uv to build with.
        filesystem: where files are written.
        environment: as for `build_environment`; its parent also gets `pyproject.toml` and `uv.lock`.
        python: the base interpreter's real path.
        requirement: the tool, pinned: ``name==1.2.3``.
        hashes: what the tool's own file may hash to, as ``sha256:…``; empty for whatever the index says.

    Raises:
        IntegrityFault: the index offers no file of the tool with one of these hashes.
    """
    project = environment.parent
    text = f'[project]\nname = "tool"\nversion = "0"\ndependencies = [{json.dumps(requirement)}]\n'
    filesystem.write_durable(project / "pyproject.toml", f"{text}[tool.uv]\npackage = false\n".encode())
    uv.lock(project, python)
    blocks = split_requirements(uv.export(project, python))
    name = normalise_distribution(requirement.partition("==")[0])
    if hashes:
        kept = [value for value in sorted(hashes) if f"--hash={value}" in blocks.get(name, "")]
        if not kept:
            raise IntegrityFault(
                f"the index offers no {requirement} with the hash that was asked for",
                hint="use an index that serves that file: --index-url URL",
                context={"requirement": requirement, "hashes": sorted(hashes)},
            )
        blocks[name] = " ".join([requirement, *(f"--hash={value}" for value in kept)]) + "\n"
    build_environment(uv, filesystem, environment=environment, python=python, requirements="".join(blocks.values()))


def split_requirements(requirements: str) -> dict[str, str]:
    """Return each pinned requirement with its hashes, as text, by normalised name.

    A name that stands there several times, for several markers, is one entry.
    """
    found: dict[str, str] = {}
    name = ""
    for line in requirements.splitlines(keepends=True):
        match = _PINNED.match(line)
        if match:
            name = normalise_distribution(match.group("name"))
        if name:
            found[name] = found.get(name, "") + line
    return found


def compile_environment(environment: Path) -> None:
    """Have byte code beside every module, compiled by the environment's own interpreter.

    A sealed environment is read-only, so a start could not write it. A file that does not compile is left alone: it is
    somebody's template for another Python, and an import of it fails with its own words.
    """
    python = environment_python(environment)
    run(
        [python, "-I", "-m", "compileall", "-q", "-q", find_site_packages(environment)],
        environment=bare_environment(),
        directory=environment,
        timeout=COMPILE_SECONDS,
    )


def bare_environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment for a probe that runs under a built interpreter: nothing of the caller's."""
    return {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1", **(more or {})}
