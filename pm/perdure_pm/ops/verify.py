"""Verification of a candidate: its plugins are imported and the host is started, before anything points there.

Owns: one process of the generation's own interpreter that does both, a second one that must keep running where the host
is a server, and the verdict. Does not own: the contents, which are checked while it is built (build), what is a
plugin's (declared), nor which check a host gets (health). Keeps: pm-health-before-commit, pm-server-stays-up.
"""

from __future__ import annotations

import contextlib
import json
import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from perdure_pm.adapters.interpreter import bare_environment
from perdure_pm.adapters.processes import run
from perdure_pm.adapters.staying import watch
from perdure_pm.model.config import HomeConfig
from perdure_pm.model.errors import HealthCheckFailed, NoSpace, PerdureError
from perdure_pm.model.identity import normalise_distribution
from perdure_pm.ops.build import LEFT_BYTES
from perdure_pm.ops.context import Context
from perdure_pm.ops.declared import find_modules, read_commands, read_entries
from perdure_pm.ops.health import choose_checks, choose_main
from perdure_pm.ops.wanted import Wanted
from perdure_pm.store.inventory import Inventory, find_added, find_owners, find_site_packages, find_time_changes
from perdure_pm.store.layout import environment_python, environment_scripts

HEALTH_SECONDS = 120.0
IMPORT_FAILED = 97
_TIMED_OUT = "Timeout ("
"""How the probe's time limit begins what it shows."""
_FRAME = re.compile(r'File "(?P<file>[^"\n]+)", line (?P<line>\d+)|\((?P<said>/[^():\n]+):(?P<at>\d+)\)')
"""A line of code in what a process says: of a traceback, or as our own app names it."""
"""The probe's exit code when an import failed."""


def verify(
    context: Context,
    config: HomeConfig,
    wanted: Wanted,
    identity: str,
    commands: list[str],
    inventory: Inventory | None,
) -> tuple[str, ...]:
    """Import every declared plugin and start the host, in one process of the generation's own interpreter.

    The contents were checked while it was built. A version call is no health check: the host loads its plugins here.
    Where config.yaml says how it keeps running, it is started so once more, and must not end by itself.
    What a plugin without entry points holds is imported when the host has ended, where it cannot change the start.

    Args:
        context: the world.
        config: what is configured of the host.
        wanted: what the generation is for.
        identity: the generation.
        commands: the host's commands.
        inventory: what was built; None where the generation was sealed before.

    Returns:
        What a person should know: that the host writes beside its own code, which it cannot in a generation.

    Raises:
        HealthCheckFailed: it does not start, or changed what was installed.
    """
    environment = context.layout.generation(identity) / "venv"
    release = wanted.release
    context.reporter.progress("health", f"starting {release.name}")
    main = choose_main(commands, release.name, config.host_commands)
    declared = read_commands(environment, release.name)
    # The host comes first: plugins may be written for a process in which it is loaded already.
    others = [command for command in commands if command != main]
    hosts = [{"name": name, "entry": declared[name]} for name in [main, *others] if name in declared]
    entries = _plugin_entries(config, wanted, environment)
    lone = _modules_without_entries(wanted, environment, {entry["distribution"] for entry in entries})
    program = [str(environment_scripts(environment) / main)]
    limit = config.import_seconds
    code, output, failed = IMPORT_FAILED, "", ""
    for check in choose_checks(main, config.host_health):
        command, accepted = [*program, *check.arguments], check.accepted
        code, output, failed, looked = _probe(context, identity, [*hosts, *entries], lone, command, accepted, limit)
        if code in accepted and lone and not looked:  # it ended the process at once, before they could be imported
            code, output, failed, looked = _probe(context, identity, hosts[:1], lone, program, None, limit)
            accepted = (0,)
        if code in accepted:
            _require_staying(context, config, wanted, identity, program)
            return () if inventory is None else _undo_writes(context, release.name, environment, inventory)
        if "(most recent call" in output or code == IMPORT_FAILED:
            break  # no usage error: another question would hide it
    _require_room(context)
    culprit, place = _find_culprit(wanted, environment, output)
    if code != IMPORT_FAILED:
        why = f"{main} ended with {code}" + (f", in the code of {culprit} ({place})" if culprit else "")
    else:
        late = f": it took more than {limit} {'second' if limit == 1 else 'seconds'}" if _TIMED_OUT in output else ""
        why = f"an import failed{failed and f': {failed}'}{late}"
        culprit = failed if failed in {*lone, *(entry["name"] for entry in entries)} else ""
    raise HealthCheckFailed(
        f"{release.name} {release.version} does not start in the new environment: {why}",
        hint=f"leave out {culprit}, or have another version of it"
        if culprit
        else "where the command is asked wrongly: perdure-pm config set host.health ARGUMENTS",
        context={"output": output[-4000:]},
    )


