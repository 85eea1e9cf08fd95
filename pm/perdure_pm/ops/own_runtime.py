"""PM's own runtime, changed from within: rebuilt from its seed, updated from a new source, or the one before it again.

Owns: the verbs of `self` that change something. Does not own: building (runtime_build), nor going on where PM cannot
start (bootstrapping.rescue). The runtime that was selected stays, for this process and every other that runs from it,
and for the way back.

Keeps: self-update-old-or-new: whatever ends an update, PM is what it was or the new one, which has started.
self-back-without-network: going back builds and fetches nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from perdure_pm.adapters.archives import unpack
from perdure_pm.adapters.processes import run
from perdure_pm.model.errors import (
    BuildFailed,
    ConfigInvalid,
    IntegrityFault,
    NothingInstalled,
    UsageFault,
    error_from_json,
)
from perdure_pm.model.settings import network_variables
from perdure_pm.ops.arguments import read_text
from perdure_pm.ops.context import Context, Outcome
from perdure_pm.ops.exclusive import exclusive
from perdure_pm.ops.host_commands import follow_commands
from perdure_pm.ops.lazy import require_asked
from perdure_pm.ops.runtime import (
    IDENTITY,
    Runtime,
    find_earlier_runtime,
    find_runtime_problem,
    list_runtimes,
    load_runtime,
    read_runtime,
    select_runtime,
)
from perdure_pm.ops.runtime_build import build_runtime, find_built_runtime
from perdure_pm.ops.seed import read_source, seed_source
from perdure_pm.store.config import load_home_config
from perdure_pm.store.generations import load_current
from perdure_pm.store.layout import Layout
from perdure_pm.store.pointer import list_profiles

BOOTSTRAP = Path("pm", "bootstrap.py")
"""What makes a directory a source of PM: its own builder, which knows what it needs better than this version does."""
BUILD_SECONDS = 3600.0
ARCHIVE_BYTES = 1 << 30
"""The most that a release unpacks to."""


def rebuild_self(context: Context, _arguments: Mapping[str, Any]) -> Outcome:
    """Have a fresh runtime of the seed selected.

    Raises:
        IntegrityFault: the home has no seed.
    """
    layout = context.layout
    with exclusive(context, "self rebuild"):
        before = load_runtime(layout)
        data: dict[str, Any] = {"from": None if before is None else before.identity}
        if context.dry_run:
            return Outcome(status="ok", data={**data, "dry_run": True})
        runtime = build_runtime(
            layout,
            context.filesystem,
            context.reporter,
            source=seed_source(layout),
            network=context.network,
            environ=context.environ,
            python=context.python,
        )
        context.reporter.committed()
        select_runtime(layout, context.filesystem, runtime)
        return Outcome(status="ok", data={**data, **_show(runtime)})


def update_self(context: Context, arguments: Mapping[str, Any]) -> Outcome:
    """Have PM be what a source holds: built beside by that source's own builder, started, and then selected.

    Args:
        context: the world.
        arguments: ``source``: a checkout, or an archive of one; without it the checkout of the home's own host.

    Raises:
        UsageFault: the source is none.
        LazyInstallRefused: nobody asked for it.
        BuildFailed: the new runtime cannot be built or does not start; PM is what it was.
    """
    layout = context.layout
    named = _find_source(context, read_text(arguments, "source"))
    before = load_runtime(layout)
    data: dict[str, Any] = {"from": None if before is None else before.identity, "source": str(named)}
    with _opened(context, named) as source:
        read_source(layout, source)  # raises where it is not complete
        found = find_built_runtime(layout, source=source, python=context.python)
        if found is not None and before is not None and found.identity == before.identity:
            return Outcome(status="noop", data={**data, **_show(found)})
        if context.dry_run:
            return Outcome(status="ok", data={**data, "dry_run": True})
        require_asked(context)
        # Without the mutex, which the builder takes: between it and the next lines a runtime lies there sealed, which
        # nothing names and which a second try finds.
        runtime = found or _build(context, source)
    with exclusive(context, "self update"):
        if problem := find_runtime_problem(runtime):
            raise IntegrityFault(f"the new runtime {runtime.identity} was damaged at once: {problem}")
        context.reporter.callback("before_publish", {"operation": "self-update", **data, **_show(runtime)})
        context.reporter.committed()
        select_runtime(layout, context.filesystem, runtime)
    return Outcome(status="ok", data={**data, **_show(runtime)})


def find_newer_source(layout: Layout) -> tuple[str, ...]:
    """Return what to say where the checkout of the home's own app holds another PM than the one that runs."""
    runtime = load_runtime(layout)
    checkout = None
    with contextlib.suppress(ConfigInvalid):
        checkout = load_home_config(layout).host_checkout
    if runtime is None or checkout is None or not (layout.home / checkout / BOOTSTRAP).is_file():
        return ()
    source = layout.home / checkout
    with contextlib.suppress(IntegrityFault):
        if read_source(layout, source)["sources"] != runtime.record["inputs"].get("sources"):
            return (f"{source} holds another version of PM than the one that runs: perdure-pm self update",)
    return ()


def rollback_self(context: Context, arguments: Mapping[str, Any]) -> Outcome:
    """Have an earlier runtime selected: the newest beside the present one, or the one that is named.

    Raises:
        UsageFault: there is none, or none of that name.
        IntegrityFault: the named one is damaged.
    """
    layout = context.layout
    to = read_text(arguments, "to")
    with exclusive(context, "self rollback"):
        before = load_runtime(layout)
        runtime = find_earlier_runtime(layout) if to is None else _require_runtime(context, to)
        if runtime is None:
            raise UsageFault(
                "there is no earlier runtime of PM that is complete",
                hint="perdure-pm self rebuild   (builds the present one anew)",
            )
        data = {"from": None if before is None else before.identity, **_show(runtime)}
        if before is not None and before.identity == runtime.identity:
            return Outcome(status="noop", data=data)
        if context.dry_run:
            return Outcome(status="ok", data={**data, "dry_run": True})
        context.reporter.committed()
        select_runtime(layout, context.filesystem, runtime)
        return Outcome(status="ok", data=data)


