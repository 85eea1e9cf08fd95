"""Write what an installation from a package manager of the system says of itself: install.json and boot.json.

    PM/bin/python -I describe_install.py OUT APP PM UV PLUGIN...

Owns: the install stamp, by which PM and the app know where they are, and the app's list of plugins. Does not own: their
forms (perdure_pm.store.stamp, perdure.domain.boot). Runs at build time with the Python of the PM that is installed.
"""

from __future__ import annotations

import json
import platform
import sys
from pathlib import Path

from perdure_pm.ops.declared import find_distributions, read_commands, read_entries
from perdure_pm.ops.manifests import read_installed_manifests

HOST = "perdure"


def describe(out: Path, app: Path, pm: Path, uv: str, plugins: list[str]) -> None:
    """Have `install.json` and `boot.json` in `out`."""
    there = find_distributions(app)
    versions = {name: info.name.removesuffix(".dist-info").partition("-")[2] for name, info in there.items()}
    host = {"name": HOST, "version": versions[HOST]}
    entries = read_entries(app, plugins, own=True, groups=())
    boot = {
        "schema": 1,
        "generation": out.name,
        "host": host,
        "plugins": [
            {"name": entry.name, "distribution": entry.distribution, "version": entry.version, "entry": entry.value}
            for entry in entries
        ],
        "manifests": {name: found.to_json() for name, found in read_installed_manifests(app, plugins).items()},
        "external": [],
    }
    stamp = {
        "schema": 1,
        "manager": "nix",
        "host": {**host, "commands": sorted(read_commands(app, HOST))},
        "plugins": [{"name": name, "version": versions[name]} for name in plugins],
        "packages": [{"name": name, "version": versions[name]} for name in sorted(versions)],
        "app": str(app),
        "pm": str(pm),
        "python": platform.python_version(),
        "uv": uv,
    }
    for name, document in (("boot.json", boot), ("install.json", stamp)):
        (out / name).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    out, app, pm, uv, *plugins = sys.argv[1:]
    describe(Path(out), Path(app), Path(pm), uv, plugins)
