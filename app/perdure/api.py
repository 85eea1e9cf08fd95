"""The public surface: everything that a plugin may import from the app.

Owns: the names in `__all__`, and nothing else; a name that is not there is private and moves without notice. Does not
own: the hooks' specifications, which a plugin implements and never imports (hookspecs). Keeps:
app-plugins-use-only-the-api.

A plugin is an object (most simply a module) with functions marked `@hookimpl` that are named after a hook::

    from perdure.api import Tool, ToolCall, ToolResult, hookimpl

    @hookimpl
    def tools() -> list[Tool]:
        return [Tool(name="greet.hello", summary="Greet.", parameters={"type": "object"}, run=_hello)]

    def _hello(call: ToolCall) -> ToolResult:
        return ToolResult(text="hello")
"""

import pluggy

from perdure.domain.errors import ToolFailed
from perdure.domain.finding import Finding
from perdure.domain.host import Host
from perdure.domain.json_value import JsonValue
from perdure.domain.tool import Tool, ToolCall, ToolResult

__all__ = ["Finding", "Host", "JsonValue", "Tool", "ToolCall", "ToolFailed", "ToolResult", "hookimpl"]

hookimpl = pluggy.HookimplMarker("perdure")
"""Marks a function as the implementation of the hook that it is named after."""
