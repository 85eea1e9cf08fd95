"""Publication: the only way what a profile runs changes.

It reads top to bottom as the protocol (docs/explanation/crash-safety.md names the crash window of each step):

    1  a started receipt                    (the worker wrote it before this is called)
    2  the mutex
    3  intent, pointer, inputs              equal inputs of a sound generation: nothing to do
    4  preflight                            space; consent for installs that nobody asked for
    5  resolve                              the host's lock binds
    6  build                                at the final path, where nothing points
    7  verify                               contents, then imports and a start of the host
    8  seal                                 flush, then the record
    9  is the intent still what step 3 read?   once more from 3, then the caller is asked to
    10 commit                               one durable write of the pointer
    11 configuration follows                written down before the commit, finished by whatever runs next
    12 obligations                          what a person has to do

Owns: that order. Does not own: what is wanted (a `Change`, from the verbs), resolving (resolve), environments (build).

The module is above 500 lines because the protocol is one thing to read; what is not the protocol lies elsewhere.

Keeps: pm-pointer-last, pm-sealed-before-selected, pm-health-before-commit, pm-same-inputs-noop.
"""

from __future__ import annotations

import configparser
import contextlib
import hashlib
import json
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from perdure_pm.adapters.interpreter import Interpreter, interpreter_from_json, target_name
from perdure_pm.adapters.processes import run
from perdure_pm.adapters.uv import Uv
from perdure_pm.model.config import HomeConfig
from perdure_pm.model.errors import (
    BuildFailed,
    ConfigChanged,
    HealthCheckFailed,
    LazyInstallRefused,
    NoSpace,
    PerdureError,
)
from perdure_pm.model.identity import normalise_distribution
from perdure_pm.ops.build import Wheel, bare_environment, build_environment
from perdure_pm.ops.context import Context, Outcome
from perdure_pm.ops.exclusive import exclusive
from perdure_pm.ops.health import choose_checks, choose_main
from perdure_pm.ops.host import build_release, find_release, find_source, make_uv, require_python
from perdure_pm.ops.host_lock import HostSpec
from perdure_pm.ops.intent import (
    Intent,
    finish_pending,
    is_unchanged,
    load_intent,
    plan_plugins,
    write_host,
    write_pending,
)
from perdure_pm.ops.launchers import write_host_launchers
from perdure_pm.ops.obligations import find_obligations
from perdure_pm.ops.packages_of import compare_packages, recorded_versions, resolved_versions
from perdure_pm.ops.recovery import commit, is_selected, recover, start_trial, tidy
from perdure_pm.ops.release import (
    COMMAND_GROUPS,
    PLUGIN_GROUP,
    Plugin,
    Release,
    read_commands,
    require_extras,
    with_extras,
)
from perdure_pm.ops.resolve import Resolution, resolve
from perdure_pm.ops.runtime import choose_interpreter, find_interpreter, is_still
from perdure_pm.ops.selection import Selection, parse_selection
from perdure_pm.ops.soundness import ensure_read_only, find_damage
from perdure_pm.store import history
from perdure_pm.store.generations import (
    Generation,
    current_generation,
    list_generations,
    load_files,
    next_number,
)
from perdure_pm.store.inventory import FILE_NAME, Inventory, find_known_files, find_site_packages, take_inventory
from perdure_pm.store.layout import environment_python, environment_scripts
from perdure_pm.store.trial import Trial, clear_trial

