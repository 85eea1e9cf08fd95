"""PM's own runtime: built from pm/uv.lock, selected by one pointer, rebuilt from a seed that needs nothing else.

Owns: the uv binary, the choice of an interpreter, the seed, building and selecting a runtime, and the question whether
the present one is sound. Does not own: what PM does with it.

Keeps: a runtime is complete before `pm/current` names it; an unchanged runtime is selected again without a write; an
old runtime stays for the workers that run from it.

Standard library only, Python 3.9: this runs before there is a runtime.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import re
import shutil
import stat
import sys
import time
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perdure_pm import __version__, ports
from perdure_pm.adapters.interpreter import (
    MINIMUM,
    Interpreter,
    ask_interpreter,
    interpreter_from_json,
    running_interpreter,
    target_name,
)
from perdure_pm.adapters.processes import run
from perdure_pm.adapters.uv import Uv
from perdure_pm.model.errors import (
    BuildFailed,
    IntegrityFault,
    InterpreterMissing,
    PerdureError,
)
from perdure_pm.model.lock_view import choose_wheel, parse_locked_tool
from perdure_pm.model.network import Network
from perdure_pm.ops.build import bare_environment, build_environment, build_wheels
from perdure_pm.ops.carried import require_wheelhouse
from perdure_pm.ops.launchers import write_library, write_pm_launcher
from perdure_pm.store.inventory import (
    FILE_NAME,
    find_content_changes,
    find_size_changes,
    hash_file,
    hash_tree,
    load_inventory,
    take_inventory,
)
from perdure_pm.store.layout import Layout, environment_python
from perdure_pm.store.reading import read_regular

SCHEMA = 1
MAX_BYTES = 16 << 20
IDENTITY = re.compile(r"[0-9a-f]{12}(\.[0-9]+)?")
FALLBACK_PYTHON = "3.13"
"""What uv brings in where no Python of at least `MINIMUM` was found."""
PROJECTS = ("compat", "pm")
"""The source trees that a runtime is built from, below a checkout or a seed."""
PROBE_SECONDS = 60.0
_RESEED = 'python3 pm/bootstrap.py --home "{home}" up   (in a checkout of Perdure)'
_PROBE = (
    "from perdure_pm.cli import main; import perdure_pm.worker, perdure_pm.composition; "
    "import perdure_compat, click, packaging, rich, ruamel.yaml"
)


@dataclass(frozen=True)
class Runtime:
    """A selected runtime."""

    identity: str
    path: Path
    record: dict[str, Any]
    """The contents of its record.json."""

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return environment_python(self.path / "venv")

    @property
    def entry(self) -> Path:
        """The file that starts PM's command line in it."""
        return self.path / "entry.py"

    @property
    def uv_version(self) -> str:
        """The version of the uv that belongs to it."""
        return str(self.record["inputs"]["uv"])


def load_runtime(layout: Layout) -> Runtime | None:
    """Return the selected runtime if its record can be read, else None. Nothing is written or made."""
    try:
        identity = _read_pointer(layout.runtime_pointer)
        if not IDENTITY.fullmatch(identity):
            return None
        path = layout.runtime(identity)
        record = json.loads(read_regular(path / "record.json", MAX_BYTES))
        if record["schema"] != SCHEMA or not isinstance(record["inputs"], dict):
            return None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return Runtime(identity, path, record)


def find_runtime_problem(runtime: Runtime, *, thorough: bool = False) -> str:
    """Return what is wrong with a runtime's files, by size or, when `thorough`, by contents, or an empty string."""
    try:
        inventory = load_inventory(runtime.path / FILE_NAME)
        findings = find_size_changes(runtime.path, inventory)
        if thorough and not findings:
            findings = find_content_changes(runtime.path, inventory)
    except PerdureError as error:
        return error.summary
    if findings:
        return str(findings[0])
    return "" if os.access(runtime.python, os.X_OK) else f"its interpreter {os.path.realpath(runtime.python)} is gone"


