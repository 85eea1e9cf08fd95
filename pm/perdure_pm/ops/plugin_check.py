"""plugin check: what the author of a plugin needs to know before giving it to others.

Owns: the checks, their order, and their words. Does not own: what each asks (manifests, snapshots, resolutions,
candidates and their verdict are the same code that an installation runs). Nothing that runs is changed: a copy of the
plugin in the store and a candidate at a generation's path are made, and the candidate is removed.

Keeps: check-changes-nothing, check-names-every-finding.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from packaging.markers import Marker
from packaging.requirements import Requirement

from perdure_pm.adapters.interpreter import bare_environment
from perdure_pm.adapters.processes import run
from perdure_pm.adapters.uv import Uv
from perdure_pm.model.choice import Choice
from perdure_pm.model.errors import (
    BuildFailed,
    HealthCheckFailed,
    ManifestInvalid,
    NothingInstalled,
    PerdureError,
    SourceUnusable,
    UsageFault,
)
from perdure_pm.model.identity import normalise_distribution
from perdure_pm.model.manifest import Manifest
from perdure_pm.model.requirement import parse_source, requirement_name
from perdure_pm.model.source import Source
from perdure_pm.ops.arguments import read_flag, read_text
from perdure_pm.ops.base_interpreter import ensure_base, find_base
from perdure_pm.ops.build import Wheel
from perdure_pm.ops.builds import with_quarantine
from perdure_pm.ops.candidate import build_candidate, drop_candidate, find_commands
from perdure_pm.ops.context import Context, Outcome
from perdure_pm.ops.declared import find_modules, read_commands
from perdure_pm.ops.exclusive import exclusive
from perdure_pm.ops.external import find_problem
from perdure_pm.ops.host import find_release, find_source, make_uv
from perdure_pm.ops.intent import Intent, load_intent
from perdure_pm.ops.moved_names import find_uses_below, find_wheel_uses, fix_below, load_tables
from perdure_pm.ops.release import Release, with_extras
from perdure_pm.ops.resolve import Resolution, resolve
from perdure_pm.ops.screening import make_screen
from perdure_pm.ops.selection import parse_selection
from perdure_pm.ops.snapshots import Snapshot, ensure_snapshot, look
from perdure_pm.ops.sources import find_source_misfits
from perdure_pm.ops.trials import Ground, is_unsolvable, said_by_uv
from perdure_pm.ops.typed_sources import find_entry
from perdure_pm.ops.verify import verify
from perdure_pm.ops.wanted import Wanted
from perdure_pm.store.generations import Generation, current_generation, next_number
from perdure_pm.store.inventory import find_owners, find_site_packages, hash_file
from perdure_pm.store.layout import environment_python

TARGETS: Mapping[str, tuple[str, str, str, str]] = {
    "Linux x86_64": ("linux", "x86_64", "posix", "Linux"),
    "Linux aarch64": ("linux", "aarch64", "posix", "Linux"),
    "macOS arm64": ("darwin", "arm64", "posix", "Darwin"),
    "macOS x86_64": ("darwin", "x86_64", "posix", "Darwin"),
    "Windows AMD64": ("win32", "AMD64", "nt", "Windows"),
}
"""The machines that a host's lock is for, each with sys_platform, platform_machine, os_name and platform_system."""

SLOW_SECONDS = 0.25
"""An import that takes longer than this is named: every start of the host pays it."""
SHOWN_CHAIN = 400
API = {"perdure": ("perdure.api.findings", "perdure.api.hooks", "perdure.api.tools")}
"""What a host's plugins import of it: loaded before the time is taken, for the host pays it once for all of them."""
IMPORT_SECONDS = 60.0

_TIMED = (
    "import importlib, json, sys, time\n"
    "hosts, modules = json.loads(sys.argv[1])\n"
    "for name in hosts: importlib.import_module(name)\n"
    "before, loaded = time.perf_counter(), len(sys.modules)\n"
    "for name in modules: importlib.import_module(name)\n"
    "print('\\n' + json.dumps([time.perf_counter() - before, len(sys.modules) - loaded]))\n"
)


