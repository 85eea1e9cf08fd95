"""What a tool is: a name, a schema and something to call.

Owns: the values that cross between a plugin and whoever runs its tools. Does not own: validation of arguments or the
call itself (tools/dispatch). Keeps: app-broken-plugin-isolated, by refusing values that are not what they claim to be
where the plugin makes them.
"""

import re
from collections.abc import Callable, Mapping

from perdure.domain.json_value import JsonValue, find_non_json, is_line
from perdure.domain.record import dataclass
from perdure.domain.workspace import Workspace

# Stays inside what MCP and the common model APIs accept for a tool's name, dots included.
_NAME = re.compile(r"(?=.{3,64}\Z)[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call of one tool."""

    tool: str
    """The tool's full name."""
    arguments: Mapping[str, JsonValue]
    """Arguments that fit the tool's schema."""
    open_workspace: Callable[[], Workspace] | None = None
    """The host's; a tool takes `workspace`."""

    @property
    def workspace(self) -> Workspace | None:
        """What a tool that acts for an agent does it with; None where the host has none."""
        return None if self.open_workspace is None else self.open_workspace()


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """What a tool found or did."""

    text: str
    """For people and models: complete without `data`."""
    data: JsonValue = None
    """The same for programs."""

    def __post_init__(self) -> None:
        """Refuse a text that is no text; `data` is walked once, by dispatch."""
        if not isinstance(self.text, str):
            raise TypeError(f"ToolResult.text must be a str, not {type(self.text).__name__}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """Something that a person or an agent can run by name."""

    name: str
    """Dotted lower-case name, unique among all plugins: `<plugin>.<what>`."""
    summary: str
    """One line: what is true, or known, after a call."""
    parameters: Mapping[str, JsonValue]
    """JSON Schema (2020-12) of the arguments: always of type `object`."""
    run: Callable[[ToolCall], ToolResult]
    """Does it. Raises `ToolFailed` for what the caller can act on; any other exception counts as a defect."""
    read_only: bool = False
    """The plugin's claim that a call changes nothing."""

    def __post_init__(self) -> None:
        """Refuse a tool that no one could call or show."""
        if not is_line(self.name) or not _NAME.fullmatch(self.name):
            raise ValueError(
                f"a tool's name is dotted, in lower case, and at most 64 characters long, not {self.name!r}"
            )
        if not is_line(self.summary):
            raise ValueError(f"tool {self.name}: the summary must be one line of text")
        if self.parameters.get("type") != "object":
            raise ValueError(f'tool {self.name}: parameters must be a JSON Schema with "type": "object"')
        if (fault := find_non_json(dict(self.parameters))) is not None:
            raise ValueError(f"tool {self.name}: parameters must be JSON: {fault}")
        if not callable(self.run):
            raise TypeError(f"tool {self.name}: run must be callable")
        if not isinstance(self.read_only, bool):
            raise TypeError(f"tool {self.name}: read_only must be a bool")


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedTool:
    """A tool and who offers it."""

    plugin: str
    """The plugin's name."""
    tool: Tool
    """The tool."""
