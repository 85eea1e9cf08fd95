"""A staged payload: what it must be before anything of it is used, and putting it into a new home.

Owns: the payload's form, its seal (the hash of every file), the refusals, and the copy. Does not own: making one
(ops.stage), nor what comes after the copy: PM's runtime and the generations are built in the new home by the one
builder, from the payload's wheels (docs/adr/0028).

Keeps: payload-sealed: a payload whose bytes are not what they were, that names a place outside itself, or that is for
another kind of machine or Python, is refused before anything is written. payload-resumed: an activation that was cut
off is carried on by the same command, and nothing that is no activation of that payload is written over.

Standard library only, Python 3.9: it runs before there is a home.
"""

from __future__ import annotations

import contextlib
import json
import os
import posixpath
from dataclasses import dataclass
from pathlib import Path

from perdure_pm import ports
from perdure_pm.adapters.interpreter import Interpreter, target_name
from perdure_pm.model.errors import IntegrityFault, InterpreterMissing, PlatformUnsupported, UsageFault
from perdure_pm.model.identity import parse_generation_number
from perdure_pm.ops.carried import name_some
from perdure_pm.store.inventory import FILE_NAME, Inventory, find_content_changes, hash_file, load_inventory
from perdure_pm.store.layout import Layout
from perdure_pm.store.reading import read_regular

SCHEMA = 1
MARKER = "payload.json"
CONTENT, WHEELHOUSE = "content", "wheelhouse"
"""The directory whose files a home begins with, and that of the wheels."""
MAX_BYTES = 1 << 20
REINSTALL = (
    "reinstall from a payload that is as it was made: copy all of it again, or make one anew with "
    "perdure-pm stage --out DIR"
)
SPARED = frozenset({"state", "mutex", "mutex.json"})
"""What a home may hold already: an application's own data, and what an activation that wrote nothing leaves."""


@dataclass(frozen=True)
class Payload:
    """A payload whose every byte is what it was."""

    path: Path
    seal: str
    """The hash over the list of its files: the same for every copy of it."""
    python: str
    """The minor version that its wheels are for."""
    interpreter: str | None
    """Its own interpreter, relative to the home that it is put into."""
    inventory: Inventory

    @property
    def wheelhouse(self) -> Path:
        return self.path / WHEELHOUSE