@dataclass(slots=True, kw_only=True)
class _Check:
    """One question and what was found."""

    name: str
    about: str = ""
    """What there is to tell where nothing is wrong."""
    found: list[str] = field(default_factory=list)
    skipped: str = ""
    """Why it was not asked."""

    def to_json(self) -> dict[str, Any]:
        status = "found" if self.found else "skipped" if self.skipped else "ok"
        return {"name": self.name, "status": status, "about": self.skipped or self.about, "found": list(self.found)}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ground:
    """What is installed here, which the plugin is tried with."""

    intent: Intent
    current: Generation | None
    release: Release
    uv: Uv


def check_plugin(context: Context, arguments: Mapping[str, Any]) -> Outcome:
    """Return what is found wrong with a plugin, every check by name.

    Args:
        context: the world.
        arguments: ``source``: a directory, a wheel or an sdist as an absolute path, or ``git+…@REVISION``. ``fix``:
            first have a directory's files use the names that moved; ``dry_run``: only tell what that would change.

    Raises:
        UsageFault, SourceUnusable: there is nothing to check.
        NetworkUnreachable, ArtefactMissing: nobody can tell.
    """
    word = read_text(arguments, "source") or ""
    checks: list[_Check] = []
    with exclusive(context, "plugin-check"):
        fixed = _fix(context, word, write=not context.dry_run) if read_flag(arguments, "fix") else ""
        name, version = _check_all(context, word, checks)
    return Outcome(
        status="ok",
        data={
            "plugin": name,
            "version": version,
            "checks": [check.to_json() for check in checks],
            "fixed": fixed or None,
            "found": sum(len(check.found) for check in checks),
        },
    )


def _check_all(context: Context, word: str, checks: list[_Check]) -> tuple[str | None, str | None]:
    """Ask every question that the answers so far allow; return the plugin's name and version."""
    manifest_check = _Check(name="manifest")
    checks.append(manifest_check)
    try:
        entry, _ = find_entry(context, word)
    except ManifestInvalid as fault:
        manifest_check.found += _faults(fault)
        return None, None
    source = parse_source(entry)
    if source is None:
        raise SourceUnusable(
            f"{word} names no files, and a plugin is checked by its author's own",
            hint="name a directory, a wheel or an sdist: perdure-pm plugin check ./DIRECTORY",
        )
    ground = _find_ground(context)
    interpreter = ensure_base(context, ground.uv, ground.current)
    try:
        seen = look(context.layout, source, interpreter, {})
    except ManifestInvalid as fault:
        manifest_check.found += _faults(fault)
        return source.name, None
    if seen.external is not None:
        manifest_check.found += seen.external.warnings
        manifest_check.about = "a program of its own, which is not installed"
        problem = find_problem(Path(source.path or ""), seen.external, context.environ, context.reporter.heartbeat)
        found = [] if problem is None else [problem]
        checks.append(_Check(name="program", about="it is there, and what checks it ends with 0", found=found))
        return source.name, seen.external.version
    build_check = _Check(name="build")
    checks.append(build_check)
    try:
        snapshot = ensure_snapshot(context, ground.uv, seen, interpreter, ground.intent.home.admission.builds)
    except ManifestInvalid as fault:
        manifest_check.found += _faults(fault)
        return source.name, None
    except (BuildFailed, SourceUnusable) as fault:
        build_check.found.append(_with_output(fault))
        return source.name, None
    manifest = seen.manifest or snapshot.manifest
    manifest_check.found += manifest.warnings if manifest is not None else ()
    manifest_check.about = "" if manifest is not None else "there is no plugin.yaml, which is no fault"
    build_check.about = f"{snapshot.wheel.path.name}"
    needed = {
        normalise_distribution(Requirement(text).name) for text in (manifest.requires_plugins if manifest else ())
    }
    there = ground.intent.plugins or tuple(plugin.distribution for plugin in ground.release.plugins)
    beside = [text for text in there if requirement_name(text) in needed and parse_source(text) is None]
    wanted = Wanted(
        release=ground.release,
        extras=ground.intent.home.host_extras,
        selection=parse_selection(ground.release, [*beside, entry]),
        interpreter=interpreter,
        choice=Choice(plugins=(entry,)),
        seen=(seen,),
        snapshots=(snapshot,),
    )
    fit = _Check(name="fit", about=f"{ground.release.name} {ground.release.version}, Python {interpreter.version}")
    fit.found += [misfit.reason for misfits in find_source_misfits(wanted).values() for misfit in misfits]
    checks.append(fit)
    checks.append(_check_requirements(context, ground, wanted, manifest))
    checks.append(_check_names(ground.current, source, snapshot))
    checks.append(_check_files(ground.current, snapshot))
    checks += _check_start(
        context,
        ground,
        wanted,
        stopped=any(check.found for check in checks if check.name in {"fit", "requirements", "files"}),
    )
    return source.name, snapshot.version


