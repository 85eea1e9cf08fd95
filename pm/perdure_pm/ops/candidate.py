"""A candidate: a generation from its first file to its seal, at its final path, where nothing points.

Owns: what lies in it (environment, lock, boot.json, record), the seal, and its removal where it is not wanted after
all. Does not own: the environment's making (build), the verdict on it (verify), nor the commit (publish). Keeps:
pm-sealed-before-selected.
"""

from __future__ import annotations

import contextlib
import json
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from perdure_pm.adapters.interpreter import target_name
from perdure_pm.adapters.uv import Uv
from perdure_pm.model.config import HomeConfig
from perdure_pm.model.errors import BuildFailed, HealthCheckFailed, PerdureError, SourceUnusable
from perdure_pm.model.identity import normalise_distribution
from perdure_pm.model.manifest import Manifest
from perdure_pm.model.registration import is_builtin_command
from perdure_pm.ops.build import build_environment
from perdure_pm.ops.builds import with_quarantine
from perdure_pm.ops.context import Context
from perdure_pm.ops.declared import PLUGIN_GROUP, read_commands, read_entries
from perdure_pm.ops.external import list_programs
from perdure_pm.ops.launchers import is_taken, write_library, write_start
from perdure_pm.ops.manifests import read_installed_manifests
from perdure_pm.ops.packages_of import resolved_versions
from perdure_pm.ops.recovery import is_selected
from perdure_pm.ops.release import Plugin
from perdure_pm.ops.resolve import Resolution
from perdure_pm.ops.snapshots import Snapshot
from perdure_pm.ops.wanted import Wanted
from perdure_pm.store.generations import Generation, known_inventory
from perdure_pm.store.inventory import FILE_NAME, Inventory, find_known_files, find_site_packages, take_inventory
from perdure_pm.store.layout import environment_scripts

RECORD_SCHEMA = 1
BOOT_SCHEMA = 1


def build_candidate(
    context: Context,
    uv: Uv,
    wanted: Wanted,
    resolution: Resolution,
    identity: str,
    current: Generation | None,
    config: HomeConfig,
) -> Inventory:
    """Have the generation's environment, boot file and lease at its path; return the environment's inventory."""
    filesystem, path = context.filesystem, context.layout.generation(identity)
    filesystem.make_directories(path)
    context.reporter.progress("build", f"building generation {identity}")
    known = None if current is None else find_known_files(current.path, known_inventory(context.layout, current))
    inventory = build_environment(
        with_quarantine(uv, config.admission, context.clock(), [resolution.lock]),
        filesystem,
        environment=path / "venv",
        python=wanted.interpreter.path,
        requirements=resolution.requirements,
        wheels=wanted.wheels(),
        base=None if current is None else current.environment,
        known=known,
        lease=True,
        build=config.admission.builds,
    )
    _require_packages(wanted, resolution, path / "venv")
    filesystem.write_durable(path / "uv.lock", resolution.lock.encode())
    host = {"name": wanted.release.name, "version": wanted.release.version}
    manifests = _find_manifests(wanted, path / "venv")
    plugins = [plugin.to_json() for plugin in _find_plugins(wanted, config, path / "venv", manifests)]
    boot: dict[str, Any] = {"schema": BOOT_SCHEMA, "generation": identity, "host": host, "plugins": plugins}
    # What a plugin.yaml says is read here, once: a start scans nothing.
    boot["manifests"] = {name: manifest.to_json() for name, manifest in manifests.items()}
    boot["external"] = list_programs(wanted.seen)
    filesystem.write_durable(path / "boot.json", json.dumps(boot, indent=1).encode())
    filesystem.write_durable(path / "lease", b"")
    write_start(filesystem, path)
    write_library(filesystem, context.layout, path, wanted.interpreter)
    return inventory


def find_commands(context: Context, config: HomeConfig, wanted: Wanted, identity: str) -> list[str]:
    """Return the host's commands: those that the configuration names, else all that its distribution declares.

    Raises:
        HealthCheckFailed: the host has no command, or none of a configured name.
        SourceUnusable: an external plugin has the name of another command.
    """
    environment = context.layout.generation(identity) / "venv"
    commands = list(config.host_commands or wanted.release.commands) or sorted(
        read_commands(environment, wanted.release.name)
    )
    missing = [name for name in commands if not (environment_scripts(environment) / name).is_file()]
    if missing or not commands:
        raise HealthCheckFailed(
            f"{wanted.release.name} {wanted.release.version} has no command {missing[0] if missing else 'at all'}",
            hint="perdure-pm config set host.commands NAME",
            context={"missing": missing},
        )
    for seen in wanted.seen:
        name = seen.source.name
        if seen.external is not None and (
            name in commands or is_builtin_command(name) or is_taken(context.layout, name)
        ):
            raise SourceUnusable(
                f"the external plugin {name} would be started by {context.layout.bin / name}, which starts something "
                "else",
                hint="give the plugin another name",
                context={"plugin": name},
            )
    return commands


