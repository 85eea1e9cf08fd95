"""The other profiles of a home, which share its host and its store with the one that is published.

Owns: refusing a change of the host while one of them cannot be read, and naming those that still run an older host.
Does not own: their publications: each is one of its own.

Keeps: profiles-unreadable-refuses: a profile that cannot be read keeps the host from changing, so that none is left
behind unseen; profiles-lag-told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure_pm.model.config import parse_profile_config
from perdure_pm.model.errors import ConfigInvalid, IntegrityFault
from perdure_pm.ops.context import Context
from perdure_pm.store.config import load_file
from perdure_pm.store.generations import Generation, load_generation
from perdure_pm.store.history import TRIAL_FAILED, load_history
from perdure_pm.store.layout import Layout
from perdure_pm.store.pointer import list_profiles, load_pointer

if TYPE_CHECKING:
    from perdure_pm.ops.release import Release

DELIBERATE = frozenset({"rollback", TRIAL_FAILED})
"""What selected an older host on purpose."""


def with_readable_profiles(context: Context, current: Generation | None, release: Release) -> Release:
    """Return the host that is to be published, where it is the one that runs or every other profile can be read.

    Raises:
        ConfigInvalid: a configuration has faults; its file is named.
        IntegrityFault: a pointer is damaged.
    """
    layout = context.layout
    if current is None or current.record["host"]["release"] == release.digest:
        return release
    for profile in list_profiles(layout):
        if profile == context.profile:
            continue
        file = load_file(layout, layout.profile_config(profile))
        try:
            parse_profile_config(file.document)
        except ConfigInvalid as fault:
            raise ConfigInvalid(
                f"the host is not changed while the profile {profile} cannot be read: {fault.summary}",
                hint=fault.hint,
                context=fault.context,
            ) from fault
        load_pointer(layout, profile)
    return release


def find_lagging_profiles(layout: Layout) -> tuple[str, ...]:
    """Return a sentence for each profile that runs an older host than another one, unless it went back to it."""
    profiles = list_profiles(layout)
    if len(profiles) < 2:
        return ()
    running: dict[str, Generation] = {}
    for profile in profiles:
        try:
            identity = load_pointer(layout, profile)
            if identity is not None:
                running[profile] = load_generation(layout, identity)
        except IntegrityFault:
            continue  # a finding of its own
    if len({_host(generation) for generation in running.values()}) < 2:
        return ()
    newest = max(running.values(), key=lambda generation: generation.number)
    said = []
    for profile, generation in running.items():
        if _host(generation) == _host(newest):
            continue
        history = load_history(layout, profile)
        if history and history[-1].operation in DELIBERATE:
            continue
        host = generation.record["host"]
        said.append(
            f"the profile {profile} still runs {host['name']} {host['version']}: perdure-pm upgrade --profile {profile}"
        )
    return tuple(said)


def _host(generation: Generation) -> tuple[str, str]:
    return str(generation.record["host"]["release"]), str(generation.record["host"]["version"])
