"""Repair: what is selected runs again, rebuilt from its own record into a new generation with the right bytes.

Owns: which generation a profile should run, rebuilding it without asking anybody's intent, and taking what is damaged
out of the choice for ever after. Does not own: finding damage (soundness), building (candidate, build), nor a home
without any usable record: there the intent is published anew (publish).

Keeps: pm-repair-same-record: the same requirements, wheels and selection; configuration is not touched.
pm-damaged-never-chosen: what was found damaged is unsealed, so that no rollback selects it and a collection removes it.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from perdure_pm.adapters.leases import find_users, is_leased
from perdure_pm.adapters.uv import Uv
from perdure_pm.model.admission import Admission
from perdure_pm.model.config import HomeConfig
from perdure_pm.model.errors import ConfigInvalid, IntegrityFault, NoSpace, PerdureError
from perdure_pm.ops import configured_packages
from perdure_pm.ops.base_interpreter import ensure_recorded
from perdure_pm.ops.candidate import build_candidate, drop_candidate, seal_candidate
from perdure_pm.ops.context import Context, Outcome
from perdure_pm.ops.doctor import REPAIR as DOCTORS_HINT
from perdure_pm.ops.doctor import examine
from perdure_pm.ops.exclusive import exclusive
from perdure_pm.ops.host import build_release, make_uv
from perdure_pm.ops.host_commands import follow_commands
from perdure_pm.ops.intent import load_intent, restore_lost
from perdure_pm.ops.interpreters import bring_in, find_own_damage, version_of
from perdure_pm.ops.launchers import write_pm_launcher
from perdure_pm.ops.lazy import require_asked
from perdure_pm.ops.other_names import separate
from perdure_pm.ops.publish import publish
from perdure_pm.ops.recovery import commit, recover, settle_trial, start_trial, tidy
from perdure_pm.ops.release import Release, digest_checkout, load_release
from perdure_pm.ops.resolve import Resolution
from perdure_pm.ops.runtime import load_runtime, select_runtime
from perdure_pm.ops.seed import find_seed_problem
from perdure_pm.ops.soundness import find_all_damage, find_changed_python
from perdure_pm.ops.sources import want_recorded
from perdure_pm.ops.space import explain_space, require_space
from perdure_pm.ops.tool_uv import find_uv_problem
from perdure_pm.ops.verify import verify
from perdure_pm.ops.wanted import Change
from perdure_pm.store.config import load_home_config
from perdure_pm.store.generations import (
    DAMAGED_RECORD,
    RECORD,
    current_generation,
    is_newer,
    list_generations,
    load_generation,
    next_number,
)
from perdure_pm.store.history import REPAIR, Selection, append_selection, load_history
from perdure_pm.store.inventory import MISSING, Finding
from perdure_pm.store.labels import Labels, load_labels, save_labels
from perdure_pm.store.pointer import list_profiles, load_pointer
from perdure_pm.store.records import find_last_committed, keep_record, load_kept_record
from perdure_pm.store.trial import load_trial

SMALL = frozenset({"configuration-missing", "launcher-damaged", "uv-damaged"})
"""Codes of problems that are mended without building anything."""


@dataclass(slots=True, kw_only=True)
class _Work:
    """What one repair did and could not do."""

    rebuilt: list[dict[str, Any]] = field(default_factory=list)
    selected: list[dict[str, Any]] = field(default_factory=list)
    retired: list[str] = field(default_factory=list)
    restored: list[str] = field(default_factory=list)
    """Generations whose record was written again from its copy."""
    interpreters: list[str] = field(default_factory=list)
    """Versions of Pythons in the home that were brought in again."""
    anew: list[str] = field(default_factory=list)
    """Profiles without a usable record."""
    separated: list[str] = field(default_factory=list)
    """Files that had a name outside of the home."""
    notices: list[str] = field(default_factory=list)
    hashes: dict[tuple[int, int], str] = field(default_factory=dict)


def repair(context: Context, _arguments: Mapping[str, Any]) -> Outcome:
    """Have every profile run a sound generation again, and PM's own launchers and uv as they should be.

    Raises:
        IntegrityFault: something that is needed is gone from the home and from where it came from; it is named.
        LazyInstallRefused: something would have to be fetched or built that nobody asked for.
        NoSpace, NetworkUnreachable, ArtefactMissing, BuildFailed, HealthCheckFailed: nothing was selected.
    """
    layout = context.layout
    profiles = list_profiles(layout) or [context.profile]
    if context.dry_run:
        return _plan(context)
    work = _Work()
    small = _small_problems(context)
    with exclusive(context, REPAIR):
        for name in profiles:
            work.notices += recover(replace(context, profile=name))
        _repair_own(context, work)
        for name in profiles:
            _repair_profile(replace(context, profile=name), work)
        if not work.anew:
            _finish(context, work)
    # Without any record there is only what people want: that is a publication like any other.
    data: dict[str, Any] = {"anew": []}
    for name in work.anew:
        outcome = publish(replace(context, profile=name), Change(operation=REPAIR))
        data["anew"].append({"profile": name, **outcome.data})
        work.notices += outcome.obligations
    if work.anew:
        with exclusive(context, REPAIR):
            _finish(context, work)
    data |= {"rebuilt": work.rebuilt, "selected": work.selected, "retired": work.retired, "restored": work.restored}
    data |= {"interpreters": work.interpreters, "separated": work.separated}
    data["packages"] = _mend_packages(context, work)
    data["mended"] = sorted(small - _small_problems(context)) if small else []
    changed = any(data.values())
    return Outcome(status="ok" if changed else "noop", data=data, obligations=tuple(dict.fromkeys(work.notices)))


def _finish(context: Context, work: _Work) -> None:
    """Take what is damaged out of the choice, and have what is left share no file with anybody outside."""
    _retire_others(context, work)
    # Last of all: what was rebuilt shares its files with the cache, which may have names outside as well.
    work.separated, notices = separate(context)
    work.notices += notices


def _mend_packages(context: Context, work: _Work) -> list[str]:
    """Return the packages that config.yaml registers and that were not as they were installed: they are again."""
    try:
        return configured_packages.mend(context)
    except ConfigInvalid:
        return []  # doctor names its faults
    except PerdureError as fault:
        work.notices.append(f"what config.yaml has under packages is not whole: {fault.summary}")
        return []


def _small_problems(context: Context) -> set[str]:
    """Return what is wrong beside generations, and is mended without building one."""
    problems = examine(context.layout, context.profile, deep=False, environ=context.environ)["problems"]
    return {problem["summary"] for problem in problems if problem["code"] in SMALL}


def _plan(context: Context) -> Outcome:
    """Return what a repair would mend; what only a person or another command can, doctor says."""
    problems = examine(context.layout, context.profile, deep=True, environ=context.environ)["problems"]
    found = [problem for problem in problems if problem["hint"] == DOCTORS_HINT]
    return Outcome(status="ok" if found else "noop", data={"dry_run": True, "problems": found})


def _repair_own(context: Context, work: _Work) -> None:
    """Have PM's launcher, policy, seed and uv right; its runtime is what runs this, and was checked when it started."""
    runtime = load_runtime(context.layout)
    if runtime is None:
        write_pm_launcher(context.filesystem, context.layout)
    else:
        select_runtime(context.layout, context.filesystem, runtime)
    with contextlib.suppress(ConfigInvalid):  # doctor names its faults
        load_intent(context)  # which has pm/policy say what config.yaml does
    problem = find_seed_problem(context.layout)
    if problem:
        home = shlex.quote(str(context.layout.home))
        work.notices.append(f"{problem}: python3 pm/bootstrap.py --home {home} up, in a checkout")
        return
    damaged = find_own_damage(context.layout, thorough=True)
    if damaged or find_uv_problem(context.layout, thorough=True):
        require_asked(context)
        uv = make_uv(context)
        for folder, finding in damaged.items():
            version = version_of(folder)
            try:
                bring_in(context.layout, context.filesystem, uv, version)
                work.interpreters.append(version)
            except PerdureError as fault:  # what it ran is rebuilt on another one where it does not run any more
                work.notices.append(f"the home's Python {version} is damaged ({finding}) and stays so: {fault.summary}")


