"""An application that nobody here wrote, made of tiny wheels: the guest that a home hosts.

Owns: its wheels, its plugins' wheels, and asking it. Does not own: homes (bench), nor what is tried with it.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from perdure_pm.ops.context import Outcome
from tests.pm.bench import Bench
from tests.pm.wheels import write_wheel

GUEST = '''"""Loads its plugins as most hosts do, and says what it runs."""
import importlib.metadata, json, os, sys

plugin = None

def main():
    if "--version" in sys.argv:
        sys.exit("unknown option --version") if @STRICT@ else print("guest")
        return
    found = {entry.name: entry.load() for entry in importlib.metadata.entry_points(group="guest")}
    said = {"plugins": found, "variable": os.environ.get("GUEST"), "version": importlib.metadata.version("guest")}
    print(json.dumps(said))

def side():
    print("side")
'''
COMMANDS = "[console_scripts]\nguest = guest:main\nguest-side = guest:side\n[gui_scripts]\nguest-window = guest:side\n"


def guest(folder: Path, version: str, *, strict: bool = False, entries: str = COMMANDS) -> Path:
    """Have a wheel of the application."""
    source = GUEST.replace("@STRICT@", str(strict))
    return write_wheel(folder, "guest", version, source=source, entries=entries, requires=["sprocket"])


def extension(folder: Path, name: str, version: str, *, source: str | None = None, needs: str = "guest") -> Path:
    """Have a wheel of a plugin of it."""
    entries = f"[guest]\n{name} = {name}:plugin\n"
    return write_wheel(folder, name, version, requires=[needs, "sprocket"], source=source, entries=entries)


def init(bench: Bench, source: str, **arguments: Any) -> Outcome:
    return bench.call("host-init", source=source, **arguments)


def says(bench: Bench, command: str = "guest") -> dict[str, object]:
    ended = subprocess.run(
        [bench.layout.bin / command], env={"PATH": os.defpath}, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    said: dict[str, object] = json.loads(ended.stdout)
    return said
