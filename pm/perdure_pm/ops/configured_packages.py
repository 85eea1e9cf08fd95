"""The packages that config.yaml registers: read with every fault's place, and in line with it after an install.

Owns: that, and which packages are the configuration's, so that one that is taken out of it goes. Does not own: the form
of a registration (model.registration), having one (ops.packages), which callers register through the worker, too.

Keeps: packages-configured: a fault refuses `install` before anything is fetched and no other verb; everything is in the
store before the host is published, and on the PATH after it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from dataclasses import replace
from typing import Any

from perdure_pm.model.document import Document, Place
from perdure_pm.model.errors import ConfigInvalid, PerdureError, RegistrationInvalid
from perdure_pm.model.registration import Registration, parse_registrations
from perdure_pm.ops.context import Context, Outcome
from perdure_pm.ops.exclusive import exclusive
from perdure_pm.store.config import load_file
from perdure_pm.store.generations import current_generation
from perdure_pm.store.layout import Layout
from perdure_pm.store.pointer import read_plain

FILE = "configured.json"
SCHEMA = 1
_PART = re.compile(r"([^.\[\]]+)|\[(\d+)\]")


def read_registrations(layout: Layout, profile: str) -> tuple[Registration, ...]:
    """Return what config.yaml registers.

    Raises:
        ConfigInvalid: a registration has faults, all of which are named with line and column.
    """
    document = load_file(layout, layout.config).document
    raw = document.data.get("packages") if isinstance(document.data, dict) else None
    if not raw:
        return ()
    current = current_generation(layout, profile)
    try:
        return parse_registrations(
            _from_the_file(raw, layout), reserved=() if current is None else current.record["host"]["commands"]
        )
    except RegistrationInvalid as fault:
        said = fault.context["faults"]
        faults = [_with_place(document, str(text)) for text in (said if isinstance(said, list) else [fault.summary])]
        raise ConfigInvalid(
            faults[0] if len(faults) == 1 else f"{document.file} has {len(faults)} faults",
            hint=f"correct {document.file} in the home, then run the same command again",
            context={"file": document.file, "faults": faults},
        ) from fault


def _from_the_file(raw: object, layout: Layout) -> object:
    """Return registrations with paths that count from config.yaml as absolute ones; what has no such form stays."""
    if isinstance(raw, list):
        return [_from_the_file(entry, layout) for entry in raw]
    if not isinstance(raw, dict):
        return raw
    whole = {field: _from_the_file(value, layout) if field == "artefacts" else value for field, value in raw.items()}
    if isinstance(path := whole.get("path"), str) and path:
        whole["path"] = os.path.normpath(layout.home / path)
    return whole


def find_unready(layout: Layout, profile: str, *, thorough: bool) -> list[str]:
    """Return what is missing or damaged of what config.yaml registers, one sentence each: by sizes, or by every byte.

    Raises:
        ConfigInvalid: see `read_registrations`.
    """
    registrations = read_registrations(layout, profile)
    if not registrations:
        return []
    from perdure_pm.ops import packages  # most homes register none

    return packages.find_unready(layout, registrations, thorough=thorough)


def prepare(context: Context, registrations: tuple[Registration, ...]) -> bool:
    """Have each of them in the store, and return whether one was not; what runs and is on the PATH does not change.

    Raises:
        PerdureError: one could not be had as it is registered.
    """
    if not registrations:
        return False
    from perdure_pm.ops.packages import realise_packages  # most homes register none

    return realise_packages(replace(context, packages=registrations), expose=False).status != "noop"


def mend(context: Context) -> list[str]:
    """Have what config.yaml registers in the store to the byte, and on the PATH; return the packages that were not.

    Raises:
        PerdureError: one could not be had as it is registered, or nobody asked for that.
    """
    registrations = read_registrations(context.layout, context.profile)
    if not registrations:
        return []
    from perdure_pm.ops.packages import realise_packages

    done = realise_packages(replace(context, packages=registrations), expose=True, thorough=True)
    return [f"{item['name']} {item['version']}" for item in done.data["packages"] if item["status"] == "installed"]


def follow(
    context: Context, registrations: tuple[Registration, ...], outcome: Outcome, *, prepared: bool = False
) -> Outcome:
    """Have exactly these on the PATH, of those that config.yaml ever registered, and return the outcome of both.

    `prepared` says whether one of them was not in the store before.
    """
    before = _load_names(context)
    if not registrations and not before:
        return outcome
    from perdure_pm.ops.packages import realise_packages, withdraw_packages

    data: list[dict[str, Any]] = []
    gone: list[str] = []
    notices: tuple[str, ...] = ()
    changed = prepared
    try:
        if registrations:
            done = realise_packages(replace(context, packages=registrations), expose=True)
            data, changed = done.data["packages"], changed or done.status != "noop"
        names = [registration.name for registration in registrations]
        if not context.dry_run and names != before:
            with exclusive(context, "package-install"):
                gone = withdraw_packages(context, set(before) - set(names))
                text = json.dumps({"schema": SCHEMA, "names": names})
                context.filesystem.make_directories(context.layout.packages)
                context.filesystem.write_durable(context.layout.packages / FILE, text.encode())
    except PerdureError as fault:  # the host is published: what failed here is left to do
        notices = (f"{fault.summary}; what config.yaml has under packages is not in line: perdure-pm install",)
    sat_out = [f"{item['name']} sits out: {item['reason']}" for item in data if item["status"] == "sat-out"]
    return replace(
        outcome,
        status="ok" if changed or gone else outcome.status,
        data={**outcome.data, "registered": data, "withdrawn": gone},
        obligations=(*outcome.obligations, *notices, *sat_out),
    )


def _load_names(context: Context) -> list[str]:
    with contextlib.suppress(PerdureError, OSError, ValueError, KeyError, TypeError, RecursionError):
        data = json.loads(read_plain(context.layout, context.layout.packages / FILE, 1 << 20) or b"null")
        return [str(name) for name in data["names"]] if data["schema"] == SCHEMA else []
    return []


def _with_place(document: Document, fault: str) -> str:
    """Return a fault with the line and the column of the nearest thing that stands there."""
    path, _, message = fault.partition(": ")
    place: Place = tuple(int(number) if number else name for name, number in _PART.findall(path))
    near = place
    while near and near not in document.value_positions:
        near = near[:-1]
    line, column = document.value_positions.get(near, (0, 0))
    return f"{document.file}:{line}:{column} {path}: {message}"
