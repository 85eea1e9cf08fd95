"""Facts about the machine, for people and agents: a plugin of perdure that only reads.

Owns: the three tools and their schemas. Does not own: looking (machine, disks, processes), which happens when a tool
runs: `psutil` is not loaded before. Keeps: facts-read-only, facts-bounded.
"""

import sys

from perdure.api.hooks import hookimpl
from perdure.api.tools import Tool, ToolCall, ToolResult

__version__ = "0.1.0"

plugin = sys.modules[__name__]


@hookimpl
def tools() -> list[Tool]:
    """Offer `facts.machine`, `facts.disks` and `facts.processes`."""
    return [
        Tool(
            name="facts.machine",
            summary="Tell the operating system, kernel, architecture, processors, memory, boot time and Python.",
            parameters={"type": "object", "properties": {}, "additionalProperties": False},
            run=_machine,
            read_only=True,
        ),
        Tool(
            name="facts.disks",
            summary="Tell the size, use and type of mounted file systems, or of the one that holds a path.",
            parameters={
                "type": "object",
                "properties": {
                    "path": {
                        "type": "string",
                        "minLength": 1,
                        "maxLength": 4096,
                        "description": "An existing file or directory. Without it: every mounted disk.",
                    }
                },
                "additionalProperties": False,
            },
            run=_disks,
            read_only=True,
        ),
        Tool(
            name="facts.processes",
            summary="List the processes that use most memory or processor time, by name only.",
            parameters={
                "type": "object",
                "properties": {
                    "by": {
                        "type": "string",
                        "enum": ["memory", "cpu"],
                        "default": "memory",
                        "description": "memory: resident bytes now. cpu: share of one processor during `seconds`.",
                    },
                    "limit": {
                        "type": "integer",
                        "minimum": 1,
                        "maximum": 100,
                        "default": 10,
                        "description": "How many processes to list.",
                    },
                    "seconds": {
                        "type": "number",
                        "minimum": 0.1,
                        "maximum": 10,
                        "default": 0.5,
                        "description": "How long processor time is measured; has no effect with memory.",
                    },
                },
                "additionalProperties": False,
            },
            run=_processes,
            read_only=True,
        ),
    ]


def _machine(call: ToolCall) -> ToolResult:
    from perdure_facts.machine import describe_machine

    return describe_machine(call)


def _disks(call: ToolCall) -> ToolResult:
    from perdure_facts.disks import describe_disks

    return describe_disks(call)


def _processes(call: ToolCall) -> ToolResult:
    from perdure_facts.processes import describe_processes

    return describe_processes(call)
