"""Explaining a refusal of the resolver: what clashes with what, and what would help.

Owns: the trials that answer it, in an order and within a budget, and the verdict whether it is a conflict at all: only
where the host alone and each of the plugins alone resolve. Does not own: the search (ops.conflict), the words
(model.clash). Nothing is built, and nothing but a scratch directory is written.

Versions, graphs and what fits come from resolutions; only the versions that a distribution asks of another are read
off uv's words, of which a trial that is made for it keeps them short. Where they cannot be read, the chain says less.

Keeps: plugins-outage-is-no-conflict, plugins-conflict-explained.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import Version

from perdure_pm.model.clash import Clash, Step, WayOut, summarise
from perdure_pm.model.errors import BuildRefused, ConflictRefused, PerdureError
from perdure_pm.model.identity import normalise_distribution
from perdure_pm.model.offer import Offer, is_far_back
from perdure_pm.model.requirement import requirement_name
from perdure_pm.ops.conflict import BudgetSpent, Counted, find_clashes
from perdure_pm.ops.trials import Ground, Locked, host_versions, is_unsolvable, said_by_uv

MAX_TRIALS = 24
"""How many resolutions the explanation of one clash may take; each further one may take half as many."""
MAX_SECONDS = 60.0
"""After which no further one is begun."""
MAX_CLASHES = 4
"""How many independent clashes are explained."""

_NAME = r"[a-z0-9][a-z0-9._-]*"
_DECORATION = r"(?:\[[^\]]*\])?(?:\{[^}]*\})?"
_VERSIONS = r"(?:[<>=!~]=?=?[^\s,;]+(?:,[<>=!~]=?=?[^\s,;]+)*)?"
_NEEDS = re.compile(
    rf"(?P<who>{_NAME}){_DECORATION}(?:[<>=!~][^\s]*)? depends? on "
    rf"(?P<what>{_NAME}){_DECORATION}(?P<versions>{_VERSIONS})"
)
_AND = re.compile(rf" and (?P<what>{_NAME}){_DECORATION}(?P<versions>{_VERSIONS})(?=,| and |$)(?! depends? on)")
_ONE_OF = re.compile(
    rf"(?P<who>{_NAME}){_DECORATION}(?:[<>=!~][^\s]*)? depends? on one of: (?P<list>(?:{_NAME}[^\s]+ ?)+)"
)


def explain(
    ground: Ground,
    requirements: Sequence[str],
    failure: PerdureError,
    *,
    there: Collection[str] = (),
    with_ways: bool = True,
) -> PerdureError:
    """Return the conflict that `failure` is, or what else it is.

    Args:
        ground: of the resolution that failed.
        requirements: what did not resolve with the host.
        failure: how uv refused; with its words.
        there: the names of what the profile runs now.
        with_ways: whether ways out are tried.
    """
    if not is_unsolvable(failure):
        return failure  # uv was killed, or broke, or nothing could be reached: it never came to an answer
    inquiry = _Inquiry(ground=ground, requirements=tuple(requirements), failure=failure, there=tuple(there))
    try:
        clashes, whole = inquiry.answer(with_ways=with_ways)
    except PerdureError as error:
        return error
    summary, lines, hint = summarise(clashes, whole=whole)
    return ConflictRefused(
        summary,
        hint=hint,
        context={
            "requirements": list(requirements),
            "clashes": [clash.to_json() for clash in clashes],
            "whole": whole,
            "lines": lines,
            "uv": said_by_uv(failure),
        },
    )


def why_not(ground: Ground, chosen: Mapping[str, str], requirements: Sequence[str], name: str, version: str) -> str:
    """Return why a plugin is not resolved to that version beside the others, in words; nothing where nobody knows.

    Args:
        ground: of the resolution.
        chosen: name → version of what it came to.
        requirements: the plugins.
        name: one of them, normalised.
        version: the one that it could have.
    """
    versions = {**chosen, name: version}
    wanted = tuple(_pinned(text, versions.get(requirement_name(text))) for text in requirements)
    try:
        ground.try_lock(wanted)
    except BuildRefused as failure:
        return f"{failure.context.get('package')} has no wheel, and its source may not be built (install.build)"
    except PerdureError as failure:
        inquiry = _Inquiry(ground=ground, requirements=wanted, failure=failure, there=())
        try:
            return inquiry.answer(with_ways=False, most=1)[0][0].why() if is_unsolvable(failure) else ""
        except PerdureError:
            return ""
    return f"{name} {version} would fit, and the resolver chose otherwise"


@dataclass(slots=True, kw_only=True)
class _Inquiry:
    ground: Ground
    requirements: tuple[str, ...]
    failure: PerdureError
    there: tuple[str, ...]
    trials: int = 0
    budget: int = field(default_factory=lambda: MAX_TRIALS)
    begun: float = field(default_factory=time.monotonic)
    said: dict[frozenset[str], str] = field(default_factory=dict)
    """uv's words on the sets that do not fit."""
    fitting: set[frozenset[str]] = field(default_factory=set)

    def answer(self, *, with_ways: bool, most: int | None = None) -> tuple[tuple[Clash, ...], bool]:
        """Return what clashes, and whether that was shown to be all of it.

        Raises:
            PerdureError: it is no conflict: this is what it is.
        """
        self.ground.tell("it does not fit: finding out what clashes")
        self._locked((), needed=True)  # where the host alone does not resolve, it is not the plugins
        self.said[frozenset(self.requirements)] = said_by_uv(self.failure)
        most = MAX_CLASHES if most is None else most
        fits = Counted(self._fits, MAX_TRIALS * most)
        found, whole = find_clashes(self.requirements, fits, self._suspects, most)
        found = tuple(sorted(found, key=lambda clash: self.requirements.index(clash.entries[0])))
        clashing = {text for clash in found for text in clash.entries}
        self.budget += (len(found) - 1) * MAX_TRIALS // 2
        clashes = []
        for clash in found:
            # Whatever it costs: one that does not exist clashes with nothing.
            alone = {text: self._alone(text) for text in clash.entries}
            # Of several, each is looked at without the others: what helps against one of them helps against no other.
            beside = tuple(text for text in self.requirements if text in clash.entries or text not in clashing)
            only = replace(self, requirements=beside)
            clashes.append(only.describe(clash.entries, alone, smallest=clash.smallest, with_ways=with_ways))
            self.trials = only.trials
        return tuple(clashes), whole

    def _suspects(self, requirements: Sequence[str]) -> list[str]:
        return mentioned(requirements, self.said.get(frozenset(requirements), ""))

    # what is tried

    def _alone(self, text: str) -> Locked:
        """Return what a plugin resolves to without the host.

        A host that was built here is on no index, and so is not found by a plugin alone. Where that is what is missing,
        and in another version than the host's, the need for it is all that there is to know.

        Raises:
            PerdureError: something else is missing: that is no clash.
        """
        try:
            return self._locked((text,), bind=False, needed=True)
        except PerdureError as error:
            own = {wheel.distribution: wheel.version for wheel in self.ground.release.wheels}
            told = parse_needs(said_by_uv(error)).items() if is_unsolvable(error) else ()
            unmet = [pair for pair, wanted in told if pair[1] in own and not _admits(wanted, own[pair[1]])]
            if not unmet:
                raise
            who, what = unmet[0]
            name = requirement_name(text)
            version = self.ground.sources[text].version if text in self.ground.sources else ""
            packages = [{"name": name, "version": version, "dependencies": [{"name": what if who == name else who}]}]
            packages += [] if who == name else [{"name": who, "dependencies": [{"name": what}]}]
            return Locked({"package": packages})

    def _locked(
        self,
        requirements: Sequence[str],
        *,
        bind: bool = True,
        hosts: Sequence[str] | None = None,
        constraints: Sequence[str] = (),
        needed: bool = False,
    ) -> Locked:
        if not needed and (self.trials >= self.budget or time.monotonic() - self.begun > MAX_SECONDS):
            raise BudgetSpent
        self.trials += 1
        return self.ground.try_lock(requirements, bind=bind, hosts=hosts, constraints=constraints)

    def _fits(self, requirements: Sequence[str]) -> bool:
        asked = frozenset(requirements)
        if asked in self.fitting or asked in self.said:
            return asked in self.fitting
        try:
            self._locked(requirements)
        except PerdureError as error:
            if not is_unsolvable(error):
                raise
            self.said[asked] = said_by_uv(error)
            return False
        self.fitting.add(asked)
        return True

    # what is said

    def describe(
        self, clash: tuple[str, ...], alone: Mapping[str, Locked], *, smallest: bool, with_ways: bool
    ) -> Clash:
        release = self.ground.release
        locked = {name: versions for name, versions in host_versions(release).items() if versions}
        contested, chains = self._find_chains(alone, locked)
        ways, not_tried = self._find_ways(clash, alone) if with_ways else ((), ())
        return Clash(
            host=release.name,
            host_version=release.version,
            plugins=clash,
            smallest=smallest,
            chains=chains,
            contested=contested,
            locked=", ".join(sorted(locked[contested])) if contested in locked else None,
            ways=ways,
            not_tried=not_tried,
            trials=self.trials,
        )

    def _find_chains(
        self, alone: Mapping[str, Locked], locked: Mapping[str, set[str]]
    ) -> tuple[str | None, tuple[tuple[Step, ...], ...]]:
        """Return what is contested and how each plugin comes to it, at the versions that each has alone."""
        versions = {text: found.versions() for text, found in alone.items()}
        names = {text: requirement_name(text) for text in alone}
        needs = self._ask_for_needs(versions, names, locked)
        contested = _find_contested(needs, versions, names, locked)
        if contested is None:
            return None, ()
        chains = []
        for text, found in alone.items():
            way = found.path(names[text], contested)
            steps = []
            for who, what in pairwise(way):
                wanted = needs.get((who, what))
                if wanted is None and what == contested:
                    wanted = f"=={versions[text].get(what, '?')}" if contested in locked else ""
                steps.append(Step(name=who, version=versions[text].get(who, ""), needs=f"{what}{wanted or ''}"))
            if steps:
                chains.append(tuple(steps))
            elif names[text] == contested:
                bare = Requirement(text)
                chains.append((Step(name="the profile", version="", needs=f"{contested}{bare.specifier}"),))
        return contested, tuple(chains)

    def _ask_for_needs(
        self, versions: Mapping[str, Mapping[str, str]], names: Mapping[str, str], locked: Mapping[str, set[str]]
    ) -> dict[tuple[str, str], str]:
        """Return what distributions ask of each other, by both names, from a refusal that is about one version each."""
        pins: dict[str, str] = {}
        for found in versions.values():
            for name, version in found.items():
                if name not in locked and pins.setdefault(name, version) != version:
                    pins[name] = ""
        constraints = [f"{name}=={version}" for name, version in pins.items() if version]
        first = parse_needs(said_by_uv(self.failure))
        try:
            self._locked(tuple(names), constraints=constraints)
        except PerdureError as error:
            # uv tells a need as those of the versions that it admits: of what was pinned, that one, which says nothing.
            told = parse_needs(said_by_uv(error))
            return {pair: "" if wanted == f"=={pins.get(pair[1])}" else wanted for pair, wanted in told.items()}
        except BudgetSpent:
            pass
        return first

    def _find_ways(
        self, clash: tuple[str, ...], alone: Mapping[str, Locked]
    ) -> tuple[tuple[WayOut, ...], tuple[str, ...]]:
        """Return the ways out that were tried, those that fit first, and what was not tried."""
        release = self.ground.release
        plans: list[tuple[str, Callable[[], WayOut | None]]] = [
            *(
                (f"another version of {requirement_name(text)}", partial(self._other_version, text, alone[text]))
                for text in clash
                if text not in self.ground.sources
            ),
            (f"a newer {release.name}", self._newer_host),
            *((f"leaving out {requirement_name(text)}", partial(self._without, text)) for text in clash),
            (f"any version of {release.name}", self._any_host),
        ]
        ways: list[WayOut] = []
        not_tried: list[str] = []
        for what, attempt in plans:
            self.ground.tell(f"trying {what}")
            try:
                way = attempt()
            except (BudgetSpent, PerdureError):
                not_tried.append(what)
                continue
            if way is not None and all(way.what != other.what for other in ways):
                ways.append(way)
        if self.ground.rules.builds is not None and "no usable wheels" in said_by_uv(self.failure):
            not_tried.append("versions that have no wheel: building their source is not allowed (install.build)")
        return tuple(sorted(ways, key=lambda way: (not way.fits, way.doubtful))), tuple(not_tried)

    def _other_version(self, text: str, alone: Locked) -> WayOut | None:
        """Try every version of a plugin where its requirement excludes some, then its pre-releases."""
        if text in self.ground.sources:
            return None  # there is one version of what is at an address
        asked = Requirement(text)
        extras = f"[{','.join(sorted(asked.extras))}]" if asked.extras else ""
        others = [other for other in self.requirements if other != text]
        name = normalise_distribution(asked.name)
        bare = f"{asked.name}{extras}"
        for wanted, kind in [(bare, "version"), (f"{bare}>=0.dev0", "pre-release")]:
            if wanted == text or (kind == "version" and not asked.specifier):
                continue
            try:
                version = self._locked((*others, wanted)).versions()[name]
            except PerdureError as error:
                if not is_unsolvable(error):
                    raise
                continue
            newest = alone.versions().get(name, version)
            far = is_far_back(Offer(version=version, uploaded=None), Offer(version=newest, uploaded=None))
            doubtful = far and Version(version) < Version(newest)
            more = f", far older than {newest}: it may only seem to fit" if doubtful else ""
            more += ", a pre-release" if kind != "version" else ""
            command = f"perdure-pm plugin add '{bare}=={version}'"
            return WayOut(what=f"{name} {version}{more}", command=command, fits=True, doubtful=doubtful)
        return WayOut(what=f"any other version of {name}", command=None, fits=False)

    def _newer_host(self) -> WayOut | None:
        """Try the newest host that its own requirement allows."""
        requirement = _host_requirement(self.ground)
        if requirement is None:
            return None
        version = self._host_with([requirement])
        release = self.ground.release
        if version is None or Version(version) <= Version(release.version):
            return WayOut(what=f"a newer {release.name} that fits {requirement}", command=None, fits=False)
        return WayOut(what=f"{release.name} {version}", command="perdure-pm upgrade", fits=True)

    def _any_host(self) -> WayOut | None:
        """Try every version of the host, then its pre-releases."""
        requirement = _host_requirement(self.ground)
        if requirement is None:
            return None
        asked = Requirement(requirement)
        extras = f"[{','.join(sorted(asked.extras))}]" if asked.extras else ""
        release = self.ground.release
        for wanted in (f"{asked.name}{extras}", f"{asked.name}{extras}>=0.dev0"):
            version = None if wanted == requirement else self._host_with([wanted])
            if version is not None and Version(version) > Version(release.version):
                command = f"perdure-pm host init '{asked.name}{extras}=={version}' --yes"
                return WayOut(what=f"{release.name} {version}", command=command, fits=True)
        return WayOut(what=f"any newer {release.name}", command=None, fits=False)

    def _host_with(self, hosts: Sequence[str]) -> str | None:
        beside = json.loads(self.ground.release.source).get("with", [])
        try:
            found = self._locked(self.requirements, bind=False, hosts=[*hosts, *beside])
        except PerdureError as error:
            if not is_unsolvable(error):
                raise
            return None
        return found.versions().get(normalise_distribution(self.ground.release.name))

    def _without(self, text: str) -> WayOut:
        rest = tuple(other for other in self.requirements if other != text)
        name = requirement_name(text)
        fits = not rest or self._fits(rest)
        command = f"perdure-pm plugin disable {name}" if name in self.there else None
        more = "" if fits else " alone (more than this clashes)"
        return WayOut(what=f"leaving out {name}{more}", command=command if fits else None, fits=fits)