def _find_culprit(wanted: Wanted, environment: Path, output: str) -> tuple[str, str]:
    """Return the plugin whose code ran last by what a process said when it ended, and where; empty where none did."""
    own = set(wanted.installed_names())
    in_place = {source.path: source.name for source in wanted.selection.sources if source.editable and source.path}
    owners = {path: normalise_distribution(name.partition("-")[0]) for path, name in find_owners(environment).items()}
    site = find_site_packages(environment)
    found = []
    for match in _FRAME.finditer(output):
        path = Path(match["file"] or match["said"])
        name = next((name for place, name in in_place.items() if path.is_relative_to(place)), "")
        if not name and path.is_relative_to(environment):
            name = owners.get(path.relative_to(environment).as_posix(), "")
        if name in own:
            shown = path.relative_to(site) if path.is_relative_to(site) else path
            found.append((name, f"{shown}:{match['line'] or match['at']}"))
    # A crash and a time limit show what ran last first, an exception last.
    return (found[0] if "most recent call first" in output else found[-1]) if found else ("", "")


def _require_staying(
    context: Context, config: HomeConfig, wanted: Wanted, identity: str, program: Sequence[str]
) -> None:
    """Return where the host keeps running, as a server must that started well; by itself nothing is tried.

    Raises:
        HealthCheckFailed: it ended by itself.
    """
    if config.host_serve is None:
        return
    release, seconds = wanted.release, config.host_stays
    context.reporter.progress("health", f"watching {release.name} for {seconds} s: {config.host_serve}")
    with _scratch(context, identity) as (scratch, user):
        ended = watch(
            [*program, *shlex.split(config.host_serve)],
            environment=_plain(context, scratch, user),
            directory=user,
            seconds=seconds,
            on_wait=context.reporter.heartbeat,
        )
    if ended is not None:
        code, after, output = ended
        _require_room(context)
        raise HealthCheckFailed(
            f"{release.name} {release.version} starts and does not keep running: {Path(program[0]).name} "
            f"{config.host_serve} ended with {code} after {after:.1f} of {seconds} s",
            hint="where it is to end by itself: perdure-pm config set host.serve --unset",
            context={"output": output},
        )


@contextlib.contextmanager
def _scratch(context: Context, identity: str) -> Iterator[tuple[Path, Path]]:
    """Give a directory for one start, and one in it that is the home and the working directory of what starts."""
    filesystem = context.filesystem
    scratch = context.layout.scratch / f"health-{identity}"
    user = scratch / "user"
    filesystem.remove_tree(scratch)
    filesystem.make_directories(user)
    try:
        yield scratch, user
    finally:
        with contextlib.suppress(PerdureError):  # a later one removes it; the verdict says more
            filesystem.remove_tree(scratch)


def _plain(context: Context, scratch: Path, user: Path) -> dict[str, str]:
    here = {"HOME": str(user), "USERPROFILE": str(user), "TMPDIR": str(scratch)}
    # Our own app looks into the profile's settings, so that a plugin which needs some can be tried with them.
    return bare_environment({**here, "PERDURE_PROFILE": context.profile})


def _require_room(context: Context) -> None:
    """Refuse to judge where the disk is full: whatever starts there may fail for want of a file it cannot write."""
    home = context.layout.home
    free = context.filesystem.free_bytes(home)
    if free < LEFT_BYTES:
        raise NoSpace(
            f"{home} has {free} bytes free, and {LEFT_BYTES} are needed to tell whether what was built starts",
            hint="free some space on that filesystem, then run the same command again",
            context={"path": str(home), "free": free, "needed": LEFT_BYTES},
        )


