"""The uv binary of this home: had as PM's lock names it, and looked at.

Owns: fetching it, checking it against the lock before each use, and what is wrong with it. Does not own: its command
lines (adapters.uv). Keeps: bytes that the lock does not know are never run.

Standard library only, Python 3.9: this runs before there is a runtime.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import sys
import zipfile
from pathlib import Path

from perdure_pm import ports
from perdure_pm.model.lock_view import choose_wheel, parse_locked_tool
from perdure_pm.model.network import Network
from perdure_pm.ops.seed import seed_source
from perdure_pm.store.inventory import hash_file
from perdure_pm.store.layout import Layout
from perdure_pm.store.reading import read_regular

SCHEMA = 1

MAX_ORIGIN = 1 << 16
"""Bytes of the note about where uv came from."""


def ensure_uv(
    layout: Layout, filesystem: ports.Filesystem, reporter: ports.Reporter, *, lock: Path, network: Network
) -> Path:
    """Have the uv that `lock` names, checked against the lock also when it was there already, and return its path."""
    tool = parse_locked_tool(lock.read_text(encoding="utf-8"), "uv")
    artefact = choose_wheel(tool, sys.platform, platform.machine())
    binary = layout.uv(tool.version)
    receipt = binary.with_name("origin.json")
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        origin = json.loads(receipt.read_bytes())
        if origin["wheel"] == artefact.sha256 and origin["sha256"] == hash_file(binary):
            if not os.access(binary, os.X_OK):
                binary.chmod(0o555)
            return binary
    from perdure_pm.adapters import download  # only here: http takes 20 ms to import, and is needed once

    reporter.progress("uv", f"fetching uv {tool.version}")
    filesystem.make_directories(layout.scratch)
    wheel = layout.scratch / f"{os.urandom(6).hex()}-{artefact.name}"
    try:
        download.obtain(
            artefact,
            "uv",
            wheel,
            network=network,
            on_progress=lambda done, total: reporter.progress(
                "uv", f"fetching uv {tool.version}", done=done, total=total or artefact.size or None
            ),
        )
        with zipfile.ZipFile(wheel) as archive:
            member = next(name for name in archive.namelist() if name.endswith(f".data/scripts/{binary.name}"))
            data = archive.read(member)
    finally:
        with contextlib.suppress(OSError):
            wheel.unlink()
    filesystem.make_directories(binary.parent)
    filesystem.write_durable(binary, data, mode=0o555)
    origin = {"schema": SCHEMA, "wheel": artefact.sha256, "sha256": hash_file(binary), "size": len(data)}
    origin_text = json.dumps(origin)
    filesystem.write_durable(receipt, origin_text.encode())
    return binary


def find_uv_problem(layout: Layout, *, thorough: bool = False) -> str:
    """Return what is wrong with the uv that the seed's lock names, by size or, when `thorough`, by its bytes."""
    lock = seed_source(layout) / "pm" / "uv.lock"
    binary = layout.uv(parse_locked_tool(lock.read_text(encoding="utf-8"), "uv").version)
    try:
        origin = json.loads(read_regular(binary.with_name("origin.json"), MAX_ORIGIN))
        size, digest = origin.get("size"), str(origin["sha256"])
        if not os.access(binary, os.X_OK):
            return f"{binary} is not an executable file"
        if size is not None and binary.stat().st_size != size:
            return f"{binary} has {binary.stat().st_size} bytes instead of {size}"
        if thorough and hash_file(binary) != digest:
            return f"{binary} has other contents than it was fetched with"
    except FileNotFoundError as error:
        return f"{error.filename} is missing"
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        return f"{binary} cannot be checked: {error}"
    return ""