RECORD_SCHEMA = 1
BOOT_SCHEMA = 1
LEAST_BYTES = 200 * 1024 * 1024
"""What a generation of our app may take at worst, where none tells better."""
HEALTH_SECONDS = 120.0
IMPORT_FAILED = 97
"""The probe's exit code when an import failed."""
BUILDS = 2
"""How often a publication starts over when the intent changed under it, the first time included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What a verb asks of a publication."""

    operation: str
    checkout: str | None = None
    """The host's source tree, where it is to change."""
    plugins: Callable[[tuple[str, ...]], tuple[str, ...]] | None = None
    """What becomes of the profile's plugins; None leaves them."""
    extras: tuple[str, ...] = ()
    """Extras of the host that join those which are wanted already."""
    upgrade: bool = False
    """Whether versions that still fit are looked up anew."""
    confirm_within: timedelta | None = None
    """How long the new generation is on trial."""
    expected: str | None = None
    """The digest of the profile's config.yaml that the caller saw, if that matters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Everything that determines what a generation holds."""

    release: Release
    extras: tuple[str, ...]
    """The host's extras, sorted."""
    selection: Selection
    interpreter: Interpreter

    def inputs(self) -> dict[str, Any]:
        """Return the inputs as JSON; equal inputs mean an equal generation."""
        return {
            "release": self.release.digest,
            "extras": list(self.extras),
            "plugins": list(self.selection.entries),
            "interpreter": self.interpreter.to_json(),
            "target": target_name(),
        }

    def digest(self) -> str:
        """Return the inputs' sha256 in hex."""
        return hashlib.sha256(json.dumps(self.inputs(), sort_keys=True).encode()).hexdigest()


def publish(context: Context, change: Change) -> Outcome:
    """Have what the intent says, with `change` made to it, selected for the profile.

    Raises:
        ConfigInvalid, ConfigChanged: the configuration has faults, or is not what the caller saw, or kept changing.
        NothingInstalled: nobody said what to install.
        LazyInstallRefused: something would have to be built that nobody asked for; nothing was fetched.
        NoSpace, ConflictRefused, NetworkUnreachable, ArtefactMissing, BuildFailed: nothing was published.
        IntegrityFault: what was fetched is not what it should be, also the second time.
        HealthCheckFailed: the candidate does not start.
        OperationVetoed: the caller's before_publish refused.
    """
    with exclusive(context, change.operation):
        notices = recover(context)
        for _attempt in range(BUILDS):
            try:
                return _publish_once(context, change, notices)
            except _Overtaken:
                continue
            except NoSpace as fault:
                raise _explain_space(context, fault) from fault
        raise ConfigChanged(
            "the configuration kept changing during the operation; nothing was published",
            hint="run the same command again",
        )


class _Overtaken(Exception):
    """The intent changed between step 3 and the commit."""