def seal_candidate(
    context: Context,
    uv: Uv,
    wanted: Wanted,
    resolution: Resolution,
    identity: str,
    inventory: Inventory,
    commands: list[str],
) -> tuple[str, ...]:
    """Have everything on the disk, then the record that says so; return what a person should know of the plugins."""
    from perdure_pm.ops.moved_names import find_installed_uses, say_uses  # not loaded where nothing is published

    filesystem, path = context.filesystem, context.layout.generation(identity)
    context.reporter.progress("seal", "flushing to the disk")
    inside = {f"venv/{name}": entry for name, entry in inventory.files.items()}
    links = {f"venv/{name}": target for name, target in inventory.links.items()}
    beside = take_inventory(path, skip="venv")
    whole = Inventory({**inside, **beside.files}, {**links, **beside.links})
    filesystem.write_durable(path / FILE_NAME, whole.to_bytes())
    filesystem.make_read_only(path)
    sealed = stat.S_IMODE(path.stat().st_mode)
    path.chmod(sealed | stat.S_IWUSR)  # the record is still to come
    filesystem.flush(path)
    boot = json.loads((path / "boot.json").read_bytes())
    moved = find_installed_uses(path / "venv", [plugin["distribution"] for plugin in boot["plugins"]])
    record = {
        "schema": RECORD_SCHEMA,
        "id": identity,
        "number": int(identity.partition("-")[0]),
        "inputs": wanted.inputs(),
        "inputs_digest": wanted.digest(),
        "created": context.clock().strftime("%Y-%m-%dT%H:%M:%SZ"),
        "profile": context.profile,
        "host": {
            **boot["host"],
            "source": wanted.release.source,
            "release": wanted.release.digest,
            "commands": commands,
        },
        "interpreter": wanted.interpreter.to_json(),
        "target": target_name(),
        "uv": uv.binary.parent.name,
        "packages": _packages(path / "venv"),
        "plugins": boot["plugins"],
        "selection": list(wanted.selection.entries),
        "sources": [{**item.to_json(), "kind": item.source.kind} for item in wanted.seen],
        "manifests": boot["manifests"],
        "moved_names": moved,
        "requirements": resolution.requirements,
        "lock": resolution.lock,
        "screening": resolution.screening,
        "wheels": [
            {
                "file": wheel.path.name,
                "sha256": wheel.sha256,
                "path": wheel.path.relative_to(context.layout.home).as_posix(),
            }
            for wheel in wanted.wheels()
        ],
    }
    filesystem.write_durable(path / "record.json", json.dumps(record, indent=1).encode(), mode=0o444)
    path.chmod(sealed)
    return say_uses(moved)


def drop_candidate(context: Context, identity: str, sealed: Generation | None) -> None:
    """Have nothing left of what was built for nothing; what answers already, or is selected, stays."""
    if sealed is None and not is_selected(context, identity):
        with contextlib.suppress(PerdureError):  # then `collect` removes it; the error on its way says more
            context.filesystem.remove_tree(context.layout.generation(identity))


def _require_packages(wanted: Wanted, resolution: Resolution, environment: Path) -> None:
    """Fail where a package that was resolved, or a plugin that is wanted, is not there: uv's exit code is no proof."""
    there = {package["name"] for package in _packages(environment)}
    expected = {*resolved_versions(wanted.wheels(), resolution, wanted.interpreter), *wanted.installed_names()}
    missing = sorted({normalise_distribution(name) for name in expected} - there)
    if missing:
        raise BuildFailed(
            f"uv said that everything is installed, and {', '.join(missing)} is not there",
            context={"missing": missing},
        )


def _find_manifests(wanted: Wanted, environment: Path) -> dict[str, Manifest]:
    """Return the manifest of each selected plugin that has one, in the selection's order."""
    of_sources = {seen.source.name: seen.external for seen in wanted.seen}
    of_sources |= {snapshot.name: snapshot.manifest for snapshot in wanted.snapshots}
    others = [name for name in wanted.installed_names() if name not in of_sources]
    installed = read_installed_manifests(environment, others)
    found = {name: of_sources.get(name) or installed.get(name) for name in wanted.selection.names()}
    return {name: manifest for name, manifest in found.items() if manifest is not None}


def _find_plugins(
    wanted: Wanted, config: HomeConfig, environment: Path, manifests: Mapping[str, Manifest]
) -> list[Plugin]:
    """Return the entries that the selected distributions declare for the host, in the selection's order.

    Raises:
        SourceUnusable: a plugin with an address declares nothing that our app could load.
    """
    bundled = {plugin.distribution: plugin for plugin in wanted.selection.bundled}
    names = [name for name in wanted.installed_names() if name not in bundled]
    own = bool(wanted.release.plugins)
    found: dict[str, list[Plugin]] = {name: [plugin] for name, plugin in bundled.items()}
    for entry in read_entries(environment, names, own=own, groups=config.host_plugin_groups):
        plugin = Plugin(name=entry.name, distribution=entry.distribution, version=entry.version, entry=entry.value)
        found.setdefault(entry.distribution, []).append(plugin)
    for snapshot in wanted.snapshots if own else ():
        if snapshot.name not in found:
            found[snapshot.name] = [_declare(snapshot, manifests.get(snapshot.name))]
    return [plugin for name in wanted.installed_names() for plugin in found.get(name, [])]


def _declare(snapshot: Snapshot, manifest: Manifest | None) -> Plugin:
    """Return the plugin that a manifest declares where the wheel, as its own build made it, declares none."""
    if manifest is None or manifest.entry is None or manifest.group not in {None, PLUGIN_GROUP}:
        raise SourceUnusable(
            f"the plugin {snapshot.name} declares nothing to load: neither an entry point of the group {PLUGIN_GROUP} "
            "nor an entry in its plugin.yaml",
            hint=f'say it in pyproject.toml: [project.entry-points.{PLUGIN_GROUP}] {snapshot.name} = "MODULE:NAME"',
            context={"plugin": snapshot.name},
        )
    name = manifest.name or snapshot.name
    return Plugin(name=name, distribution=snapshot.name, version=snapshot.version, entry=manifest.entry)


def _packages(environment: Path) -> list[dict[str, str]]:
    names = sorted(info.name.removesuffix(".dist-info") for info in find_site_packages(environment).glob("*.dist-info"))
    return [
        {"name": normalise_distribution(name.partition("-")[0]), "version": name.partition("-")[2]} for name in names
    ]
