"""What a publication is to bring about: what a verb asks, joined with the intent.

Owns: the inputs that determine a generation, their digest, which generation answers them already, and what the profile
had before. Does not own: reading the intent (intent), resolving or building. Keeps: pm-same-inputs-noop.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from perdure_pm.adapters.interpreter import Interpreter, interpreter_from_json, target_name
from perdure_pm.model.choice import Choice, SitOut, names_of
from perdure_pm.model.errors import IntegrityFault, UsageFault
from perdure_pm.model.identity import parse_generation_number
from perdure_pm.model.requirement import requirement_name
from perdure_pm.ops.build import Wheel
from perdure_pm.ops.context import Context
from perdure_pm.ops.host import require_python
from perdure_pm.ops.intent import Intent
from perdure_pm.ops.release import Release, require_extras
from perdure_pm.ops.selection import Selection, parse_selection
from perdure_pm.ops.sitting_out import find_sit_outs
from perdure_pm.ops.snapshots import Seen, Snapshot
from perdure_pm.ops.soundness import find_damage
from perdure_pm.store.generations import Generation, list_identities, load_generation
from perdure_pm.store.history import load_history
from perdure_pm.store.published import load_sit_outs
from perdure_pm.store.recorded import selection_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What a verb asks of a publication."""

    operation: str
    checkout: str | None = None
    """The host's source tree, where it is to change."""
    plugins: Callable[[tuple[str, ...]], tuple[str, ...]] | None = None
    """What becomes of the profile's plugins; None leaves them."""
    switch: Callable[[Choice], Choice] | None = None
    """What becomes of what is disabled, once `plugins` was asked; None leaves it."""
    renew: tuple[str, ...] | None = None
    """Normalised names of the plugins that are looked up anew while the others stay; none names all, None not one."""
    extras: tuple[str, ...] = ()
    """Extras of the host that join those which are wanted already."""
    learned: tuple[SitOut, ...] = ()
    """What was found not to fit while this was carried out."""
    upgrade: bool = False
    """Whether versions that still fit are looked up anew."""
    confirm_within: timedelta | None = None
    """How long the new generation is on trial."""
    consent: frozenset[str] | None = None
    """The packages that may be added without a person having named them; None for all of them."""
    keep_plugins: bool = False
    """Whether it is refused that a plugin which runs now would sit out."""
    expected: str | None = None
    """The digest of the profile's config.yaml that the caller saw, if that matters."""

    @property
    def looks_anew(self) -> bool:
        """Whether equal inputs are no answer: a newer version of something may be had."""
        return self.upgrade or self.renew is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Everything that determines what a generation holds."""

    release: Release
    extras: tuple[str, ...]
    """The host's extras, sorted."""
    selection: Selection
    """What is part of the generation: neither what is disabled nor what sits out."""
    interpreter: Interpreter
    choice: Choice
    """What the profile's configuration says, or is to say."""
    sit_outs: tuple[SitOut, ...] = ()
    seen: tuple[Seen, ...] = ()
    """The sources of the selection as they are now."""
    snapshots: tuple[Snapshot, ...] = ()
    """The same in the store, external ones left out; empty until they were made."""
    renew: tuple[str, ...] = ()
    """Normalised names of what is looked up anew although the generation before has it."""

    def inputs(self) -> dict[str, Any]:
        """Return the inputs as JSON; equal inputs mean an equal generation."""
        return {
            "release": self.release.digest,
            "extras": list(self.extras),
            "plugins": list(self.selection.entries),
            "interpreter": self.interpreter.to_json(),
            "target": target_name(),
            # Only where there are any, so that the digests of generations without them stay what they were.
            **(
                {"sources": [{"name": item.source.name, "digest": item.digest} for item in self.seen]}
                if self.seen
                else {}
            ),
        }

    def digest(self) -> str:
        """Return the inputs' sha256 in hex."""
        return hashlib.sha256(json.dumps(self.inputs(), sort_keys=True).encode()).hexdigest()

    def wheels(self) -> list[Wheel]:
        """Return the release's wheels without the bundled plugins that are not selected, and those of the snapshots."""
        return [*self.host_wheels(), *(snapshot.wheel for snapshot in self.snapshots)]

    def installed_names(self) -> tuple[str, ...]:
        """Return the distributions of the selection that are installed: all but programs of their own."""
        external = {item.source.name for item in self.seen if item.external is not None}
        return tuple(name for name in self.selection.names() if name not in external)

    def host_wheels(self) -> list[Wheel]:
        """Return the release's wheels without the bundled plugins that are not selected."""
        selected = {plugin.distribution for plugin in self.selection.bundled}
        bundle = {plugin.distribution for plugin in self.release.plugins}
        return [wheel for wheel in self.release.wheels if wheel.distribution not in bundle - selected]


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """What a profile had when it was published last."""

    release: str | None
    """The digest of the host's release; None where nothing is known to run."""
    python: tuple[int, int] | None
    """The minor version of the interpreter, where something runs."""
    runs: tuple[str, ...]
    """The entries that are part of the generation."""
    enabled: frozenset[str]
    """The entries that were enabled, whether they run or sit out."""
    known: tuple[SitOut, ...]
    """What sat out."""

    def names(self) -> set[str]:
        """Return the normalised names of what runs."""
        return names_of(self.runs)