def _publish_once(  # noqa: C901 - the protocol in one piece, as its specification
    context: Context, change: Change, notices: tuple[str, ...]
) -> Outcome:
    """Return the outcome of the protocol, gone through once."""
    layout, filesystem, reporter = context.layout, context.filesystem, context.reporter

    # 3. What is wanted, and what is there?
    intent = load_intent(context)
    if change.expected not in {None, intent.profile_file.digest}:
        raise ConfigChanged(
            f"{intent.profile_file.document.file} is not the file that was seen", hint="look at it again"
        )
    current = current_generation(layout, context.profile)
    source, said = find_source(context, change.checkout, intent.home, current)
    notices = (*notices, *said)
    release = None if change.upgrade and isinstance(source, HostSpec) else find_release(layout, source, current)
    interpreter = _find_interpreter(context, current)
    if release is not None and interpreter is not None and not change.upgrade:
        wanted = _want(release, intent, change, interpreter)
        if current is not None and _answers(context, current, wanted):
            return _answer_noop(context, intent, change, wanted, current, notices)

    # 4. Preflight: nothing was fetched so far, and nothing is where it may not be.
    if context.lazy and not context.lazy_allowed:
        raise LazyInstallRefused(
            "an install is needed that nobody asked for, and lazy installs are off",
            hint=f'"{layout.bin / "perdure-pm"}" install',
        )
    _require_space(context, current)
    uv = make_uv(context)
    interpreter = interpreter or choose_interpreter(layout, uv, reporter, context.environ, context.python)
    release = release or build_release(context, uv, source, interpreter)
    wanted = _want(release, intent, change, interpreter)
    release = with_extras(uv, layout, release, wanted.extras, interpreter.path)
    wanted = replace(wanted, release=release)

    # 5. Resolve: a conflict is known before anything is built. A generation with these inputs may be sealed already,
    # another profile's or an earlier one: then it answers, and nothing is resolved or built.
    sealed = None if change.upgrade else _find_sealed(context, wanted)
    resolution = None if sealed is not None else _resolve(context, uv, wanted, None if change.upgrade else current)
    versions = (
        recorded_versions(sealed)
        if resolution is None
        else resolved_versions(_wheels(wanted), resolution, wanted.interpreter)
    )
    plan = _plan(context, change, wanted, compare_packages(recorded_versions(current), versions), current)
    if current is not None and change.upgrade and not plan["packages"] and _answers(context, current, wanted):
        return _answer_noop(context, intent, change, wanted, current, notices)
    if context.dry_run:
        return Outcome(status="ok", data={"plan": plan, "dry_run": True}, obligations=notices)

    text = _intent_text(intent, change, wanted)  # a configuration that cannot take the change is known before a build

    # A crash from here to the commit leaves a generation that nothing names, and a note that nothing follows.
    identity = sealed.identity if sealed is not None else f"{next_number(layout)}-{wanted.digest()[:12]}"
    inventory = None
    try:
        if resolution is not None:
            # 6. Build.
            inventory = _build(context, uv, wanted, resolution, identity, current, intent.home.build)
        # 7. Verify, also what was sealed before: it may be what a trial ended.
        commands = _find_commands(context, intent.home, wanted, identity)
        _verify(context, intent.home, wanted, identity, commands)
        if resolution is not None and inventory is not None:
            # 8. Seal.
            _seal(context, uv, wanted, resolution, identity, inventory, commands)
        if sealed is not None:
            ensure_read_only(filesystem, sealed)
        # 9. Was anything edited meanwhile?
        if not is_unchanged(layout, intent):
            raise _Overtaken
        reporter.callback("before_publish", {**plan, "generation": identity})
        write_pending(context, intent.profile_file, text, identity)
        if change.confirm_within is not None and current is not None:
            deadline = context.clock() + change.confirm_within
            start_trial(context, Trial(generation=identity, previous=current.identity, deadline=deadline))
        reporter.committed()  # from here on no cancellation ends this

        # 10. The commit. A crash before this line changes nothing; after it, only tidying is left.
        notices = (*notices, *commit(context, identity))
    except BaseException:
        _drop_candidate(context, identity, sealed)
        raise

    # 11 and 12. Tidying, each step of which is finished by the next operation where a crash or a failure cuts it off.
    before = None if current is None else current.identity
    selection = history.Selection(at=context.clock(), generation=identity, before=before, operation=change.operation)
    checkout = source if isinstance(source, Path) else None
    said = tidy(
        lambda: None if change.confirm_within is not None else clear_trial(filesystem, layout, context.profile),
        lambda: history.append_selection(filesystem, layout, context.profile, selection),
        lambda: write_host_launchers(filesystem, layout, commands, intent.home.host_environment),
        lambda: finish_pending(context),
        lambda: write_host(context, intent, wanted.release.name, checkout, wanted.extras),
        lambda: find_obligations(context),
    )
    reporter.callback("published", {"profile": context.profile, "generation": identity, "from": before})
    return Outcome(
        status="ok",
        data={"generation": identity, "plan": plan, "reused": sealed is not None},
        obligations=(*notices, *said),
    )


# The steps


def _want(release: Release, intent: Intent, change: Change, interpreter: Interpreter) -> Wanted:
    """Return what is wanted: the intent's plugins (the whole bundle where it names none), as `change` leaves them."""
    require_python(release, interpreter)
    entries = intent.plugins
    if change.plugins is not None:
        entries = change.plugins(parse_selection(release, entries).entries)
    extras = tuple(sorted({*intent.home.host_extras, *change.extras}))
    require_extras(release, extras)
    selection = parse_selection(release, entries)
    return Wanted(release=release, extras=extras, selection=selection, interpreter=interpreter)


def _find_interpreter(context: Context, current: Generation | None) -> Interpreter | None:
    """Return the interpreter to build on: the one that was asked for, else the one that runs now, else PM's own.

    The one that runs now stays, so that a change of plugins is not a change of interpreter too.
    """
    if context.python is None and current is not None and is_still(current.record["interpreter"]):
        return interpreter_from_json(current.record["interpreter"])
    return find_interpreter(context.layout, context.environ, context.python)


def _answers(context: Context, generation: Generation, wanted: Wanted) -> bool:
    """Return whether a generation is what is wanted, and undamaged."""
    return generation.record["inputs_digest"] == wanted.digest() and not find_damage(context.layout, generation)


