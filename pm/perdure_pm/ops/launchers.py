"""The commands in a home's bin directory.

Owns: writing launchers from the templates in perdure_pm/launcher. Does not own: what they start; they read a pointer
and exec, take no mutex, resolve nothing and never install.

Standard library only, Python 3.9.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import sys
from collections.abc import Collection, Mapping
from pathlib import Path

from perdure_pm import ports
from perdure_pm.adapters.interpreter import Interpreter, find_library
from perdure_pm.model.errors import UsageFault
from perdure_pm.store.home import LAUNCHER_MARK
from perdure_pm.store.layout import Layout, relative_to_home
from perdure_pm.store.protection import MAX_BYTES, OFF
from perdure_pm.store.reading import read_regular

_COMMAND = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")


def write_pm_launcher(filesystem: ports.Filesystem, layout: Layout, templates: Path | None = None) -> None:
    """Have `bin/perdure-pm`, from the templates of another version of PM where they are named."""
    _write(filesystem, layout, "perdure-pm", _template("pm", templates))


def write_host_launchers(
    filesystem: ports.Filesystem,
    layout: Layout,
    commands: list[str],
    environment: Mapping[str, str] | None = None,
    protect: str = OFF,
) -> None:
    """Have one launcher for each command of the host; `perdure pm …` hands over to PM.

    Args:
        filesystem: writes them.
        layout: the home.
        commands: their names.
        environment: the variables that they set.
        protect: whether they start the host with the home read-only: require, prefer or off.
    """
    for command in commands:
        text = _template("host").replace("@COMMAND@", _checked(command))
        text = text.replace(f"@ENVIRONMENT@{_line_end()}", _settings(environment or {}))
        _write(filesystem, layout, command, text.replace(f"@PROTECT@{_line_end()}", _protection(protect)))


def write_external_launchers(filesystem: ports.Filesystem, layout: Layout, names: Collection[str]) -> None:
    """Have one launcher for each external plugin, by which a host, or a person, starts its program."""
    for name in names if sys.platform != "win32" else ():
        _write(filesystem, layout, name, _template("external").replace("@COMMAND@", _checked(name)))


def is_taken(layout: Layout, name: str) -> bool:
    """Return whether a launcher of that name starts something else than what a generation has."""
    try:
        text = read_regular(_place(layout, name), MAX_BYTES)
    except OSError:
        return False
    return b"profiles" not in text


def drop_host_launchers(filesystem: ports.Filesystem, layout: Layout, kept: Collection[str]) -> None:
    """Have no launcher of a host's command or an external plugin but those in `kept`; nothing else is touched."""
    for path in sorted(layout.bin.iterdir()) if layout.bin.is_dir() else ():
        command = path.name.removesuffix(".cmd")
        if command in kept or path.is_symlink() or not path.is_file():
            continue
        # Of the launchers only what starts from a generation reads a profile's pointer.
        text = path.read_bytes()
        if LAUNCHER_MARK in text[:512] and b"profiles" in text:
            filesystem.remove_tree(path)


def has_launcher(layout: Layout, command: str) -> bool:
    """Return whether there is a launcher of that name."""
    return _place(layout, command).is_file()


def write_library(filesystem: ports.Filesystem, layout: Layout, folder: Path, interpreter: Interpreter) -> None:
    """Have `library` in a runtime or a generation: where its interpreter's standard library is.

    Launchers look there before they start that interpreter, which could say nothing clear without it. Where it is in an
    unusual place there is no such file, and they do not look.
    """
    library = find_library(interpreter)
    if library is not None and "\n" not in str(library) and sys.platform != "win32":
        text = relative_to_home(layout, library) or str(library)
        filesystem.write_durable(folder / "library", f"{text}\n".encode("utf-8", "surrogateescape"))


def read_library(layout: Layout, folder: Path) -> Path | None:
    """Return what `write_library` wrote, or None where nothing was written."""
    try:
        text = os.fsdecode(read_regular(folder / "library", MAX_BYTES)).removesuffix("\n")
    except OSError:
        return None
    return layout.home / text if text else None


def write_start(filesystem: ports.Filesystem, folder: Path) -> None:
    """Have `start.py` in a generation, which its launchers give the interpreter to run, and what it says on failure."""
    source = Path(__file__).resolve().parent.parent / "launcher"
    for name in ("start.py", "start_refusal.py", "external.py", "protect.py"):
        filesystem.copy_file(source / name, folder / name)


