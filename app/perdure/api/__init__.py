"""The public surface: everything that a plugin may import from the app, by what it is for.

Owns: which modules there are: `approvals`, `tools`, `workspace`, `backends`, `hooks`, `findings`; a name that is in
none of their `__all__` is private and moves without notice. Does not own: the hooks' specifications, which a plugin
implements and never imports (hookspecs). Keeps: app-plugins-use-only-the-api.

A plugin is an object (most simply a module) with functions marked `@hookimpl` that are named after a hook::

    from perdure.api.hooks import hookimpl
    from perdure.api.tools import Tool, ToolCall, ToolResult

    @hookimpl
    def tools() -> list[Tool]:
        return [Tool(name="greet.hello", summary="Greet.", parameters={"type": "object"}, run=_hello)]

    def _hello(call: ToolCall) -> ToolResult:
        return ToolResult(text="hello")
"""

# perdure-compat: begin (written by `perdure-compat render` from the manifest; edits are lost)
from perdure_compat import facade as _facade

__getattr__, __dir__ = _facade(
    __name__,
    {
        "Finding": ("moved", "perdure.api.findings:Finding", "0.1", "0.4"),
        "Host": ("moved", "perdure.api.hooks:Host", "0.1", "0.4"),
        "JsonValue": ("moved", "perdure.api.tools:JsonValue", "0.1", "0.4"),
        "Tool": ("moved", "perdure.api.tools:Tool", "0.1", "0.4"),
        "ToolCall": ("moved", "perdure.api.tools:ToolCall", "0.1", "0.4"),
        "ToolFailed": ("moved", "perdure.api.tools:ToolFailed", "0.1", "0.4"),
        "ToolResult": ("moved", "perdure.api.tools:ToolResult", "0.1", "0.4"),
        "hookimpl": ("moved", "perdure.api.hooks:hookimpl", "0.1", "0.4"),
    },
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from perdure.api.findings import Finding as Finding
    from perdure.api.hooks import Host as Host
    from perdure.api.hooks import hookimpl as hookimpl
    from perdure.api.tools import JsonValue as JsonValue
    from perdure.api.tools import Tool as Tool
    from perdure.api.tools import ToolCall as ToolCall
    from perdure.api.tools import ToolFailed as ToolFailed
    from perdure.api.tools import ToolResult as ToolResult
# perdure-compat: end
