"""Publication: the only way what a profile runs changes.

Read top to bottom it is the protocol: what is wanted is compared with what is there; a candidate is built at its final
path beside everything else; its contents are checked and the host is started in it; it is sealed by its record; then
one durable write of the pointer is the commit. Owns: that order. Does not own: what is wanted (install), how an
environment is built (build), the receipt and the mutex (worker, install).

Keeps: pm-pointer-last, pm-sealed-before-selected, pm-health-before-commit.
"""

from __future__ import annotations

import hashlib
import json
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perdure_pm.adapters.interpreter import Interpreter, target_name
from perdure_pm.adapters.processes import run
from perdure_pm.adapters.uv import Uv
from perdure_pm.model.errors import HealthCheckFailed, NoSpace, PerdureError
from perdure_pm.ops.build import bare_environment, build_environment
from perdure_pm.ops.context import Context, Outcome
from perdure_pm.ops.launchers import write_host_launchers
from perdure_pm.ops.release import Plugin, Release
from perdure_pm.store.generations import Generation, current_generation, next_number
from perdure_pm.store.inventory import (
    FILE_NAME,
    find_site_packages,
    find_size_changes,
    load_inventory,
    take_inventory,
)
from perdure_pm.store.layout import environment_python, environment_scripts
from perdure_pm.store.pointer import save_pointer

RECORD_SCHEMA = 1
BOOT_SCHEMA = 1
NEEDED_BYTES = 200 * 1024 * 1024
"""What a generation of our app may take at worst: copies of every file, byte code, and room for the flush."""
HEALTH_SECONDS = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Everything that determines what a generation holds."""

    release: Release
    plugins: tuple[Plugin, ...]
    """The selection, in load order."""
    interpreter: Interpreter

    def inputs(self) -> dict[str, Any]:
        """Return the inputs as JSON; equal inputs mean an equal generation."""
        return {
            "release": self.release.digest,
            "requirements": hashlib.sha256(self.release.requirements.encode()).hexdigest(),
            "plugins": [plugin.to_json() for plugin in self.plugins],
            "interpreter": self.interpreter.to_json(),
            "target": target_name(),
        }

    def digest(self) -> str:
        """Return the inputs' sha256 in hex."""
        return hashlib.sha256(json.dumps(self.inputs(), sort_keys=True).encode()).hexdigest()


def plan_publication(context: Context, wanted: Wanted) -> dict[str, Any]:
    """Return what publishing `wanted` would do, as printable data; nothing is changed."""
    current = current_generation(context.layout, context.profile)
    unchanged = current is not None and is_sound(current) and current.record["inputs_digest"] == wanted.digest()
    return {
        "profile": context.profile,
        "from": None if current is None else current.identity,
        "changes": not unchanged,
        "host": {"name": wanted.release.name, "version": wanted.release.version},
        "plugins": [plugin.to_json() for plugin in wanted.plugins],
        "interpreter": wanted.interpreter.to_json(),
        "steps": [] if unchanged else ["build", "verify", "start the host", "seal", "select"],
    }


def is_sound(generation: Generation) -> bool:
    """Return whether a generation's files have the sizes they were sealed with and its interpreter still runs them."""
    try:
        findings = find_size_changes(generation.path, load_inventory(generation.path / FILE_NAME))
    except PerdureError:
        return False
    return not findings and generation.python.exists()


def publish(
    context: Context, uv: Uv | None, wanted: Wanted, *, before_commit: Callable[[], None] = lambda: None
) -> Outcome:
    """Have `wanted` selected for the context's profile. The caller holds the mutex.

    Args:
        context: the world.
        uv: what builds; None only where the plan says that nothing changes.
        wanted: what is to run.
        before_commit: raises where what `wanted` was made from is no longer what it was.

    Raises:
        NoSpace: too little space; nothing was written.
        HealthCheckFailed: the candidate does not start; it was removed.
        OperationVetoed: the caller's before_publish refused; the candidate was removed.
    """
    layout, filesystem, reporter = context.layout, context.filesystem, context.reporter

    # What is there already? Equal inputs and sound files: nothing to do.
    plan = plan_publication(context, wanted)
    if not plan["changes"]:
        write_host_launchers(filesystem, layout, list(wanted.release.commands))
        return Outcome(status="noop", data={"generation": plan["from"], "plan": plan})
    if context.dry_run or uv is None:
        return Outcome(status="ok", data={"plan": plan, "dry_run": True})
    _require_space(context)

    # Build at the final path. A crash from here to the commit leaves a generation that nothing names.
    identity = f"{next_number(layout)}-{wanted.digest()[:12]}"
    path = layout.generation(identity)
    filesystem.make_directories(path)
    try:
        record = _build(context, uv, wanted, identity, path)
        reporter.progress("health", f"starting {wanted.release.name}")
        _check_health(wanted, path)
        # Sealed: everything is on the disk before the record says so.
        reporter.progress("seal", "flushing to the disk")
        filesystem.write_durable(path / FILE_NAME, take_inventory(path).to_bytes())
        filesystem.make_read_only(path)
        path.chmod(stat.S_IMODE(path.stat().st_mode) | stat.S_IWUSR)  # the record is still to come
        filesystem.flush(path)
        filesystem.write_durable(path / "record.json", json.dumps(record, indent=1).encode(), mode=0o444)
        filesystem.make_read_only(path)
        before_commit()
        reporter.callback("before_publish", {**plan, "generation": identity})
        filesystem.make_directories(layout.profile(context.profile))
        reporter.committed()  # from here on no cancellation ends this
    except BaseException:
        filesystem.remove_tree(path)
        raise

    # The commit. A crash before this line changes nothing; after it, only tidying is left.
    save_pointer(filesystem, layout, context.profile, identity)

    entry = {"at": context.clock().strftime("%Y-%m-%dT%H:%M:%SZ"), "generation": identity, "from": plan["from"]}
    filesystem.append_durable(layout.history(context.profile), (json.dumps(entry) + "\n").encode())
    write_host_launchers(filesystem, layout, list(wanted.release.commands))
    reporter.callback("published", {"profile": context.profile, "generation": identity, "from": plan["from"]})
    return Outcome(status="ok", data={"generation": identity, "plan": plan})


