"""Doctor: everything that is wrong with a home, each with its place and the command that mends it.

Owns: which questions are asked, and in what words they are answered. Does not own: the answers (soundness, runtime,
store), nor mending (repair). Keeps: doctor-answers-always: no mutex, no write, no network, and no exception, whatever
lies in the home; a question that breaks is an answer too.
"""

from __future__ import annotations

import contextlib
import os
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perdure_pm.model.errors import ConfigInvalid, IntegrityFault, NothingInstalled, PerdureError
from perdure_pm.model.identity import DEFAULT_PROFILE
from perdure_pm.ops.editables import find_gone, say_gone
from perdure_pm.ops.external import find_problem, read_programs
from perdure_pm.ops.interpreters import find_own_damage, version_of
from perdure_pm.ops.launchers import find_launcher_faults
from perdure_pm.ops.other_names import find_foreign, say_foreign
from perdure_pm.ops.protection import find_protection
from perdure_pm.ops.runtime import find_runtime_problem, load_runtime
from perdure_pm.ops.seed import find_seed_problem, seed_source
from perdure_pm.ops.soundness import find_all_damage, find_changed_python
from perdure_pm.ops.tool_uv import find_uv_problem
from perdure_pm.store import receipts
from perdure_pm.store.config import load_file, load_home_config
from perdure_pm.store.generations import (
    DAMAGED_RECORD,
    Generation,
    is_newer,
    known_inventory,
    list_generations,
    list_unsealed,
    load_current,
)
from perdure_pm.store.history import load_history
from perdure_pm.store.home import check_written
from perdure_pm.store.inventory import Finding
from perdure_pm.store.labels import load_labels
from perdure_pm.store.layout import Layout
from perdure_pm.store.pointer import list_profiles, load_pointer, refuse_links
from perdure_pm.store.records import find_last_committed
from perdure_pm.store.trial import load_trial

if TYPE_CHECKING:
    from perdure_pm.model.manifest import Manifest

REPAIR = "perdure-pm repair"
NEWER = "a newer PM reads it; what there is of PM in this home: perdure-pm self status"
NEWEST_RECEIPTS, NEWEST_DEEP = 50, 1000
"""How many receipts a look reads: nothing depends on one, and there may be a hundred thousand."""
SHOWN_OWNERS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong."""

    code: str
    """Stable, kebab-case."""
    summary: str
    """What, and where."""
    hint: str
    """What mends it: a command, or words where only a person can."""
    profile: str | None = None
    generation: str | None = None
    findings: tuple[Finding, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the form that the command line's JSON holds."""
        return {
            "code": self.code,
            "summary": self.summary,
            "hint": self.hint,
            "profile": self.profile,
            "generation": self.generation,
            "files": [finding.to_json() for finding in self.findings],
        }


@dataclass(slots=True, kw_only=True)
class _Looking:
    """How one examination looks, and how far it came."""

    deep: bool
    hashes: dict[tuple[int, int], str] = field(default_factory=dict)
    generations: int = 0
    files: int = 0


