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
    12 obligations                          what is left to a person; the worker adds what earlier ones left

Owns: that order. Does not own: what is wanted (wanted), resolving (resolve), what lies in a generation (candidate), nor
the verdict on it (verify).

Keeps: pm-pointer-last, pm-sealed-before-selected, pm-health-before-commit, pm-same-inputs-noop.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from perdure_pm.adapters.uv import Uv
from perdure_pm.model.config import HomeConfig
from perdure_pm.model.errors import BuildFailed, ConfigChanged, NoSpace
from perdure_pm.ops.base_interpreter import ensure_base, find_base
from perdure_pm.ops.builds import name_what_to_allow, prepare_builds
from perdure_pm.ops.candidate import build_candidate, drop_candidate, find_commands, seal_candidate
from perdure_pm.ops.consent import require_consent, require_kept
from perdure_pm.ops.context import Context, Outcome
from perdure_pm.ops.exclusive import exclusive
from perdure_pm.ops.fitting import resolve_what_fits
from perdure_pm.ops.host import build_release, find_release, find_source, make_uv
from perdure_pm.ops.host_commands import follow_commands
from perdure_pm.ops.host_lock import HostSpec
from perdure_pm.ops.intent import (
    Intent,
    finish_pending,
    is_unchanged,
    load_intent,
    plan_choice,
    write_host,
    write_pending,
)
from perdure_pm.ops.lazy import require_asked
from perdure_pm.ops.packages_of import resolved_versions
from perdure_pm.ops.profiles import with_readable_profiles
from perdure_pm.ops.recovery import commit, recover, settle_trial, start_trial, tidy
from perdure_pm.ops.release import with_extras
from perdure_pm.ops.resolve import Resolution
from perdure_pm.ops.sitting_out import UnfitFound, refuse_misfit, require_fitting
from perdure_pm.ops.soundness import ensure_read_only
from perdure_pm.ops.sources import require_manifests_fit, with_seen, with_snapshots
from perdure_pm.ops.space import explain_space, require_space
from perdure_pm.ops.trials import host_versions
from perdure_pm.ops.verify import verify
from perdure_pm.ops.wanted import Before, Change, Wanted, answers, load_before, want
from perdure_pm.store import history
from perdure_pm.store.config import load_home_config
from perdure_pm.store.generations import Generation, current_generation, load_current, next_number
from perdure_pm.store.inventory import Inventory
from perdure_pm.store.pointer import refuse_links
from perdure_pm.store.published import save_published
from perdure_pm.store.recorded import compare_packages, recorded_versions
from perdure_pm.store.records import keep_record
from perdure_pm.store.trial import Trial, show_trial

BUILDS = 2
"""How often a publication starts over when the intent changed under it, the first time included."""


def publish(context: Context, change: Change) -> Outcome:
    """Have what the intent says, with `change` made to it, selected for the profile.

    Raises:
        ConfigInvalid, ConfigChanged: the configuration has faults, or is not what the caller saw, or kept changing.
        NothingInstalled: nobody said what to install.
        LazyInstallRefused: something would have to be built that nobody asked for; nothing was fetched.
        NoSpace, ConflictRefused, NetworkUnreachable, ArtefactMissing, BuildFailed: nothing was published.
        IntegrityFault: what was fetched is not what it should be, also the second time; or a link stands in the way.
        HealthCheckFailed: the candidate does not start.
        OperationVetoed: the caller's before_publish refused.
    """
    with exclusive(context, change.operation):
        notices = recover(context)
        for folder in context.layout.published_into:
            refuse_links(context.layout, folder)  # what would be built behind a link, nothing would ever select
        attempts = 0
        while attempts < BUILDS:
            try:
                return _publish_once(context, change, notices)
            except _Overtaken:
                attempts += 1
            except UnfitFound as found:  # each time with fewer plugins
                change = _with_learned(context, change, found)
            except NoSpace as fault:
                raise explain_space(context, fault) from fault
            except BuildFailed as fault:
                raise name_what_to_allow(fault, load_home_config(context.layout)) from fault
        raise ConfigChanged(
            "the configuration kept changing during the operation; nothing was published",
            hint="run the same command again",
        )


def _build_what_fits(
    context: Context,
    uv: Uv,
    wanted: Wanted,
    resolution: Resolution,
    identity: str,
    current: Generation | None,
    config: HomeConfig,
) -> Inventory:
    """Have the candidate at its path, and return what lies in it.

    Raises:
        UnfitFound: plugins say in their metadata or their plugin.yaml that they cannot run here.
    """
    inventory = build_candidate(context, uv, wanted, resolution, identity, current, config)
    require_fitting(wanted.selection.entries, context.layout.generation(identity) / "venv", wanted.interpreter)
    require_manifests_fit(context, wanted, identity)
    return inventory


