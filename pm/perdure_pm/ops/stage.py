"""stage: an installation as one sealed directory, which is activated on another machine without a network.

Owns: what of a home is carried, and in which form. Does not own: the wheels (ops.wheelhouse), activating (ops.payload).

No environment is carried: the payload holds what every environment is built from, and the one builder builds them where
they are to run (docs/adr/0028). So nothing in it names a path of this machine but the entries of plugins that a person
wrote with one. Keeps: stage-whole.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from perdure_pm import __version__
from perdure_pm.adapters.filesystem import explained
from perdure_pm.adapters.interpreter import target_name
from perdure_pm.model.config import HOME_KEYS, parse_home_config
from perdure_pm.model.errors import IntegrityFault
from perdure_pm.model.requirement import parse_source, requirement_name
from perdure_pm.ops import payload, seed
from perdure_pm.ops.arguments import read_flag, read_text
from perdure_pm.ops.context import Context, Outcome
from perdure_pm.ops.exclusive import exclusive
from perdure_pm.ops.host import make_uv
from perdure_pm.ops.interpreters import bring_in, find_own, find_own_damage, own_folder
from perdure_pm.ops.launchers import write_activation
from perdure_pm.ops.recovery import recover
from perdure_pm.ops.release import load_release
from perdure_pm.ops.snapshots import find_recorded, load_snapshot
from perdure_pm.ops.wheelhouse import (
    fill_wheelhouse,
    find_needs,
    list_selected,
    require_carriable,
    require_destination,
    whole,
)
from perdure_pm.store.config import load_file, plan_change, with_text
from perdure_pm.store.generations import Generation
from perdure_pm.store.inventory import FILE_NAME, hash_file, take_inventory
from perdure_pm.store.layout import Layout
from perdure_pm.store.pointer import list_profiles, load_pointer
from perdure_pm.store.recorded import read_source

HERE_ONLY = ("host.checkout", "host.wheel", *(key.name for key in HOME_KEYS if key.name.startswith("network.")))
"""Keys of config.yaml that are about this machine: where the host was built from, and how the network is reached."""


def stage(context: Context, arguments: Mapping[str, Any]) -> Outcome:
    """Have a payload of what every profile runs.

    Args:
        context: the world.
        arguments: ``out``: a path that does not exist yet; ``with_python``: whether an interpreter is carried too.

    Raises:
        UsageFault: the destination is there already.
        SourceUnusable: a plugin runs from outside the home: it is named.
        NothingInstalled, PlatformUnsupported, ArtefactMissing, NetworkUnreachable, IntegrityFault: nothing is there.
    """
    out = require_destination(context, read_text(arguments, "out"))
    with exclusive(context, "stage"):
        notices = () if context.dry_run else recover(context)
        generations = list_selected(context)
        require_carriable(generations, programs=False)
        _require_store(context.layout, generations)
        # For the Python that the generations run on, whatever --python says: their records are for no other.
        needs = find_needs(replace(context, python=None), generations, None)
        data: dict[str, Any] = {"out": str(out), "target": target_name(), "python": needs.target.python}
        data |= {"generations": [generation.identity for generation in generations], "files": sorted(needs.files)}
        if context.dry_run:
            return Outcome(status="ok", data={**data, "dry_run": True})
        interpreter = _find_own_python(context, needs.target.python) if read_flag(arguments, "with_python") else None
        with whole(context, out) as building, explained(building):
            wheelhouse = building / payload.WHEELHOUSE
            wheelhouse.mkdir()
            fill_wheelhouse(context, needs, wheelhouse)
            there = Layout(building / payload.CONTENT)
            _write_home(context, there, generations)
            own = None if interpreter is None else _copy_python(context, interpreter, there)
            write_activation(context.filesystem, building, target_name(), needs.target.python)
            marker = {
                "schema": payload.SCHEMA,
                "target": target_name(),
                "python": needs.target.python,
                "interpreter": own,
                "pm": __version__,
                "created": context.clock().strftime("%Y-%m-%dT%H:%M:%SZ"),
                "hosts": sorted(
                    {f"{one.record['host']['name']} {one.record['host']['version']}" for one in generations}
                ),
                "profiles": _selected_by(context.layout),
            }
            context.filesystem.write_durable(building / payload.MARKER, json.dumps(marker, indent=1).encode())
            context.reporter.progress("stage", "sealing the payload")
            inventory = take_inventory(building)
            context.filesystem.write_durable(building / FILE_NAME, inventory.to_bytes())
            data |= {"size": sum(entry.size for entry in inventory.files.values()), "interpreter": own}
            data |= {"seal": hash_file(building / FILE_NAME)}
        return Outcome(status="ok", data=data, obligations=notices)


def _require_store(layout: Layout, generations: list[Generation]) -> None:
    """Return when everything that is carried from the store is there and as it was.

    Raises:
        IntegrityFault: it is not; it is named.
    """
    for record in (generation.record for generation in generations):
        digest = str(record["host"]["release"])
        if load_release(layout, digest) is None:
            raise IntegrityFault(
                f"the release {digest} of the host is gone from the store, or damaged", hint="perdure-pm repair"
            )
        for entry, digest in find_recorded(record).items():
            plugin = parse_source(entry)
            if plugin is None or load_snapshot(layout, digest, plugin) is None:
                name = requirement_name(entry)
                raise IntegrityFault(
                    f"the copy of the plugin {name} is gone from {layout.plugins}, or damaged",
                    hint=f"perdure-pm plugin update {name}",
                    context={"entry": entry, "digest": digest},
                )
    seed.read_source(layout, seed.seed_source(layout))  # raises where it is damaged


def _selected_by(layout: Layout) -> dict[str, str]:
    found = {profile: load_pointer(layout, profile) for profile in list_profiles(layout)}
    return {profile: identity for profile, identity in found.items() if identity is not None}


def _write_home(context: Context, there: Layout, generations: list[Generation]) -> None:
    """Have what a home begins with: what people wrote, what is selected, and what that is built from."""
    layout, filesystem = context.layout, context.filesystem
    source = seed.seed_source(layout)
    _copy_tree(context, source, there.seed(source.name))
    filesystem.write_durable(there.seed_pointer, f"{source.name}\n".encode("ascii"))
    home = load_file(layout, layout.config)
    said = parse_home_config(home.document).values
    for key in HOME_KEYS:
        if key.name in HERE_ONLY and key.name in said:
            home = with_text(home, plan_change(home, key, None, in_profile=False))
    _write(context, there.config, home.text.encode())
    for profile, identity in _selected_by(layout).items():
        _write(context, there.pointer(profile), f"{identity}\n".encode("ascii"))
        for source, target in (
            (layout.profile_config(profile), there.profile_config(profile)),
            (layout.published(profile), there.published(profile)),
        ):
            if source.is_file():
                _write(context, target, source.read_bytes())
    for generation in generations:
        _write_generation(context, there, generation)


def _write_generation(context: Context, there: Layout, generation: Generation) -> None:
    """Have what the generation is rebuilt from: its record, the release of its host, the snapshots of its plugins."""
    layout, record = context.layout, generation.record
    release = str(record["host"]["release"])
    source = str(record["host"]["source"])
    # A release that was made of a checkout, or of a wheel, is all that there is of the host from then on.
    source = source if "host.requirement" in read_source(source) else ""
    if not there.release(release).exists():
        _copy_tree(context, layout.release(release), there.release(release))
        told = there.release(release) / "release.json"
        data = {**json.loads(told.read_bytes()), "source": source}
        _write(context, told, json.dumps(data, indent=1).encode())
    for digest in find_recorded(record).values():
        if not there.plugin(digest).exists():
            _copy_tree(context, layout.plugin(digest), there.plugin(digest))
    carried = {**record, "host": {**record["host"], "source": source}}
    _write(context, there.kept_record(generation.identity), json.dumps(carried, indent=1).encode())


def _find_own_python(context: Context, minor: str) -> Path:
    """Return an interpreter of the home's own, which works wherever it lies; brought in where there is none.

    Raises:
        NetworkUnreachable, ArtefactMissing, InterpreterMissing, BuildFailed: none could be brought in.
    """
    context.reporter.progress("python", f"finding a Python {minor} that can be carried")
    own = find_own(context.layout, minor)
    if own is None or own_folder(context.layout, own.path) in find_own_damage(context.layout, thorough=True):
        own = bring_in(context.layout, context.filesystem, make_uv(context), minor)
    return own.path


def _copy_python(context: Context, interpreter: Path, there: Layout) -> str:
    """Have a copy of the interpreter's directory, and return where the interpreter is in it, relative to its home."""
    interpreters = context.layout.interpreters
    name = interpreter.relative_to(interpreters).parts[0]
    context.reporter.progress("stage", f"copying {name}")
    _copy_tree(context, interpreters / name, there.interpreters / name)
    return (Path(there.interpreters.name) / interpreter.relative_to(interpreters)).as_posix()


def _copy_tree(context: Context, source: Path, target: Path) -> None:
    """Have a copy of a directory of the home: links as links, times kept, everything writable for its owner again."""
    for folder, folders, names in os.walk(source):
        here = target / Path(folder).relative_to(source)
        here.mkdir(parents=True, exist_ok=True)
        for name in [*names, *(name for name in folders if os.path.islink(os.path.join(folder, name)))]:
            shutil.copy2(os.path.join(folder, name), here / name, follow_symlinks=False)
            if not (here / name).is_symlink():
                (here / name).chmod((here / name).stat().st_mode | 0o200)
        context.reporter.heartbeat()


def _write(context: Context, path: Path, data: bytes) -> None:
    context.filesystem.make_directories(path.parent)
    context.filesystem.remove_tree(path)
    path.write_bytes(data)