def examine(layout: Layout, profile: str, *, deep: bool, environ: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return what is wrong with a home.

    Args:
        layout: the home.
        profile: the profile that is looked at also where nothing of it is there.
        deep: whether every byte is read, of every generation and of PM itself, and not only the sizes of what is
            selected.
        environ: has the PATH on which external plugins find their programs; None for the system's own.

    Returns:
        ``healthy``; ``problems``; ``leftovers``: what a collection would remove and hurts nobody; ``checked``: how
        many generations and files were looked at.
    """
    problems: list[Problem] = []
    leftovers: list[str] = []
    looking = _Looking(deep=deep)
    profiles = sorted({*list_profiles(layout), profile})

    def remains() -> Iterator[Problem]:
        for name in list_unsealed(layout):
            retired = (layout.generation(name) / DAMAGED_RECORD).exists()
            leftovers.append(f"generation {name} {'was found damaged' if retired else 'was never finished'}")
        if layout.trash.is_dir():
            leftovers.extend(f"{path.name} waits in the trash" for path in sorted(layout.trash.iterdir()))
        yield from ()

    questions: tuple[Callable[[], Iterator[Problem]], ...] = (
        lambda: _examine_home(layout),
        lambda: _examine_folders(layout, profiles),
        lambda: _examine_configuration(layout, profiles),
        lambda: _examine_own(layout, deep=deep),
        lambda: _examine_interpreters(layout, deep=deep),
        lambda: _examine_generations(layout, profiles, profile, looking),
        lambda: _examine_launchers(layout, profiles, environ or {}),
        lambda: _examine_packages(layout, profile, deep=deep),
        lambda: _examine_beside(layout, profiles, deep=deep),
        lambda: _examine_names(layout, deep=deep),
        remains,
    )
    for question in questions:
        problems += _ask(question)
    return {
        "healthy": not problems,
        "home": str(layout.home),
        "deep": deep,
        "problems": [problem.to_json() for problem in problems],
        "leftovers": leftovers,
        "checked": {"generations": looking.generations, "files": looking.files},
    }


def _ask(question: Callable[[], Iterator[Problem]]) -> list[Problem]:
    """Return a question's answers; one that breaks is an answer, and those that came before it stand."""
    found: list[Problem] = []
    try:
        found.extend(question())
    except PerdureError as fault:
        found.append(Problem(code=fault.code, summary=fault.summary, hint=fault.hint or REPAIR))
    except OSError as error:
        place = error.filename or "a file of the home"
        found.append(
            Problem(
                code="unreadable",
                summary=f"{place} cannot be read: {error.strerror or error}",
                hint="give this user the right to read it, or remove it; then perdure-pm repair",
            )
        )
    except Exception as error:  # noqa: BLE001 - doctor answers in every state; a defect of its own is told as one
        where = traceback.extract_tb(error.__traceback__)[-1]
        found.append(
            Problem(
                code="internal",
                summary=f"a check broke off ({type(error).__name__}: {error}, {os.path.basename(where.filename)}:"
                f"{where.lineno})",
                hint=REPAIR,
            )
        )
    return found


def _examine_home(layout: Layout) -> Iterator[Problem]:
    try:
        check_written(layout)
    except PerdureError as fault:
        yield Problem(code=fault.code, summary=fault.summary, hint=fault.hint or "choose another home with --home DIR")


def _examine_folders(layout: Layout, profiles: list[str]) -> Iterator[Problem]:
    """Look for what stands where PM makes a directory: no operation could even write its receipt."""
    folders = (
        layout.bin,
        layout.receipts,
        layout.unfinished,
        layout.cache,
        layout.scratch,
        layout.store,
        layout.generations,
        layout.records,
        layout.releases,
        layout.plugins,
        layout.trash,
        layout.profile(DEFAULT_PROFILE).parent,
        *(layout.profile(name) for name in profiles),
    )
    for folder in folders:
        if os.path.lexists(folder) and not os.path.isdir(folder):
            hint = f"move it away, and PM makes the directory anew: {folder}"
            yield Problem(code="no-directory", summary=f"{folder} is not a directory", hint=hint)
    if os.path.isdir(layout.mutex):
        summary, hint = f"{layout.mutex} is a directory", f"move it away, and PM makes the file anew: {layout.mutex}"
        yield Problem(code="no-file", summary=summary, hint=hint)
    linked: dict[str, str] = {}
    for folder in layout.published_into:
        try:
            refuse_links(layout, folder)
        except IntegrityFault as fault:
            linked[str(fault.context["reason"])] = fault.hint or REPAIR
    for summary, hint in linked.items():
        yield Problem(code="link", summary=summary, hint=hint)


def _unless_linked(layout: Layout, path: Path, hint: str) -> str:
    """Return `hint`, or, where PM refuses a link on the way to `path`, what helps then: no command of PM's does."""
    try:
        refuse_links(layout, path)
    except IntegrityFault as fault:
        return fault.hint or hint
    return hint


def _examine_configuration(layout: Layout, profiles: list[str]) -> Iterator[Problem]:
    from perdure_pm.model.config import parse_home_config, parse_profile_config

    runs = {name: identity for name in profiles if (identity := _pointer(layout, name)) is not None}
    if runs and not os.path.lexists(layout.config):
        yield Problem(code="configuration-missing", summary=f"{layout.config} is gone", hint=REPAIR)
    yield from _faults_of(lambda: parse_home_config(load_file(layout, layout.config).document))
    for name in profiles:
        path = layout.profile_config(name)
        if name in runs and not os.path.lexists(path):
            yield Problem(code="configuration-missing", summary=f"{path} is gone", hint=REPAIR, profile=name)
        yield from _faults_of(lambda path=path: parse_profile_config(load_file(layout, path).document))  # type: ignore[misc]


def _pointer(layout: Layout, profile: str) -> str | None:
    try:
        return load_pointer(layout, profile)
    except IntegrityFault:
        return None


def _faults_of(parse: Callable[[], object]) -> Iterator[Problem]:
    try:
        parse()
    except ConfigInvalid as fault:
        faults = fault.context.get("faults")
        lines = [str(line) for line in faults] if isinstance(faults, (list, tuple)) else [fault.summary]
        for line in lines:
            yield Problem(code=fault.code, summary=line, hint=fault.hint or "correct it with an editor")


def _examine_own(layout: Layout, *, deep: bool) -> Iterator[Problem]:
    rebuild = "perdure-pm self rebuild"
    runtime = load_runtime(layout)
    if runtime is None:
        yield Problem(code="runtime-missing", summary="no runtime of PM is selected in this home", hint=rebuild)
    else:
        problem = find_runtime_problem(runtime, thorough=deep)
        if problem:
            summary = f"PM's runtime {runtime.identity} is damaged: {problem}"
            yield Problem(code="runtime-damaged", summary=summary, hint=rebuild)
    problem = find_seed_problem(layout)
    if not problem and runtime is not None and seed_source(layout).name != runtime.record.get("seed"):
        summary = f"the seed is not the one that PM's runtime {runtime.identity} was built from"
        yield Problem(code="seed-other", summary=summary, hint=REPAIR)
    if problem:
        yield Problem(code="seed-damaged", summary=problem, hint=f'python3 pm/bootstrap.py --home "{layout.home}" up')
    else:
        problem = find_uv_problem(layout, thorough=deep)
        if problem:
            yield Problem(code="uv-damaged", summary=problem, hint=REPAIR)


def _examine_interpreters(layout: Layout, *, deep: bool) -> Iterator[Problem]:
    for folder, finding in find_own_damage(layout, thorough=deep).items():
        summary = f"the home's Python {version_of(folder)} is damaged: {finding}   ({folder})"
        yield Problem(code="interpreter-damaged", summary=summary, hint=REPAIR)


def _examine_generations(layout: Layout, profiles: list[str], profile: str, looking: _Looking) -> Iterator[Problem]:
    """Look at what each profile runs, and, where every byte is read, at every other sealed generation."""
    selected: set[str] = set()
    for name in profiles:
        try:
            current = load_current(layout, name)
        except NothingInstalled as fault:
            if load_history(layout, name) or find_last_committed(layout, name):
                summary = f"the profile {name} ran something, and nothing says any more what"
                yield Problem(code="selection-damaged", summary=summary, hint=REPAIR, profile=name)
            elif name == profile:
                hint = fault.hint or REPAIR
                yield Problem(code="nothing-installed", summary=fault.summary, hint=hint, profile=name)
            continue
        except IntegrityFault as fault:
            identity = _pointer(layout, name)
            if identity is not None and is_newer(layout, identity):
                hint = f"{NEWER}   (or one that this PM reads: perdure-pm rollback)"
                yield Problem(code="selection-newer", summary=fault.summary, hint=hint, profile=name)
                continue
            hint = _unless_linked(layout, layout.generations, _unless_linked(layout, layout.pointer(name), REPAIR))
            yield Problem(code="selection-damaged", summary=fault.summary, hint=hint, profile=name)
            continue
        for source in find_gone(current.record):
            hint = f"put it back, or take the plugin out: perdure-pm plugin remove {source.name}"
            yield Problem(
                code="editable-gone", summary=say_gone(source), hint=hint, profile=name, generation=current.identity
            )
        if current.identity not in selected:
            selected.add(current.identity)
            yield from _examine_generation(layout, current, looking, name)
    sealed, damaged = list_generations(layout)
    for generation in sealed if looking.deep else ():
        if generation.identity not in selected:
            yield from _examine_generation(layout, generation, looking, None)
    for broken in damaged:
        summary = f"generation {broken.identity} cannot be used: {broken.reason}"
        code, hint = ("record-newer", NEWER) if broken.newer else ("record-damaged", REPAIR)
        yield Problem(code=code, summary=summary, hint=hint, generation=broken.identity)


def _examine_generation(
    layout: Layout, generation: Generation, looking: _Looking, profile: str | None
) -> Iterator[Problem]:
    findings = find_all_damage(layout, generation, deep=looking.deep, hashes=looking.hashes)
    looking.generations += 1
    looking.files += len(known_inventory(layout, generation).files)
    if not findings:
        if profile is not None and (changed := find_changed_python(generation)):
            summary = f"generation {generation.identity} is to be rebuilt: {changed}"
            yield Problem(
                code="interpreter-changed",
                summary=summary,
                hint=REPAIR,
                profile=profile,
                generation=generation.identity,
            )
        return
    names = sorted({finding.distribution for finding in findings if finding.distribution})
    count = "1 finding" if len(findings) == 1 else f"{len(findings)} findings"
    owners = f", in {', '.join(names[:SHOWN_OWNERS])}{' …' if len(names) > SHOWN_OWNERS else ''}" if names else ""
    yield Problem(
        code="generation-damaged",
        summary=f"generation {generation.identity} is damaged: {count}{owners}; the first: {findings[0]}",
        hint=REPAIR,
        profile=profile,
        generation=generation.identity,
        findings=tuple(findings),
    )


def _examine_launchers(layout: Layout, profiles: list[str], environ: Mapping[str, str]) -> Iterator[Problem]:
    commands: set[str] = set()
    programs: dict[str, tuple[str, Path, Manifest]] = {}
    for name in profiles:
        try:
            current = load_current(layout, name)
            commands.update(current.record["host"]["commands"])
            found = read_programs(layout, current.identity)
            programs |= {program: (name, *place) for program, place in found.items()}
        except (NothingInstalled, IntegrityFault):
            continue
    for program, (name, folder, manifest) in programs.items():
        problem = find_problem(folder, manifest, environ)
        if problem is not None:
            hint = f"install what it needs, or leave it out: perdure-pm plugin disable {program}"
            summary = f"the external plugin {program} cannot run: {problem}"
            yield Problem(code="external-broken", summary=summary, hint=hint, profile=name)
    protection = find_protection(layout, sorted(commands))
    if protection["policy"] == "require" and protection["why_not"] is not None:
        summary = f"host.protect is require, and the home cannot be protected from its host: {protection['why_not']}"
        hint = "install bubblewrap, or: perdure-pm config set host.protect prefer   (then perdure-pm install)"
        yield Problem(code="protection-missing", summary=summary, hint=hint)
    with contextlib.suppress(ConfigInvalid):
        asked = load_home_config(layout).host_protect
        if commands and asked != protection["policy"]:
            summary = f"host.protect is {asked}, and the launchers still do what {protection['policy']} says"
            yield Problem(code="protection-behind", summary=summary, hint="perdure-pm install")
    for fault in find_launcher_faults(layout, sorted(commands), sorted(programs)):
        yield Problem(code="launcher-damaged", summary=fault, hint=REPAIR)


def _examine_packages(layout: Layout, profile: str, *, deep: bool) -> Iterator[Problem]:
    said = load_file(layout, layout.config).document.data
    if not isinstance(said, dict) or not said.get("packages"):
        return
    from perdure_pm.ops.configured_packages import find_unready, read_registrations

    yield from _faults_of(lambda: read_registrations(layout, profile))
    with contextlib.suppress(ConfigInvalid):
        for summary in find_unready(layout, profile, thorough=deep):
            yield Problem(code="package-missing", summary=summary, hint=REPAIR)


def _examine_names(layout: Layout, *, deep: bool) -> Iterator[Problem]:
    """Look for names outside where every byte is read too: all files of the home, its cache among them, are counted."""
    if found := find_foreign(layout) if deep else []:
        findings = tuple(
            Finding(os.path.relpath(each.places[0], layout.home), "has a name outside of the home") for each in found
        )
        yield Problem(code="linked-outside", summary=say_foreign(found), hint=REPAIR, findings=findings)


def _examine_beside(layout: Layout, profiles: list[str], *, deep: bool) -> Iterator[Problem]:
    """Look at what is neither a generation nor PM: labels, trials, receipts."""
    try:
        load_labels(layout)
    except IntegrityFault as fault:
        yield Problem(code="labels-damaged", summary=fault.summary, hint=fault.hint or REPAIR)
    for name in profiles:
        try:
            load_trial(layout, name)
        except IntegrityFault as fault:
            # Nothing says any more what it would go back to: a person decides, and either command takes it away.
            hint = "perdure-pm confirm   (keeps what is selected; to go back: perdure-pm rollback)"
            hint = _unless_linked(layout, layout.trial(name).parent, hint)
            yield Problem(code="trial-damaged", summary=fault.summary, hint=hint, profile=name)
    for unreadable in receipts.load_all(layout, NEWEST_DEEP if deep else NEWEST_RECEIPTS)[1]:
        yield Problem(
            code="receipt-damaged",
            summary=f"{unreadable.path} cannot be read: {unreadable.reason}",
            hint=f"remove it: nothing depends on it ({unreadable.path})",
        )
