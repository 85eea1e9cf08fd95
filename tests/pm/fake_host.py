"""A host that builds in a fraction of a second, its index, and homes that have it installed.

Owns: the checkout (one command, one bundled plugin, no dependencies), a directory of tiny wheels that stands for an
index, and making a home without bootstrap: a seed with PM's lock, a uv that is a script around the real one, and a
runtime that is the tests' own environment. Does not own: what is done to a home.

The script around uv costs nothing to hash, and is where a test has uv die, refuse or lie.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from perdure_pm.adapters.interpreter import running_interpreter
from perdure_pm.model.lock_view import choose_wheel, parse_locked_tool
from perdure_pm.ops.launchers import write_pm_launcher
from perdure_pm.ports import Filesystem
from perdure_pm.store.layout import Layout
from tests.pm.wheels import write_wheel

PROFILE = "default"
RUNTIME = "0123456789ab"
STUBS = frozenset({"nothing-installed", "seed-damaged", "uv-damaged"})
"""What doctor says of every home of these tests: its seed and its uv are stubs, and some have nothing installed."""
PARTS = 20
"""How many further plugins the index has: part-0, part-1, …"""

_HOST = '''"""Says what it runs."""
import importlib, json, sys
from pathlib import Path

def main():
    boot = json.loads((Path(sys.prefix).parent / "boot.json").read_text())
    said = {"version": "@VERSION@", "generation": boot["generation"], "plugins": {}}
    for entry in boot["plugins"]:
        module, _, name = entry["entry"].partition(":")
        said["plugins"][entry["distribution"]] = getattr(importlib.import_module(module), name)
    print(json.dumps(said))
'''
_BACKEND = '[build-system]\nrequires = ["uv_build>=0.13.9,<0.14"]\nbuild-backend = "uv_build"\n'


@dataclass(frozen=True, kw_only=True)
class Workshop:
    """Everything that homes are made from."""

    folder: Path
    uv: Path
    """The real uv."""
    lock: Path
    """PM's own uv.lock, which names that uv."""

    @property
    def checkout(self) -> Path:
        """The host 0.1."""
        return self.folder / "checkout"

    @property
    def newer_checkout(self) -> Path:
        """The host 0.2."""
        return self.folder / "newer-checkout"

    @property
    def index(self) -> Path:
        """Wheels: gadget 1.0, sprocket 1.0, part-N 1.0."""
        return self.folder / "wheels"

    @property
    def newer_index(self) -> Path:
        """The same, with gadget 2.0 too."""
        return self.folder / "newer-wheels"


def make_workshop(folder: Path, uv: Path, lock: Path) -> Workshop:
    """Have the checkouts and the wheels in `folder`."""
    workshop = Workshop(folder=folder, uv=uv, lock=lock)
    _write_checkout(workshop, workshop.checkout, "0.1.0")
    _write_checkout(workshop, workshop.newer_checkout, "0.2.0")
    for index in (workshop.index, workshop.newer_index):
        index.mkdir(parents=True)
        write_wheel(index, "gadget", "1.0", requires=["sprocket"])
        write_wheel(index, "sprocket", "1.0")
        for number in range(PARTS):
            write_wheel(index, f"part-{number}", "1.0")
    write_wheel(workshop.newer_index, "gadget", "2.0", requires=["sprocket"])
    return workshop


def prepare_home(workshop: Workshop, filesystem: Filesystem, home: Path) -> Layout:
    """Have a home at `home` in which PM can work, with nothing installed."""
    layout = Layout(home)
    seed = layout.seed("0123456789ab") / "pm"
    seed.mkdir(parents=True)
    shutil.copy(workshop.lock, seed / "uv.lock")
    (seed / "bootstrap.py").write_text("raise SystemExit('a seed for tests')\n", encoding="utf-8")
    layout.seed_pointer.write_text("0123456789ab\n", encoding="ascii")
    runtime = layout.runtime(RUNTIME)
    runtime.mkdir(parents=True)
    (runtime / "venv").symlink_to(sys.prefix)
    import perdure_pm

    shutil.copy(Path(perdure_pm.__file__).parent / "launcher" / "entry.py", runtime / "entry.py")
    python = running_interpreter().to_json()
    (runtime / "files.json").write_text('{"schema": 1, "files": {}, "links": {}}', encoding="utf-8")
    inputs = {"python": python, "uv": "0", "version": "0"}
    record = {"schema": 1, "id": RUNTIME, "inputs": inputs, "created": "", "seed": "0123456789ab"}
    (runtime / "record.json").write_text(json.dumps(record), encoding="utf-8")
    layout.runtime_pointer.write_text(f"{RUNTIME}\n", encoding="ascii")
    write_pm_launcher(filesystem, layout)
    replace_uv(workshop, layout, f'exec "{workshop.uv}" "$@"\n')
    return layout


