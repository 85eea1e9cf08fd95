"""The interpreters that PM keeps in the home: which there are and who needs them, brought in, and taken out.

Owns: the verbs of `python`. Does not own: choosing one to build on (interpreters, base_interpreter).

Keeps: python-own-place: an interpreter lands in the home and nowhere else. python-needed-stays: what PM runs from, what
any generation, runtime or package was built on, and what a process runs from is never taken out.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from perdure_pm.adapters.archives import unpack
from perdure_pm.adapters.interpreter import MINIMUM, Interpreter, ask_interpreter, bare_environment, running_interpreter
from perdure_pm.adapters.occupants import find_occupants
from perdure_pm.adapters.uv import Uv
from perdure_pm.model.errors import Busy, InterpreterMissing, PerdureError, UsageFault
from perdure_pm.ops.arguments import read_text
from perdure_pm.ops.context import Context, Outcome
from perdure_pm.ops.exclusive import exclusive
from perdure_pm.ops.host import make_uv
from perdure_pm.ops.interpreters import (
    bring_in,
    find_own,
    find_own_damage,
    is_unfinished,
    is_version,
    list_own,
    own_folder,
    require_new_enough,
    version_key,
)
from perdure_pm.ops.lazy import require_asked
from perdure_pm.ops.runtime import list_runtimes, load_runtime
from perdure_pm.store.generations import list_generations
from perdure_pm.store.layout import Layout, environment_python
from perdure_pm.store.pointer import list_profiles, load_pointer, refuse_links
from perdure_pm.store.records import list_kept_records, load_kept_record

ARCHIVE_BYTES = 4 << 30
"""The most that an archive of an interpreter unpacks to."""
SYSTEMS = {"linux": "linux", "darwin": "darwin", "win32": "windows"}
"""How uv's lists of downloads name the platforms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """Something that an interpreter is needed by."""

    kind: str
    """``runtime``, ``generation`` or ``package``."""
    name: str
    selected: bool
    """Whether PM or a profile runs it now."""

    def __str__(self) -> str:
        what = {"runtime": "PM's runtime", "generation": "generation", "package": "the package"}[self.kind]
        return f"{what} {self.name}{' (selected)' if self.selected else ''}"


def read_interpreters(layout: Layout) -> dict[str, Any]:
    """Return the interpreters in the home, and those elsewhere that something of it was built on, as JSON values."""
    uses = find_uses(layout)
    shown: dict[str, dict[str, Any]] = {}
    for own in list_own(layout):
        shown[str(own.path)] = {**own.to_json(), "own": True, "present": True, "unfinished": is_unfinished(layout, own)}
    for path in uses:
        if path not in shown:
            shown[path] = {**_look(path, layout), "own": _is_own(layout, path), "unfinished": False}
    found = [
        {**entry, "used_by": [{"kind": use.kind, "name": use.name, "selected": use.selected} for use in uses[path]]}
        if path in uses
        else {**entry, "used_by": []}
        for path, entry in shown.items()
    ]
    return {"interpreters": found, "place": str(layout.interpreters)}


def read_downloads(context: Context) -> dict[str, Any]:
    """Return the versions that could be brought in, as JSON values; uv is fetched where it is missing."""
    oldest = version_key(".".join(map(str, MINIMUM)))
    found = [entry for entry in make_uv(context).list_downloads() if version_key(entry["version"]) >= oldest]
    return {"available": sorted(found, key=lambda entry: version_key(entry["version"]), reverse=True)}


def install_interpreter(context: Context, arguments: Mapping[str, Any]) -> Outcome:
    """Have an interpreter in the home, complete and read-only.

    Args:
        context: the world.
        arguments: ``request``: a version (``3.13``, ``3.13.2``), or the path of an archive of one.

    Raises:
        UsageFault: it is neither.
        InterpreterMissing: there is no such download, it is too old, or it does not run here.
        LazyInstallRefused: nobody asked for it.
    """
    layout, request = context.layout, read_text(arguments, "request") or ""
    archive = None if is_version(request) else _require_archive(request)
    with exclusive(context, "python install"):
        refuse_links(layout, layout.interpreters)  # uv would write to wherever it leads
        if archive is None:
            _require_new_enough(request, f"Python {request} was asked for")
            if (found := _find_sound(layout, request)) is not None:
                return Outcome(status="noop", data=_show(layout, found))
        if context.dry_run:
            return Outcome(status="ok", data={"dry_run": True, "request": request})
        require_asked(context)
        uv = make_uv(context)
        context.reporter.progress("python", f"bringing in {archive.name if archive else f'Python {request}'}")
        if archive is None:
            return Outcome(status="ok", data=_show(layout, _bring_in(context, uv, request)))
        version, uv = _offer_archive(context, uv, archive)
        if (found := _find_sound(layout, version)) is not None:
            return Outcome(status="noop", data=_show(layout, found))
        return Outcome(status="ok", data=_show(layout, _bring_in(context, uv, version)))