def settle_self(context: Context, _arguments: Mapping[str, Any]) -> Outcome:
    """Have every launcher be what this version of PM writes: asked of a runtime right after it was selected."""
    with exclusive(context, "self settle"):
        for profile in list_profiles(context.layout):
            with contextlib.suppress(NothingInstalled, IntegrityFault, ConfigInvalid):  # doctor names what is damaged
                follow_commands(context, load_current(context.layout, profile))
    return Outcome(status="ok")


def _show(runtime: Runtime) -> dict[str, Any]:
    return {"runtime": runtime.identity, "version": runtime.version, "python": runtime.record["inputs"]["python"]}


def _require_runtime(context: Context, name: str) -> Runtime:
    found = read_runtime(context.layout, name) if IDENTITY.fullmatch(name) else None
    if found is None:
        names = ", ".join(runtime.identity for runtime in list_runtimes(context.layout))
        raise UsageFault(f"there is no runtime {name}", hint="perdure-pm self status", context={"runtimes": names})
    if problem := find_runtime_problem(found, thorough=True):
        raise IntegrityFault(
            f"the runtime {name} is damaged: {problem}",
            hint="perdure-pm self rebuild   (builds the present one anew)",
        )
    return found


def _find_source(context: Context, named: str | None) -> Path:
    """Return the directory or the archive to update from.

    Raises:
        UsageFault: it is neither, or none was named and the host's checkout holds no PM.
    """
    if named is None:
        with contextlib.suppress(ConfigInvalid):
            checkout = load_home_config(context.layout).host_checkout
            if checkout is not None and (context.layout.home / checkout / BOOTSTRAP).is_file():
                return (context.layout.home / checkout).resolve()
        raise UsageFault(
            "nobody said what to update PM from",
            hint="name a checkout of Perdure, or an archive of one: perdure-pm self update DIR",
        )
    path = Path(named)
    if path.is_file() or (path / BOOTSTRAP).is_file():
        return path.resolve()
    what = f"has no {BOOTSTRAP.as_posix()}" if path.is_dir() else "is not there"
    raise UsageFault(
        f"{path} is no checkout of Perdure: it {what}",
        hint="name a checkout of Perdure, or an archive of one: perdure-pm self update DIR",
        context={"path": str(path)},
    )


@contextlib.contextmanager
def _opened(context: Context, source: Path) -> Iterator[Path]:
    """Give the directory of a source; an archive is unpacked into the home for as long as the block lasts."""
    if source.is_dir():
        yield source
        return
    folder = context.layout.incoming / os.urandom(6).hex()
    context.filesystem.make_directories(folder.parent)
    try:
        context.reporter.progress("pm", f"unpacking {source.name}")
        unpack(source, folder, on_member=context.reporter.heartbeat, max_bytes=ARCHIVE_BYTES)
        found = next((path.parent.parent for path in sorted(folder.glob("*/pm/bootstrap.py"))), folder)
        if not (found / BOOTSTRAP).is_file():
            raise UsageFault(
                f"{source} holds no checkout of Perdure: it has no {BOOTSTRAP.as_posix()}",
                hint="name an archive of a checkout, such as a release of Perdure",
                context={"path": str(source)},
            )
        yield found
    finally:
        context.filesystem.remove_tree(folder)
        with contextlib.suppress(OSError):
            folder.parent.rmdir()


def _build(context: Context, source: Path) -> Runtime:
    """Return the runtime that a source's own bootstrap built.

    Raises:
        PerdureError: what that says.
    """
    context.reporter.progress("pm", f"building PM of {source}")
    base = getattr(sys, "_base_executable", None) or sys.executable
    python = base if os.access(base, os.X_OK) else shutil.which("python3") or base
    environment = {
        name: value for name, value in context.environ.items() if not name.startswith(("PERDURE_", "PYTHON"))
    }
    environment |= network_variables(context.network)
    environment |= {} if context.wait else {"PERDURE_NO_WAIT": "1"}
    environment |= {} if context.python is None else {"PERDURE_PYTHON": context.python}
    command = [python, "-I", source / BOOTSTRAP, "--home", context.layout.home, "runtime", "--json", "--events"]

    def relay(line: str) -> None:
        with contextlib.suppress(ValueError, KeyError, TypeError):
            event = json.loads(line)
            context.reporter.progress(event["stage"], event["message"], done=event["done"], total=event["total"])

    ended = run(
        [str(word) for word in command],
        environment=environment,
        directory=context.layout.home,
        timeout=BUILD_SECONDS,
        on_line=relay,
        on_tick=context.reporter.heartbeat,
    )
    try:
        answer = json.loads(ended.stdout)
        if ended.returncode != 0:
            raise error_from_json(answer["errors"][0])
        runtime = read_runtime(context.layout, answer["data"]["runtime"])
    except (ValueError, KeyError, TypeError, IndexError):
        runtime = None
    if runtime is None:
        raise BuildFailed(
            f"{source / BOOTSTRAP} ended with {ended.returncode} and built no runtime; PM is what it was",
            hint="use a source that has it: a checkout of Perdure of this version or a newer one",
            context={"output": ended.stderr[-4000:]},
        )
    return runtime
