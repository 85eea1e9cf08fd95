"""Screening of an answer: how old what would be installed is, and whether the resolver went back without a word.

Owns: the quarantine (what is too new is held back or refused) and conflicts in disguise (an old release of a plugin
that only seems to fit, because its metadata said less). Does not own: the rules (model.admission, model.offer), nor
resolving.

The answer of the resolver is looked at, instead of a cutoff being given to it from the start: uv.lock says when each
file was uploaded, so that what is old enough costs nothing, and an index that does not say it can still be used. Only
where something is too new the resolution is repeated with a cutoff. What the index offers of a plugin is read while uv
resolves.

Keeps: plugins-quarantine, plugins-disguise-refused.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.version import Version

from perdure_pm.model.admission import EXCEPTION_FORM, Admission, Exemption, judge_exemptions
from perdure_pm.model.errors import BuildFailed, ConflictRefused, PerdureError, QuarantineRefused
from perdure_pm.model.identity import normalise_distribution
from perdure_pm.model.lock_view import parse_registry
from perdure_pm.model.network import Network
from perdure_pm.model.offer import Offer, find_newest, is_far_back
from perdure_pm.model.requirement import requirement_name
from perdure_pm.ops.context import Context
from perdure_pm.ops.seed import seed_source

WAIT_SECONDS = 20.0
"""How long after uv's answer the index's page of a plugin is waited for."""

_HEAD = re.compile(r'^(name|version) = "([^"]*)"$', re.MULTILINE)
_FILE = re.compile(r'\{ (?:url|path|filename) = "[^"]*"')
_TIME = re.compile(r'upload-time = "([^"]+)"')


@dataclass(frozen=True, slots=True, kw_only=True)
class Aged:
    """One package of a lock, and how old it is."""

    name: str
    version: str
    newest: datetime | None
    """When the last of its files was uploaded: any of them may be installed. None where one does not say."""
    first: datetime | None
    """When the release was made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Behind:
    """A plugin that is resolved to an older release than there is."""

    name: str
    chosen: Offer
    newest: Offer
    far: bool
    """Whether it is too far back to be taken without being asked for."""
    why: str = ""

    def __str__(self) -> str:
        why = f": {self.why}" if self.why else ""
        return f"{self.name} {_dated(self.chosen)} although there is {_dated(self.newest)}{why}"

    def to_json(self) -> dict[str, object]:
        return {
            "name": self.name,
            "chosen": {"version": self.chosen.version, "uploaded": _iso(self.chosen.uploaded)},
            "newest": {"version": self.newest.version, "uploaded": _iso(self.newest.uploaded)},
            "far": self.far,
            "why": self.why,
        }


@dataclass(slots=True, kw_only=True)
class Screening:
    """What was found about an answer."""

    days: int
    """The length of the quarantine; 0 where there is none."""
    unknown: list[str] = field(default_factory=list)
    """Packages whose age the index does not say."""
    unseen: list[str] = field(default_factory=list)
    """Plugins of which nobody could say whether there is a newer release."""
    held: list[dict[str, str]] = field(default_factory=list)
    """What was too new, and what is taken in its place."""
    exceptions: tuple[Exemption, ...] = ()
    """Those that counted."""
    behind: list[Behind] = field(default_factory=list)
    warnings: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "quarantine_days": self.days,
            "unknown_age": list(self.unknown),
            "unknown_newest": list(self.unseen),
            "held_back": list(self.held),
            "exceptions": [exemption.to_json() for exemption in self.exceptions],
            "behind": [found.to_json() for found in self.behind],
            "warnings": list(self.warnings),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    """What an answer is looked at with."""

    rules: Admission
    now: datetime
    network: Network
    registry: str | None
    """The address of the index that is asked."""
    cache: Path
    """A directory for what an index allows to be kept."""
    installed: Mapping[str, str]
    """Name → version of what the profile runs: it was let in before."""

    @property
    def cutoff(self) -> datetime | None:
        """What was uploaded later is too new."""
        return self.now - self.rules.quarantine if self.rules.quarantine else None


def make_screen(context: Context, rules: Admission, installed: Mapping[str, str]) -> Screen:
    """Return what an answer is looked at with; `installed` is what the profile runs."""
    registry = context.network.index_url
    if registry is None and context.network.fetches:
        # The default index has no name of its own anywhere: it is the one that PM itself was locked from.
        lock = seed_source(context.layout) / "pm" / "uv.lock"
        registry = parse_registry(lock.read_text(encoding="utf-8"))
    return Screen(
        rules=rules,
        now=context.clock(),
        network=context.network,
        registry=registry,
        cache=context.layout.offers,
        installed=installed,
    )