def _answer_noop(
    context: Context, intent: Intent, change: Change, wanted: Wanted, current: Generation, notices: tuple[str, ...]
) -> Outcome:
    """Return the outcome when nothing is to be published; what a crash may have left undone is done all the same."""
    if not context.dry_run:
        commands = list(current.record["host"]["commands"])
        write_host_launchers(context.filesystem, context.layout, commands, intent.home.host_environment)
        write_pending(context, intent.profile_file, _intent_text(intent, change, wanted), current.identity)
        notices = (*notices, *finish_pending(context))
        # Where config.yaml names no checkout, a crash kept it from being written; else it says what a person wrote.
        named = change.checkout or (None if intent.home.names_host else wanted.release.source)
        source = None if named is None or not os.path.isdir(named) else Path(named).resolve()
        write_host(context, intent, wanted.release.name, source, wanted.extras)
    plan = {"changes": False, "from": current.identity, "packages": [], "profile": context.profile}
    return Outcome(
        status="noop",
        data={"generation": current.identity, "plan": plan},
        obligations=(*notices, *find_obligations(context)),
    )


def _intent_text(intent: Intent, change: Change, wanted: Wanted) -> str:
    """Return the profile's configuration as it should be after the commit."""
    if change.plugins is None and intent.plugins is not None:
        return intent.profile_file.text
    return plan_plugins(intent, wanted.selection.entries)


def _require_space(context: Context, current: Generation | None) -> None:
    """Refuse when a generation like the current one would not fit, were every file a copy."""
    needed = _needed_bytes(context, current)
    free = context.filesystem.free_bytes(context.layout.home)
    if free < needed:
        raise NoSpace(
            f"{context.layout.home} has {free} bytes free; a new generation may need {needed}",
            hint="free some space on that filesystem, then run the same command again",
            context={"path": str(context.layout.home), "free": free, "needed": needed},
        )


def _needed_bytes(context: Context, current: Generation | None) -> int:
    """Return what a new generation may take at worst."""
    if current is None:
        return LEAST_BYTES
    with_files = sum(entry.size for entry in _inventory_of(context, current).files.values())
    return max(LEAST_BYTES, int(with_files * 1.2))


def _explain_space(context: Context, fault: NoSpace) -> NoSpace:
    """Return the error for space that ran out on the way, with the path and the bytes that are needed."""
    if "needed" in fault.context:
        return fault
    home = context.layout.home
    free = context.filesystem.free_bytes(home)
    needed = _needed_bytes(context, current_generation(context.layout, context.profile))
    return NoSpace(
        f"{fault.summary}; {home} has {free} bytes free now, and a new generation may need {needed}",
        hint=fault.hint,
        context={"path": str(home), **fault.context, "free": free, "needed": needed},
    )


def _drop_candidate(context: Context, identity: str, sealed: Generation | None) -> None:
    """Have nothing left of what was built for nothing; what answers already, or is selected, stays."""
    if sealed is None and not is_selected(context, identity):
        with contextlib.suppress(PerdureError):  # then `collect` removes it; the error on its way says more
            context.filesystem.remove_tree(context.layout.generation(identity))


def _resolve(context: Context, uv: Uv, wanted: Wanted, current: Generation | None) -> Resolution:
    """Return what is to be installed. Without plugins from an index, the host's own lock is the answer."""
    release = wanted.release
    if not wanted.selection.requirements:
        lock = (context.layout.release(release.digest) / "uv.lock").read_text(encoding="utf-8")
        return Resolution(requirements=release.requirements, lock=lock)
    context.reporter.progress("resolve", f"resolving {', '.join(wanted.selection.requirements)}")
    scratch = context.layout.scratch / f"resolve-{wanted.digest()[:12]}"
    context.filesystem.remove_tree(scratch)
    context.filesystem.make_directories(scratch)
    try:
        return resolve(
            uv,
            context.filesystem,
            release=release,
            requirements=wanted.selection.requirements,
            interpreter=wanted.interpreter,
            folder=scratch,
            # The versions that the plugins have stay where they still fit; the host's own lock binds in any case.
            seed=None if current is None else current.path / "uv.lock",
            seeded=() if current is None else current.record.get("selection", ()),
        )
    finally:
        context.filesystem.remove_tree(scratch)


