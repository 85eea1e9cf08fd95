"""Building a runtime of PM from a checkout or a seed, beside the one that is selected.

Owns: the build, the checks before it can be selected, and finding a sound runtime that is what a source would build.
Does not own: selecting it (runtime).

Keeps: a runtime is complete, and has started, before its record says so.

Standard library only, Python 3.9: this runs before there is a runtime.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from perdure_pm import ports
from perdure_pm.adapters.interpreter import Interpreter, bare_environment
from perdure_pm.adapters.processes import run
from perdure_pm.adapters.uv import Uv
from perdure_pm.model.errors import BuildFailed, PerdureError
from perdure_pm.model.network import Network
from perdure_pm.ops.build import build_environment, build_wheels
from perdure_pm.ops.carried import require_wheelhouse
from perdure_pm.ops.interpreters import choose_interpreter, fits, is_still
from perdure_pm.ops.launchers import write_library
from perdure_pm.ops.runtime import (
    SCHEMA,
    Runtime,
    find_runtime_problem,
    list_runtimes,
    load_runtime,
    remove_unfinished,
)
from perdure_pm.ops.seed import read_source, write_seed
from perdure_pm.ops.tool_uv import ensure_uv
from perdure_pm.store.inventory import FILE_NAME, take_inventory
from perdure_pm.store.layout import Layout, environment_python

PROJECTS = ("compat", "pm")
"""The source trees that a runtime is built from, below a checkout or a seed."""
PROBE_SECONDS = 120.0
_PROBE = """
import sys
import perdure_compat, click, packaging, rich, ruamel.yaml
import perdure_pm.worker
from perdure_pm.cli.entry import VERBS, root
from perdure_pm.composition import OPERATIONS
for operation in OPERATIONS.values():
    operation.function
for name in VERBS:
    root.get_command(None, name)
from perdure_pm.cli import main
sys.argv = ["perdure-pm", "--version"]
sys.exit(main())
"""
"""Every operation and every verb is imported, which a start alone leaves to the day on which it is needed."""


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
    present = load_runtime(layout)
    return present if present is not None and _answers(layout, present, source, python, thorough=thorough) else None


def find_built_runtime(layout: Layout, *, source: Path, python: str | None = None) -> Runtime | None:
    """Return the newest sealed runtime, selected or not, that is sound and what `source` would build, else None.

    Raises:
        IntegrityFault: `source` is neither a checkout nor a seed, or a seed that is damaged.
    """
    found = (runtime for runtime in list_runtimes(layout) if _answers(layout, runtime, source, python, thorough=True))
    return next(found, None)


def _answers(layout: Layout, runtime: Runtime, source: Path, python: str | None, *, thorough: bool) -> bool:
    known = {name: value for name, value in runtime.record["inputs"].items() if name != "python"}
    recorded = runtime.record["inputs"]["python"]
    same = known == read_source(layout, source) and fits(layout, os.environ, recorded, python) and is_still(recorded)
    return same and not find_runtime_problem(runtime, thorough=thorough)


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
    """Have a new runtime of `source` built, sealed and not selected, and return it. The caller holds the mutex.

    Args:
        layout: the home.
        filesystem: where files are written.
        reporter: told how far it is.
        source: a checkout, or a seed.
        network: how to fetch what is missing.
        environ: the caller's environment, from which only the network's settings are taken.
        python: the base interpreter that the user asked for: a path, a command's name or a version.

    Raises:
        BuildFailed: it does not start; nothing is left of it.
    """
    require_wheelhouse(network)
    remove_unfinished(layout, filesystem)
    binary = ensure_uv(layout, filesystem, reporter, lock=source / "pm" / "uv.lock", network=network)
    uv = Uv(binary, layout, network, environ, on_tick=lambda: reporter.progress("pm", "building PM's runtime"))
    interpreter = choose_interpreter(layout, filesystem, uv, reporter, environ, python)
    inputs = {**read_source(layout, source), "python": interpreter.to_json()}
    reporter.progress("pm", f"building PM's runtime on Python {interpreter.version}")
    seed = write_seed(layout, filesystem, source, str(inputs["sources"]))
    identity = _free_identity(layout, inputs)
    path = layout.runtime(identity)
    try:
        _fill(uv, filesystem, layout, path, source, interpreter)
        _require_start(path)
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
        # The seal. A crash before this line leaves garbage that the next build removes.
        filesystem.write_durable(path / "record.json", json.dumps(record, indent=1).encode(), mode=0o444)
        filesystem.make_read_only(path)
    except BaseException:
        with contextlib.suppress(PerdureError):  # the error on its way says more, and the next build removes it
            filesystem.remove_tree(path)
        raise
    return Runtime(identity, path, record)


def _fill(
    uv: Uv, filesystem: ports.Filesystem, layout: Layout, path: Path, source: Path, interpreter: Interpreter
) -> None:
    """Have everything in a runtime's directory but what seals it."""
    filesystem.make_directories(path)
    sources = [source / name for name in PROJECTS]
    wheels = build_wheels(uv, filesystem, layout, sources, path / "wheels", interpreter.path)
    build_environment(
        uv,
        filesystem,
        environment=path / "venv",
        python=interpreter.path,
        requirements=uv.export(source / "pm", interpreter.path),
        wheels=wheels,
    )
    filesystem.copy_file(Path(__file__).resolve().parent.parent / "launcher" / "entry.py", path / "entry.py")
    write_library(filesystem, layout, path, interpreter)


def _require_start(path: Path) -> None:
    """Return when PM starts in a runtime.

    Raises:
        BuildFailed: it does not.
    """
    probe = run(
        [environment_python(path / "venv"), "-I", "-c", _PROBE],
        environment=bare_environment(),
        directory=path,
        timeout=PROBE_SECONDS,
    )
    if probe.returncode != 0:
        said = probe.stderr.strip().splitlines()
        raise BuildFailed(
            f"PM's new runtime does not start ({said[-1] if said else f'it ended with {probe.returncode}'}); "
            "the old one, if there was one, is kept",
            context={"output": probe.stderr[-4000:]},
        )


def _free_identity(layout: Layout, inputs: Mapping[str, Any]) -> str:
    """Return a name for a new runtime: the digest of its inputs, numbered when the same was built before."""
    digest = hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()[:12]
    number = 1
    while True:
        identity = digest if number == 1 else f"{digest}.{number}"
        if not layout.runtime(identity).exists():
            return identity
        number += 1