def _read_pointer(path: Path) -> str:
    return read_regular(path, 64).decode("ascii").strip()


def is_current(layout: Layout) -> bool:
    """Return whether a sound runtime is selected. Nothing is made, not even a directory."""
    runtime = load_runtime(layout)
    return runtime is not None and not find_runtime_problem(runtime)


def find_usable_runtime(
    layout: Layout, *, source: Path, python: str | None = None, thorough: bool = False
) -> Runtime | None:
    """Return the selected runtime if it is sound and what `source` would build, else None. Nothing is written or made.

    Args:
        layout: the home.
        source: a checkout, or a seed.
        python: the base interpreter that the user asked for; without it the present runtime's is as good as any, so
            that two entry points with different interpreters do not rebuild in turns.
        thorough: whether the bytes of its files are looked at too, which takes a quarter of a second.

    Raises:
        IntegrityFault: `source` is neither, or a seed that is damaged.
    """
    inputs = _inputs_without_python(layout, source)
    present = load_runtime(layout)
    if present is None:
        return None
    known = {name: value for name, value in present.record["inputs"].items() if name != "python"}
    recorded = present.record["inputs"]["python"]
    fits = python is None or os.path.realpath(python) == recorded["path"]
    if known == inputs and fits and is_still(recorded) and not find_runtime_problem(present, thorough=thorough):
        return present
    return None


def build_runtime(
    layout: Layout,
    filesystem: ports.Filesystem,
    reporter: ports.Reporter,
    *,
    source: Path,
    network: Network,
    environ: Mapping[str, str],
    python: str | None = None,
) -> Runtime:
    """Have a new runtime of `source` built and selected, and return it. The caller holds the mutex.

    Args:
        layout: the home.
        filesystem: where files are written.
        reporter: told how far it is.
        source: a checkout, or a seed.
        network: how to fetch what is missing.
        environ: the caller's environment, from which only the network's settings are taken.
        python: the base interpreter that the user asked for: a path, a command's name or a version.
    """
    require_wheelhouse(network)
    remove_unfinished(layout, filesystem)
    binary = ensure_uv(layout, filesystem, reporter, lock=source / "pm" / "uv.lock", network=network)
    uv = Uv(binary, layout, network, environ, on_tick=lambda: reporter.progress("pm", "building PM's runtime"))
    interpreter = choose_interpreter(layout, uv, reporter, environ, python)
    inputs = {**_inputs_without_python(layout, source), "python": interpreter.to_json()}
    reporter.progress("pm", f"building PM's runtime on Python {interpreter.version}")
    seed = _write_seed(layout, filesystem, source, inputs)
    identity = _free_identity(layout, inputs)
    path = layout.runtime(identity)
    filesystem.make_directories(path)
    wheels = build_wheels(
        uv, filesystem, layout, [source / name for name in PROJECTS], path / "wheels", interpreter.path
    )
    requirements = uv.export(source / "pm", interpreter.path)
    build_environment(
        uv,
        filesystem,
        environment=path / "venv",
        python=interpreter.path,
        requirements=requirements,
        wheels=wheels,
    )
    filesystem.copy_file(Path(__file__).resolve().parent.parent / "launcher" / "entry.py", path / "entry.py")
    write_library(filesystem, layout, path, interpreter)
    probe = run(
        [environment_python(path / "venv"), "-I", "-c", _PROBE],
        environment=bare_environment(),
        directory=path,
        timeout=PROBE_SECONDS,
    )
    if probe.returncode != 0:
        raise BuildFailed(
            "PM's new runtime does not start; the old one, if there was one, is kept",
            context={"output": probe.stderr[-4000:]},
        )
    filesystem.write_durable(path / FILE_NAME, take_inventory(path).to_bytes())
    filesystem.make_read_only(path)
    os.chmod(path, stat.S_IMODE(path.stat().st_mode) | stat.S_IWUSR)  # the record is still to come
    filesystem.flush(path)
    record = {
        "schema": SCHEMA,
        "id": identity,
        "inputs": inputs,
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "seed": seed,
    }
    filesystem.write_durable(path / "record.json", json.dumps(record, indent=1).encode(), mode=0o444)
    filesystem.make_read_only(path)
    # The commit of a runtime. A crash before this line leaves garbage that the next build removes.
    filesystem.write_durable(layout.runtime_pointer, f"{identity}\n".encode())
    write_pm_launcher(filesystem, layout)
    return Runtime(identity, path, record)