def _find_ground(context: Context) -> _Ground:
    intent = load_intent(context)
    current = current_generation(context.layout, context.profile)
    source, _ = find_source(context, None, intent.home, current)
    release = find_release(context.layout, source, current)
    if release is None and current is not None:
        release = find_release(context.layout, source, None)
    if release is None:
        raise NothingInstalled(
            "a plugin is checked with the host that it is for, and the host as it is now is not installed",
            hint="perdure-pm install",
        )
    uv = with_quarantine(make_uv(context), intent.home.admission, context.clock(), [])
    interpreter = find_base(context, current)
    if interpreter is not None:
        release = with_extras(uv, context.layout, release, intent.home.host_extras, interpreter.path)
    return _Ground(intent=intent, current=current, release=release, uv=uv)


# The questions


def _check_requirements(context: Context, ground: _Ground, wanted: Wanted, manifest: Manifest | None) -> _Check:
    """Resolve with the host's lock on every machine that the lock is for and the plugin says it works on."""
    check = _Check(name="requirements")
    snapshot = wanted.snapshots[-1]
    if not snapshot.requires:
        check.about = "it needs nothing but the host"
        return check
    # A host that was locked from an index was locked for this machine only.
    whole = bool(ground.release.wheels) and not ground.release.direct
    targets = {
        name: marker
        for name, (marker, variables) in _targets().items()
        if _suits(manifest, variables) and (whole or _is_here(variables))
    }
    if not targets:
        check.skipped = "none of the machines that the host's lock is for is among its platforms"
        return check
    context.reporter.progress("check", f"resolving for {', '.join(targets)}")
    where: dict[str, list[str]] = {}
    for name, chain in _resolve_targets(context, ground, wanted, targets):
        where.setdefault(chain, []).append(name)
    for chain, names in where.items():
        check.found.append(f"on {', '.join(names)} it does not go together with {ground.release.name}: {chain}")
    check.about = ", ".join(targets)
    return check


