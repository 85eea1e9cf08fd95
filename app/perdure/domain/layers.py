"""The layers that stand between a command and what is protected, each with whether it is on, and what it lacks.

Owns: the value, and its form in run records and answers. Does not own: any layer; whoever keeps one says how it is.
Keeps: layers-told: a layer that is off has a reason.
"""

from __future__ import annotations

from collections.abc import Iterable

from perdure.domain.json_value import JsonValue, is_line
from perdure.domain.record import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One of the layers, as it is for one run or for this process."""

    name: str
    """As it is called everywhere, such as ``jail``."""
    why_not: str | None = None
    """One line that says why it is off; None where it is on."""
    gap: str | None = None
    """One line that says what it does not hold here, though it is on and holds that elsewhere; None for nothing."""

    def __post_init__(self) -> None:
        """Refuse a layer that is off, or not whole, without a word."""
        if self.why_not is not None and not is_line(self.why_not):
            raise ValueError(f"layer {self.name}: why it is off must be one line of text")
        if self.gap is not None and not is_line(self.gap):
            raise ValueError(f"layer {self.name}: what it does not hold must be one line of text")

    @property
    def active(self) -> bool:
        """Whether it is on."""
        return self.why_not is None

    def to_json(self) -> dict[str, JsonValue]:
        """Return the object that stands in run records and answers."""
        return {"active": self.active, "why_not": self.why_not, "gap": self.gap}


def layers_to_json(layers: Iterable[Layer]) -> dict[str, JsonValue]:
    """Return the layers by their names."""
    return {layer.name: layer.to_json() for layer in layers}


def show_layer(layer: Layer) -> str:
    """Return the one line that a person is shown of it."""
    if layer.why_not is not None:
        return f"off: {layer.why_not}"
    return "on" if layer.gap is None else f"on, and not whole: {layer.gap}"