def ensure_uv(
    layout: Layout, filesystem: ports.Filesystem, reporter: ports.Reporter, *, lock: Path, network: Network
) -> Path:
    """Have the uv that `lock` names, checked against the lock also when it was there already, and return its path."""
    tool = parse_locked_tool(lock.read_text(encoding="utf-8"), "uv")
    artefact = choose_wheel(tool, sys.platform, platform.machine())
    binary = layout.uv(tool.version)
    receipt = binary.with_name("origin.json")
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        origin = json.loads(receipt.read_bytes())
        if origin["wheel"] == artefact.sha256 and origin["sha256"] == hash_file(binary):
            return binary
    from perdure_pm.adapters import download  # only here: http takes 20 ms to import, and is needed once

    reporter.progress("uv", f"fetching uv {tool.version}")
    filesystem.make_directories(layout.scratch)
    wheel = layout.scratch / f"{os.urandom(6).hex()}-{artefact.name}"
    try:
        download.obtain(
            artefact,
            "uv",
            wheel,
            network=network,
            on_progress=lambda done, total: reporter.progress(
                "uv", f"fetching uv {tool.version}", done=done, total=total or artefact.size or None
            ),
        )
        with zipfile.ZipFile(wheel) as archive:
            member = next(name for name in archive.namelist() if name.endswith(f".data/scripts/{binary.name}"))
            data = archive.read(member)
    finally:
        with contextlib.suppress(OSError):
            wheel.unlink()
    filesystem.make_directories(binary.parent)
    filesystem.write_durable(binary, data, mode=0o555)
    origin = {"schema": SCHEMA, "wheel": artefact.sha256, "sha256": hash_file(binary), "size": len(data)}
    origin_text = json.dumps(origin)
    filesystem.write_durable(receipt, origin_text.encode())
    return binary


def find_seed_problem(layout: Layout) -> str:
    """Return what is wrong with the seed that rebuilds PM, or an empty string."""
    try:
        _inputs_without_python(layout, seed_source(layout))
    except PerdureError as error:
        return error.summary
    return ""


def find_uv_problem(layout: Layout, *, thorough: bool = False) -> str:
    """Return what is wrong with the uv that the seed's lock names, by size or, when `thorough`, by its bytes."""
    lock = seed_source(layout) / "pm" / "uv.lock"
    binary = layout.uv(parse_locked_tool(lock.read_text(encoding="utf-8"), "uv").version)
    try:
        origin = json.loads(binary.with_name("origin.json").read_bytes())
        size, digest = origin.get("size"), str(origin["sha256"])
        if not os.access(binary, os.X_OK):
            return f"{binary} is not an executable file"
        if size is not None and binary.stat().st_size != size:
            return f"{binary} has {binary.stat().st_size} bytes instead of {size}"
        if thorough and hash_file(binary) != digest:
            return f"{binary} has other contents than it was fetched with"
    except FileNotFoundError as error:
        return f"{error.filename} is missing"
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        return f"{binary} cannot be checked: {error}"
    return ""


