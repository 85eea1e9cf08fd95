"""`facts.disks`.

Owns: which file systems are told of, and their sizes. Does not own: what is in them.
"""

import os

import psutil

from perdure.api.tools import JsonValue, ToolCall, ToolFailed, ToolResult
from perdure_facts.wording import size, table


def describe_disks(call: ToolCall) -> ToolResult:
    """Return size, use and type of every mounted disk, or of the file system that holds `path`.

    Raises:
        ToolFailed: the path does not exist, or may not be looked at.
    """
    path = call.arguments.get("path")
    if isinstance(path, str):
        return _answer([_disk_of(path)])
    disks: list[dict[str, JsonValue]] = []
    for partition in psutil.disk_partitions(all=False):
        # Containers have single files mounted over a directory's: no disks that anyone would ask for.
        if not os.path.isdir(partition.mountpoint):
            continue
        try:
            disks.append(_measure(partition.mountpoint, partition.mountpoint, partition.device, partition.fstype))
        except OSError as error:
            disks.append(
                {
                    "path": partition.mountpoint,
                    "mount": partition.mountpoint,
                    "device": partition.device,
                    "type": partition.fstype,
                    "total": None,
                    "used": None,
                    "free": None,
                    "fault": error.strerror or str(error),
                }
            )
    return _answer(disks)


def _disk_of(path: str) -> dict[str, JsonValue]:
    if "\0" in path:
        raise ToolFailed("a path cannot hold a null character", context={"path": path})
    # strict: a part that is missing or closed to us is told with its reason, instead of measuring what is above it.
    try:
        real = os.path.realpath(path, strict=True)
        mounts = {partition.mountpoint: partition for partition in psutil.disk_partitions(all=True)}
        mount = real
        while not os.path.ismount(mount) and mount != os.path.dirname(mount):
            mount = os.path.dirname(mount)
        partition = mounts.get(mount)
        device, kind = (None, None) if partition is None else (partition.device, partition.fstype)
        return _measure(path, mount, device, kind)
    except OSError as error:
        raise ToolFailed(
            f"cannot look at {path}: {error.strerror or error}", context={"path": path, "reason": error.strerror}
        ) from error


def _measure(path: str, mount: str, device: str | None, kind: str | None) -> dict[str, JsonValue]:
    usage = psutil.disk_usage(path)
    return {
        "path": path,
        "mount": mount,
        "device": device,
        "type": kind,
        "total": usage.total,
        "used": usage.used,
        # What an unprivileged process can still write, which is less than total - used where some is reserved.
        "free": usage.free,
        "fault": None,
    }


def _answer(disks: list[dict[str, JsonValue]]) -> ToolResult:
    if not disks:
        return ToolResult(text="no mounted disk is visible from here", data={"disks": []})
    rows = []
    for disk in disks:
        sizes = [disk[name] for name in ("total", "used", "free")]
        words = [size(value) if isinstance(value, int) else "-" for value in sizes]
        rows.append([str(disk["mount"]), str(disk["type"] or "-"), *words, str(disk["fault"] or "")])
    return ToolResult(text=table(["mount", "type", "total", "used", "free", ""], rows), data={"disks": disks})