def _undo_writes(context: Context, name: str, environment: Path, inventory: Inventory) -> tuple[str, ...]:
    """Have the environment as it was built, and return where the host wrote into it when it was started."""
    changed = find_time_changes(environment, inventory)
    if changed:
        raise HealthCheckFailed(
            f"{name} changes its own files when it starts, so they would not be what was installed: {changed[0]}",
            hint="where another command of it does not: perdure-pm config set host.health ARGUMENTS",
            context={"changed": changed},
        )
    added = find_added(environment, inventory)
    for path in added:
        context.filesystem.remove_tree(environment / path)
    written = [path for path in added if "__pycache__" not in path.split("/")]  # byte code is the interpreter's
    if not written:
        return ()
    said = (
        f"{name} wrote {written[0]} beside its own code when it was tried; it cannot there, a generation is read-only"
    )
    way = "by its own settings or by a variable (perdure-pm host init SOURCE --env NAME=VALUE)"
    return (f"{said}: have it write elsewhere, {way}",)


def _plugin_entries(config: HomeConfig, wanted: Wanted, environment: Path) -> list[dict[str, str | None]]:
    """Return the entries of the selected plugins, each with the other host that it may be for."""
    groups = config.host_plugin_groups
    names = wanted.selection.names()
    # A host with a bundle is one of ours: the one group that is read then is its own, whatever the host's name.
    own = bool(wanted.release.plugins)
    return [
        {
            "name": entry.name,
            "entry": entry.value,
            "distribution": entry.distribution,
            "other_host": None if own else entry.other_host(wanted.release.name, groups),
        }
        for entry in read_entries(environment, names, own=own, groups=groups)
    ]


def _modules_without_entries(wanted: Wanted, environment: Path, declared: Collection[str | None]) -> list[str]:
    """Return the modules of the selected plugins that declare nothing: their host loads what a person names."""
    lone = [name for name in wanted.selection.names() if name not in declared]
    return [module for name in lone for module in find_modules(environment, name)]


def _probe(
    context: Context,
    identity: str,
    entries: Sequence[Mapping[str, str | None]],
    modules: Sequence[str],
    command: Sequence[str],
    accepted: Collection[int] | None,
    import_seconds: float,
) -> tuple[int, str, str, bool]:
    """Return how the host's command ended in a process that had imported every entry first, and what it said.

    The third is what was imported last, where an import failed; the fourth, whether the modules were imported, which
    comes after a start that was `accepted`. With None for that the host is not started.
    It starts in an empty directory that is its home too: what a host writes at a start is not the business of a check,
    and what a person keeps is not opened by one.
    """
    environment = context.layout.generation(identity) / "venv"
    probe = Path(__file__).resolve().parent.parent / "launcher" / "probe.py"
    with _scratch(context, identity) as (scratch, user):
        imported, importing, looked = (scratch / name for name in ("imported", "importing", "looked"))
        request = {
            "entries": entries,
            "modules": modules,
            "command": command,
            "start": accepted is not None,
            "accepted": [0] if accepted is None else list(accepted),
            "imported": str(imported),
            "importing": str(importing),
            "looked": str(looked),
            # Before the one who waits gives up: who hangs is to be seen.
            "seconds": HEALTH_SECONDS * 0.9,
            "import_seconds": import_seconds,
        }
        completed = run(
            [environment_python(environment), "-I", probe, json.dumps(request)],
            environment=_plain(context, scratch, user),
            directory=user,
            # Each of the probe's own limits comes first, and says who it was.
            timeout=2 * HEALTH_SECONDS + import_seconds * (len(entries) + len(modules)),
            on_tick=context.reporter.heartbeat,
        )
        code, last, output = completed.returncode, "", completed.stdout + completed.stderr
        if not imported.is_file():
            if not output.strip():  # it crashed, or left without a word
                output = f"the process ended with {code} while it imported"
            code = IMPORT_FAILED
            last = importing.read_text(encoding="utf-8") if importing.is_file() else ""
        return code, output, last, looked.is_file()