def replace_uv(workshop: Workshop, layout: Layout, script: str) -> None:
    """Have the shell script stand in the home for uv, with the hash that PM expects."""
    tool = parse_locked_tool(workshop.lock.read_text(encoding="utf-8"), "uv")
    binary = layout.uv(tool.version)
    binary.parent.mkdir(parents=True, exist_ok=True)
    text = f"#!/bin/sh\n{script}"
    binary.write_text(text, encoding="utf-8")
    binary.chmod(0o755)
    wheel = choose_wheel(tool, sys.platform, platform.machine()).sha256
    origin = {"schema": 1, "wheel": wheel, "sha256": hashlib.sha256(text.encode()).hexdigest()}
    binary.with_name("origin.json").write_text(json.dumps(origin), encoding="utf-8")


def copy_home(source: Layout, target: Path) -> Layout:
    """Have a copy of a home that shares no inode with it, and return its paths."""
    subprocess.run(["cp", "-a", str(source.home), str(target)], check=True)
    return Layout(target)


@dataclass(frozen=True, kw_only=True)
class Started:
    """What the host said of itself when its launcher started it."""

    exit_code: int
    generation: str
    version: str
    plugins: Mapping[str, str]
    err: str


def start_host(layout: Layout, variables: Mapping[str, str] | None = None) -> Started:
    """Start the host through its launcher, as a person does, with `variables` over a small environment."""
    nothing = Started(exit_code=127, generation="", version="", plugins={}, err="no launcher")
    if not (layout.bin / "fakehost").exists():
        return nothing
    ended = subprocess.run(
        [layout.bin / "fakehost"],
        env={"PATH": os.defpath, "HOME": str(layout.home.parent), **(variables or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if ended.returncode != 0:
        return replace(nothing, exit_code=ended.returncode, err=ended.stderr)
    said = json.loads(ended.stdout)
    return Started(
        exit_code=0,
        generation=said["generation"],
        version=said["version"],
        plugins=said["plugins"],
        err=ended.stderr,
    )


def _write_checkout(workshop: Workshop, folder: Path, version: str) -> None:
    plugin = folder / "clock"
    (folder / "src" / "fakehost").mkdir(parents=True)
    (plugin / "src" / "fakehost_clock").mkdir(parents=True)
    (folder / "src" / "fakehost" / "__init__.py").write_text(_HOST.replace("@VERSION@", version), encoding="utf-8")
    (folder / "pyproject.toml").write_text(
        f'[project]\nname = "fakehost"\nversion = "{version}"\nrequires-python = ">=3.11"\n'
        '[project.scripts]\nfakehost = "fakehost:main"\n'
        '[dependency-groups]\nbundled = ["fakehost-clock"]\n'
        f"{_BACKEND}"
        '[tool.uv]\ndefault-groups = []\n[tool.uv.sources]\nfakehost-clock = { path = "clock" }\n',
        encoding="utf-8",
    )
    (plugin / "src" / "fakehost_clock" / "__init__.py").write_text(f'plugin = "{version}"\n', encoding="utf-8")
    (plugin / "pyproject.toml").write_text(
        f'[project]\nname = "fakehost-clock"\nversion = "{version}"\nrequires-python = ">=3.11"\n'
        f'[project.entry-points.perdure]\nclock = "fakehost_clock:plugin"\n{_BACKEND}',
        encoding="utf-8",
    )
    subprocess.run(
        [workshop.uv, "lock", "--offline", "--no-config", "--python", running_interpreter().path, "--project", folder],
        check=True,
        capture_output=True,
        env={"PATH": os.defpath, "HOME": str(workshop.folder), "UV_CACHE_DIR": str(workshop.folder / "cache")},
    )