class Watch:
    """Reads what an index offers of plugins, while something else is done."""

    def __init__(self, screen: Screen, names: Collection[str]) -> None:
        self._screen = screen
        self._found: dict[str, list[Offer]] = {}
        self._threads = {name: threading.Thread(target=self._read, args=(name,), daemon=True) for name in names}
        for thread in self._threads.values():
            thread.start()

    def offers(self, name: str) -> list[Offer] | None:
        """Return the releases of a plugin, or None where nobody can say."""
        if name not in self._threads:
            self._read(name)
        else:
            self._threads[name].join(WAIT_SECONDS)
        return self._found.get(name)

    def _read(self, name: str) -> None:
        screen = self._screen
        if screen.network.offline or (screen.registry is None and screen.network.wheelhouse is None):
            return
        from perdure_pm.adapters.offers import read_offers  # 20 ms of http, which most operations do without

        try:
            self._found[name] = read_offers(name, screen.registry or "", screen.network, screen.cache)
        except (PerdureError, OSError):
            return  # unknown, which is said


def read_ages(lock: str) -> list[Aged]:
    """Return the packages that a uv.lock has from an index, with their ages.

    A TOML parser takes 100 ms for fifty packages, and this is asked at every change.
    """
    found = []
    for block in lock.split("[[package]]\n")[1:]:
        if "\nsource = { registry = " not in block:
            continue
        head = dict(_HEAD.findall(block))
        times = [datetime.fromisoformat(text) for text in _TIME.findall(block)]
        complete = bool(times) and len(times) == len(_FILE.findall(block))
        found.append(
            Aged(
                name=head.get("name", ""),
                version=head.get("version", ""),
                newest=max(times) if complete else None,
                first=min(times, default=None),
            )
        )
    return found


