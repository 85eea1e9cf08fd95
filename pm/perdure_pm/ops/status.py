"""What is installed, what runs it, and what happened last: read, never changed.

Owns: gathering it, in every state of a home. Does not own: how it is shown (cli). Keeps: pm-status-reads-only: no
mutex, no write, no network, and no exception over anything that lies in the home; what is damaged is a finding.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import Any

from perdure_pm import __version__
from perdure_pm.model.errors import IntegrityFault, NothingInstalled
from perdure_pm.model.identity import is_editable, normalise_distribution
from perdure_pm.store import receipts
from perdure_pm.store.crashes import load_crashes
from perdure_pm.store.generations import Generation, list_generations, load_current
from perdure_pm.store.layout import Layout, environment_python
from perdure_pm.store.pointer import list_profiles, load_pointer, read_plain
from perdure_pm.store.policy import lazy_allowed
from perdure_pm.store.protection import OFF, read_protection
from perdure_pm.store.published import load_published
from perdure_pm.store.recorded import moved_names_of, recorded_versions, selection_of
from perdure_pm.store.trial import load_trial, show_trial

_RUNTIME = re.compile(r"[0-9a-f]{12}(\.[0-9]+)?")
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_MAX_RECORD = 1 << 20


def read_status(layout: Layout, profile: str, environ: Mapping[str, str], *, no_lazy: bool = False) -> dict[str, Any]:
    """Return everything `status` shows, as JSON values.

    ``summary`` is the one line that the app's doctor ends with; ``findings`` names what is damaged.
    """
    findings: list[str] = []
    current: Generation | None = None
    try:
        current = load_current(layout, profile)
    except NothingInstalled:
        pass
    except IntegrityFault as fault:
        findings.append(fault.summary)
    sealed, broken = list_generations(layout)
    findings += [
        f"generation {found.identity} cannot be used: {found.reason}"
        for found in broken
        if not any(found.identity in finding for finding in findings)
    ]
    shown = None if current is None else _show(current)
    if current is not None and not current.python.exists():
        findings.append(f"the interpreter of generation {current.identity} is gone: {os.path.realpath(current.python)}")
    pm = _read_runtime(layout, findings)
    last = receipts.latest(layout)
    return {
        "summary": _summarise(current, findings),
        "home": str(layout.home),
        "profile": profile,
        "profiles": {name: _selected(layout, name) for name in list_profiles(layout)},
        "generation": shown,
        "managed": None,
        "trial": _trial(layout, profile, current, findings),
        "sit_outs": _sit_outs(layout, profile, current),
        "skipped": [] if current is None else _skipped(layout, profile, current),
        "others": [_show_briefly(found) for found in sealed if current is None or found.identity != current.identity],
        "pm": pm,
        "policy": {"lazy": lazy_allowed(layout, environ, no_lazy)},
        "protect": _protection(layout, current),
        "running": _running(layout),
        "last": None if last is None else show_receipt(last),
        "obligations": [] if last is None else list(last.obligations),
        "findings": findings,
    }


def read_own_status(layout: Layout) -> dict[str, Any]:
    """Return what is known of PM's own runtime, with every file's size checked."""
    from perdure_pm.ops import runtime as runtimes

    runtime = runtimes.load_runtime(layout)
    if runtime is None:
        return {"version": __version__, "runtime": None, "current": False, "problem": "no runtime is selected"}
    problem = runtimes.find_runtime_problem(runtime)
    others = sorted(path.name for path in layout.runtimes.iterdir() if path != runtime.path)
    return {
        "version": str(runtime.record["inputs"].get("version")),
        "runtime": runtime.identity,
        "path": str(runtime.path),
        "python": runtime.record["inputs"].get("python"),
        "uv": runtime.uv_version,
        "created": runtime.record.get("created"),
        "others": others,
        "current": not problem,
        "problem": problem or None,
    }


def show_receipt(receipt: receipts.Receipt) -> dict[str, Any]:
    """Return the part of a receipt that lists show."""
    return {
        "id": receipt.id,
        "operation": receipt.operation,
        "status": receipt.status,
        "started": receipt.started,
        "finished": receipt.finished,
        "error": None if receipt.error is None else receipt.error.get("code"),
        "obligations": list(receipt.obligations),
    }


def _show(generation: Generation) -> dict[str, Any]:
    record = generation.record
    interpreter = record["interpreter"]
    return {
        **_show_briefly(generation),
        "plugins": _show_plugins(generation),
        "moved_names": moved_names_of(generation),
        "interpreter": {
            "version": interpreter["version"],
            "path": interpreter["path"],
            "present": generation.python.exists(),
        },
        "packages": len(record["packages"]),
    }


def _show_plugins(generation: Generation) -> list[dict[str, Any]]:
    """Return the distributions that were selected, in load order; what they declare may be called anything (`B`)."""
    versions = {plugin["distribution"]: plugin["version"] for plugin in generation.record["plugins"]}
    versions |= recorded_versions(generation)
    found = []
    for entry in selection_of(generation):
        name = _NAME.match(entry)  # reading a requirement would take longer than all else
        distribution = normalise_distribution(name[0] if name else entry)
        editable = is_editable(entry)
        found.append({"name": distribution, "version": versions.get(distribution), "editable": editable})
    return found


def _show_briefly(generation: Generation) -> dict[str, Any]:
    host = generation.record["host"]
    return {
        "id": generation.identity,
        "host": {"name": host["name"], "version": host["version"]},
        "created": generation.record["created"],
    }


def _selected(layout: Layout, profile: str) -> str | None:
    try:
        return load_pointer(layout, profile)
    except IntegrityFault:
        return None


def _read_runtime(layout: Layout, findings: list[str]) -> dict[str, Any]:
    """Return PM's version, runtime and uv by two small reads: ops.runtime would take longer to import than all else."""
    found: dict[str, Any] = {"version": __version__, "runtime": None, "uv": None}
    try:
        data = read_plain(layout, layout.runtime_pointer, 64)
        if data is None:
            return found
        identity = data.decode("ascii", "replace").strip()
        if not _RUNTIME.fullmatch(identity):
            findings.append("pm/current does not name a runtime")
            return found
        found["runtime"] = identity
        record = json.loads(read_plain(layout, layout.runtime(identity) / "record.json", _MAX_RECORD) or b"null")
        found["uv"] = str(record["inputs"]["uv"])
    except IntegrityFault as fault:
        findings.append(fault.summary)
    except (ValueError, KeyError, TypeError, RecursionError):
        findings.append(f"the record of PM's runtime {found['runtime']} cannot be read")
    if found["runtime"] and not environment_python(layout.runtime(found["runtime"]) / "venv").exists():
        findings.append(f"the interpreter of PM's runtime {found['runtime']} is gone")
    return found


