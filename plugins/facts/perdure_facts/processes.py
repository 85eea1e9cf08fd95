"""`facts.processes`.

Owns: which processes are listed and what is told of each. Does not own: their command lines, environments or open
files, which may hold secrets and are never told. Keeps: facts-no-command-lines.
"""

import os
import time

import psutil

from perdure.api.tools import JsonValue, ToolCall, ToolResult
from perdure_facts.wording import size, table

# What a Unix kernel keeps of a process's name. psutil completes longer names from the command line, which a process
# may have overwritten with a title of its own, arguments included.
_KERNEL_NAME = 15


def describe_processes(call: ToolCall) -> ToolResult:
    """Return the processes that use most memory, or most processor time while this looked."""
    by = str(call.arguments.get("by", "memory"))
    limit = call.arguments.get("limit", 10)
    seconds = call.arguments.get("seconds", 0.5)
    chosen = _measure(
        by_cpu=by == "cpu",
        seconds=float(seconds) if isinstance(seconds, int | float) else 0.5,
    )
    key = "cpu_percent" if by == "cpu" else "rss"
    chosen.sort(key=lambda process: (-_number(process[key]), _number(process["pid"])))
    # JSON Schema counts 3.0 as an integer.
    listed = chosen[: int(limit) if isinstance(limit, int | float) else 10]
    rows = [
        [
            str(process["pid"]),
            str(process["user"] or "-"),
            "-" if process["rss"] is None else size(int(_number(process["rss"]))),
            *([f"{_number(process['cpu_percent']):.1f} %"] if by == "cpu" else []),
            str(process["name"] or "-"),
        ]
        for process in listed
    ]
    heads = ["pid", "user", "memory", *(["cpu"] if by == "cpu" else []), "name"]
    return ToolResult(
        text=f"{table(heads, rows)}\n{len(listed)} of {len(chosen)} processes",
        data={"by": by, "total": len(chosen), "processes": listed},
    )


def _measure(*, by_cpu: bool, seconds: float) -> list[dict[str, JsonValue]]:
    """Return every process that is there at the end; what may not be looked at is None."""
    if by_cpu:
        # The first reading only starts the count, per process object; process_iter keeps those objects.
        for process in psutil.process_iter(["cpu_percent"]):
            del process
        time.sleep(seconds)
    names = ["pid", "name", "username", "memory_info", *(["cpu_percent"] if by_cpu else [])]
    found: list[dict[str, JsonValue]] = []
    for process in psutil.process_iter(names, ad_value=None):
        info = process.info
        name, memory = info["name"], info["memory_info"]
        found.append(
            {
                "pid": info["pid"],
                "name": name[:_KERNEL_NAME] if name and os.name == "posix" else name,
                "user": info["username"],
                "rss": None if memory is None else memory.rss,
                **({"cpu_percent": info["cpu_percent"]} if by_cpu else {}),
            }
        )
    return found


def _number(value: JsonValue) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
