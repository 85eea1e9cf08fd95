"""Runs one tool: arguments checked before, result checked after.

Owns: the only call of a tool's `run`. Does not own: which tools there are (plugin_manager) or how arguments were
written (arguments). Keeps: app-arguments-validated, app-tool-defects-attributed.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from perdure.domain.errors import ArgumentsInvalid, ToolBroken, ToolFailed
from perdure.domain.json_value import JsonValue, find_non_json, is_line
from perdure.domain.tool import OfferedTool, ToolCall, ToolResult
from perdure.domain.workspace import Workspace
from perdure.plugin_manager import describe_exception, last_place

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

_LONGEST_FAULT = 300


def run_tool(
    offered: OfferedTool, arguments: Mapping[str, JsonValue], open_workspace: Callable[[], Workspace] | None = None
) -> ToolResult:
    """Return what the tool returned for these arguments.

    Args:
        offered: the tool.
        arguments: as they were given, not checked.
        open_workspace: makes what it acts on files with, and runs code; called where the tool asks for it.

    Raises:
        ArgumentsInvalid: they do not fit the schema; the tool was not called.
        ToolFailed: raised by the tool: what was asked cannot be done.
        ToolBroken: the tool has an invalid schema, raised anything else, or returned no result.
    """
    tool = offered.tool
    # What is not JSON (1e999 becomes an infinity) would pass as a number below.
    unsayable = find_non_json(dict(arguments))
    faults = [unsayable] if unsayable is not None else _argument_faults(offered, arguments)
    if faults:
        context: dict[str, JsonValue] = {"tool": tool.name, "faults": faults}
        raise ArgumentsInvalid(f"tool {tool.name}: {'; '.join(faults)}", context=context)
    try:
        result: object = tool.run(ToolCall(tool=tool.name, arguments=arguments, open_workspace=open_workspace))
    except KeyboardInterrupt:
        raise
    except ToolFailed as error:
        if (fault := _unshowable(error)) is not None:
            raise _broken(offered, f"raised ToolFailed with {fault}", last_place(error.__traceback__)) from error
        raise
    except BaseException as error:
        raise _broken(offered, describe_exception(error), last_place(error.__traceback__)) from error
    if not isinstance(result, ToolResult):
        raise _broken(offered, f"returned {type(result).__name__}, not ToolResult")
    if (fault := find_non_json(result.data)) is not None:
        raise _broken(offered, f"returned data that is not JSON: {fault}")
    return result


def _argument_faults(offered: OfferedTool, arguments: Mapping[str, JsonValue]) -> list[str]:
    # Imported here: it takes longer than everything else together, and only a run needs it.
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    schema = dict(offered.tool.parameters)
    try:
        Draft202012Validator.check_schema(schema)
        # An empty registry: the default one would fetch a `$ref` from the network.
        validator = Draft202012Validator(schema, registry=Registry())
        faults = sorted(validator.iter_errors(dict(arguments)), key=lambda fault: (fault.json_path, fault.message))
    except SchemaError as error:
        raise _broken(offered, f"its schema is invalid at {error.json_path}: {error.message}") from error
    except Unresolvable as error:
        raise _broken(offered, f"its schema refers to something that is not in it: {error.ref}") from error
    return [_describe_fault(fault) for fault in faults]


def _describe_fault(fault: "ValidationError") -> str:
    place = fault.json_path.removeprefix("$").removeprefix(".")
    text = f"{place}: {fault.message}" if place else fault.message
    return text if len(text) <= _LONGEST_FAULT else text[:_LONGEST_FAULT] + "…"


def _unshowable(error: ToolFailed) -> str | None:
    if not is_line(error.summary) or (error.hint is not None and not is_line(error.hint)):
        return "a summary or a hint that is not one line of text"
    if (fault := find_non_json(error.to_json(), "error")) is not None:
        return f"what is not JSON: {fault}"
    return None


def _broken(offered: OfferedTool, what: str, place: str | None = None) -> ToolBroken:
    return ToolBroken(
        f"tool {offered.tool.name} of plugin {offered.plugin} is broken: {what}",
        context={"tool": offered.tool.name, "plugin": offered.plugin, "place": place},
    )