def _protection(layout: Layout, current: Generation | None) -> Mapping[str, Any]:
    commands = [] if current is None else current.record["host"]["commands"]
    policies = {read_protection(layout, command) for command in commands if isinstance(command, str)} - {OFF}
    if not policies:
        return {"policy": OFF, "why_not": None}
    from perdure_pm.ops.protection import find_protection  # trying it starts processes

    return find_protection(layout, commands)


def _running(layout: Layout) -> str | None:
    """Return who holds the mutex. It is not tried: that would take it, for a moment, from somebody else."""
    try:
        data = json.loads(read_plain(layout, layout.mutex_holder, 4096) or b"null")
        pid, said = int(data["pid"]), f"{data['operation']} (process {data['pid']}, since {data['since']})"
    except (IntegrityFault, ValueError, KeyError, TypeError, RecursionError):
        return None
    from perdure_pm.adapters.processes import is_alive

    return said if is_alive(pid, None) else None


def _sit_outs(layout: Layout, profile: str, current: Generation | None) -> list[dict[str, Any]]:
    """Return what sat out when the profile was published last, without what runs since somebody went back."""
    published = load_published(layout, profile)
    runs = () if current is None else selection_of(current)
    found = [] if published is None else [item for item in published.sit_outs if item["entry"] not in runs]
    return [{key: item[key] for key in ("name", "entry", "reason")} for item in found]


def _trial(layout: Layout, profile: str, current: Generation | None, findings: list[str]) -> dict[str, Any] | None:
    """Return what is known of the trial of what is selected: until when it waits, and what is selected after it."""
    try:
        trial = load_trial(layout, profile)
    except IntegrityFault as fault:
        findings.append(fault.summary)
        return None
    if trial is None or current is None or trial.generation != current.identity:
        return None  # a crash left it; the next operation takes it away
    return {**show_trial(trial), "starts": trial.starts}


def _skipped(layout: Layout, profile: str, current: Generation) -> list[dict[str, Any]]:
    """Return the plugins that the app leaves out since it crashed with them, and the command that brings each back."""
    versions = {entry["name"]: entry["version"] for entry in current.record["packages"]}
    return [
        {"name": crash.distribution, "during": crash.during, "hint": f"perdure-pm plugin enable {crash.distribution}"}
        for crash in load_crashes(layout, profile)
        if versions.get(crash.distribution) == crash.version
    ]


def _summarise(current: Generation | None, findings: list[str]) -> str:
    if current is None:
        what = "nothing is installed" if not findings else "what is installed cannot be read"
    else:
        host = current.record["host"]
        what = f"{host['name']} {host['version']} in generation {current.identity}"
    return f"{what}; {len(findings)} found wrong: {findings[0]}" if findings else what