def uninstall_interpreter(context: Context, arguments: Mapping[str, Any]) -> Outcome:
    """Have an interpreter of the home's own gone that nothing needs.

    Args:
        context: the world.
        arguments: ``request``: its version in full, or its path.

    Raises:
        UsageFault: the home has none of that version, or several, or it is not the home's.
        Busy: something needs it; each is named, and nothing changed.
    """
    layout, filesystem = context.layout, context.filesystem
    request = read_text(arguments, "request") or ""
    with exclusive(context, "python uninstall"):
        for place in (layout.interpreters, layout.trash):
            refuse_links(layout, place)
        found = _require_own(layout, request)
        folder = own_folder(layout, found.path)
        _require_unneeded(layout, found, folder)
        data = _show(layout, found)
        if context.dry_run:
            return Outcome(status="ok", data={**data, "dry_run": True})
        # One rename takes it away as a whole; a crash after it leaves trash.
        filesystem.make_directories(layout.trash)
        os.chmod(folder, 0o755)
        gone = layout.trash / f"{folder.name}.{os.urandom(4).hex()}"
        filesystem.rename(folder, gone)
        for link in layout.interpreters.iterdir():
            if link.is_symlink() and not link.exists():
                filesystem.remove_tree(link)  # uv's name for the newest of a minor version
        filesystem.remove_tree(gone)
        return Outcome(status="ok", data=data)


def find_uses(layout: Layout) -> dict[str, list[Use]]:
    """Return what was built on each interpreter, by its real path: runtimes, generations and registered packages."""
    found: dict[str, list[Use]] = {}

    def add(path: str | os.PathLike[str], use: Use) -> None:
        uses = found.setdefault(os.path.realpath(path), [])
        if use not in uses:
            uses.append(use)

    selected = load_runtime(layout)
    for runtime in list_runtimes(layout):
        use = Use(
            kind="runtime", name=runtime.identity, selected=selected is not None and selected.path == runtime.path
        )
        add(runtime.record["inputs"]["python"]["path"], use)
        add(runtime.python, use)
    running = {_pointer(layout, profile) for profile in list_profiles(layout)}
    sealed, damaged = list_generations(layout)
    records = {generation.identity: generation.record for generation in sealed}
    kept = {identity: load_kept_record(layout, identity) for identity in list_kept_records(layout)}
    for identity in (*records, *kept, *(broken.identity for broken in damaged)):
        use = Use(kind="generation", name=identity, selected=identity in running)
        record = records.get(identity) or kept.get(identity)
        if record is not None:
            add(record["interpreter"]["path"], use)
        for environment in (layout.generation(identity) / "venv", *layout.generation(identity).glob("isolated/*/venv")):
            if os.path.lexists(environment_python(environment)):
                add(environment_python(environment), use)
    for environment in layout.packages.glob("**/venv") if layout.packages.is_dir() else ():
        if os.path.lexists(environment_python(environment)):
            name = environment.parent.relative_to(layout.packages).as_posix()
            add(environment_python(environment), Use(kind="package", name=name, selected=True))
    return found


def _pointer(layout: Layout, profile: str) -> str | None:
    try:
        return load_pointer(layout, profile)
    except PerdureError:
        return None


def _look(path: str, layout: Layout) -> dict[str, Any]:
    """Return what an interpreter outside the home is, or was, where it is gone."""
    try:
        return {**ask_interpreter(Path(path), bare_environment()).to_json(), "path": path, "present": True}
    except InterpreterMissing:
        recorded = [runtime.record["inputs"]["python"] for runtime in list_runtimes(layout)]
        recorded += [generation.record["interpreter"] for generation in list_generations(layout)[0]]
        version = next((str(known["version"]) for known in recorded if known["path"] == path), None)
        return {"path": path, "version": version, "implementation": None, "present": False}


def _is_own(layout: Layout, path: str) -> bool:
    return Path(os.path.realpath(layout.interpreters)) in Path(path).parents


def _show(layout: Layout, interpreter: Interpreter) -> dict[str, Any]:
    return {**interpreter.to_json(), "name": own_folder(layout, interpreter.path).name}


def _find_sound(layout: Layout, request: str) -> Interpreter | None:
    found = find_own(layout, request)
    damaged = {} if found is None else find_own_damage(layout, thorough=True)
    return None if found is None or own_folder(layout, found.path) in damaged else found


def _bring_in(context: Context, uv: Uv, request: str) -> Interpreter:
    """Return the interpreter for a version, brought in; what a killed installation left of it is replaced."""
    layout = context.layout
    for found in list_own(layout):
        folder = own_folder(layout, found.path)
        # The last rung of a launcher has uv bring one in without PM: it is complete, and PM may run from it.
        if (
            _answers(found, request)
            and is_unfinished(layout, found)
            and (_find_needs(layout, found, folder) or running_interpreter().path == found.path)
        ):
            context.filesystem.make_read_only(folder)
            return found
    return bring_in(layout, context.filesystem, uv, request)


def _answers(interpreter: Interpreter, request: str) -> bool:
    return interpreter.version == request or interpreter.version.startswith(f"{request}.")


def _require_new_enough(version: str, what: str) -> None:
    try:
        require_new_enough(version, what)
    except InterpreterMissing as fault:
        raise InterpreterMissing(fault.summary, hint="perdure-pm python list --available") from fault


