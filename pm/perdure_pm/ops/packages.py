"""Custom packages: have what a caller registered in the store, hash-checked, and on the host's PATH by a launcher.

Owns: which registrations have work, realising one beside the others, and exposing all of them last. Does not own: the
form of a registration (model.registration), fetching and unpacking (adapters), environments (build).

A package lies at ``store/packages/<name>-<version>-<sha12>``: another hash is another directory, so what is there is
never changed, and a failure keeps what its launcher starts. The launchers are the commit. Invariants:
package-hash-checked, package-failure-keeps-old, package-sits-out, package-lazy-refused.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perdure_pm.adapters import archives
from perdure_pm.adapters.interpreter import target_name
from perdure_pm.adapters.uv import Uv
from perdure_pm.model.errors import LazyInstallRefused, PerdureError, RegistrationInvalid, UsageFault
from perdure_pm.model.registration import (
    HINT,
    RegisteredArtefact,
    Registration,
    choose_artefact,
    explain_absence,
)
from perdure_pm.ops.build import build_tool_environment
from perdure_pm.ops.context import Context, Outcome
from perdure_pm.ops.exclusive import exclusive
from perdure_pm.ops.interpreters import choose_interpreter
from perdure_pm.ops.launchers import write_command_launcher
from perdure_pm.ops.seed import seed_source
from perdure_pm.ops.tool_uv import ensure_uv
from perdure_pm.store.inventory import (
    FILE_NAME,
    find_content_changes,
    find_size_changes,
    load_inventory,
    take_inventory,
)
from perdure_pm.store.layout import Layout, environment_scripts, relative_to_home

SCHEMA = 1
SHARED_ARGUMENTS = frozenset({"settings", "lazy"})
UNFINISHED = ".building-"
STEP_BYTES = 1 << 20
"""The least number of bytes between two reports of a download."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Package:
    """A registration that is for this machine."""

    place: str
    """Where it stands in the request, for faults."""
    registration: Registration
    artefact: RegisteredArtefact | None
    path: Path

    @property
    def targets(self) -> dict[str, Path]:
        """The files that its commands start."""
        folder = self.path / "files"
        suffix = ""
        if self.registration.kind == "python-tool":
            folder = environment_scripts(self.path / "venv")
            suffix = ".exe" if sys.platform == "win32" else ""
        return {name: folder / (path + suffix) for name, path in self.registration.commands.items()}


def install_packages(context: Context, arguments: Mapping[str, Any]) -> Outcome:
    """Have every registered package that is for this machine in the store and on the host's PATH.

    Args:
        context: the world; `packages` are the registrations.
        arguments: none of its own (composition reads ``settings`` and ``lazy``).

    Raises:
        LazyInstallRefused: something would have to be fetched that nobody asked for; nothing was.
        RegistrationInvalid: a command's name belongs to another, or an archive lacks an executable.
        ArtefactMissing, NetworkUnreachable, IntegrityFault: what was registered could not be had as registered.
        OperationVetoed: the caller's `before_publish` refused; nothing is exposed.
    """
    unknown = sorted(set(arguments) - SHARED_ARGUMENTS)
    if unknown:
        raise UsageFault(f"package-install takes packages, not {', '.join(unknown)}")
    return realise_packages(context, expose=True)


def realise_packages(context: Context, *, expose: bool, thorough: bool = False) -> Outcome:
    """Have every registered package that is for this machine in the store, and, with `expose`, on the host's PATH.

    Args:
        context: the world; `packages` are the registrations.
        expose: whether their launchers are written, too.
        thorough: whether what is there counts by its bytes, and not only by their number.

    Raises:
        PerdureError: see `install_packages`; no launcher has changed.
    """
    layout = context.layout
    with exclusive(context, "package-install"):
        packages, absent = _choose(layout, context.packages)
        for item in absent:
            context.reporter.progress("packages", f"sits out: {item['reason']}")
        for package in packages:
            _refuse_taken_commands(layout, package)
        missing = [package for package in packages if _find_lack(package, thorough=thorough)]
        hidden = [package for package in packages if not _is_exposed(layout, package)]
        work = {package.path.name for package in (*missing, *hidden)}
        data: dict[str, Any] = {
            "packages": [
                {
                    "name": package.registration.name,
                    "version": package.registration.version,
                    "status": "installed" if package.path.name in work else "current",
                    "commands": sorted(package.registration.commands),
                }
                for package in packages
            ]
            + absent
        }
        if not work:
            return Outcome(status="noop", data=data)
        if context.dry_run:
            return Outcome(status="ok", data={**data, "dry_run": True})
        if missing and context.lazy and not context.lazy_allowed:
            names = ", ".join(f"{entry.registration.name} {entry.registration.version}" for entry in missing)
            raise LazyInstallRefused(
                f"{names} would have to be fetched, which nobody asked for, and lazy installs are off",
                hint=f'"{layout.bin / "perdure-pm"}" config set install.lazy true',
                context={"packages": names},
            )
        _remove_unfinished(context)
        for package in missing:
            _realise(context, package)
        context.filesystem.flush(layout.packages)
        if not expose:
            return Outcome(status="ok", data=data)
        context.reporter.callback("before_publish", data)
        context.reporter.committed()
        # The commit. A crash before a launcher is written leaves the old one, or none; the next call writes the rest.
        for package in packages:
            _expose(context, package)
        context.reporter.callback("published", data)
        return Outcome(status="ok", data=data)