def find_interpreter(layout: Layout, environ: Mapping[str, str], wanted: str | None) -> Interpreter | None:
    """Return the base interpreter to build on, or None where one must be brought in. Nothing is written.

    It is the wanted one, else the one that PM runs on already, else the one that runs this. One that uv shares between
    projects is not taken: `uv python uninstall` would pull it from under PM.

    Raises:
        InterpreterMissing: the wanted one does not run, or is too old.
    """
    if wanted is not None:
        if re.fullmatch(r"3(\.[0-9]+){1,2}", wanted):
            return None
        path = wanted if os.path.dirname(wanted) else shutil.which(wanted, path=environ.get("PATH"))
        if path is None:
            raise InterpreterMissing(f"there is no {wanted} on the PATH", hint="name another with --python PATH")
        found = ask_interpreter(Path(os.path.abspath(path)), bare_environment())
        if found.release < MINIMUM:
            raise InterpreterMissing(
                f"{wanted} is Python {found.version}; PM and the app need {MINIMUM[0]}.{MINIMUM[1]} or newer",
                hint="name a newer one with --python PATH, or leave it out and one is brought in",
            )
        return found
    present = load_runtime(layout)
    if present is not None and is_still(present.record["inputs"]["python"]):
        return interpreter_from_json(present.record["inputs"]["python"])
    running = running_interpreter()
    usable = running.release >= MINIMUM and running.implementation == "CPython"
    return running if usable and not _shared(running.path, environ, layout) else None


def choose_interpreter(
    layout: Layout, uv: Uv, reporter: ports.Reporter, environ: Mapping[str, str], wanted: str | None
) -> Interpreter:
    """Return the base interpreter to build on, brought into the home where none was found."""
    found = find_interpreter(layout, environ, wanted)
    if found is not None:
        return found
    request = wanted or FALLBACK_PYTHON
    reporter.progress("python", f"bringing in Python {request}")
    try:
        return ask_interpreter(uv.install_interpreter(request), bare_environment())
    except PerdureError as error:
        raise InterpreterMissing(
            f"Python {MINIMUM[0]}.{MINIMUM[1]} or newer is needed, this is {sys.version.split()[0]}, "
            f"and uv could not bring in {request}: {error.summary}",
            hint="name an installed one with --python PATH, or a list of downloads with --python-downloads URL",
            context=error.context,
            retry=error.retry,
        ) from error


def remove_unfinished(layout: Layout, filesystem: ports.Filesystem) -> list[str]:
    """Remove what killed builds left: unsealed runtimes, half seeds, scratch files. The caller holds the mutex.

    A folder to which a link leads is left alone: what lies there may be somebody else's.
    """
    removed = []
    selected = load_runtime(layout)
    for folder, finished in ((layout.runtimes, "record.json"), (layout.seeds, "pm/bootstrap.py")):
        for path in sorted(folder.iterdir()) if _is_inside(layout, folder) else []:
            unfinished = not (path / finished).is_file() or path.name.startswith(".")
            if path.is_dir() and unfinished and (selected is None or path != selected.path):
                filesystem.remove_tree(path)
                removed.append(path.name)
    if _is_inside(layout, layout.scratch):
        for path in layout.scratch.iterdir():
            filesystem.remove_tree(path)
    return removed


def _is_inside(layout: Layout, folder: Path) -> bool:
    """Return whether a folder of the home is there, and not elsewhere by way of a link."""
    place = os.path.join(os.path.realpath(layout.home), folder.relative_to(layout.home))
    return folder.is_dir() and os.path.realpath(folder) == place


def seed_source(layout: Layout) -> Path:
    """Return the seed that rebuilds PM.

    Raises:
        IntegrityFault: the home has none.
    """
    with contextlib.suppress(OSError, ValueError):
        name = _read_pointer(layout.seed_pointer)
        if re.fullmatch(r"[0-9a-f]{12}", name) and (layout.seed(name) / "pm" / "bootstrap.py").is_file():
            return layout.seed(name)
    raise IntegrityFault(
        f"the seed that rebuilds PM is gone from {layout.seeds}",
        hint=_RESEED.format(home=layout.home),
    )


