"""The layers that stand between a command and what is protected, each with whether it is on and why it is not.

Owns: the value, and its form in run records and answers. Does not own: any layer; whoever keeps one says how it is.
Keeps: layers-told: a layer that is off has a reason.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from perdure.domain.json_value import JsonValue, is_line


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One of the layers, as it is for one run or for this process."""

    name: str
    """As it is called everywhere, such as ``jail``."""
    why_not: str | None = None
    """One line that says why it is off; None where it is on."""

    def __post_init__(self) -> None:
        """Refuse a layer that is off without a word."""
        if self.why_not is not None and not is_line(self.why_not):
            raise ValueError(f"layer {self.name}: why it is off must be one line of text")

    @property
    def active(self) -> bool:
        """Whether it is on."""
        return self.why_not is None

    def to_json(self) -> dict[str, JsonValue]:
        """Return the object that stands in run records and answers."""
        return {"active": self.active, "why_not": self.why_not}


def layers_to_json(layers: Iterable[Layer]) -> dict[str, JsonValue]:
    """Return the layers by their names."""
    return {layer.name: layer.to_json() for layer in layers}


def show_layer(layer: Layer) -> str:
    """Return the one line that a person is shown of it."""
    return "on" if layer.why_not is None else f"off: {layer.why_not}"