def find_launcher_faults(layout: Layout, commands: list[str], external: Collection[str] = ()) -> list[str]:
    """Return what is wrong with PM's launcher, the host's commands' and external plugins', one sentence each."""
    faults = []
    kinds = {"perdure-pm": "pm", **dict.fromkeys(external, "external"), **dict.fromkeys(commands, "host")}
    for name, kind in kinds.items():
        path = _place(layout, name)
        text = _template(kind).replace("@COMMAND@", name)
        # What stands between is what config.yaml sets, which may be changing now.
        before, *between, after = (
            re.split(f"@(?:ENVIRONMENT|PROTECT)@{_line_end()}", text) if kind == "host" else (text, text)
        )
        try:
            found = read_regular(path, MAX_BYTES).decode("utf-8", "replace")
        except FileNotFoundError:
            faults.append(f"the launcher {path} is missing")
            continue
        except OSError as error:
            faults.append(f"the launcher {path} cannot be read: {error.strerror or error}")
            continue
        if not found.startswith(before) or not found.endswith(after) or any(part not in found for part in between):
            faults.append(f"the launcher {path} is not what PM writes")
        elif not _can_be_started(path):
            faults.append(f"the launcher {path} is not executable")
    return faults


def _settings(environment: Mapping[str, str]) -> str:
    """Return the lines of a launcher that set variables."""
    if sys.platform == "win32":
        escaped = {name: value.replace("%", "%%") for name, value in sorted(environment.items())}
        return "".join(f'set "{name}={value}"{_line_end()}' for name, value in escaped.items())
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in sorted(environment.items()))


def _protection(protect: str) -> str:
    """Return the lines of a launcher that have the host started with the home read-only."""
    if protect == OFF:
        return ""
    if sys.platform == "win32":
        why = "the home cannot be protected from this host: there is no protection of hosts for Windows"
        lines = [f"rem host.protect: {protect}", f"echo {'error' if protect == 'require' else 'notice'}: {why} 1>&2"]
        return "".join(f"{line}{_line_end()}" for line in [*lines, *(["exit /b 1"] if protect == "require" else [])])
    folder = Path(__file__).resolve().parent.parent / "launcher"
    return (folder / "protect.sh").read_text(encoding="utf-8").replace("@POLICY@", protect)


def _line_end() -> str:
    return "\r\n" if sys.platform == "win32" else "\n"


def write_activation(filesystem: ports.Filesystem, folder: Path, target: str, python: str) -> None:
    """Have `activate` in a payload, for machines of one kind and one minor version of Python."""
    text = _template("activate").replace("@TARGET@", target).replace("@PYTHON@", python)
    filesystem.write_durable(folder / "activate", text.encode(), mode=0o755)


def write_command_launcher(filesystem: ports.Filesystem, layout: Layout, name: str, relative_target: str) -> None:
    """Have `bin/<name>` start the executable at `relative_target`, which is relative to the home."""
    if re.search(r"[^A-Za-z0-9._+/@-]", relative_target):
        raise UsageFault(f"a launcher cannot start {relative_target!r}: only letters, digits and ._+-/@ are allowed")
    _write(filesystem, layout, _checked(name), _template("command").replace("@TARGET@", relative_target))


def _write(filesystem: ports.Filesystem, layout: Layout, name: str, text: str) -> None:
    path = _place(layout, name)
    data = text.encode()
    # An unchanged launcher keeps its bytes and its inode: a shell may be reading it.
    if path.is_file() and not path.is_symlink() and _can_be_started(path):
        with contextlib.suppress(PermissionError):  # one that its owner may not read is written anew
            if path.read_bytes() == data:
                return
    filesystem.make_directories(layout.bin)
    if path.is_symlink():
        filesystem.remove_tree(path)  # the link; what it leads to is not PM's to write
    filesystem.write_durable(path, data, mode=0o755)


def _can_be_started(path: Path) -> bool:
    return sys.platform == "win32" or os.access(path, os.X_OK)


def _place(layout: Layout, name: str) -> Path:
    return layout.bin / (name + (".cmd" if sys.platform == "win32" else ""))


def _template(kind: str, templates: Path | None = None) -> str:
    """Return a launcher's text; every shell launcher begins by finding its home."""
    folder = templates or Path(__file__).resolve().parent.parent / "launcher"
    if sys.platform == "win32" and kind != "activate":
        return (folder / f"{kind}.cmd").read_text(encoding="utf-8").replace("\n", "\r\n")
    # What finds the generation is the same for everything that starts from one, and what refuses for what PM starts by.
    before = {
        "host": ("handover.sh", "pointer.sh"),
        "external": ("pointer.sh",),
        "pm": ("refuse.sh",),
        "activate": ("refuse.sh",),
    }.get(kind, ())
    return "".join((folder / name).read_text(encoding="utf-8") for name in ("head.sh", *before, f"{kind}.sh"))


def is_command(name: str) -> bool:
    """Return whether `name` can be the name of a launcher."""
    return _COMMAND.fullmatch(name) is not None


def _checked(command: str) -> str:
    if not is_command(command):
        raise UsageFault(f"{command!r} cannot be the name of a command")
    return command