def _require_space(context: Context) -> None:
    free = context.filesystem.free_bytes(context.layout.home)
    if free < NEEDED_BYTES:
        raise NoSpace(
            f"{context.layout.home} has {free} bytes free; a new generation may need {NEEDED_BYTES}",
            hint="free some space on that filesystem, then run the same command again",
            context={"path": str(context.layout.home), "free": free, "needed": NEEDED_BYTES},
        )


def _build(context: Context, uv: Uv, wanted: Wanted, identity: str, path: Path) -> dict[str, Any]:
    """Have the generation's environment and its boot file at `path`, and return the record that will seal it."""
    release, filesystem = wanted.release, context.filesystem
    selected = {plugin.distribution for plugin in wanted.plugins}
    bundle = {plugin.distribution for plugin in release.plugins}
    wheels = [wheel for wheel in release.wheels if wheel.distribution not in bundle - selected]
    context.reporter.progress("build", f"building generation {identity}")
    build_environment(
        uv,
        filesystem,
        environment=path / "venv",
        python=wanted.interpreter.path,
        requirements=release.requirements,
        wheels=wheels,
    )
    filesystem.copy_file(context.layout.release(release.digest) / "uv.lock", path / "uv.lock")
    host = {"name": release.name, "version": release.version}
    plugins = [plugin.to_json() for plugin in wanted.plugins]
    boot = {"schema": BOOT_SCHEMA, "generation": identity, "host": host, "plugins": plugins}
    filesystem.write_durable(path / "boot.json", json.dumps(boot, indent=1).encode())
    filesystem.write_durable(path / "lease", b"")
    return {
        "schema": RECORD_SCHEMA,
        "id": identity,
        "number": int(identity.partition("-")[0]),
        "inputs": wanted.inputs(),
        "inputs_digest": wanted.digest(),
        "created": context.clock().strftime("%Y-%m-%dT%H:%M:%SZ"),
        "profile": context.profile,
        "host": {**host, "source": release.source, "release": release.digest, "commands": list(release.commands)},
        "interpreter": wanted.interpreter.to_json(),
        "target": target_name(),
        "uv": uv.binary.parent.name,
        "packages": _packages(path / "venv"),
        "plugins": plugins,
        "requirements": release.requirements,
        "wheels": [
            {
                "file": wheel.path.name,
                "sha256": wheel.sha256,
                "path": wheel.path.relative_to(context.layout.home).as_posix(),
            }
            for wheel in wheels
        ],
    }


def _packages(environment: Path) -> list[dict[str, str]]:
    names = sorted(info.name.removesuffix(".dist-info") for info in find_site_packages(environment).glob("*.dist-info"))
    return [{"name": name.partition("-")[0], "version": name.partition("-")[2]} for name in names]


def _check_health(wanted: Wanted, path: Path) -> None:
    """Start the host in the candidate, with every selected plugin, under its own interpreter."""
    python = environment_python(path / "venv")
    for command in wanted.release.commands:
        script = environment_scripts(path / "venv") / command
        checks: list[list[str | Path]] = [[python, "-I", script, "--version"]]
        if command == "perdure":
            checks = [[python, "-I", script, "plugins", "--check"]]
        for check in checks:
            completed = run(check, environment=bare_environment(), directory=path, timeout=HEALTH_SECONDS)
            if completed.returncode != 0:
                raise HealthCheckFailed(
                    f"{wanted.release.name} {wanted.release.version} does not start in the new environment: "
                    f"{command} ended with {completed.returncode}",
                    hint="see the output in the receipt: perdure-pm receipts",
                    context={"output": (completed.stdout + completed.stderr)[-4000:]},
                )
