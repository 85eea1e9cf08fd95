"""Verification of a candidate: its plugins are imported and the host is started, before anything points there.

Owns: one process of the generation's own interpreter that does both, and the verdict. Does not own: the contents, which
are checked while it is built (build), nor which check a host gets (health). Keeps: pm-health-before-commit.
"""

from __future__ import annotations

import json
from pathlib import Path

from perdure_pm.adapters.processes import run
from perdure_pm.model.config import HomeConfig
from perdure_pm.model.errors import HealthCheckFailed
from perdure_pm.ops.build import bare_environment
from perdure_pm.ops.context import Context
from perdure_pm.ops.health import choose_checks, choose_main
from perdure_pm.ops.release import read_commands
from perdure_pm.ops.wanted import Wanted
from perdure_pm.store.layout import environment_python, environment_scripts

HEALTH_SECONDS = 120.0
IMPORT_FAILED = 97
"""The probe's exit code when an import failed."""


def verify(context: Context, config: HomeConfig, wanted: Wanted, identity: str, commands: list[str]) -> None:
    """Import every declared plugin and start the host, in one process of the generation's own interpreter.

    The contents were checked while it was built. A version call is no health check: the host loads its plugins here.
    """
    path = context.layout.generation(identity)
    context.reporter.progress("health", f"starting {wanted.release.name}")
    main = choose_main(commands, wanted.release.name, config.host_commands)
    entries = json.loads((path / "boot.json").read_bytes())["plugins"]
    declared = read_commands(path / "venv", wanted.release.name)
    entries += [
        {"name": command, "entry": declared[command]} for command in commands if command != main and command in declared
    ]
    code, output = IMPORT_FAILED, ""
    for check in choose_checks(main, config.host_health):
        code, output = _probe(context, identity, entries, [environment_scripts(path / "venv") / main, *check.arguments])
        if code in check.accepted:
            return
        if "Traceback (most recent call last)" in output or code == IMPORT_FAILED:
            break  # no usage error: another question would hide it
    raise HealthCheckFailed(
        f"{wanted.release.name} {wanted.release.version} does not start in the new environment: "
        + (f"{main} ended with {code}" if code != IMPORT_FAILED else "an import failed"),
        hint="where the command is asked wrongly: perdure-pm config set host.health ARGUMENTS",
        context={"output": output[-4000:]},
    )


def _probe(
    context: Context, identity: str, entries: list[dict[str, str]], command: list[Path | str]
) -> tuple[int, str]:
    """Return how the host's command ended in a process that had imported every entry first, and what it said."""
    path = context.layout.generation(identity)
    probe = Path(__file__).resolve().parent.parent / "launcher" / "probe.py"
    imported = context.layout.scratch / f"imported-{identity}"
    context.filesystem.remove_tree(imported)
    request = {"entries": entries, "command": [str(word) for word in command], "imported": str(imported)}
    completed = run(
        [environment_python(path / "venv"), "-I", probe, json.dumps(request)],
        environment=bare_environment(),
        directory=path,
        timeout=HEALTH_SECONDS,
        on_tick=context.reporter.heartbeat,
    )
    code = completed.returncode if imported.is_file() else IMPORT_FAILED
    return code, completed.stdout + completed.stderr
