"""The one builder: PM's own runtime, the app's generations, tool packages and test environments come from here.

Owns: wheels from source trees, environments from hashed requirements, byte code. Does not own: where a thing is
published, nor what is in it. Online, mirror, wheelhouse and offline differ only in the arguments that adapters.uv gives
to uv.

Standard library only, Python 3.9.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from perdure_pm import ports
from perdure_pm.adapters.interpreter import bare_environment
from perdure_pm.adapters.processes import run
from perdure_pm.adapters.uv import Uv
from perdure_pm.model.errors import ArtefactMissing, ConflictRefused, IntegrityFault, NoSpace
from perdure_pm.model.identity import normalise_distribution
from perdure_pm.store.inventory import (
    Finding,
    Inventory,
    KnownFiles,
    find_record_deviations,
    find_site_packages,
    hash_file,
    take_inventory,
)
from perdure_pm.store.layout import Layout, environment_python

COMPILE_SECONDS = 600.0
SHOWN_FINDINGS = 20
LEFT_BYTES = 16 * 1024 * 1024
"""What must be left after a build for it to be trusted."""
LEASE = "perdure_lease"
_PINNED = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)(?:==(?P<version>[^\s;\\]+)| ?@ \S+)")
"""By version, or by the address that a person accepted."""
_CACHE = "__pycache__"
_BYTECODE = re.compile(r"(?P<stem>.+)\.cpython-(?P<version>\d+)t?\.pyc", re.DOTALL)
"""What an interpreter that does not optimise writes and reads; nothing else, say of a test framework, is like it."""


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
        scratch = layout.scratch / f"wheel-{os.urandom(6).hex()}"
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
    base: Path | None = None,
    known: KnownFiles | None = None,
    lease: bool = False,
    build: Collection[str] | None = (),
) -> Inventory:
    """Have a complete, compiled environment at `environment`, its contents checked against every RECORD.

    What the cache served wrong is thrown out of it, fetched again and built once more.

    Args:
        uv: the uv to build with.
        filesystem: where files are written.
        environment: a path that does not exist yet; its parent does, and gets `requirements.txt`.
        python: the base interpreter's real path.
        requirements: pinned and hashed requirements.
        wheels: further wheels to install.
        base: an environment whose byte code is carried over where the sources are the same files.
        known: files whose hash is known already, by inode.
        lease: whether each process that starts in it is to hold its generation.
        build: normalised names of what may be built from source where there is no wheel of it; None for everything.

    Returns:
        The inventory of the environment.

    Raises:
        IntegrityFault: what was installed is, also the second time, not what the distributions' RECORD files say.
    """
    text = "".join([requirements, *(wheel.requirement() + "\n" for wheel in wheels)])
    listing = environment.with_name("requirements.txt")
    filesystem.write_durable(listing, text.encode())
    findings: list[Finding] = []
    prebuilt: list[str] | None = [] if build is None else None
    if build:
        prebuilt = [name for name in split_requirements(requirements) if name not in build]
    for _attempt in (1, 2):
        uv.make_environment(environment, python)
        uv.install(environment, listing, prebuilt=prebuilt)
        if lease:
            _add_own_modules(filesystem, environment, base)
        if base is not None:
            carry_bytecode(filesystem, base, environment)
        if has_uncompiled(environment):
            compile_environment(environment)
        if filesystem.free_bytes(environment) < LEFT_BYTES:
            # With a few blocks left an interpreter writes byte code that is cut off, and ends with exit code 0.
            raise NoSpace(
                f"{environment} was built, but less than {LEFT_BYTES} bytes are left: its byte code may be cut off",
                hint="free some space on that filesystem, then run the same command again",
                context={"path": str(environment), "needed": LEFT_BYTES},
            )
        inventory = take_inventory(environment, known)
        findings = find_record_deviations(environment, inventory)
        if not findings:
            return inventory
        _refuse_collisions(findings)
        uv.forget(sorted({finding.distribution.partition("-")[0] for finding in findings}))
        filesystem.remove_tree(environment)
    raise IntegrityFault(
        f"{len(findings)} files are not what their distributions say, the first: {findings[0]}",
        hint="use another index with --index-url URL: what this one serves does not fit together",
        context={"findings": [str(finding) for finding in findings[:SHOWN_FINDINGS]]},
    )


def _refuse_collisions(findings: Sequence[Finding]) -> None:
    """Refuse distributions that write the same path with different contents: whichever comes last would win."""
    collisions = [finding for finding in findings if finding.other]
    if not collisions:
        return
    first = collisions[0]
    more = f" (and {len(collisions) - 1} more)" if len(collisions) > 1 else ""
    raise ConflictRefused(
        f"{first.other} and {first.distribution} do not go together: both write {first.path}{more}, with different "
        "contents",
        hint=f"leave out the plugin that brings {first.distribution.partition('-')[0]}, or the other one",
        context={
            "collisions": [
                {"path": finding.path, "distributions": [finding.other, finding.distribution]}
                for finding in collisions[:SHOWN_FINDINGS]
            ]
        },
    )


def _add_own_modules(filesystem: ports.Filesystem, environment: Path, base: Path | None) -> None:
    """Have what a generation holds beside its packages.

    That is the module that every interpreter imports at its start and that holds the generation, and what says what to
    do instead of running pip (docs/adr/0013): a module in its place, or, where pip is among the packages, a site
    configuration by which pip hands every command line over.
    """
    target = find_site_packages(environment)
    _add_module(filesystem, LEASE, target / f"{LEASE}.py", base)
    filesystem.write_durable(target / f"{LEASE}.pth", f"import {LEASE}\n".encode())
    if not (target / "pip").exists():
        _add_module(filesystem, "pip_refusal", target / "pip.py", base)
    elif os.name == "posix":
        _add_module(filesystem, "pip_refusal", target / "perdure_pip.py", base)
        script = environment / "bin" / "perdure-pip"
        filesystem.write_durable(script, b'#!/bin/sh\nexec "${0%/*}/python" -I -m perdure_pip "$@"\n', mode=0o755)
        # A path that does not exist any more, after the home was moved, keeps pip from running all the same.
        filesystem.write_durable(environment / "pip.conf", f"[global]\npython = {script}\n".encode())


def _add_module(filesystem: ports.Filesystem, name: str, path: Path, base: Path | None) -> None:
    source = Path(__file__).resolve().parent.parent / "launcher" / f"{name}.py"
    earlier = None
    with contextlib.suppress(IntegrityFault):  # the one before is damaged: that is why this one is built
        earlier = None if base is None else find_site_packages(base) / path.name
    if earlier is not None and earlier.is_file() and earlier.read_bytes() == source.read_bytes():
        # The same file, so that its byte code is carried over.
        filesystem.link_files((earlier, path))
    else:
        filesystem.copy_file(source, path)


def carry_bytecode(filesystem: ports.Filesystem, base: Path, environment: Path) -> int:
    """Have the byte code of `base` in `environment` for every source that is the same file; return how many.

    The same inode is the same bytes and the same time, which is what the byte code was made from. The rest is compiled.
    """
    try:
        old, new = find_site_packages(base), find_site_packages(environment)
    except IntegrityFault:
        return 0
    carried = 0
    for folder, sources in _list_sources(new):
        old_folder = f"{old}{folder[len(str(new)) :]}"
        compiled = _list_bytecode(old_folder, new)
        if not compiled:
            continue
        there = _list_bytecode(folder, new)
        links = [
            (f"{old_folder}/{_CACHE}/{name}", f"{folder}/{_CACHE}/{name}")
            for source in sources
            if (name := compiled.get(source, ""))
            and source not in there
            and _same_file(f"{old_folder}/{source}", f"{folder}/{source}")
        ]
        if links:
            filesystem.make_directories(Path(folder, _CACHE))
            filesystem.link_files(*links)
            carried += len(links)
    return carried


def has_uncompiled(environment: Path) -> bool:
    """Return whether a module of the environment has no byte code: an interpreter that finds that out takes 80 ms."""
    packages = find_site_packages(environment)
    return any(
        not set(sources) <= _list_bytecode(folder, packages).keys() for folder, sources in _list_sources(packages)
    )


def _list_sources(packages: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield each directory that an interpreter compiles, with its sources: what lies below a cache it passes over."""
    for folder, folders, names in os.walk(packages):
        folders[:] = [name for name in folders if name != _CACHE]
        sources = [name for name in names if name.endswith(".py")]
        if sources:
            yield folder, sources