def _repair_profile(context: Context, work: _Work) -> None:
    """Have the profile run a sound generation, or note that it has no record to be rebuilt from."""
    layout = context.layout
    identity, lost = _find_wanted(context)
    if identity is None:
        if lost:
            work.anew.append(context.profile)
        return
    record = _find_record(context, identity)
    if record is None:
        if is_newer(layout, identity):
            work.notices.append(f"{identity} was made by a newer PM, which alone can mend it: it stays as it is")
            return
        work.anew.append(context.profile)
        work.notices.append(f"the record of {identity} is gone: what config.yaml says was installed anew")
        return
    _restore_record(context, identity, work)
    findings = _find_damage(context, identity, work)
    sound = findings is not None and not findings
    if sound and find_changed_python(load_generation(layout, identity)):
        # Nothing of it is damaged, so it stays in the choice; what was built for the present patch version runs.
        _rebuild(context, identity, record, [], work, retire=False)
        return
    if sound and not lost:
        current = load_generation(layout, identity)
        follow_commands(context, current)
        return
    if sound:
        _select(context, identity, before=None, operation=REPAIR)
        work.selected.append({"profile": context.profile, "generation": identity})
        return
    _rebuild(context, identity, record, findings or [], work)


def _find_wanted(context: Context) -> tuple[str | None, bool]:
    """Return the generation that the profile should run, and whether its pointer is lost.

    Where the pointer is damaged: what history says was selected last, else the newest that was ever committed for the
    profile; never one that was only built.
    """
    layout, profile = context.layout, context.profile
    history = load_history(layout, profile)
    try:
        identity = load_pointer(layout, profile)
        if identity is not None:
            return identity, False
        known = bool(history)
    except IntegrityFault:
        known = True
    for selection in reversed(history):
        if _find_record(context, selection.generation) is not None:
            return selection.generation, True
    committed = find_last_committed(layout, profile)
    return committed, known or committed is not None


