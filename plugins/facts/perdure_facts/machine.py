"""`facts.machine`.

Owns: what is told about the machine as a whole. Does not own: anything that names a person, an address or a serial
number: an agent does not need the host's name to do its work.
"""

import os
import platform
from datetime import UTC, datetime

import psutil

from perdure.api.tools import JsonValue, ToolCall, ToolResult
from perdure_facts.wording import size


def describe_machine(_call: ToolCall) -> ToolResult:
    """Return operating system, kernel, architecture, processors, memory, boot time and Python."""
    memory = psutil.virtual_memory()
    booted = datetime.fromtimestamp(psutil.boot_time(), UTC).replace(microsecond=0)
    distribution = _distribution()
    physical = psutil.cpu_count(logical=False)
    data: dict[str, JsonValue] = {
        "system": platform.system(),
        "distribution": distribution,
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "cpus": psutil.cpu_count(),
        "cpus_usable": _usable_cpus(),
        "cores": physical,
        "memory_total": memory.total,
        "memory_available": memory.available,
        "booted": booted.isoformat().replace("+00:00", "Z"),
        "python": platform.python_version(),
    }
    text = "\n".join(
        [
            f"system: {platform.system()}" + (f" ({distribution})" if distribution else ""),
            f"kernel: {platform.release()} on {platform.machine()}",
            f"processors: {data['cpus'] or 'unknown'}, {data['cpus_usable'] or 'unknown'} usable by this process",
            f"memory: {size(memory.total)}, {size(memory.available)} available",
            f"booted: {data['booted']}",
            f"python: {platform.python_version()}",
        ]
    )
    return ToolResult(text=text, data=data)


def _distribution() -> str | None:
    if platform.system() == "Darwin":
        return f"macOS {platform.mac_ver()[0]}"
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME")
    except OSError:
        return None


def _usable_cpus() -> int | None:
    # A container or a task set may leave this process fewer than the machine has.
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count()