def _with_learned(context: Context, change: Change, found: UnfitFound) -> Change:
    """Return the change in which these plugins sit out.

    Raises:
        PluginUnfit: the profile did not have one of them before.
    """
    before = load_intent(context).plugins or ()
    for sit_out in found.sit_outs:
        if sit_out.entry not in before:
            raise refuse_misfit(sit_out) from found
    return replace(change, learned=(*change.learned, *found.sit_outs))


class _Overtaken(Exception):
    """The intent changed between step 3 and the commit."""


def _publish_once(context: Context, change: Change, notices: tuple[str, ...]) -> Outcome:
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
    interpreter = find_base(context, current)
    before = load_before(context, current)
    if release is not None and interpreter is not None and not change.looks_anew:
        wanted = with_seen(context, want(release, intent, change, interpreter, before), intent, current)
        if current is not None and answers(context, current, wanted):
            return _answer_noop(context, intent, change, wanted, current, notices)

    # 4. Preflight: nothing was fetched so far, and nothing is where it may not be.
    require_asked(context)
    require_space(context, current)
    uv = make_uv(context)
    interpreter = interpreter or ensure_base(context, uv, current)
    release = with_readable_profiles(
        context, current, release or build_release(context, uv, source, interpreter, intent.home.admission, current)
    )
    wanted = with_seen(context, want(release, intent, change, interpreter, before), intent, current)
    release = with_extras(uv, layout, release, wanted.extras, interpreter.path)
    uv = prepare_builds(context, uv, release, intent.home, current)
    wanted = with_snapshots(context, uv, replace(wanted, release=release), intent)
    notices = (*notices, *(item.notice for item in wanted.seen if item.notice))

    # 5. Resolve: a conflict is known before anything is built. A generation with these inputs may be sealed already,
    # another profile's or an earlier one: then it answers, and nothing is resolved or built.
    # Where the host moved, plugins that ran and do not fit it sit out.
    wanted, sealed, resolution = resolve_what_fits(context, uv, change, intent, wanted, current, before)
    versions = (
        recorded_versions(sealed)
        if resolution is None
        else resolved_versions(wanted.wheels(), resolution, wanted.interpreter)
    )
    packages = compare_packages(recorded_versions(current), versions)
    plan = _plan(context, change, wanted, packages, current, resolution, before)
    if current is not None and not plan["packages"] and answers(context, current, wanted):
        return _answer_noop(context, intent, change, wanted, current, notices)
    require_kept(wanted.sit_outs, before.names(), keep=change.keep_plugins)
    if context.dry_run:
        return Outcome(status="ok", data={"plan": plan, "dry_run": True}, obligations=notices)
    _require_agreement(change, wanted, current, packages)

    text = _intent_text(intent, change, wanted)  # a configuration that cannot take the change is known before a build

    # A crash from here to the commit leaves a generation that nothing names, and a note that nothing follows.
    identity = sealed.identity if sealed is not None else f"{next_number(layout)}-{wanted.digest()[:12]}"
    inventory = None
    try:
        if resolution is not None:
            # 6. Build.
            inventory = _build_what_fits(context, uv, wanted, resolution, identity, current, intent.home)
        # 7. Verify, also what was sealed before: it may be what a trial ended.
        commands = find_commands(context, intent.home, wanted, identity)
        notices = (*notices, *verify(context, intent.home, wanted, identity, commands, inventory))
        if resolution is not None and inventory is not None:
            # 8. Seal.
            said = seal_candidate(context, uv, wanted, resolution, identity, inventory, commands)
            notices = (*notices, *said)
        if sealed is not None:
            ensure_read_only(filesystem, sealed)
        # 9. Was anything edited meanwhile?
        if not is_unchanged(layout, intent):
            raise _Overtaken
        reporter.callback("before_publish", {**plan, "generation": identity})
        write_pending(context, intent.profile_file, text, identity)
        trial = _start_trial(context, change, identity, current)
        reporter.committed()  # from here on no cancellation ends this

        # 10. The commit. A crash before this line changes nothing; after it, only tidying is left.
        notices = (*notices, *commit(context, identity))
    except BaseException:
        drop_candidate(context, identity, sealed)
        raise

    # 11 and 12. Tidying, each step of which is finished by the next operation where a crash or a failure cuts it off.
    left = None if current is None else current.identity
    selection = history.Selection(
        at=context.clock(),
        generation=identity,
        before=left,
        operation=change.operation,
        choice=(wanted.choice.plugins, wanted.choice.disabled),
    )
    checkout = source if isinstance(source, Path) else None
    said = tidy(
        lambda: settle_trial(context),
        lambda: history.append_selection(filesystem, layout, context.profile, selection),
        lambda: keep_record(filesystem, layout, identity),
        lambda: follow_commands(context, load_current(layout, context.profile)),
        lambda: finish_pending(context),
        lambda: save_published(filesystem, layout, context.profile, text, wanted.choice, wanted.sit_outs),
        lambda: write_host(context, intent, wanted.release.name, checkout, wanted.extras),
        lambda: tuple(map(str, wanted.sit_outs)),
    )
    reporter.callback("published", {"profile": context.profile, "generation": identity, "from": left})
    return Outcome(
        status="ok",
        data={
            "generation": identity,
            "plan": plan,
            "reused": sealed is not None,
            "trial": None if trial is None else show_trial(trial),
        },
        obligations=(*notices, *said),
    )


