"""What is said of plugins that do not fit: the smallest sets that clash, the chains, and ways out.

Owns: the values, their JSON and their words. Does not own: finding any of it out (ops.explanation).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One distribution that needs another."""

    name: str
    version: str
    needs: str
    """The requirement, as far as it is known: a name, with versions where the resolver told them."""

    def __str__(self) -> str:
        return f"{self.name} {self.version} needs {self.needs}".replace("  ", " ")

    def to_json(self) -> dict[str, str]:
        return {"name": self.name, "version": self.version, "needs": self.needs}


@dataclass(frozen=True, slots=True, kw_only=True)
class WayOut:
    """Something that could be done instead, and whether it was found to resolve."""

    what: str
    """A clause: ``gadget 1.5 fits``."""
    command: str | None
    """What does it, where one command does."""
    fits: bool
    doubtful: bool = False
    """Whether it resolves, but may do so only because an old release said too little of what it needs."""

    def to_json(self) -> dict[str, object]:
        return {"what": self.what, "command": self.command, "fits": self.fits, "doubtful": self.doubtful}


@dataclass(frozen=True, slots=True, kw_only=True)
class Clash:
    """Why plugins do not fit, with what was tried."""

    host: str
    host_version: str
    plugins: tuple[str, ...]
    """The requirements that clash, as the profile lists them."""
    smallest: bool
    """Whether every smaller set was shown to fit."""
    chains: tuple[tuple[Step, ...], ...]
    """From each of the plugins to what is contested."""
    contested: str | None
    """The distribution on which they do not agree."""
    locked: str | None
    """The version of it that the host locked, where it did."""
    ways: tuple[WayOut, ...]
    """Tried ones, the best first; those that do not fit too."""
    not_tried: tuple[str, ...]
    """What was left out, in words, because of the budget or because it would build a source."""
    trials: int
    """How many lock-only resolutions it took."""

    def summary(self) -> str:
        """Return one sentence: what cannot be installed, and why."""
        names = " and ".join(self.plugins) if len(self.plugins) < 4 else ", ".join(self.plugins)
        return f"{names} cannot be installed with {self.host} {self.host_version}: {self.why() or 'they do not fit'}"

    def why(self) -> str:
        """Return the chains and what they run into; nothing where that could not be learned."""
        why = ", ".join(f"{step}" for chain in self.chains for step in chain)
        if self.contested == self.host:
            return f"{why}, and the host is {self.host} {self.host_version}"
        if self.locked is not None:
            return f"{why}, and {self.host} {self.host_version} locked {self.contested} {self.locked}"
        if self.contested is not None and len(self.chains) > 1:
            return f"{why}: no {self.contested} is both"
        return why

    def lines(self) -> list[str]:
        """Return what a person reads below the summary."""
        found = [way for way in self.ways if way.fits]
        failed = [way for way in self.ways if not way.fits]
        lines = [f"tried and fits: {way.what}" + (f": {way.command}" if way.command else "") for way in found]
        lines += [f"tried, does not fit: {way.what}" for way in failed]
        return lines + [f"not tried: {what}" for what in self.not_tried]

    def hint(self) -> str:
        """Return the best way out that was tried, as something to do."""
        way = next((way for way in self.ways if way.fits and not way.doubtful), None)
        said = None if way is None else way.command or way.what.replace("leaving out", "leave out", 1)
        return said or f"leave out {self.plugins[0]}"

    def to_json(self) -> dict[str, object]:
        return {
            "host": {"name": self.host, "version": self.host_version},
            "plugins": list(self.plugins),
            "smallest": self.smallest,
            "why": self.why(),
            "chains": [[step.to_json() for step in chain] for chain in self.chains],
            "contested": self.contested,
            "locked": self.locked,
            "ways_out": [way.to_json() for way in self.ways],
            "not_tried": list(self.not_tried),
            "trials": self.trials,
        }


def summarise(clashes: Sequence[Clash], *, whole: bool) -> tuple[str, list[str], str]:
    """Return the sentence, the lines below it and the hint of a refusal because of these clashes.

    Args:
        clashes: at least one; independent of each other, so each needs a way out of its own.
        whole: whether there are no others.
    """
    first = clashes[0]
    more = "" if whole else "more than this may clash: it shows once these are out of the way"
    if len(clashes) == 1:
        return first.summary(), first.lines() + ([more] if more else []), first.hint()
    summary = f"{len(clashes)} clashes that have nothing to do with each other: "
    lines = []
    for number, clash in enumerate(clashes, 1):
        lines += [f"{number}. {clash.summary()}", *(f"   {line}" for line in clash.lines())]
    hints = dict.fromkeys(clash.hint() for clash in clashes)
    return (
        summary + "; ".join(clash.summary() for clash in clashes),
        lines + ([more] if more else []),
        "each needs a way out of its own: " + ", and ".join(hints),
    )