def withdraw_packages(context: Context, names: Collection[str]) -> list[str]:
    """Have no package of these names in the store, and none of their launchers; return those that were there."""
    layout, filesystem = context.layout, context.filesystem
    found = sorted(layout.packages.iterdir()) if layout.packages.is_dir() else []
    gone = []
    for folder in found:
        name = _load_name(folder)
        if name is None or name not in names:
            continue
        gone.append(name)
        inside = f"/{relative_to_home(layout, folder)}/"
        for launcher in sorted(layout.bin.iterdir()) if layout.bin.is_dir() else ():
            if inside in _read_launcher(layout, launcher.name.removesuffix(".cmd")):
                filesystem.remove_tree(launcher)
        filesystem.make_directories(layout.trash)
        folder.chmod(0o755)  # a directory gives up its name only to one who may write it
        filesystem.rename(folder, layout.trash / f"{folder.name}-{os.urandom(6).hex()}")
    return list(dict.fromkeys(gone))


def find_unready(layout: Layout, registrations: Sequence[Registration], *, thorough: bool) -> list[str]:
    """Return what is missing or damaged of packages that are for this machine, one sentence each."""
    found = []
    for package in _choose(layout, registrations)[0]:
        name = f"{package.registration.name} {package.registration.version}"
        if lack := _find_lack(package, thorough=thorough):
            found.append(f"the package {name} is not in {layout.packages} as it was installed: {lack}")
        elif not _is_exposed(layout, package):
            found.append(f"a launcher of the package {name} is not in {layout.bin}")
    return found


def _choose(layout: Layout, registrations: Sequence[Registration]) -> tuple[list[_Package], list[dict[str, Any]]]:
    """Return the packages for this machine, and what to tell of those that sit out."""
    target = target_name()
    packages: list[_Package] = []
    absent: list[dict[str, Any]] = []
    for index, registration in enumerate(registrations):
        artefact = choose_artefact(registration, target)
        if registration.kind == "archive" and artefact is None:
            reason = explain_absence(registration, target)
            absent.append(
                {"name": registration.name, "version": registration.version, "status": "sat-out", "reason": reason}
            )
            continue
        digest = artefact.sha256 if artefact is not None else _digest_requirement(registration)
        packages.append(
            _Package(
                place=f"packages[{index}]",
                registration=registration,
                artefact=artefact,
                path=layout.packages / f"{registration.name}-{registration.version}-{digest[:12]}",
            )
        )
    return packages, absent


def _digest_requirement(registration: Registration) -> str:
    return hashlib.sha256(_requirement(registration).encode()).hexdigest()


def _requirement(registration: Registration) -> str:
    return " ".join([registration.requirement or "", *(f"--hash={value}" for value in sorted(registration.hashes))])


# What is there


def _find_lack(package: _Package, *, thorough: bool) -> str:
    """Return what keeps a package from being as it was installed, or an empty string: sizes, or every byte."""
    if _load_name(package.path) is None:
        return "it is gone, or was never whole"
    try:
        inventory = load_inventory(package.path / FILE_NAME)
        found = find_size_changes(package.path, inventory)
        if thorough and not found:
            found = find_content_changes(package.path, inventory)
    except PerdureError as fault:
        return fault.summary
    return str(found[0]) if found else ""


def _is_exposed(layout: Layout, package: _Package) -> bool:
    return all(
        f'/{relative_to_home(layout, target)}"' in _read_launcher(layout, name)
        for name, target in package.targets.items()
    )


def _refuse_taken_commands(layout: Layout, package: _Package) -> None:
    """Refuse a command whose launcher starts something else than this package: the host, PM, or another package."""
    inside = f"{relative_to_home(layout, layout.packages)}/"
    for name in package.registration.commands:
        text = _read_launcher(layout, name)
        if not text:
            continue
        _, found, rest = text.partition(inside)
        owner = _load_name(layout.packages / rest.partition("/")[0]) if found else "the host"
        if owner not in {None, package.registration.name}:
            raise RegistrationInvalid(
                f"{package.place}.executables: the command {name} belongs to {owner} already",
                hint=HINT,
                context={"faults": [f"{package.place}.executables"], "command": name, "owner": owner},
            )


