"""The app about itself: a tool for agents, and doctor's look at the place where state is kept.

Owns: `runtime.about` and the finding `state-unusable`. Does not own: what state there is. Keeps:
app-plugins-use-only-the-api.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from perdure.api.findings import Finding
from perdure.api.hooks import Host, hookimpl
from perdure.api.tools import JsonValue, Tool, ToolCall, ToolResult

plugin = sys.modules[__name__]


@hookimpl
def tools(host: Host) -> list[Tool]:
    """Offer `runtime.about`."""

    def about(_call: ToolCall) -> ToolResult:
        data: Mapping[str, JsonValue] = {
            "version": host.version,
            "python": host.python,
            "executable": str(host.executable),
            "generation": host.generation,
            "home": None if host.home is None else str(host.home),
        }
        return ToolResult(text="\n".join(f"{name}: {value or 'none'}" for name, value in data.items()), data=data)

    return [
        Tool(
            name="runtime.about",
            summary="Tell which Perdure this is: version, interpreter, generation and home.",
            parameters={"type": "object", "properties": {}, "additionalProperties": False},
            run=about,
            read_only=True,
        )
    ]


@hookimpl
def findings(host: Host) -> list[Finding]:
    """Report a state directory in which this user could keep nothing."""
    if host.home is None:
        return []
    state = host.home / "state"
    fault = _unusable(state)
    if fault is None:
        return []
    return [Finding(code="state-unusable", summary=f"{state} {fault}", context={"path": str(state)})]


def _unusable(state: Path) -> str | None:
    if not os.path.lexists(state):
        # It is made when something is first kept, which takes a writable home, or a place where one can be made.
        nearest = next(folder for folder in state.parents if os.path.lexists(folder))
        if os.access(nearest, os.W_OK | os.X_OK):
            return None
        return f"does not exist, and {'its home' if nearest == state.parent else nearest} is not writable"
    if not state.is_dir():
        return "is not a directory"
    return None if os.access(state, os.R_OK | os.W_OK | os.X_OK) else "is not writable by this user"
