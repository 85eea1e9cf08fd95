"""Resolution: what a generation holds, when plugins from an index join the host.

Owns: the generated project, in which the host and the plugins meet and the host's locked versions bind; telling a
conflict from an outage; the resulting requirements. Does not own: resolving itself (uv), nor building.

Keeps: pm-host-lock-is-law: for every package that the host locked, the requirement that is installed is the lock's own
line, hashes included. Without plugins from an index there is nothing to resolve, and the host's lock is the answer.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from perdure_pm import ports
from perdure_pm.adapters.interpreter import Interpreter
from perdure_pm.adapters.uv import Uv
from perdure_pm.model.errors import ArtefactMissing, BuildFailed, ConflictRefused, IntegrityFault, NetworkUnreachable
from perdure_pm.ops.build import Wheel, add_wheelhouse_hashes, split_requirements
from perdure_pm.ops.release import OWN_PREFIX, Release

SHOWN_CHAIN = 600
"""How much of uv's explanation of a conflict a message shows; the whole is in the error's context."""

_LINE = re.compile(r"^(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)==(?P<version>[^\s;\\]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """The answer: everything to install beside the release's wheels."""

    requirements: str
    """Pinned and hashed, in the form that uv installs from."""
    lock: str
    """The text of the uv.lock that says so."""


_NO_SOLUTION = "No solution found"


def resolve(
    uv: Uv,
    filesystem: ports.Filesystem,
    *,
    release: Release,
    requirements: Sequence[str],
    interpreter: Interpreter,
    folder: Path,
    seed: Path | None = None,
    seeded: Collection[str] = (),
) -> Resolution:
    """Return what to install for the host with `requirements`.

    Args:
        uv: the uv to ask.
        filesystem: where the generated project is written.
        release: the host; its lock binds.
        requirements: the plugins from an index, as the profile lists them.
        interpreter: what it is for.
        folder: an existing directory that gets `pyproject.toml` and `uv.lock`.
        seed: an earlier answer, whose versions of plugins stay where they still fit.
        seeded: the requirements that the earlier answer was for: fewer of them need no index.

    Raises:
        ConflictRefused: the plugins do not fit the host's lock, or each other; nothing was built.
        NetworkUnreachable, ArtefactMissing: nothing could be learned.
    """
    project = _write_project(filesystem, folder, release, release.wheels, requirements, interpreter, bind=True)
    if seed is not None and seed.is_file():
        filesystem.copy_file(seed, project / "uv.lock")
    try:
        _lock(uv, project, interpreter, from_cache=seed is not None and set(requirements) <= set(seeded))
    except BuildFailed as failure:
        raise _explain(uv, filesystem, release, requirements, interpreter, folder, failure) from failure
    exported = split_requirements(add_wheelhouse_hashes(uv.export(project, interpreter.path), uv.network.wheelhouse))
    locked = split_requirements(release.requirements)
    _require_law(exported, locked)
    added = {name: block for name, block in exported.items() if name not in locked}
    _refuse_own_names(added, release, requirements)
    return Resolution(
        requirements=release.requirements + "".join(added[name] for name in sorted(added)),
        lock=(project / "uv.lock").read_text(encoding="utf-8"),
    )


def _refuse_own_names(added: Collection[str], release: Release, requirements: Sequence[str]) -> None:
    """Refuse what an index offers under a name of ours: a plugin may need one, and gets the host's own or none."""
    own = [name for name in added if name.startswith(OWN_PREFIX) or name == release.name]
    if own:
        raise ConflictRefused(
            f"{', '.join(requirements)} cannot be installed: {own[0]} comes from the bundle of {release.name} or not "
            f"at all, and {release.version} has no {own[0]}",
            hint="leave out the plugin that needs it",
            context={"requirements": list(requirements), "names": own},
        )


def _lock(uv: Uv, project: Path, interpreter: Interpreter, *, from_cache: bool) -> None:
    if from_cache:
        with contextlib.suppress(BuildFailed, ArtefactMissing, NetworkUnreachable):
            uv.lock(project, interpreter.path, from_cache=True)
            return
    uv.lock(project, interpreter.path)


