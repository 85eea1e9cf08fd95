"""By which rules what an index offers is let in: builds of sources, addresses, and the quarantine for what is new.

Owns: the rules, the form of an exception, and which exceptions count. Does not own: the keys (model.config), nor
keeping the rules (ops.screening, adapters.uv).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from perdure_pm.model.errors import UsageFault
from perdure_pm.model.identity import normalise_distribution

BUILD_POLICIES = ("ask", "allow", "never")
QUARANTINE_DAYS = 7
MOST_DAYS = 3650

_EXCEPTION = re.compile(
    r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)==(?P<version>[A-Za-z0-9][A-Za-z0-9.!+_-]*)\s+until\s+"
    r"(?P<until>\d{4}-\d\d-\d\d)\s+because\s+(?P<reason>\S.*)",
    re.DOTALL,
)
EXCEPTION_FORM = "NAME==VERSION until YYYY-MM-DD because REASON"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exemption:
    """One version that a person lets through the quarantine, for a reason and until a day."""

    name: str
    """Normalised."""
    version: str
    until: date
    """The last day on which it counts."""
    reason: str

    def to_json(self) -> dict[str, str]:
        return {
            "name": self.name,
            "version": self.version,
            "until": self.until.isoformat(),
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """The rules of one home."""

    build_policy: str = "ask"
    """One of BUILD_POLICIES, for what is not among `build`."""
    build: tuple[str, ...] = ()
    """Normalised names of what may be built from source in any case."""
    direct_urls: tuple[str, ...] = ()
    """Normalised names of what a plugin may require from an address."""
    quarantine: timedelta = timedelta(days=QUARANTINE_DAYS)
    """How old what is installed from an index must be; nothing for no quarantine."""
    exemptions: tuple[Exemption, ...] = ()

    @property
    def builds(self) -> tuple[str, ...] | None:
        """The names of what may be built from source; None for everything."""
        return None if self.build_policy == "allow" else self.build


def parse_exemption(text: str) -> Exemption:
    """Return the exception that a text states.

    Raises:
        UsageFault: it states none.
    """
    match = _EXCEPTION.fullmatch(text.strip())
    try:
        until = None if match is None else date.fromisoformat(match["until"])
    except ValueError:
        until = None
    if match is None or until is None:
        raise UsageFault(f"must be {EXCEPTION_FORM}, is the text {text!r}")
    return Exemption(
        name=normalise_distribution(match["name"]),
        version=match["version"],
        until=until,
        reason=" ".join(match["reason"].split()),
    )


def judge_exemptions(
    rules: Admission, pinned: Mapping[str, str], locked: Collection[str], resolved: Collection[str], now: datetime
) -> tuple[tuple[Exemption, ...], tuple[str, ...]]:
    """Return the exceptions that count, and in words why others, of what is installed here, do not.

    One counts until its day is over, and only for a plugin that the profile pins to that very version: what a range, or
    another package, brings in was chosen by nobody; what the host locked is exempt anyway, and only its lock moves it.

    Args:
        rules: with the exceptions.
        pinned: name → version of the plugins that the profile pins exactly.
        locked: the names that the host locked.
        resolved: the names of all that would be installed.
        now: which day it is.
    """
    counting, ignored = [], []
    for exemption in rules.exemptions:
        what = f"the exception for {exemption.name}=={exemption.version} has no effect"
        if exemption.name not in resolved:
            continue
        if exemption.name in locked:
            ignored.append(f"{what}: the host's lock decides about {exemption.name}")
        elif exemption.name not in pinned:
            ignored.append(f"{what}: the profile has no plugin {exemption.name}=={exemption.version}")
        elif pinned[exemption.name] != exemption.version:
            ignored.append(f"{what}: the profile has {exemption.name}=={pinned[exemption.name]}")
        elif now.date() > exemption.until:
            ignored.append(f"{what}: it ended on {exemption.until}")
        else:
            counting.append(exemption)
    return tuple(counting), tuple(ignored)
