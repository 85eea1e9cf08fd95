"""What doctor can say.

Owns: the value. Does not own: looking (plugins, cli/doctor).
"""

import re
from collections.abc import Mapping

from perdure.domain.json_value import JsonValue, find_non_json, is_line
from perdure.domain.record import dataclass, field

_CODE = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One deviation from what should be."""

    code: str
    """Stable kebab-case name of the kind."""
    summary: str
    """One sentence: what, and where."""
    hint: str | None = None
    """What to do, with a command that works in the present state."""
    context: Mapping[str, JsonValue] = field(default_factory=dict)
    """JSON values that name the place."""

    def __post_init__(self) -> None:
        """Refuse a finding that no one could show or look up."""
        if not is_line(self.code) or not _CODE.fullmatch(self.code):
            raise ValueError(f"a finding's code is kebab-case, not {self.code!r}")
        if not is_line(self.summary):
            raise ValueError(f"finding {self.code}: the summary must be one line of text")
        if self.hint is not None and not isinstance(self.hint, str):
            raise TypeError(f"finding {self.code}: the hint must be text or None")
        if (fault := find_non_json(dict(self.context))) is not None:
            raise ValueError(f"finding {self.code}: the context must be JSON: {fault}")

    def to_json(self) -> dict[str, JsonValue]:
        """Return the object that stands in ``findings`` of doctor's answer."""
        return {"code": self.code, "summary": self.summary, "context": dict(self.context), "hint": self.hint}
