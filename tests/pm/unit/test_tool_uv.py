"""The uv of a home: what is there already is used as it is, and made to work where only its mode was lost."""

from __future__ import annotations

import json
import platform
import stat
import sys
from pathlib import Path

import pytest

from perdure_pm.adapters.filesystem import LocalFilesystem
from perdure_pm.adapters.plain_reporter import PlainReporter
from perdure_pm.model.lock_view import choose_wheel, parse_locked_tool
from perdure_pm.model.network import Network
from perdure_pm.ops.tool_uv import SCHEMA, ensure_uv
from perdure_pm.store.inventory import hash_file
from perdure_pm.store.layout import Layout

pytestmark = pytest.mark.platforms("linux", "darwin")


@pytest.mark.proves("repair-mends-it")
def test_a_binary_that_lost_its_mode_gets_it_back_without_a_network(checkout: Path, home: Path) -> None:
    """What is executed next would say that the home lies on a file system that nothing may be started from."""
    lock = checkout / "pm" / "uv.lock"
    tool = parse_locked_tool(lock.read_text(encoding="utf-8"), "uv")
    layout = Layout(home)
    binary = layout.uv(tool.version)
    binary.parent.mkdir(parents=True)
    binary.write_bytes(b"#!/bin/sh\n")
    binary.chmod(0o444)
    wheel = choose_wheel(tool, sys.platform, platform.machine())
    origin = {"schema": SCHEMA, "wheel": wheel.sha256, "sha256": hash_file(binary), "size": 10}
    binary.with_name("origin.json").write_text(json.dumps(origin))
    found = ensure_uv(layout, LocalFilesystem(), PlainReporter(events=False), lock=lock, network=Network(offline=True))
    assert (found, stat.S_IMODE(found.stat().st_mode)) == (binary, 0o555)
