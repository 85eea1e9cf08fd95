"""status, doctor and plan where a package manager of the system installed PM and the app.

Owns: what they answer there, in the form that they have everywhere. Does not own: the stamp (store.managed). Nothing is
written, and nothing in the home is looked at: none of it is what runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perdure_pm import __version__
from perdure_pm.model.errors import PerdureError
from perdure_pm.ops.doctor import Problem
from perdure_pm.store.inventory import MISSING, Finding, find_owners, find_record_deviations, take_inventory
from perdure_pm.store.layout import Layout
from perdure_pm.store.managed import WAYS, Stamp


def read_managed_status(stamp: Stamp, status: Mapping[str, Any]) -> dict[str, Any]:
    """Return a home's status with what the stamp says in the place of what the home would have."""
    host = stamp.host
    what = "PM alone, without an app" if host is None else f"{host['name']} {host['version']}"
    return {
        **status,
        "summary": f"{what}, installed by Nix in {stamp.place}",
        "managed": {
            "manager": stamp.manager,
            "path": str(stamp.place),
            "host": host,
            "plugins": list(stamp.plugins),
            "packages": len(stamp.packages),
            "python": stamp.python,
        },
        "pm": {"version": __version__, "runtime": None, "uv": stamp.uv},
        "policy": {"lazy": False},
    }


def examine_managed(stamp: Stamp, layout: Layout, *, deep: bool) -> dict[str, Any]:
    """Return what is wrong with the installation, in the form of `ops.doctor.examine`.

    Args:
        stamp: names the environments.
        layout: the home, which is only named.
        deep: whether every byte is compared with what each distribution recorded; else every file is there.
    """
    problems: list[Problem] = []
    files = 0
    for environment in (stamp.app, stamp.pm):
        if environment is None:
            continue
        try:
            owners = find_owners(environment)
            files += len(owners)
            findings = [
                Finding(path=path, problem=MISSING, distribution=owner)
                for path, owner in sorted(owners.items())
                if not (environment / path).exists()
            ]
            if not owners:
                findings.append(Finding(path="lib", problem=MISSING))
            if deep and not findings:
                findings = find_record_deviations(environment, take_inventory(environment))
            if not (environment / "bin" / "python").exists():
                findings.append(Finding(path="bin/python", problem=MISSING))
        except (PerdureError, OSError) as error:
            said = error.summary if isinstance(error, PerdureError) else f"{error.filename}: {error.strerror}"
            problems.append(Problem(code="managed-damaged", summary=f"{environment}: {said}", hint=WAYS["repair"]))
            continue
        if findings:
            summary = f"{environment} is damaged: {len(findings)} found; the first: {findings[0]}"
            problems.append(
                Problem(code="managed-damaged", summary=summary, hint=WAYS["repair"], findings=tuple(findings))
            )
    return {
        "healthy": not problems,
        "home": str(layout.home),
        "deep": deep,
        "problems": [problem.to_json() for problem in problems],
        "leftovers": [],
        "checked": {"generations": 0, "files": files},
    }


def plan_managed(stamp: Stamp) -> dict[str, Any]:
    """Return the plan of an installation that PM does not change: nothing, ever."""
    return {
        "dry_run": True,
        "generation": None,
        "managed": {"manager": stamp.manager, "path": str(stamp.place)},
        "plan": {
            "host": None if stamp.host is None else {key: stamp.host[key] for key in ("name", "version")},
            "changes": False,
            "packages": [],
            "steps": [],
        },
    }
