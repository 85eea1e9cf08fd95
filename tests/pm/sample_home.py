"""A home made by hand: one sealed generation, without a build."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from perdure_pm.store.layout import Layout

IDENTITY = "1-0123456789ab"
MADE = "2026-11-29T19:00:00Z"


def sample_record(identity: str = IDENTITY, **changes: object) -> dict[str, Any]:
    """Return a record of the documented form."""
    record = {
        "schema": 1,
        "id": identity,
        "number": int(identity.partition("-")[0]),
        "inputs": {},
        "inputs_digest": identity.partition("-")[2] + "0" * 52,
        "created": MADE,
        "profile": "default",
        "host": {"name": "perdure", "version": "0.1.0", "source": "/src", "release": "abc", "commands": ["perdure"]},
        "interpreter": {"path": "/usr/bin/python3", "version": "3.13.1", "implementation": "CPython"},
        "target": "linux-x86_64",
        "uv": "0.13.9",
        "packages": [{"name": "click", "version": "8.5.1"}],
        "plugins": [
            {"name": "facts", "distribution": "perdure-facts", "version": "0.1.0", "entry": "perdure_facts:plugin"}
        ],
        "requirements": "click==8.5.1\n",
        "wheels": [{"file": "a.whl", "sha256": "0" * 64, "path": "store/releases/abc/a.whl"}],
    }
    return {**record, **changes}


def make_generation(layout: Layout, identity: str = IDENTITY, **changes: object) -> Path:
    """Have a sealed generation whose interpreter is the one that runs the tests, and return its directory."""
    path = layout.generation(identity)
    scripts = path / "venv" / "bin"
    scripts.mkdir(parents=True)
    (scripts / "python").symlink_to(sys.executable)
    hello = scripts / "hello"
    hello.write_text('#!/bin/sh\necho "hello $*"\n', encoding="utf-8")
    hello.chmod(0o755)
    boot = {"schema": 1, "generation": identity, "host": {"name": "perdure", "version": "0.1.0"}, "plugins": []}
    (path / "boot.json").write_text(json.dumps(boot), encoding="utf-8")
    (path / "record.json").write_text(json.dumps(sample_record(identity, **changes)), encoding="utf-8")
    return path


def select_generation(layout: Layout, text: str = f"{IDENTITY}\n", profile: str = "default") -> Path:
    """Have the profile's pointer hold `text`, and return its path."""
    pointer = layout.pointer(profile)
    pointer.parent.mkdir(parents=True, exist_ok=True)
    pointer.write_text(text, encoding="utf-8")
    return pointer


def snapshot(root: Path) -> dict[str, bytes | None]:
    """Return every path below `root` with its bytes; directories and links without."""
    return {
        str(path.relative_to(root)): path.read_bytes() if path.is_file() and not path.is_symlink() else None
        for path in sorted(root.rglob("*"))
    }