def _pinned(text: str, version: str | None) -> str:
    """Return a requirement for that version alone, extras and markers kept; as it is where there is no version."""
    requirement = Requirement(text)
    if version is None:
        return text
    extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
    marker = f" ; {requirement.marker}" if requirement.marker else ""
    return f"{requirement.name}{extras}=={version}{marker}"


def mentioned(requirements: Sequence[str], said: str) -> list[str]:
    """Return the requirements whose names stand in uv's words."""
    words = set(re.findall(_NAME, said))
    words |= {word.rstrip(".") for word in words}
    return [text for text in requirements if requirement_name(text) in words]


def parse_needs(said: str) -> dict[tuple[str, str], str]:
    """Return what uv's explanation says that distributions need of each other: (who, what) → versions."""
    text = " ".join(said.split())
    found: dict[tuple[str, str], str] = {}
    for match in _ONE_OF.finditer(text):
        choices = match["list"].split()
        what = re.match(_NAME, choices[0])
        if what is not None:
            found.setdefault((match["who"], what[0]), " or ".join(choice[len(what[0]) :] for choice in choices))
    for match in _NEEDS.finditer(text):
        if match["what"] == "one" or match["who"] == "project":
            continue
        found.setdefault((match["who"], match["what"]), match["versions"])
        end = match.end()
        while more := _AND.match(text, end):
            found.setdefault((match["who"], more["what"]), more["versions"])
            end = more.end()
    return found


