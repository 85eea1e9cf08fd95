"""Tools for an agent's work: reading and changing files, and running Python.

Owns: the tools, their schemas, and how a result is shown. Does not own: whether anything may be done, and doing it
(`ToolCall.workspace`). Keeps: app-plugins-use-only-the-api.
"""

import sys
from collections.abc import Mapping
from typing import cast

from perdure.api.hooks import hookimpl
from perdure.api.tools import JsonValue, Tool, ToolCall, ToolFailed, ToolResult
from perdure.api.workspace import Change, Edit, Patch, Workspace

plugin = sys.modules[__name__]

_PATH: Mapping[str, JsonValue] = {
    "type": "string",
    "minLength": 1,
    "description": "Absolute, or from the working directory.",
}
_LINES: Mapping[str, JsonValue] = {"type": "integer", "minimum": 1}


def _schema(required: int, **properties: JsonValue) -> dict[str, JsonValue]:
    """Return the schema of arguments of which the first so many are required."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties)[:required],
        "additionalProperties": False,
    }


@hookimpl
def tools() -> list[Tool]:
    """Offer `files.*` and `code.run`."""
    edit = _schema(
        2,
        old={"type": "string", "minLength": 1, "description": "Exactly as it stands in the file."},
        new={"type": "string"},
        every={"type": "boolean", "description": "Replace it wherever it stands; else it must stand there once."},
    )
    change = _schema(2, path=_PATH, edits={"type": "array", "minItems": 1, "items": edit})
    return [
        Tool(
            name="files.read",
            summary="Show lines of a text file.",
            parameters=_schema(1, path=_PATH, first=_LINES, lines={**_LINES, "maximum": 20_000}),
            run=_read,
            read_only=True,
        ),
        Tool(
            name="files.list",
            summary="List a directory.",
            parameters=_schema(0, path=_PATH),
            run=_list,
            read_only=True,
        ),
        Tool(
            name="files.write",
            summary="Have a file hold exactly a text; missing directories are made.",
            parameters=_schema(2, path=_PATH, text={"type": "string"}),
            run=_write,
        ),
        Tool(
            name="files.patch",
            summary="Replace texts in files: in all of them, or in none where one does not fit.",
            parameters=_schema(1, changes={"type": "array", "minItems": 1, "items": change}),
            run=_patch,
        ),
        Tool(
            name="files.move",
            summary="Call a file, link or directory something else; nothing is replaced.",
            parameters=_schema(2, source=_PATH, target=_PATH),
            run=_move,
        ),
        Tool(
            name="files.delete",
            summary="Delete a file, a link, or a directory; one that is not empty only with `below`.",
            parameters=_schema(1, path=_PATH, below={"type": "boolean"}),
            run=_delete,
        ),
        Tool(
            name="code.run",
            summary="Run Python in an interpreter of its own and show what it prints.",
            parameters=_schema(
                1, code={"type": "string"}, seconds={"type": "number", "exclusiveMinimum": 0, "maximum": 3600}
            ),
            run=_run,
        ),
    ]


def _workspace(call: ToolCall) -> Workspace:
    if call.workspace is None:
        raise ToolFailed(f"{call.tool} is not called by a host that has files for it")
    return call.workspace


def _text(call: ToolCall, name: str, default: str = "") -> str:
    return str(call.arguments.get(name, default))


def _number(call: ToolCall, name: str, default: float) -> float:
    return cast("float", call.arguments.get(name, default))


def _read(call: ToolCall) -> ToolResult:
    found = _workspace(call).read(
        _text(call, "path"), first=int(_number(call, "first", 1)), lines=int(_number(call, "lines", 2000))
    )
    data: Mapping[str, JsonValue] = {
        "path": found.path,
        "text": found.text,
        "first": found.first,
        "lines": found.lines,
    }
    return ToolResult(text=found.text, data=data)


def _list(call: ToolCall) -> ToolResult:
    found = _workspace(call).entries(_text(call, "path", "."))
    marks = {"directory": "/", "link": "@"}
    return ToolResult(
        text="\n".join(f"{entry.name}{marks.get(entry.kind, '')}" for entry in found),
        data=[{"name": entry.name, "kind": entry.kind, "size": entry.size} for entry in found],
    )


def _write(call: ToolCall) -> ToolResult:
    return _changed(_workspace(call).write(_text(call, "path"), _text(call, "text")))


def _patch(call: ToolCall) -> ToolResult:
    patches = []
    for change in cast("list[Mapping[str, JsonValue]]", call.arguments["changes"]):
        edits = cast("list[Mapping[str, JsonValue]]", change["edits"])
        made = [Edit(old=str(one["old"]), new=str(one["new"]), every=one.get("every") is True) for one in edits]
        patches.append(Patch(path=str(change["path"]), edits=tuple(made)))
    return _changed(*_workspace(call).patch(patches))


def _move(call: ToolCall) -> ToolResult:
    return _changed(_workspace(call).move(_text(call, "source"), _text(call, "target")))


def _delete(call: ToolCall) -> ToolResult:
    return _changed(_workspace(call).delete(_text(call, "path"), below=call.arguments.get("below") is True))


def _run(call: ToolCall) -> ToolResult:
    found = _workspace(call).run_python(_text(call, "code"), seconds=_number(call, "seconds", 120))
    data: Mapping[str, JsonValue] = {
        "exit_code": found.exit_code,
        "ended": found.ended,
        "stdout": found.stdout,
        "stderr": found.stderr,
    }
    parts = [found.stdout, found.stderr, "" if found.exit_code == 0 else f"{found.ended} with {found.exit_code}"]
    return ToolResult(text="\n".join(part.rstrip("\n") for part in parts if part), data=data)


def _changed(*changes: Change) -> ToolResult:
    lines = [f"{change.path}: {change.what}\n{change.diff}".rstrip("\n") for change in changes]
    data: list[JsonValue] = [{"path": change.path, "what": change.what, "diff": change.diff} for change in changes]
    return ToolResult(text="\n".join(lines), data=data)