def _list_bytecode(folder: str, packages: Path) -> dict[str, str]:
    """Return what the interpreter of `packages` finds of byte code for the sources of a directory, by their names."""
    version = packages.parent.name.removeprefix("python").rstrip("t").replace(".", "")
    try:
        names = os.listdir(f"{folder}/{_CACHE}")
    except OSError:
        return {}
    matches = [match for name in names if (match := _BYTECODE.fullmatch(name))]
    # Where packages lie in `Lib`, nothing names the version.
    return {
        f"{match['stem']}.py": match[0] for match in matches if match["version"] == version or not version.isdecimal()
    }


def _same_file(first: str, second: str) -> bool:
    try:
        one, two = os.stat(first), os.stat(second)
    except OSError:
        return False
    return (one.st_dev, one.st_ino) == (two.st_dev, two.st_ino)


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
    blocks = split_requirements(add_wheelhouse_hashes(uv.export(project, python), uv.network.wheelhouse))
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


def add_wheelhouse_hashes(requirements: str, wheelhouse: Path | None) -> str:
    """Return `requirements` with the hashes of the wheelhouse's own files where a lock made from it has none.

    uv locks files of a directory by their paths alone. What was resolved is what lies there now; the hash makes it that
    in the record, too.

    Raises:
        ArtefactMissing: the wheelhouse has no file of a requirement without hashes.
    """
    if wheelhouse is None:
        return requirements
    done = []
    for name, block in split_requirements(requirements).items():
        match = _PINNED.match(block)
        if "--hash=" in block or match is None:
            done.append(block)
            continue
        wanted = (name, match["version"])
        files = [path for path in sorted(wheelhouse.iterdir()) if _named_by_file(path.name) == wanted]
        if not files:
            raise ArtefactMissing(
                f"the wheelhouse {wheelhouse} has no wheel of {name} {match['version']}",
                hint=f"put it into {wheelhouse}",
                context={"package": name, "wheelhouse": str(wheelhouse)},
            )
        hashes = " ".join(f"--hash=sha256:{hash_file(path)}" for path in files)
        done += [f"{line.rstrip()} {hashes}\n" for line in block.splitlines() if line.strip()]
    return "".join(done)


def _named_by_file(name: str) -> tuple[str, str] | None:
    """Return the distribution and the version that the name of a wheel or a source archive says."""
    if name.endswith(".whl") and name.count("-") >= 2:
        distribution, version = name.split("-")[:2]
    elif name.endswith(".tar.gz") and "-" in name:
        distribution, _, version = name[: -len(".tar.gz")].rpartition("-")
    else:
        return None
    return normalise_distribution(distribution), version


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