def load_before(context: Context, current: Generation | None) -> Before:
    """Return what the profile had when it was published last, as far as its files still say."""
    layout = context.layout
    known = load_sit_outs(layout, context.profile)
    runs = () if current is None else selection_of(current)
    history = load_history(layout, context.profile)
    # What runs and nothing else where that is not known: a rollback tells a generation, and not always a choice.
    last = history[-1] if history and (current is None or history[-1].generation == current.identity) else None
    listed = Choice(plugins=last.choice[0], disabled=last.choice[1]) if last and last.choice else Choice(plugins=())
    return Before(
        release=None if current is None else str(current.record["host"]["release"]),
        python=None if current is None else interpreter_from_json(current.record["interpreter"]).release,
        runs=runs,
        enabled=frozenset((*runs, *listed.enabled(), *(sit_out.entry for sit_out in known))),
        known=known,
    )


def want(release: Release, intent: Intent, change: Change, interpreter: Interpreter, before: Before) -> Wanted:
    """Return what is wanted: the intent's plugins (the whole bundle where it names none), as `change` leaves them.

    Args:
        release: the host.
        intent: what the configuration says.
        change: what becomes of it.
        interpreter: what the generation is for.
        before: what the profile had when it was published last.
    """
    require_python(release, interpreter)
    entries = intent.plugins
    if entries is None:
        entries = tuple(plugin.distribution for plugin in release.plugins)
    if change.plugins is not None:
        entries = change.plugins(entries)
    choice = Choice(plugins=entries, disabled=intent.disabled)
    if change.switch is not None:
        choice = change.switch(choice)
    renew = _choose_renewed(change, choice)
    known = () if change.upgrade else [sit_out for sit_out in before.known if sit_out.name not in renew]
    sit_outs = find_sit_outs(choice.enabled(), release, interpreter, [*known, *change.learned], before.enabled)
    out = {sit_out.entry for sit_out in sit_outs}
    extras = tuple(sorted({*intent.home.host_extras, *change.extras}))
    require_extras(release, extras)
    selection = parse_selection(release, [entry for entry in choice.enabled() if entry not in out])
    asked = {requirement_name(text) for text in selection.requirements}
    return Wanted(
        release=release,
        extras=extras,
        selection=selection,
        interpreter=interpreter,
        choice=choice,
        sit_outs=sit_outs,
        renew=tuple(sorted(asked & renew)),
    )


def _choose_renewed(change: Change, choice: Choice) -> set[str]:
    """Return the names of what is to be looked up anew.

    Raises:
        UsageFault: one is not among the plugins.
    """
    listed = names_of(choice.plugins)
    missing = [name for name in change.renew or () if name not in listed]
    if missing:
        raise UsageFault(
            f"{missing[0]} is not among the plugins of this profile",
            hint="perdure-pm plugin list",
            context={"plugins": sorted(listed)},
        )
    return set() if change.renew is None else set(change.renew) or listed


def leave_out(wanted: Wanted, sit_out: SitOut) -> Wanted:
    """Return what is wanted while that plugin sits out too."""
    entries = [entry for entry in wanted.selection.entries if entry != sit_out.entry]
    selection = parse_selection(wanted.release, entries)
    return replace(
        wanted,
        selection=selection,
        sit_outs=(*wanted.sit_outs, sit_out),
        seen=tuple(seen for seen in wanted.seen if seen.source.name != sit_out.name),
        snapshots=tuple(snapshot for snapshot in wanted.snapshots if snapshot.name != sit_out.name),
    )


def answers(context: Context, generation: Generation, wanted: Wanted) -> bool:
    """Return whether a generation is what is wanted, and undamaged."""
    return generation.record["inputs_digest"] == wanted.digest() and not find_damage(context.layout, generation)


def find_sealed(context: Context, wanted: Wanted) -> Generation | None:
    """Return the newest sealed, sound generation with the wanted inputs: another profile's, or an earlier one's."""
    layout, ending = context.layout, f"-{wanted.digest()[:12]}"
    # Its name says so: there may be dozens, each of whose records takes a millisecond to read.
    names = [name for name in list_identities(layout) if name.endswith(ending)]
    for name in sorted(names, key=lambda name: parse_generation_number(name) or 0, reverse=True):
        with contextlib.suppress(IntegrityFault):
            found = load_generation(layout, name)
            if answers(context, found, wanted):
                return found
    return None
