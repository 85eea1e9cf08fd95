"""What a profile chooses: its plugins in load order, which of them are disabled, and which sit out.

Owns: the values, and the rule that `disabled` beats the list, under every spelling of a name. Does not own: the file
(model.config), why a plugin sits out (ops.sitting_out), resolving.

Keeps: plugins-disabled-beats: an entry whose name stands under `disabled` is never part of a generation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from perdure_pm.model.requirement import requirement_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Both lists of a profile."""

    plugins: tuple[str, ...]
    """Entries in load order, disabled ones included."""
    disabled: tuple[str, ...] = ()
    """Names, in any spelling; a whole entry counts by its name."""

    def enabled(self) -> tuple[str, ...]:
        """Return the entries that are not disabled."""
        off = names_of(self.disabled)
        return tuple(entry for entry in self.plugins if requirement_name(entry) not in off)

    def without(self, names: Iterable[str]) -> Choice:
        """Return the choice in which no entry of these normalised names is disabled."""
        gone = set(names)
        return Choice(
            plugins=self.plugins,
            disabled=tuple(entry for entry in self.disabled if requirement_name(entry) not in gone),
        )

    def with_disabled(self, names: Iterable[str]) -> Choice:
        """Return the choice in which each of these normalised names is disabled; those that are stay as they stand."""
        off = names_of(self.disabled)
        return Choice(plugins=self.plugins, disabled=(*self.disabled, *(name for name in names if name not in off)))


@dataclass(frozen=True, slots=True, kw_only=True)
class SitOut:
    """An enabled plugin that is left out for as long as it does not fit."""

    entry: str
    """As the configuration has it."""
    reason: str
    """What does not fit, with both sides of it."""
    because: Mapping[str, str] = field(default_factory=dict)
    """What this was learned for (``python``, ``host``): where any of it changes, it is looked at anew. Empty where
    nothing had to be learned."""

    @property
    def name(self) -> str:
        return requirement_name(self.entry)

    def __str__(self) -> str:
        """Return it as a sentence for people."""
        return f"{self.name} sits out: {self.reason}"

    def to_json(self) -> dict[str, object]:
        """Return the form that plans and answers hold."""
        return {"name": self.name, "entry": self.entry, "reason": self.reason}


def names_of(entries: Sequence[str]) -> set[str]:
    """Return the normalised names of entries, in whatever spelling."""
    return {requirement_name(entry) for entry in entries}


def follow_generation(choice: Choice, entries: Sequence[str]) -> Choice:
    """Return the choice whose enabled entries are `entries`, where nothing tells what was disabled beside them.

    What is disabled now, and is none of them, stays listed and disabled: going back does not lose it.
    """
    back, off = names_of(entries), names_of(choice.disabled)
    resting = tuple(entry for entry in choice.plugins if (name := requirement_name(entry)) in off and name not in back)
    if choice.enabled() == tuple(entries):
        return choice
    return Choice(plugins=(*entries, *resting), disabled=choice.disabled).without(back)