def format_cutoff(moment: datetime) -> str:
    """Return a moment as uv takes it."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def load_ages(project: Path) -> list[Aged]:
    """Return the packages of the project's uv.lock with their ages.

    Raises:
        BuildFailed: there is no lock, whatever uv said.
    """
    try:
        return read_ages((project / "uv.lock").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BuildFailed(f"uv said that it resolved, and its lock cannot be read: {error}") from error


def find_fresh(ages: Sequence[Aged], screen: Screen, spared: Collection[str]) -> list[Aged]:
    """Return what is too new, of all but `spared` and of what is installed already."""
    cutoff = screen.cutoff
    return [
        aged
        for aged in ages
        if cutoff is not None
        and aged.name not in spared
        and screen.installed.get(aged.name) != aged.version
        and aged.newest is not None
        and aged.newest > cutoff
    ]


def exact_pins(requirements: Sequence[str]) -> dict[str, str]:
    """Return name → version of the requirements that name exactly one version."""
    found = {}
    for text in requirements:
        parts = list(Requirement(text).specifier)
        if len(parts) == 1 and parts[0].operator in {"==", "==="} and not parts[0].version.endswith(".*"):
            found[requirement_name(text)] = parts[0].version
    return found


def spared_exceptions(
    screen: Screen, requirements: Sequence[str], locked: Collection[str], ages: Sequence[Aged]
) -> tuple[tuple[Exemption, ...], tuple[str, ...]]:
    """Return the exceptions that count here, and why others do not."""
    resolved = {aged.name for aged in ages}
    return judge_exemptions(screen.rules, exact_pins(requirements), locked, resolved, screen.now)


def refuse_fresh(
    fresh: Sequence[Aged],
    screen: Screen,
    requirements: Sequence[str],
    warnings: Sequence[str],
    *,
    verb: str = "plugin add",
) -> QuarantineRefused:
    """Return the refusal of what is too new where nothing older fits, with the ways out.

    Args:
        fresh: what is.
        screen: with the rules.
        requirements: what was asked for.
        warnings: why exceptions that there are do not count.
        verb: the command by which one of the fresh ones is pinned.
    """
    first = fresh[0]
    direct = {requirement_name(text) for text in requirements}
    lines = [f"{aged.name} {aged.version} was uploaded {_age(aged, screen.now)}" for aged in fresh]
    waited = max(aged.newest for aged in fresh if aged.newest is not None) + screen.rules.quarantine
    lines.append(f"wait until {waited:%Y-%m-%d %H:%M} UTC")
    others = [f"{one.name}=={one.version} until {one.until} because {one.reason}" for one in screen.rules.exemptions]
    until = waited.date().isoformat()
    asked = [f"{aged.name}=={aged.version} until {until} because REASON" for aged in fresh]
    pins = " ".join(f"'{aged.name}=={aged.version}'" for aged in fresh if verb == "plugin add" or aged.name in direct)
    command = f"perdure-pm config set install.quarantine-exceptions '{', '.join([*others, *asked])}'"
    by_hand = "" if all(aged.name in direct for aged in fresh) else "   (which makes each a plugin of the profile)"
    if pins:
        agreed = " --yes" if verb == "host init" else ""
        lines.append(f"or let it through: {command}, then perdure-pm {verb} {pins}{agreed}{by_hand}")
    return QuarantineRefused(
        f"{first.name} {first.version} was uploaded {_age(first, screen.now)}, the quarantine is "
        f"{screen.rules.quarantine.days} days, and nothing older fits",
        hint=f"wait until {waited:%Y-%m-%d %H:%M} UTC, or let it through with an exception: {EXCEPTION_FORM}",
        context={
            "fresh": [{"name": aged.name, "version": aged.version, "uploaded": _iso(aged.newest)} for aged in fresh],
            "quarantine_days": screen.rules.quarantine.days,
            "lines": [*lines, *warnings],
        },
    )


def held_back(aged: Aged, taken: str | None) -> dict[str, str]:
    """Return how a plan says that something is too new, and what is installed in its place (nothing: it goes away)."""
    return {
        "name": aged.name,
        "version": aged.version,
        "uploaded": _iso(aged.newest) or "",
        "taken": taken or "",
    }


def find_behind(
    requirements: Sequence[str],
    ages: Sequence[Aged],
    locked: Collection[str],
    watch: Watch,
    screen: Screen,
    python: str,
    found: Screening,
) -> list[Behind]:
    """Return the plugins that are older than they need be, and note in `found` of which nobody can say."""
    behind = []
    by_name = {aged.name: aged for aged in ages}
    for text in requirements:
        asked = Requirement(text)
        name = normalise_distribution(asked.name)
        aged = by_name.get(name)
        if aged is None or name in locked or name in exact_pins([text]):
            continue
        before = screen.installed.get(name)
        if before is not None and Version(before) <= Version(aged.version):
            continue  # nothing went back: it stayed, or it moved on
        offers = watch.offers(name)
        if offers is None:
            found.unseen.append(name)
            continue
        prereleases = bool(asked.specifier.prereleases) or Version(aged.version).is_prerelease
        newest = find_newest(offers, asked.specifier, python, before=screen.cutoff, prereleases=prereleases)
        if newest is None or Version(newest.version) <= Version(aged.version):
            continue
        mine = next((offer for offer in offers if offer.version == aged.version), None)
        chosen = Offer(version=aged.version, uploaded=aged.first or (mine.uploaded if mine else None))
        behind.append(Behind(name=name, chosen=chosen, newest=newest, far=is_far_back(chosen, newest)))
    return behind


def refuse_behind(found: Sequence[Behind], requirements: Sequence[str]) -> ConflictRefused:
    """Return the refusal of plugins that would be too far back."""
    far = [one for one in found if one.far]
    ways = [
        f"to have the old one all the same: perdure-pm plugin add '{one.name}=={one.chosen.version}'" for one in far
    ]
    return ConflictRefused(
        f"the newest release of {far[0].name} does not fit, and an old one only seems to: {far[0]}",
        hint=f"where the old release is what you want: perdure-pm plugin add '{far[0].name}=={far[0].chosen.version}'",
        context={
            "requirements": list(requirements),
            "behind": [one.to_json() for one in found],
            "lines": [*(str(one) for one in far[1:]), *ways, f"or leave out {far[0].name}"],
        },
    )


def _age(aged: Aged, now: datetime) -> str:
    if aged.newest is None:
        return "at an unknown time"
    seconds = max(0.0, (now - aged.newest).total_seconds())
    if seconds < 2 * 86400:
        return f"{int(seconds // 3600)} hours ago"
    return f"{int(seconds // 86400)} days ago"


def _dated(offer: Offer) -> str:
    return offer.version if offer.uploaded is None else f"{offer.version} of {offer.uploaded:%Y-%m-%d}"


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat(timespec="seconds")
