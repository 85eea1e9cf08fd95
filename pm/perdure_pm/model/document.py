"""A document that people write: plain data, where each part of it stands, and what is wrong with it.

Owns: places and faults, and the words for values. Does not own: reading YAML (store.yaml_text), what a document may say
(model.config, model.manifest).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Place = tuple[str | int, ...]
"""Keys and indices from the top of a document to a value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that a document says and must not."""

    file: str
    line: int
    """From 1; 0 where the fault has no place in the text."""
    column: int
    key: str
    message: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        return f"{place} {self.key}: {self.message}" if self.key else f"{place}: {self.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A file as it was read: plain data, and where in the text each part of it stands."""

    file: str
    """Its name in faults, relative to the home."""
    data: object = None
    """Mappings, lists, text, numbers, true, false and null, as YAML 1.2 has them; null for an empty file."""
    key_positions: Mapping[Place, tuple[int, int]] = field(default_factory=dict)
    """Line and column, from 1, of each key."""
    value_positions: Mapping[Place, tuple[int, int]] = field(default_factory=dict)
    texts: Mapping[Place, str] = field(default_factory=dict)
    """How each value that stands there without quotes is written: the number 1.1 may be written 1.10."""
    faults: tuple[Fault, ...] = ()
    """What is wrong with the text itself: syntax, encoding, keys that stand there twice."""

    def fault_at(self, place: Place, message: str, *, at_key: bool = False) -> Fault:
        """Return a fault of the part at `place`."""
        positions = self.key_positions if at_key else self.value_positions
        line, column = positions.get(place, (0, 0))
        return Fault(file=self.file, line=line, column=column, key=dotted(place), message=message)


def near_miss(word: str, known: Sequence[str]) -> str | None:
    """Return the known word that was probably meant."""
    by_end = [name for name in known if name.rpartition(".")[2] == word]
    import difflib  # 2 ms, and only for a word that nobody knows

    close = difflib.get_close_matches(word, known, n=1) or by_end[:1]
    return close[0] if close else None


def dotted(place: Place) -> str:
    """Return a place as people write it: ``network.index-url``, ``plugins[2]``."""
    text = ""
    for part in place:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def describe(value: object) -> str:
    """Return a value in the words of a message."""
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"the text {value!r}" if value else "the empty text"
    if isinstance(value, (int, float)):
        return f"the number {value}"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    return f"a {type(value).__name__}"