def _read_launcher(layout: Layout, name: str) -> str:
    path = layout.bin / (f"{name}.cmd" if sys.platform == "win32" else name)
    try:
        return path.read_text(encoding="utf-8", errors="replace").replace("\\", "/")
    except OSError:
        return ""


def _load_name(path: Path) -> str | None:
    """Return the name in a package's record, or None where it is not whole: the record comes with the rename."""
    try:
        record = json.loads((path / "record.json").read_bytes())
        return str(record["name"]) if record["schema"] == SCHEMA else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


# Realising


def _realise(context: Context, package: _Package) -> None:
    """Have the package's directory, built beside it and renamed; what lay there incomplete goes to the trash."""
    layout, filesystem, registration = context.layout, context.filesystem, package.registration
    filesystem.make_directories(layout.packages)
    building = layout.packages / f"{UNFINISHED}{os.urandom(6).hex()}"
    filesystem.make_directories(building)
    try:
        if package.artefact is not None:
            _fetch_archive(context, package, package.artefact, building)
        else:
            uv = _make_uv(context)
            python = choose_interpreter(layout, filesystem, uv, context.reporter, context.environ, context.python).path
            context.reporter.progress("packages", f"building {registration.name} {registration.version}")
            build_tool_environment(
                uv,
                filesystem,
                environment=building / "venv",
                python=python,
                requirement=registration.requirement or "",
                hashes=registration.hashes,
            )
        for name, target in package.targets.items():
            built = building / target.relative_to(package.path)
            if not built.is_file():
                raise RegistrationInvalid(
                    f"{package.place}.executables: {registration.name} {registration.version} has no {name}",
                    hint=HINT,
                    context={"faults": [f"{package.place}.executables"], "command": name},
                )
            if package.artefact is not None:
                built.chmod(0o755)  # an archive made on Windows knows no such bit
        record = {
            "schema": SCHEMA,
            "name": registration.name,
            "version": registration.version,
            "kind": registration.kind,
            "requirement": _requirement(registration) if package.artefact is None else None,
            "sha256": package.artefact.sha256 if package.artefact is not None else None,
            "executables": list(registration.executables),
        }
        filesystem.write_durable(building / FILE_NAME, take_inventory(building).to_bytes())
        filesystem.write_durable(building / "record.json", json.dumps(record, indent=1).encode())
        filesystem.make_read_only(building)
        filesystem.flush(building)
        if package.path.exists():
            filesystem.make_directories(layout.trash)
            package.path.chmod(0o755)  # a directory gives up its name only to one who may write it
            filesystem.rename(package.path, layout.trash / f"{package.path.name}-{os.urandom(6).hex()}")
        # A crash before this line leaves garbage that the next call removes; after it, a package without a launcher.
        filesystem.rename(building, package.path)
    except BaseException:
        filesystem.remove_tree(building)
        raise


def _fetch_archive(context: Context, package: _Package, artefact: RegisteredArtefact, building: Path) -> None:
    registration = package.registration
    url = artefact.url if artefact.url is not None else Path(artefact.path or "").as_uri()
    context.reporter.progress("packages", f"fetching {registration.name} {registration.version}")
    archive = building / "archive"
    from perdure_pm.adapters import download  # only here: http takes 20 ms to import

    report = _fetch_reporter(context, registration)
    download.fetch(url, archive, sha256=artefact.sha256, network=context.network, on_progress=report)
    context.reporter.progress("packages", f"unpacking {registration.name} {registration.version}")
    archives.unpack(archive, building / "files", on_member=context.reporter.heartbeat)
    archive.unlink()


def _fetch_reporter(context: Context, registration: Registration) -> Callable[[int, int | None], None]:
    reported = 0

    def report(done: int, total: int | None) -> None:
        nonlocal reported
        if done - reported >= STEP_BYTES or done == total:
            reported = done
            context.reporter.progress("packages", f"fetching {registration.name}", done=done, total=total)

    return report


def _expose(context: Context, package: _Package) -> None:
    for name, target in package.targets.items():
        relative = relative_to_home(context.layout, target)
        if relative is not None:
            write_command_launcher(context.filesystem, context.layout, name, relative)


def _remove_unfinished(context: Context) -> None:
    """Remove what a killed call left; under the mutex, so nobody is building it."""
    if context.layout.packages.is_dir():
        for path in sorted(context.layout.packages.glob(f"{UNFINISHED}*")):
            context.filesystem.remove_tree(path)


def _make_uv(context: Context) -> Uv:
    lock = seed_source(context.layout) / "pm" / "uv.lock"
    binary = ensure_uv(context.layout, context.filesystem, context.reporter, lock=lock, network=context.network)
    return Uv(binary, context.layout, context.network, context.environ, on_tick=context.reporter.heartbeat)