def _find_contested(
    needs: Mapping[tuple[str, str], str],
    versions: Mapping[str, Mapping[str, str]],
    names: Mapping[str, str],
    locked: Mapping[str, set[str]],
) -> str | None:
    """Return the distribution on which the plugins and the host's lock do not agree."""
    for (_, what), wanted in needs.items():
        if what in locked and wanted and not any(_admits(wanted, version) for version in locked[what]):
            return what
    for text, name in names.items():  # asked for by the profile, and locked by the host
        if name in locked and not any(_admits(str(Requirement(text).specifier), version) for version in locked[name]):
            return name
    asked = {what for _, what in needs}
    for what in sorted(asked):
        several = {found[what] for found in versions.values() if what in found}
        if len(several) > 1 and what not in locked:
            return what
    moved = [
        name
        for found in versions.values()
        for name, version in found.items()
        if name in locked and version not in locked[name] and name in asked
    ]
    return moved[0] if len(set(moved)) == 1 else None


def _admits(versions: str, version: str) -> bool:
    try:
        return any(SpecifierSet(choice).contains(version, prereleases=True) for choice in versions.split(" or "))
    except InvalidSpecifier:
        return True


def _host_requirement(ground: Ground) -> str | None:
    """Return the requirement by which the host is had from an index, or None where it is had otherwise."""
    try:
        found = json.loads(ground.release.source).get("requirement")
        return str(Requirement(found)) if isinstance(found, str) else None
    except (ValueError, AttributeError, InvalidRequirement):
        return None
