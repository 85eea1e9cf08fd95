"""What of a change a person has to agree to, because nobody typed it.

Owns: the two questions: packages that an update brings in, and plugins that it would leave out. Does not own: asking
(cli) or what would be installed (resolve).

Nobody is asked about what a person wrote: a plugin that is added or stands in the configuration, with whatever it
requires, and the host with what its own lock holds. An update or an upgrade, though, is asked for without knowing what
the new releases require, so packages that come with it are agreed to by name.

Keeps: plugins-added-requirements-need-consent, plugins-never-silently-fewer.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from perdure_pm.model.choice import SitOut
from perdure_pm.model.errors import ConflictRefused, ConsentMissing, UsageFault

Consent = frozenset[str] | None
"""The packages that may come; None where whatever comes was agreed to."""


def read_consent(arguments: Mapping[str, Any]) -> Consent:
    """Return what a request agrees to: ``consent`` is true for everything, or a list of names; absent for nothing.

    Raises:
        UsageFault: it is something else.
    """
    value = arguments.get("consent")
    if value is True:
        return None
    if value is None or value is False:
        return frozenset()
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        return frozenset(value)
    raise UsageFault(f"consent must be true or a list of names, is {value!r}")


def require_consent(
    consent: Consent, packages: Sequence[Mapping[str, str | None]], expected: Collection[str], operation: str
) -> None:
    """Return when every package that is added was agreed to.

    Args:
        consent: what was agreed to.
        packages: the changes: ``name``, ``from`` (None where it is added) and ``to``.
        expected: the names that need no question: the plugins themselves, and what the host's lock holds.
        operation: what is being done.

    Raises:
        ConsentMissing: something was not, and its context says what.
    """
    added = [package for package in packages if package["from"] is None and package["name"] not in expected]
    names = [str(package["name"]) for package in added]
    if consent is None or set(names) <= consent:
        return
    shown = ", ".join(f"{package['name']} {package['to']}" for package in added)
    command = operation.replace("-", " ")
    raise ConsentMissing(
        f"this brings in what was not installed before: {shown}; nobody agreed to that, and nothing was changed",
        hint=f"perdure-pm {command} --yes",
        context={"question": f"This brings in {shown}. Install it?", "consent": names},
    )


def require_kept(sit_outs: Sequence[SitOut], running: Collection[str], *, keep: bool) -> None:
    """Return when no plugin that runs now would sit out, or when that does not matter.

    Raises:
        ConflictRefused: one would, and the person asked for all of them to be kept.
    """
    leaving = [sit_out for sit_out in sit_outs if sit_out.name in running]
    if keep and leaving:
        raise ConflictRefused(
            "not every plugin would be kept: " + "; ".join(map(str, leaving)),
            hint="without --keep-plugins it sits out until it fits again",
            context={"sit_outs": [sit_out.to_json() for sit_out in leaving]},
        )