def _resolve_targets(
    context: Context, ground: _Ground, wanted: Wanted, targets: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Yield each target that has no solution, with what uv says; all of them are tried at once first."""
    failure = _try_targets(context, ground, wanted, tuple(targets.values()))
    if failure is None:
        return
    if len(targets) == 1:
        yield next(iter(targets)), failure
        return
    lone = [(name, _try_targets(context, ground, wanted, (marker,))) for name, marker in targets.items()]
    found = [(name, chain) for name, chain in lone if chain is not None]
    yield from found or [("all of them together", failure)]


def _try_targets(context: Context, ground: _Ground, wanted: Wanted, environments: tuple[str, ...]) -> str | None:
    """Return what keeps the plugin and the host from resolving for these machines; None where they do."""
    scratch = context.layout.scratch / f"check-{wanted.digest()[:12]}"
    context.filesystem.remove_tree(scratch)
    context.filesystem.make_directories(scratch)
    try:
        there = replace(_resolving(context, ground, wanted, scratch), environments=environments)
        there.try_lock(_asked(wanted))
    except PerdureError as failure:
        if not is_unsolvable(failure):
            raise
        said = said_by_uv(failure)
        chain = said[said.find("Because") :] if "Because" in said else said
        return " ".join(chain.partition("hint:")[0].split())[:SHOWN_CHAIN]
    finally:
        context.filesystem.remove_tree(scratch)
    return None


def _resolving(context: Context, ground: _Ground, wanted: Wanted, folder: Path) -> Ground:
    return Ground(
        uv=ground.uv,
        filesystem=context.filesystem,
        release=ground.release,
        interpreter=wanted.interpreter,
        folder=folder,
        rules=ground.intent.home.admission,
        sources={snapshot.requirement: snapshot.wheel for snapshot in wanted.snapshots},
    )


def _asked(wanted: Wanted) -> tuple[str, ...]:
    return (*wanted.selection.requirements, *(snapshot.requirement for snapshot in wanted.snapshots))


def _fix(context: Context, word: str, *, write: bool) -> str:
    """Have a directory's files use the names as the installed host has them; return what was done."""
    folder = Path(word)
    if not folder.is_dir():
        raise UsageFault(f"{word} is no directory, and only a directory's files are changed", hint="leave --fix away")
    current = current_generation(context.layout, context.profile)
    index = None if current is None else load_tables(current.environment)
    return (
        "nothing that is installed says that its names moved"
        if index is None
        else fix_below(folder, index, write=write)
    )


def _check_names(current: Generation | None, source: Source, snapshot: Snapshot) -> _Check:
    """Look for names that moved, as what is installed says it of itself."""
    check = _Check(name="moved names", about="it uses none")
    index = None if current is None else load_tables(current.environment)
    if index is None:
        check.about = "nothing that is installed says that its names moved"
    elif source.kind == "directory":
        check.found += find_uses_below(Path(source.path or ""), index)
    else:
        check.found += find_wheel_uses(snapshot.wheel.path, index)
    return check


def _check_files(current: Generation | None, snapshot: Snapshot) -> _Check:
    """Compare the wheel's files with those of other distributions that are installed."""
    check = _Check(name="files")
    if current is None:
        check.skipped = "nothing is installed that they could collide with"
        return check
    site = find_site_packages(current.environment)
    prefix = site.relative_to(current.environment).as_posix()
    owners = find_owners(current.environment)
    members = 0
    for path, digest in _members(snapshot.wheel):
        members += 1
        owner = normalise_distribution(owners.get(f"{prefix}/{path}", "").partition("-")[0])
        installed = site / path
        if owner not in {"", snapshot.name} and installed.is_file() and hash_file(installed) != digest:
            check.found.append(f"{path} is a file of {owner}, too, with other contents")
    check.about = f"{members} files, none of which another distribution has"
    return check


def _members(wheel: Wheel) -> Iterator[tuple[str, str]]:
    """Yield the path below site-packages and the sha256 of each file of a wheel."""
    with zipfile.ZipFile(wheel.path) as archive:
        for member in archive.infolist():
            top, _, rest = member.filename.partition("/")
            if member.is_dir() or top.endswith(".dist-info"):
                continue
            path = member.filename
            if top.endswith(".data"):
                kind, _, path = rest.partition("/")
                if kind not in {"purelib", "platlib"}:
                    continue
            yield path, sha256(archive.read(member)).hexdigest()


def _check_start(context: Context, ground: _Ground, wanted: Wanted, *, stopped: bool) -> list[_Check]:
    """Build the host with this plugin alone, start it, and take the time of the plugin's imports."""
    start, imports = _Check(name="start"), _Check(name="import time")
    if stopped:
        start.skipped = imports.skipped = "what was found before keeps it from being installed"
        return [start, imports]
    layout, home = context.layout, ground.intent.home
    identity = f"{next_number(layout)}-{wanted.digest()[:12]}"
    try:
        resolution = _resolve(context, ground, wanted)
        inventory = build_candidate(context, ground.uv, wanted, resolution, identity, ground.current, home)
        commands = find_commands(context, home, wanted, identity)
        start.found += verify(context, home, wanted, identity, commands, inventory)
        start.about = f"{ground.release.name} {ground.release.version} starts with it"
        _take_time(context, wanted, identity, imports)
    except (HealthCheckFailed, SourceUnusable, ManifestInvalid, BuildFailed) as fault:
        start.found.append(_with_output(fault))
        imports.skipped = "it cannot be imported as the host does"
    finally:
        drop_candidate(context, identity, None)
    return [start, imports]


def _resolve(context: Context, ground: _Ground, wanted: Wanted) -> Resolution:
    scratch = context.layout.scratch / f"check-{wanted.digest()[:12]}"
    context.filesystem.remove_tree(scratch)
    context.filesystem.make_directories(scratch)
    try:
        screen = make_screen(context, ground.intent.home.admission, {})
        return resolve(_resolving(context, ground, wanted, scratch), _asked(wanted), screen)
    finally:
        context.filesystem.remove_tree(scratch)


def _take_time(context: Context, wanted: Wanted, identity: str, check: _Check) -> None:
    """Import the plugin's modules in a process in which the host's are imported already."""
    path = context.layout.generation(identity)
    name = wanted.snapshots[-1].name
    plugins = json.loads((path / "boot.json").read_bytes())["plugins"]
    modules = [entry["entry"].partition(":")[0] for entry in plugins if entry["distribution"] == name]
    modules = modules or find_modules(path / "venv", name)
    commands = read_commands(path / "venv", wanted.release.name).values()
    hosts = sorted({value.partition(":")[0] for value in commands})
    hosts += API.get(wanted.release.name, ())
    completed = run(
        [environment_python(path / "venv"), "-I", "-c", _TIMED, json.dumps([hosts, modules])],
        environment=bare_environment(),
        directory=path,
        timeout=IMPORT_SECONDS,
        on_tick=context.reporter.heartbeat,
    )
    try:
        seconds, loaded = json.loads(completed.stdout.splitlines()[-1])
    except (ValueError, IndexError):
        check.found.append(f"{', '.join(modules)} cannot be imported by itself: {completed.stderr[-400:]}")
        return
    check.about = f"{seconds * 1000:.0f} ms, {loaded} modules"
    if seconds > SLOW_SECONDS:
        check.found.append(
            f"importing {', '.join(modules)} takes {seconds * 1000:.0f} ms and loads {loaded} modules, at every start "
            "of the host: import what a call needs when it is called"
        )


# Words


def _faults(fault: ManifestInvalid) -> list[str]:
    listed = fault.context.get("faults")
    return [str(text) for text in listed] if isinstance(listed, list) else [fault.summary]


def _with_output(fault: PerdureError) -> str:
    output = str(fault.context.get("output") or fault.context.get("uv") or "")
    lines = [line for line in output.splitlines() if line.strip()]
    return fault.summary + (f": {lines[-1].strip()}" if lines and lines[-1].strip() not in fault.summary else "")


def _targets() -> dict[str, tuple[str, dict[str, str]]]:
    """Return the marker of each target and its variables."""
    found = {}
    for name, (platform, machine, system, kernel) in TARGETS.items():
        variables = {
            "sys_platform": platform,
            "platform_machine": machine,
            "os_name": system,
            "platform_system": kernel,
        }
        marker = " and ".join(f"{key} == '{variables[key]}'" for key in ("sys_platform", "platform_machine"))
        found[name] = (marker, variables)
    return found


def _suits(manifest: Manifest | None, variables: Mapping[str, str]) -> bool:
    platforms: Sequence[str] = () if manifest is None else manifest.platforms
    return not platforms or any(Marker(text).evaluate(dict(variables)) for text in platforms)


def _is_here(variables: Mapping[str, str]) -> bool:
    return all(Marker(f"{name} == '{value}'").evaluate() for name, value in variables.items())