def _find_record(context: Context, identity: str) -> dict[str, Any] | None:
    """Return a generation's own record, else the copy that was kept of it when it was committed."""
    try:
        return load_generation(context.layout, identity).record
    except IntegrityFault:
        return load_kept_record(context.layout, identity)


def _restore_record(context: Context, identity: str, work: _Work) -> None:
    """Have a generation's record as its copy has it, where the generation is there and its own record is damaged."""
    layout, filesystem = context.layout, context.filesystem
    path = layout.generation(identity)
    record = load_kept_record(layout, identity)
    if record is None or not path.is_dir():
        return
    try:
        load_generation(layout, identity)
    except IntegrityFault:
        os.chmod(path, stat.S_IMODE(path.stat().st_mode) | stat.S_IWUSR)
        filesystem.remove_tree(path / RECORD)
        filesystem.write_durable(path / RECORD, json.dumps(record, indent=1).encode(), mode=0o444)
        filesystem.make_read_only(path)
        work.restored.append(identity)


def _find_damage(context: Context, identity: str, work: _Work) -> list[Finding] | None:
    """Return what is wrong with a generation's files; None where its record is gone."""
    try:
        generation = load_generation(context.layout, identity)
    except IntegrityFault:
        return None
    context.reporter.progress("check", f"reading every file of {identity}")
    return find_all_damage(context.layout, generation, deep=True, hashes=work.hashes)


def _forget_damaged(uv: Uv, findings: list[Finding]) -> None:
    """Have the cache without the distributions whose bytes were changed in place, which it shares with them.

    uv itself may not get as far as a file that can be compared: it refuses a wheel whose metadata are damaged. A file
    that is missing says nothing of the cache, and without anything to fetch from the cache is all there is.
    """
    names = {finding.distribution.partition("-")[0] for finding in findings if finding.problem != MISSING} - {""}
    if names and (uv.network.fetches or uv.network.wheelhouse is not None):
        uv.forget(sorted(names))


def _rebuild(
    context: Context,
    identity: str,
    record: dict[str, Any],
    findings: list[Finding],
    work: _Work,
    *,
    retire: bool = True,
) -> None:
    """Have a new generation of the record selected, and the one before, where it is damaged, out of the choice."""
    require_asked(context)
    interpreter = ensure_recorded(context, record)
    release = load_release(context.layout, str(record["host"]["release"])) or _rebuild_release(context, record)
    if interpreter is None or release is None:
        why = "no interpreter of its minor version is left" if release is not None else "its host's release is gone"
        work.anew.append(context.profile)
        work.notices.append(f"{identity} could not be rebuilt from its record ({why}): it was resolved anew")
        return
    config = _load_config(context, work)
    require_space(context, current_generation(context.layout, context.profile))
    wanted = want_recorded(context.layout, release, record, interpreter)
    commands = list(record["host"]["commands"])
    resolution = Resolution(requirements=record["requirements"], lock=str(record.get("lock", "")))
    new = f"{next_number(context.layout)}-{wanted.digest()[:12]}"
    uv = make_uv(context)
    try:
        _forget_damaged(uv, findings)
        # Nothing is carried over from what is damaged: every file is read, and what the cache shares with it is
        # fetched again where it is not what its RECORD says.
        inventory = build_candidate(context, uv, wanted, resolution, new, None, config)
        work.notices += verify(context, config, wanted, new, commands, inventory)
        seal_candidate(context, uv, wanted, resolution, new, inventory, commands)
        context.reporter.callback(
            "before_publish", {"profile": context.profile, "operation": "repair", "generation": new, "from": identity}
        )
        _carry_trial(context, identity, new)
        context.reporter.committed()
        notices = _select(context, new, before=identity, operation=REPAIR)
    except NoSpace as fault:
        drop_candidate(context, new, None)
        raise explain_space(context, fault) from fault
    except BaseException:
        drop_candidate(context, new, None)
        raise
    work.notices += (*notices, *tidy(lambda: _carry_labels(context, identity, new)))
    work.rebuilt.append({"profile": context.profile, "generation": new, "from": identity})
    if retire:
        _retire(context, identity, work)
    context.reporter.callback("published", {"profile": context.profile, "generation": new, "from": identity})