def _inputs_without_python(layout: Layout, source: Path) -> dict[str, Any]:
    lock = source / "pm" / "uv.lock"
    try:
        inputs = {
            "version": __version__,
            "lock": hash_file(lock),
            "sources": hash_tree(_seed_members(source)),
            "target": target_name(),
            "uv": parse_locked_tool(lock.read_text(encoding="utf-8"), "uv").version,
        }
    except OSError as error:
        raise IntegrityFault(
            f"{source} is not a checkout of Perdure, nor a seed: {error}",
            hint="run bootstrap.py from a complete checkout",
        ) from error
    if source.parent == layout.seeds and not inputs["sources"].startswith(source.name):
        raise IntegrityFault(
            f"the seed that rebuilds PM is damaged: {source} is not what it was written as",
            hint=_RESEED.format(home=layout.home),
        )
    return inputs


def _seed_members(source: Path) -> dict[str, Path]:
    """Return what a seed is made of, by its name in the seed."""
    names = ("pm/bootstrap.py", "pm/pyproject.toml", "pm/uv.lock", "pm/perdure_pm", "compat/pyproject.toml")
    return {name: source / name for name in (*names, "compat/perdure_compat")}


def is_still(recorded: Mapping[str, Any]) -> bool:
    """Return whether the recorded interpreter is still there in the recorded version."""
    running = running_interpreter()
    if str(running.path) == recorded["path"]:
        return bool(running.version == recorded["version"])
    with contextlib.suppress(PerdureError, OSError):
        return ask_interpreter(Path(recorded["path"]), bare_environment()).version == str(recorded["version"])
    return False


def _shared(path: Path, environ: Mapping[str, str], layout: Layout) -> bool:
    """Return whether `path` lies in the directory of interpreters that uv shares, and not in this home's own."""
    if layout.interpreters in path.parents:
        return False
    user = Path(os.path.expanduser("~"))
    data = Path(environ.get("XDG_DATA_HOME") or user / ".local" / "share")
    shared = [data / "uv" / "python", user / ".local" / "share" / "uv" / "python"]
    if environ.get("UV_PYTHON_INSTALL_DIR"):
        shared.append(Path(environ["UV_PYTHON_INSTALL_DIR"]))
    return any(Path(os.path.realpath(folder)) in path.parents for folder in shared)


def _write_seed(layout: Layout, filesystem: ports.Filesystem, source: Path, inputs: Mapping[str, Any]) -> str:
    """Have a seed of `source` in the home, selected, and return its name."""
    name = str(inputs["sources"])[:12]
    target = layout.seed(name)
    if target != source and (not target.is_dir() or hash_tree(_seed_members(target)) != inputs["sources"]):
        if target.exists():
            filesystem.remove_tree(target)
        building = layout.seeds / f".{name}-{os.urandom(4).hex()}"
        for member, path in _seed_members(source).items():
            files = [path] if path.is_file() else [file for file in sorted(path.rglob("*")) if file.is_file()]
            for file in files:
                if "__pycache__" in file.parts:
                    continue
                copy = building / member / file.relative_to(path) if file != path else building / member
                filesystem.make_directories(copy.parent)
                filesystem.copy_file(file, copy)
        filesystem.make_read_only(building)
        os.chmod(building, 0o755)
        filesystem.flush(building)
        filesystem.rename(building, target)
        os.chmod(target, 0o555)
    selected = None
    with contextlib.suppress(OSError, ValueError):
        selected = _read_pointer(layout.seed_pointer)
    if selected != name:
        filesystem.write_durable(layout.seed_pointer, f"{name}\n".encode())
    return name


def _free_identity(layout: Layout, inputs: Mapping[str, Any]) -> str:
    """Return a name for a new runtime: the digest of its inputs, numbered when the same was built before."""
    digest = hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()[:12]
    number = 1
    while True:
        identity = digest if number == 1 else f"{digest}.{number}"
        if not layout.runtime(identity).exists():
            return identity
        number += 1
