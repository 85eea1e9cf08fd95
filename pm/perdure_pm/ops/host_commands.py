"""The host's launchers, in line with what is selected and configured.

Owns: which commands get one, with which variables, and taking away those of a host that no profile runs any more. Does
not own: their text (launchers), nor which commands a candidate must have (candidate).
"""

from __future__ import annotations

import contextlib

from perdure_pm.model.errors import ConfigInvalid, IntegrityFault
from perdure_pm.ops.context import Context
from perdure_pm.ops.declared import read_commands
from perdure_pm.ops.external import read_programs
from perdure_pm.ops.launchers import (
    drop_host_launchers,
    has_launcher,
    write_external_launchers,
    write_host_launchers,
)
from perdure_pm.store.config import load_home_config
from perdure_pm.store.generations import Generation, current_generation
from perdure_pm.store.layout import environment_scripts
from perdure_pm.store.pointer import list_profiles


def follow_commands(context: Context, generation: Generation) -> None:
    """Have a launcher for each command of a generation's host, as config.yaml says now, and none of a host before it.

    Where config.yaml has faults nobody knows what it sets: launchers that are there stay as they are.
    """
    layout, filesystem = context.layout, context.filesystem
    try:
        config = load_home_config(layout)
    except ConfigInvalid:
        missing = [name for name in _commands(generation, ()) if not has_launcher(layout, name)]
        write_host_launchers(filesystem, layout, missing, {})
        return
    commands = _commands(generation, config.host_commands)
    write_host_launchers(filesystem, layout, commands, config.host_environment, config.host_protect)
    write_external_launchers(filesystem, layout, _programs(context, generation))
    kept = set(_programs(context, generation))
    for profile in list_profiles(layout):
        selected = current_generation(layout, profile)
        if selected is not None:
            kept.update(_commands(selected, config.host_commands))
            kept.update(_programs(context, selected))
        elif layout.pointer(profile).exists():
            return  # what it runs cannot be read now, so nobody knows what it needs
    drop_host_launchers(filesystem, layout, kept | set(_commands(generation, config.host_commands)))


def _programs(context: Context, generation: Generation) -> list[str]:
    """Return the names of a generation's external plugins; none where its list cannot be read, which doctor tells."""
    with contextlib.suppress(IntegrityFault):
        return list(read_programs(context.layout, generation.identity))
    return []


def _commands(generation: Generation, configured: tuple[str, ...]) -> list[str]:
    """Return the commands of the host that are there: those that a person named, else all that it declares."""
    host = generation.record["host"]
    try:
        declared = configured or sorted(read_commands(generation.environment, str(host["name"]))) or host["commands"]
    except IntegrityFault:  # its packages are gone: whatever builds it again needs the launchers that it had
        return [str(name) for name in host["commands"]]
    scripts = environment_scripts(generation.environment)
    return [str(name) for name in declared if (scripts / str(name)).exists()]