def _write_project(
    filesystem: ports.Filesystem,
    folder: Path,
    release: Release,
    wheels: Sequence[Wheel],
    requirements: Sequence[str],
    interpreter: Interpreter,
    *,
    bind: bool,
) -> Path:
    """Have the project in which host and plugins meet at `folder`, and return it."""
    hosts = _hosts(release, [wheel.distribution for wheel in wheels], bind=bind)
    pins = _pins(release) if bind else []
    write_generated_project(filesystem, folder, wheels, [*hosts, *requirements], interpreter, pins)
    return folder


def write_generated_project(
    filesystem: ports.Filesystem,
    folder: Path,
    wheels: Sequence[Wheel],
    dependencies: Sequence[str],
    interpreter: Interpreter,
    constraints: Sequence[str] = (),
) -> None:
    """Have a project at `folder` that depends on `dependencies`, for this machine and this minor version alone.

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
        f"environments = [{json.dumps(_here())}]",
    ]
    if constraints:
        lines.append(f"constraint-dependencies = {json.dumps(list(constraints))}")
    if wheels:
        lines.append("[tool.uv.sources]")
        lines += [f"{wheel.distribution} = {{ path = {json.dumps(str(wheel.path))} }}" for wheel in wheels]
    filesystem.write_durable(folder / "pyproject.toml", ("\n".join(lines) + "\n").encode())


def _hosts(release: Release, names: Iterable[str], *, bind: bool) -> list[str]:
    """Return what stands for the host among the dependencies; nothing of it where a plugin is tried alone."""
    return [*(_with_extras(name, release) for name in names), *(release.direct if bind else ())]


def _with_extras(name: str, release: Release) -> str:
    return f"{name}[{','.join(release.extras)}]" if name == release.name and release.extras else name


def _here() -> str:
    import os
    import platform
    import sys

    return f"sys_platform == '{sys.platform}' and platform_machine == '{platform.machine()}' and os_name == '{os.name}'"


def _pins(release: Release) -> list[str]:
    """Return the host's locked versions as constraints, markers as the lock has them."""
    pins = []
    for block in split_requirements(release.requirements).values():
        head = block.split(" --hash", 1)[0].replace("\\\n", " ").strip()
        pins.append(head)
    return pins


def pinned_versions(block: str) -> set[str]:
    """Return the versions that a name is pinned to; several where markers choose between them."""
    return {match["version"] for line in block.splitlines() if (match := _LINE.match(line))}


def _require_law(exported: Mapping[str, str], locked: Mapping[str, str]) -> None:
    moved = {
        name: [sorted(pinned_versions(locked[name])), sorted(pinned_versions(block))]
        for name, block in exported.items()
        if name in locked and not pinned_versions(block) <= pinned_versions(locked[name])
    }
    if moved:
        name, (before, after) = next(iter(moved.items()))
        raise IntegrityFault(
            f"the resolver moved {name} from the host's {', '.join(before)} to {', '.join(after)}; nothing was built",
            hint="perdure-pm plan",
            context={"moved": moved},
        )


def _explain(
    uv: Uv,
    filesystem: ports.Filesystem,
    release: Release,
    requirements: Sequence[str],
    interpreter: Interpreter,
    folder: Path,
    failure: BuildFailed,
) -> Exception:
    """Return the conflict that `failure` is, or `failure` itself: a conflict only where each side resolves alone."""
    if _NO_SOLUTION not in str(failure.context.get("uv", "")):
        return failure  # uv was killed, or broke: it never came to an answer
    trial = folder / "trial"
    filesystem.make_directories(trial)
    try:
        alone: list[tuple[bool, tuple[str, ...]]] = [(True, ()), *((False, (text,)) for text in requirements)]
        for bind, wanted in alone:
            _write_project(filesystem, trial, release, release.wheels if bind else (), wanted, interpreter, bind=bind)
            (trial / "uv.lock").unlink(missing_ok=True)
            try:
                uv.lock(trial, interpreter.path)
            except BuildFailed as failed:
                return failed
    finally:
        filesystem.remove_tree(trial)
    names = ", ".join(requirements)
    said = str(failure.context.get("uv", ""))
    chain = " ".join(said[said.find("Because") :].split()) if "Because" in said else "its lock and they do not fit"
    return ConflictRefused(
        f"{names} cannot be installed with {release.name} {release.version}: {chain[:SHOWN_CHAIN]}",
        hint="ask for another version of the plugin: perdure-pm plugin add 'NAME==VERSION'",
        context={"requirements": list(requirements), "uv": failure.context.get("uv", "")},
    )