def _plan(
    context: Context,
    change: Change,
    wanted: Wanted,
    packages: list[dict[str, str | None]],
    current: Generation | None,
) -> dict[str, Any]:
    """Return what publishing would do, as printable data."""
    return {
        "profile": context.profile,
        "operation": change.operation,
        "from": None if current is None else current.identity,
        "changes": True,
        "host": {"name": wanted.release.name, "version": wanted.release.version},
        "plugins": list(wanted.selection.entries),
        "interpreter": wanted.interpreter.to_json(),
        "packages": packages,
        "steps": ["build", "verify", "start the host", "seal", "select"],
    }


def _wheels(wanted: Wanted) -> list[Wheel]:
    """Return the release's wheels without the bundled plugins that are not selected."""
    selected = {plugin.distribution for plugin in wanted.selection.bundled}
    bundle = {plugin.distribution for plugin in wanted.release.plugins}
    return [wheel for wheel in wanted.release.wheels if wheel.distribution not in bundle - selected]


def _find_sealed(context: Context, wanted: Wanted) -> Generation | None:
    """Return the newest sealed, sound generation with the wanted inputs: another profile's, or an earlier one's."""
    generations, _ = list_generations(context.layout)
    return next((found for found in generations if _answers(context, found, wanted)), None)


def _build(
    context: Context,
    uv: Uv,
    wanted: Wanted,
    resolution: Resolution,
    identity: str,
    current: Generation | None,
    build: tuple[str, ...],
) -> Inventory:
    """Have the generation's environment, boot file and lease at its path; return the environment's inventory."""
    filesystem, path = context.filesystem, context.layout.generation(identity)
    filesystem.make_directories(path)
    context.reporter.progress("build", f"building generation {identity}")
    known = None if current is None else find_known_files(current.path, _inventory_of(context, current))
    inventory = build_environment(
        uv,
        filesystem,
        environment=path / "venv",
        python=wanted.interpreter.path,
        requirements=resolution.requirements,
        wheels=_wheels(wanted),
        base=None if current is None else current.environment,
        known=known,
        lease=True,
        build=build,
    )
    _require_packages(wanted, resolution, path / "venv")
    filesystem.write_durable(path / "uv.lock", resolution.lock.encode())
    host = {"name": wanted.release.name, "version": wanted.release.version}
    plugins = [plugin.to_json() for plugin in _find_plugins(wanted, path / "venv")]
    boot = {"schema": BOOT_SCHEMA, "generation": identity, "host": host, "plugins": plugins}
    filesystem.write_durable(path / "boot.json", json.dumps(boot, indent=1).encode())
    filesystem.write_durable(path / "lease", b"")
    return inventory


def _require_packages(wanted: Wanted, resolution: Resolution, environment: Path) -> None:
    """Fail where a package that was resolved, or a plugin that is wanted, is not there: uv's exit code is no proof."""
    there = {package["name"] for package in _packages(environment)}
    expected = {*resolved_versions(_wheels(wanted), resolution, wanted.interpreter), *wanted.selection.names()}
    missing = sorted({normalise_distribution(name) for name in expected} - there)
    if missing:
        raise BuildFailed(
            f"uv said that everything is installed, and {', '.join(missing)} is not there",
            context={"missing": missing},
        )


def _find_plugins(wanted: Wanted, environment: Path) -> list[Plugin]:
    """Return the entries that the selected distributions declare for the host, in the selection's order."""
    bundled = {plugin.distribution: plugin for plugin in wanted.selection.bundled}
    installed = {
        normalise_distribution(info.name.partition("-")[0]): info
        for info in find_site_packages(environment).glob("*.dist-info")
    }
    found: list[Plugin] = []
    for name in wanted.selection.names():
        if name in bundled:
            found.append(bundled[name])
            continue
        info = installed.get(name)
        entries = configparser.ConfigParser(delimiters=("=",), interpolation=None)
        entries.optionxform = str  # type: ignore[assignment,method-assign]  # names of plugins keep their case
        if info is not None and (info / "entry_points.txt").is_file():
            entries.read_string((info / "entry_points.txt").read_text(encoding="utf-8"))
        version = info.name.removesuffix(".dist-info").partition("-")[2] if info is not None else ""
        found += [
            # What stands in brackets are extras, which older wheels named there.
            Plugin(name=key, distribution=name, version=version, entry=value.partition("[")[0].strip())
            for group in entries.sections()
            if (group == PLUGIN_GROUP if wanted.release.plugins else group not in COMMAND_GROUPS)
            for key, value in entries.items(group)
        ]
    return found