def _require_archive(request: str) -> Path:
    path = Path(request)
    if path.is_file():
        return path.resolve()
    if os.path.dirname(request) or re.search(r"\.(tar|tgz|zip)", request):
        raise UsageFault(f"there is no file {request}", hint="name a version, or the path of an archive that is there")
    raise UsageFault(
        f"{request!r} is neither a version of Python nor the path of an archive of one",
        hint="perdure-pm python list --available   (shows the versions)",
    )


def _offer_archive(context: Context, uv: Uv, archive: Path) -> tuple[str, Uv]:
    """Return the version that an archive holds, and a uv for which that archive is all that there is to download.

    What is in it is unpacked and asked: the name of a file is no proof, and uv believes its list.
    """
    scratch = context.layout.scratch / f"python-{os.urandom(6).hex()}"
    context.filesystem.make_directories(context.layout.scratch)
    try:
        unpack(archive, scratch, on_member=context.reporter.heartbeat, max_bytes=ARCHIVE_BYTES)
        inside = [scratch / "python" / "bin" / "python3", scratch / "python" / "python.exe"]
        python = next((path for path in inside if path.exists()), None)
        if python is None:
            raise UsageFault(
                f"{archive} holds no Python: there is no python/bin/python3 in it",
                hint="name an archive in the form in which uv downloads them (install_only)",
                context={"path": str(archive)},
            )
        try:
            found = ask_interpreter(python, bare_environment())
        except InterpreterMissing as error:
            raise InterpreterMissing(
                f"the Python in {archive} does not run on this machine",
                hint=f"name an archive for {sys.platform} on {platform.machine()}",
                context={"path": str(archive)},
            ) from error
    finally:
        context.filesystem.remove_tree(scratch)
    if found.implementation != "CPython":
        raise UsageFault(f"{archive} holds {found.implementation}, and PM builds on CPython", hint="name a CPython")
    _require_new_enough(found.version, f"{archive} holds Python {found.version}")
    listing = context.layout.scratch / f"downloads-{os.urandom(6).hex()}.json"
    listing.write_text(json.dumps(_describe(archive, found.version)), encoding="utf-8")
    return found.version, uv.with_network(replace(uv.network, python_downloads=str(listing), offline=False))


def _describe(archive: Path, version: str) -> dict[str, Any]:
    """Return a list of downloads in uv's form that offers one archive for this machine."""
    major, minor, patch = version_key(version)
    pre = re.search(r"(a|b|rc)[0-9]+$", version)
    libc = ("gnu" if platform.libc_ver()[0] == "glibc" else "musl") if sys.platform.startswith("linux") else "none"
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(platform.machine().lower(), platform.machine().lower())
    system = SYSTEMS.get(sys.platform, sys.platform)
    with archive.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {
        f"cpython-{version}-{system}-{machine}-{libc}": {
            "name": "cpython",
            "arch": {"family": machine, "variant": None},
            "os": system,
            "libc": libc,
            "major": major,
            "minor": minor,
            "patch": patch,
            "prerelease": pre[0] if pre else "",
            "url": archive.as_uri(),
            "sha256": digest,
            "variant": None,
            "build": None,
        }
    }


def _require_own(layout: Layout, request: str) -> Interpreter:
    """Return the one interpreter of the home's own that a person named."""
    own = list_own(layout)
    if os.path.dirname(request):
        real = os.path.realpath(request)
        named = [found for found in own if real in {str(found.path), str(own_folder(layout, found.path))}]
    else:
        named = [found for found in own if _answers(found, request) or own_folder(layout, found.path).name == request]
    versions = ", ".join(found.version for found in own)
    if len(named) == 1:
        return named[0]
    if named:
        raise UsageFault(
            f"{request} names several: {', '.join(found.version for found in named)}", hint="name one in full"
        )
    raise UsageFault(
        f"the home keeps no Python {request}" + (f"; it keeps {versions}" if own else ""),
        hint="perdure-pm python list",
        context={"place": str(layout.interpreters)},
    )


def _require_unneeded(layout: Layout, interpreter: Interpreter, folder: Path) -> None:
    needs = _find_needs(layout, interpreter, folder)
    if not needs:
        return
    more = f" and {len(needs) - 1} more" if len(needs) > 1 else ""
    raise Busy(
        f"Python {interpreter.version} stays: {needs[0]} needs it{more}",
        hint="perdure-pm python list   (perdure-pm collect removes what nothing needs any more)",
        context={"needed_by": needs, "path": str(interpreter.path)},
        retry="after-change",
    )


def _find_needs(layout: Layout, interpreter: Interpreter, folder: Path) -> list[str]:
    """Return what an interpreter of the home's own is needed by, in words, what is selected first."""
    uses = find_uses(layout)
    needs = [
        use for path, found in uses.items() for use in found if Path(os.path.realpath(folder)) in Path(path).parents
    ]
    said = [str(use) for use in sorted(needs, key=lambda use: not use.selected)]
    if running_interpreter().path == interpreter.path and not said:
        said.append("what runs this")
    return said or [f"the process {found.pid} ({found.command})" for found in find_occupants(folder)]