# The steps


def _answer_noop(
    context: Context, intent: Intent, change: Change, wanted: Wanted, current: Generation, notices: tuple[str, ...]
) -> Outcome:
    """Return the outcome when nothing is to be published; what a crash may have left undone is done all the same.

    The configuration may change all the same: what is disabled while it sits out changes no generation.
    """
    text = _intent_text(intent, change, wanted)
    if not context.dry_run:
        follow_commands(context, current)
        write_pending(context, intent.profile_file, text, current.identity)
        notices = (*notices, *finish_pending(context))
        save_published(context.filesystem, context.layout, context.profile, text, wanted.choice, wanted.sit_outs)
        # Where config.yaml names no checkout, a crash kept it from being written; else it says what a person wrote.
        named = change.checkout or (None if intent.home.names_host else wanted.release.source)
        source = None if named is None or not os.path.isdir(named) else Path(named).resolve()
        write_host(context, intent, wanted.release.name, source, wanted.extras)
    plan = {
        "changes": False,
        "from": current.identity,
        "packages": [],
        "profile": context.profile,
        "sit_outs": [sit_out.to_json() for sit_out in wanted.sit_outs],
    }
    rewritten = change.switch is not None and text != intent.profile_file.text
    return Outcome(
        status="ok" if rewritten else "noop",
        data={"generation": current.identity, "plan": plan, "configuration": rewritten},
        obligations=(*notices, *map(str, wanted.sit_outs)),
    )


def _start_trial(context: Context, change: Change, identity: str, current: Generation | None) -> Trial | None:
    """Have what will be selected on trial where that was asked for, and return the trial."""
    if change.confirm_within is None or current is None:
        return None
    trial = Trial(generation=identity, previous=current.identity, deadline=context.clock() + change.confirm_within)
    start_trial(context, trial)
    return trial


def _intent_text(intent: Intent, change: Change, wanted: Wanted) -> str:
    """Return the profile's configuration as it should be after the commit."""
    if change.plugins is None and change.switch is None and intent.plugins is not None:
        return intent.profile_file.text
    return plan_choice(intent, wanted.choice)


def _require_agreement(
    change: Change, wanted: Wanted, current: Generation | None, packages: list[dict[str, str | None]]
) -> None:
    """Return when a person agreed to what is added; a first installation is what was asked."""
    if current is None:
        return
    expected = {*wanted.selection.names(), *host_versions(wanted.release)}
    require_consent(change.consent, packages, expected, change.operation)


def _plan(
    context: Context,
    change: Change,
    wanted: Wanted,
    packages: list[dict[str, str | None]],
    current: Generation | None,
    resolution: Resolution | None,
    before: Before,
) -> dict[str, Any]:
    """Return what publishing would do, as printable data."""
    return {
        "profile": context.profile,
        "operation": change.operation,
        "from": None if current is None else current.identity,
        "changes": True,
        "host": {"name": wanted.release.name, "version": wanted.release.version},
        "plugins": list(wanted.selection.entries),
        "disabled": [entry for entry in wanted.choice.plugins if entry not in wanted.choice.enabled()],
        "sit_outs": [sit_out.to_json() for sit_out in wanted.sit_outs],
        "returns": [sit_out.name for sit_out in before.known if sit_out.entry in wanted.selection.entries],
        "interpreter": wanted.interpreter.to_json(),
        "packages": packages,
        "screening": None if resolution is None else resolution.screening,
        "steps": ["build", "verify", "start the host", "seal", "select"],
    }
