"""Install: have the host and the profile's plugins published as the configuration says.

Owns: the verb's arguments. Does not own: publication (publish).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from perdure_pm.model.identity import normalise_distribution
from perdure_pm.ops import configured_packages
from perdure_pm.ops.arguments import read_duration, read_text, read_texts
from perdure_pm.ops.consent import read_consent
from perdure_pm.ops.context import Context, Outcome
from perdure_pm.ops.own_runtime import find_newer_source
from perdure_pm.ops.publish import publish
from perdure_pm.ops.release import require_checkout
from perdure_pm.ops.wanted import Change


def install(context: Context, arguments: Mapping[str, Any]) -> Outcome:
    """Have what the configuration says selected for the profile, and the packages that it registers on the PATH.

    Args:
        context: the world.
        arguments: ``checkout``: the host's source tree, for a home that has none yet or is to change it;
            ``extras``: extras of the host that join those which are wanted; ``keep_plugins``: whether it is refused
            that a plugin which runs now would sit out; ``confirm_within``: seconds of trial; ``expected``: the digest
            of the profile's config.yaml that was seen.

    Raises:
        PerdureError: see `publish`.
    """
    change = Change(
        operation="install",
        extras=_read_extras(arguments),
        checkout=_read_checkout(arguments),
        keep_plugins=arguments.get("keep_plugins") is True,
        confirm_within=read_duration(arguments, "confirm_within"),
        expected=read_text(arguments, "expected"),
    )
    registered = configured_packages.read_registrations(context.layout, context.profile)
    prepared = configured_packages.prepare(context, registered)
    return configured_packages.follow(context, registered, publish(context, change), prepared=prepared)


def _read_checkout(arguments: Mapping[str, Any]) -> str | None:
    """Return the checkout that was named: for one that never was, nothing else is taken in its place."""
    checkout = read_text(arguments, "checkout")
    if checkout is not None:
        require_checkout(Path(checkout))
    return checkout


def _read_extras(arguments: Mapping[str, Any]) -> tuple[str, ...]:
    if not arguments.get("extras"):
        return ()
    return tuple(normalise_distribution(name) for name in read_texts(arguments, "extras"))


def upgrade(context: Context, arguments: Mapping[str, Any]) -> Outcome:
    """Have the host taken from its checkout as it is now, and every plugin looked up anew.

    Args:
        context: the world.
        arguments: as for `install`; ``consent``: true, or the names of packages that may be added.

    Raises:
        ConsentMissing: it brings in packages that nobody agreed to; nothing changed.
        PerdureError: see `publish`.
    """
    change = Change(
        operation="upgrade",
        consent=read_consent(arguments),
        keep_plugins=arguments.get("keep_plugins") is True,
        checkout=_read_checkout(arguments),
        upgrade=True,
        confirm_within=read_duration(arguments, "confirm_within"),
    )
    outcome = publish(context, change)
    return replace(outcome, obligations=(*outcome.obligations, *find_newer_source(context.layout)))