def _find_commands(context: Context, config: HomeConfig, wanted: Wanted, identity: str) -> list[str]:
    """Return the host's commands: those that the configuration names, else all that its distribution declares.

    Raises:
        HealthCheckFailed: the host has no command, or none of a configured name.
    """
    environment = context.layout.generation(identity) / "venv"
    commands = list(config.host_commands or wanted.release.commands) or sorted(
        read_commands(environment, wanted.release.name)
    )
    missing = [name for name in commands if not (environment_scripts(environment) / name).is_file()]
    if missing or not commands:
        raise HealthCheckFailed(
            f"{wanted.release.name} {wanted.release.version} has no command {missing[0] if missing else 'at all'}",
            hint="perdure-pm config set host.commands NAME",
            context={"missing": missing},
        )
    return commands


def _verify(context: Context, config: HomeConfig, wanted: Wanted, identity: str, commands: list[str]) -> None:
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


def _seal(
    context: Context,
    uv: Uv,
    wanted: Wanted,
    resolution: Resolution,
    identity: str,
    inventory: Inventory,
    commands: list[str],
) -> None:
    """Have everything on the disk, then the record that says so."""
    filesystem, path = context.filesystem, context.layout.generation(identity)
    context.reporter.progress("seal", "flushing to the disk")
    inside = {f"venv/{name}": entry for name, entry in inventory.files.items()}
    links = {f"venv/{name}": target for name, target in inventory.links.items()}
    beside = take_inventory(path, skip="venv")
    whole = Inventory({**inside, **beside.files}, {**links, **beside.links})
    filesystem.write_durable(path / FILE_NAME, whole.to_bytes())
    filesystem.make_read_only(path)
    path.chmod(stat.S_IMODE(path.stat().st_mode) | stat.S_IWUSR)  # the record is still to come
    filesystem.flush(path)
    boot = json.loads((path / "boot.json").read_bytes())
    record = {
        "schema": RECORD_SCHEMA,
        "id": identity,
        "number": int(identity.partition("-")[0]),
        "inputs": wanted.inputs(),
        "inputs_digest": wanted.digest(),
        "created": context.clock().strftime("%Y-%m-%dT%H:%M:%SZ"),
        "profile": context.profile,
        "host": {
            **boot["host"],
            "source": wanted.release.source,
            "release": wanted.release.digest,
            "commands": commands,
        },
        "interpreter": wanted.interpreter.to_json(),
        "target": target_name(),
        "uv": uv.binary.parent.name,
        "packages": _packages(path / "venv"),
        "plugins": boot["plugins"],
        "selection": list(wanted.selection.entries),
        "requirements": resolution.requirements,
        "lock": resolution.lock,
        "wheels": [
            {
                "file": wheel.path.name,
                "sha256": wheel.sha256,
                "path": wheel.path.relative_to(context.layout.home).as_posix(),
            }
            for wheel in _wheels(wanted)
        ],
    }
    filesystem.write_durable(path / "record.json", json.dumps(record, indent=1).encode(), mode=0o444)
    filesystem.make_read_only(path)


def _packages(environment: Path) -> list[dict[str, str]]:
    names = sorted(info.name.removesuffix(".dist-info") for info in find_site_packages(environment).glob("*.dist-info"))
    return [
        {"name": normalise_distribution(name.partition("-")[0]), "version": name.partition("-")[2]} for name in names
    ]


def _inventory_of(context: Context, generation: Generation) -> Inventory:
    """Return a sealed generation's inventory; an empty one where it cannot be read, which only costs time."""
    try:
        return load_files(context.layout, generation.identity)
    except PerdureError:
        return Inventory({}, {})