def load_payload(path: Path) -> Payload:
    """Return the payload at `path`, every byte of it read.

    Raises:
        UsageFault: there is none.
        PlatformUnsupported: it is for another kind of machine.
        IntegrityFault: it is not as it was made; what was changed is named.
    """
    if not (path / FILE_NAME).is_file() or not (path / MARKER).is_file():
        raise UsageFault(f"{path} is no payload", hint="name a directory that perdure-pm stage made")
    inventory = load_inventory(path / FILE_NAME)
    try:
        data = json.loads(read_regular(path / MARKER, MAX_BYTES))
        if data["schema"] != SCHEMA:
            raise ValueError(f"it has schema {data['schema']!r}, and {SCHEMA} is what this version reads")
        target, python = str(data["target"]), str(data["python"])
        interpreter = None if data["interpreter"] is None else str(data["interpreter"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise IntegrityFault(f"{path / MARKER} cannot be used: {error}", hint=REINSTALL) from error
    here = target_name()
    if target != here:
        raise PlatformUnsupported(
            f"the payload {path} is for {target}, and this machine is {here}",
            hint="make one on a machine of the same kind as this: perdure-pm stage --out DIR",
            context={"payload": str(path), "target": target, "here": here},
        )
    _require_inside(path, inventory, interpreter)
    findings = find_content_changes(path, inventory)
    if findings:
        raise IntegrityFault(
            f"the payload {path} is not as it was made: {name_some([str(finding) for finding in findings])}",
            hint=REINSTALL,
            context={"payload": str(path), "files": [finding.path for finding in findings]},
        )
    return Payload(path, hash_file(path / FILE_NAME), python, interpreter, inventory)


def _require_inside(path: Path, inventory: Inventory, interpreter: str | None) -> None:
    """Refuse a payload that names, or leads to, a place outside itself."""
    root = os.path.realpath(path)
    outside = [name for name in (*inventory.files, *inventory.links) if not _is_plain(name)]
    for name in inventory.files:
        place = os.path.join(root, name)
        if not outside and os.path.lexists(place) and os.path.realpath(place) != place:
            outside.append(name)
    for name, target in inventory.links.items():
        led = posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
        if posixpath.isabs(target) or not led.startswith(f"{CONTENT}/"):
            outside.append(name)
    if interpreter is not None and (not _is_plain(interpreter) or f"{CONTENT}/{interpreter}" not in inventory.files):
        outside.append(interpreter)
    if outside:
        raise IntegrityFault(
            f"the payload {path} names a place outside itself: {outside[0]}",
            hint=REINSTALL,
            context={"payload": str(path), "outside": outside},
        )


def _is_plain(name: str) -> bool:
    return bool(name) and not posixpath.isabs(name) and "\\" not in name and ".." not in name.split("/")


def require_python(payload: Payload, interpreter: Interpreter) -> Path:
    """Return the interpreter's path, where the payload's wheels are for it.

    Raises:
        InterpreterMissing: they are not.
    """
    found = ".".join(interpreter.version.split(".")[:2])
    if found != payload.python:
        raise InterpreterMissing(
            f"the payload {payload.path} is for Python {payload.python}, and {interpreter.path} is {found}",
            hint=f"name a Python {payload.python} with --python PATH, or have one in the payload: "
            "perdure-pm stage --with-python --out DIR",
            context={"payload": str(payload.path), "python": payload.python},
        )
    return interpreter.path


def require_room(layout: Layout, payload: Payload) -> None:
    """Return when the home does not exist, or is empty, or an activation of this very payload was cut off there.

    Raises:
        UsageFault: there is something else, which is left as it is.
    """
    with contextlib.suppress(OSError):
        if read_regular(layout.activation, 128).decode("ascii", "replace").strip() == payload.seal:
            return
    there = sorted(set(os.listdir(layout.home)) - SPARED) if layout.home.is_dir() else []
    if there:
        raise UsageFault(
            f"{layout.home} is not empty ({name_some(there)}), and was left as it is",
            hint="name a directory that does not exist yet: --home DIR",
            context={"home": str(layout.home), "there": there},
        )


def unpack(layout: Layout, filesystem: ports.Filesystem, reporter: ports.Reporter, payload: Payload) -> None:
    """Have the home begin with what the payload brings.

    The caller holds the mutex. A crash leaves a home that says which payload is being put into it.
    """
    filesystem.make_directories(layout.pm)
    filesystem.write_durable(layout.activation, f"{payload.seal}\n".encode("ascii"))
    brought = {name: entry for name, entry in payload.inventory.files.items() if name.startswith(f"{CONTENT}/")}
    for number, (name, entry) in enumerate(sorted(brought.items())):
        if number % 100 == 0:
            reporter.progress("activate", f"copying {payload.path.name}", done=number, total=len(brought))
        target = layout.home / name[len(CONTENT) + 1 :]
        if _names_what_is_there(layout, target):
            continue  # the generation was built already, and only what comes after that was cut off
        if target.is_file() and not target.is_symlink() and hash_file(target) == entry.sha256:
            continue
        filesystem.remove_tree(target)
        filesystem.make_directories(target.parent)
        filesystem.copy_file(payload.path / name, target)
        os.utime(target, ns=(entry.mtime_ns, entry.mtime_ns))  # byte code is good for the time of its source
        if target.parent.name == "bin":
            target.chmod(0o755)  # a medium on the way may have no such bits
    for name, led in payload.inventory.links.items():
        link = layout.home / name[len(CONTENT) + 1 :]
        filesystem.remove_tree(link)
        filesystem.make_directories(link.parent)
        os.symlink(led, link)
    for folder in (layout.seeds, layout.releases, layout.plugins, layout.interpreters):
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            filesystem.make_read_only(path)
    filesystem.flush(layout.home)


def _names_what_is_there(layout: Layout, path: Path) -> bool:
    """Return whether a file of the home is a profile's pointer that names a sealed generation."""
    if path != layout.pointer(path.parent.name):
        return False
    with contextlib.suppress(OSError, ValueError):
        identity = read_regular(path, 64).decode("ascii").strip()
        return parse_generation_number(identity) is not None and (layout.generation(identity) / "record.json").is_file()
    return False