def _select(context: Context, identity: str, *, before: str | None, operation: str) -> tuple[str, ...]:
    layout, filesystem = context.layout, context.filesystem
    notices = commit(context, identity)
    generation = load_generation(layout, identity)
    history = load_history(layout, context.profile)
    choice = next((entry.choice for entry in reversed(history) if entry.generation == before), None)
    line = Selection(at=context.clock(), generation=identity, before=before, operation=operation, choice=choice)
    return (
        *notices,
        *tidy(
            lambda: settle_trial(context),
            lambda: append_selection(filesystem, layout, context.profile, line),
            lambda: keep_record(filesystem, layout, identity),
            lambda: restore_lost(context, generation.record),
            lambda: follow_commands(context, generation),
        ),
    )


def _carry_trial(context: Context, damaged: str, rebuilt: str) -> None:
    """Have the rebuilt generation on trial where the damaged one was: to be mended is not to be confirmed."""
    running = None
    with contextlib.suppress(IntegrityFault):
        running = load_trial(context.layout, context.profile)
    if running is not None and running.generation == damaged:
        start_trial(context, replace(running, generation=rebuilt, starts=0, replaced=None))


def _carry_labels(context: Context, damaged: str, rebuilt: str) -> None:
    """Have the rebuilt generation pinned and named as the damaged one was: it is the same."""
    layout = context.layout
    try:
        labels = load_labels(layout)
    except IntegrityFault:
        return  # doctor names it
    if damaged in labels.held:
        pinned = frozenset(rebuilt if name == damaged else name for name in labels.pinned)
        named = {label: rebuilt if name == damaged else name for label, name in labels.named.items()}
        save_labels(context.filesystem, layout, Labels(pinned, named))


def _rebuild_release(context: Context, record: Mapping[str, Any]) -> Release | None:
    """Return the host's release made again from its checkout, where that is still what it was made from."""
    source = Path(str(record["host"]["source"]))
    try:
        if digest_checkout(source) != record["host"]["release"]:
            return None
    except PerdureError:
        return None
    interpreter = ensure_recorded(context, record)
    return (
        None
        if interpreter is None
        else build_release(context, make_uv(context), source, interpreter, Admission(), None)
    )


def _load_config(context: Context, work: _Work) -> HomeConfig:
    """Return what config.yaml says of builds and health; where it has faults, the record alone must do."""
    try:
        return load_home_config(context.layout)
    except ConfigInvalid as fault:
        work.notices.append(f"{fault.summary}; it was not needed for this, and stays as it is")
        return HomeConfig()


def _retire_others(context: Context, work: _Work) -> None:
    """Take every other damaged generation out of the choice, so that no rollback goes there."""
    layout = context.layout
    selected = set()
    for name in list_profiles(layout):
        try:
            selected.add(load_pointer(layout, name))
        except IntegrityFault:
            return  # what is selected cannot be told
    for broken in list_generations(layout)[1]:
        _restore_record(context, broken.identity, work)
    generations, damaged = list_generations(layout)
    for generation in generations:
        if generation.identity not in selected and find_all_damage(layout, generation, deep=True, hashes=work.hashes):
            _retire(context, generation.identity, work)
    for broken in damaged:
        if broken.identity not in selected and not broken.newer:
            _retire(context, broken.identity, work)


def _retire(context: Context, identity: str, work: _Work) -> None:
    """Have a damaged generation unsealed: nothing selects it, and it is collected once nothing runs from it."""
    layout, filesystem = context.layout, context.filesystem
    path = layout.generation(identity)
    record = path / RECORD
    if record.exists():
        with_write = stat.S_IMODE(path.stat().st_mode) | stat.S_IWUSR
        os.chmod(path, with_write)
        filesystem.rename(record, path / DAMAGED_RECORD)
    filesystem.remove_tree(layout.kept_record(identity))
    work.retired.append(identity)
    try:
        held = identity in load_labels(layout).held
    except IntegrityFault:
        held = False
    if held:
        work.notices.append(f"{identity} was pinned or labelled, and is damaged: nothing holds it any more")
    if identity in find_users(layout) or is_leased(path):
        work.notices.append(f"processes still run the damaged {identity}: restart them")
