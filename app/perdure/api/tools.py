"""What a plugin offers as tools: the tool, one call of it, what it answers, and how it says that it cannot."""

from perdure.domain.errors import ToolFailed
from perdure.domain.json_value import JsonValue
from perdure.domain.tool import Tool, ToolCall, ToolResult

__all__ = ["JsonValue", "Tool", "ToolCall", "ToolFailed", "ToolResult"]
