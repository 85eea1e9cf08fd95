"""wheelhouse build: every wheel that an installation needs, in one directory, for a machine without a network.

Owns: which wheels those are, for this kind of machine or another, and having the directory complete or not at all. Does
not own: looking at one before it is used (ops.carried), nor installing from one (adapters.uv).

What is needed is read off locks and never resolved anew where the target is this machine's kind and Python: PM's own
lock, and the requirements of the generation that each profile runs. Keeps: wheelhouse-whole.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from perdure_pm.adapters.download import obtain
from perdure_pm.adapters.filesystem import explained
from perdure_pm.adapters.interpreter import Interpreter, running_interpreter
from perdure_pm.adapters.uv import Uv
from perdure_pm.model.errors import (
    ArtefactMissing,
    IntegrityFault,
    NothingInstalled,
    PlatformUnsupported,
    SourceUnusable,
    UsageFault,
)
from perdure_pm.model.identity import EDITABLE, normalise_distribution
from perdure_pm.model.lock_view import Artefact, choose_wheel, parse_locked_tool
from perdure_pm.model.target import Target, parse_target, this_target
from perdure_pm.ops.arguments import read_text
from perdure_pm.ops.build import Wheel, split_requirements
from perdure_pm.ops.carried import FILE_NAME, SCHEMA, Carried, name_some
from perdure_pm.ops.context import Context, Outcome
from perdure_pm.ops.exclusive import exclusive
from perdure_pm.ops.host import make_uv, require_python
from perdure_pm.ops.interpreters import find_interpreter
from perdure_pm.ops.release import load_release, with_extras
from perdure_pm.ops.seed import seed_source
from perdure_pm.ops.selection import parse_selection
from perdure_pm.ops.trials import host_pins
from perdure_pm.store.generations import Generation, load_current
from perdure_pm.store.inventory import hash_file
from perdure_pm.store.pointer import list_profiles, load_pointer
from perdure_pm.store.recorded import read_source

TOOLS = "uv"
"""The tool that PM's own lock names beside its dependencies."""


@dataclass(slots=True, kw_only=True)
class Needs:
    """What a wheelhouse is to hold, and what of it no wheel can be had of."""

    target: Target
    files: dict[str, tuple[Artefact, str, set[str]]] = field(default_factory=dict)
    """By file name: the file, its distribution, and what needs it."""
    unavailable: list[str] = field(default_factory=list)
    """What has no wheel for the target, in words."""

    def add(self, artefact: Artefact, distribution: str, purpose: str) -> None:
        """Have the file among what is needed."""
        self.files.setdefault(artefact.name, (artefact, distribution, set()))[2].add(purpose)

    def add_locked(self, requirements: str, locks: Sequence[str], purpose: str, wheelhouse: Path | None) -> None:
        """Have a wheel of each requirement that counts on the target among what is needed.

        Args:
            requirements: pinned and hashed.
            locks: texts of the uv.lock files that say where the files are; the first one that knows a package counts.
            purpose: what needs them.
            wheelhouse: where the files lie that a lock has without an address.
        """
        offered = _Offered(locks)
        for name, block in split_requirements(requirements).items():
            for line in block.splitlines():
                text = line.partition(" --hash")[0].rstrip(" \\")
                if not text.strip() or line.startswith((" ", "#")):
                    continue
                requirement = Requirement(text)
                if not self.target.wants(requirement.marker):
                    continue
                if requirement.url is not None:
                    self.unavailable.append(f"{name} (it comes from an address, which no wheelhouse stands for)")
                    continue
                version = next(iter(requirement.specifier)).version
                artefact = offered.choose(name, version, self.target, block, wheelhouse)
                if artefact is None:
                    self.unavailable.append(f"{name} {version}")
                elif not artefact.sha256:
                    way = "it came from a directory of wheels, which --wheelhouse names"
                    self.unavailable.append(f"{name} {version} ({way})")
                else:
                    self.add(artefact, name, purpose)

    def require_all(self) -> None:
        """Return when there is a wheel of everything.

        Raises:
            PlatformUnsupported: there is not; all that is missing is named.
        """
        if self.unavailable:
            target = self.target
            raise PlatformUnsupported(
                f"no wheel for {target.name} and Python {target.python}: {name_some(self.unavailable)}",
                hint="leave out the plugins that need them, or choose another --platform or --python",
                context={"unavailable": self.unavailable, "target": target.name, "python": target.python},
            )


class _Offered:
    """The wheels that locks know, by name and version."""

    def __init__(self, locks: Sequence[str]) -> None:
        self._wheels: dict[tuple[str, str], dict[str, Mapping[str, Any]]] = {}
        for text in locks:
            for entry in tomllib.loads(text).get("package", []):
                key = (normalise_distribution(str(entry["name"])), str(entry.get("version")))
                wheels = {_file_of(wheel): wheel for wheel in entry.get("wheels", ())}
                if wheels:
                    self._wheels.setdefault(key, wheels)

    def choose(self, name: str, version: str, target: Target, block: str, wheelhouse: Path | None) -> Artefact | None:
        """Return the best wheel for the target whose hash the requirement allows; None where there is none."""
        wheels = self._wheels.get((name, version), {})
        chosen = target.choose(list(wheels))
        if chosen is None:
            return None
        digest = str(wheels[chosen].get("hash", "")).partition(":")[2]
        if not digest and wheelhouse is not None and (wheelhouse / chosen).is_file():
            digest = hash_file(wheelhouse / chosen)  # uv locks files of a directory by their paths alone
        if digest and f"sha256:{digest}" not in block:
            return None
        return Artefact(str(wheels[chosen].get("url", chosen)), digest, int(wheels[chosen].get("size", 0)))


def _file_of(wheel: Mapping[str, Any]) -> str:
    return Artefact(str(wheel.get("url") or wheel.get("path") or ""), "", 0).name


def build_wheelhouse(context: Context, arguments: Mapping[str, Any]) -> Outcome:
    """Have a directory with every wheel that PM and each profile's generation need, checked against their locks.

    Args:
        context: the world; `python` says which minor version it is for, by default that of the generation.
        arguments: ``out``: a path that does not exist yet; ``platform``: the kind of machine, by default this one's.

    Raises:
        UsageFault: the destination is there already, or there is no such platform.
        NothingInstalled: no profile runs anything.
        PlatformUnsupported: something has no wheel for the target; everything is named, and nothing was written.
        ArtefactMissing, NetworkUnreachable, IntegrityFault: something could not be had; nothing is left there.
    """
    out = require_destination(context, read_text(arguments, "out"))
    with exclusive(context, "wheelhouse-build"):
        generations = list_selected(context)
        require_carriable(generations)
        needs = find_needs(context, generations, read_text(arguments, "platform"))
        target = {"target": needs.target.name, "python": needs.target.python}
        data: dict[str, Any] = {"out": str(out), **target, "files": sorted(needs.files)}
        if context.dry_run:
            return Outcome(status="ok", data={**data, "dry_run": True})
        with whole(context, out) as building:
            size = fill_wheelhouse(context, needs, building)
        return Outcome(status="ok", data={**data, "size": size})


def require_destination(context: Context, text: str | None) -> Path:
    """Return the path at which something is to be made, where nothing is yet.

    Raises:
        UsageFault: something is there, or its parent is not, or it lies in the home.
    """
    if not text:
        raise UsageFault("where it goes is missing", hint="--out DIR")
    out = Path(os.path.abspath(text))
    if os.path.lexists(out):
        raise UsageFault(
            f"{out} is there already, and was left as it is",
            hint="name a directory that does not exist yet: --out DIR",
            context={"path": str(out)},
        )
    if not out.parent.is_dir():
        raise UsageFault(f"{out.parent} is no directory", hint=f'mkdir -p "{out.parent}"', context={"path": str(out)})
    home = os.path.realpath(context.layout.home)
    if os.path.commonpath([home, os.path.realpath(out)]) == home:
        raise UsageFault(f"{out} lies in the home {home}", hint="name a directory outside the home: --out DIR")
    return out


@contextlib.contextmanager
def whole(context: Context, out: Path) -> Iterator[Path]:
    """Have what is put into the yielded directory at `out`, all of it on the disk, or nothing there."""
    building = out.with_name(f".{out.name}.{os.urandom(6).hex()}.part")
    filesystem = context.filesystem
    try:
        with explained(building):
            building.mkdir()
        yield building
        filesystem.flush(building)
        # A crash before this line leaves a directory with a name of its own, which nobody takes for the result.
        filesystem.rename(building, out)
    except BaseException:
        filesystem.remove_tree(building)
        raise


def list_selected(context: Context) -> list[Generation]:
    """Return the generation that each profile runs.

    Raises:
        NothingInstalled: none runs anything.
    """
    layout = context.layout
    selected = {load_pointer(layout, profile): profile for profile in list_profiles(layout)}
    selected.pop(None, None)
    if not selected:
        raise NothingInstalled(f"{layout.home} runs nothing that could be carried", hint="perdure-pm install")
    return [load_current(layout, profile) for profile in selected.values()]


def require_carriable(generations: Sequence[Generation], *, programs: bool = True) -> None:
    """Return when no plugin of the generations runs from outside the home.

    Args:
        generations: what is to be carried.
        programs: whether plugins that are programs of their own may be among them: no wheel is needed for one.

    Raises:
        SourceUnusable: some do; all of them are named.
    """
    found = []
    for record in (generation.record for generation in generations):
        manifests = record.get("manifests", {})
        for source in record.get("sources", ()):
            name = str(source["name"])
            external = manifests.get(name, {}).get("runtime") == "external"
            if source.get(EDITABLE) is True:
                found.append(f"{name} runs from where it is edited")
            elif external and not programs:
                found.append(f"{name} is a program of its own")
    if found:
        name = found[0].partition(" ")[0]
        raise SourceUnusable(
            f"what lies outside the home cannot be carried: {', '.join(dict.fromkeys(found))}",
            hint=f"add a copy of it in its place, or take it out: perdure-pm plugin disable {name}",
            context={"plugins": found},
        )


def find_needs(context: Context, generations: Sequence[Generation], platform: str | None) -> Needs:
    """Return what PM and the generations need on a kind of machine.

    Raises:
        UsageFault: there is no such kind, or the generations are for several Pythons and none was chosen.
        PlatformUnsupported: something has no wheel there; everything is named.
    """
    layout, wheelhouse = context.layout, context.network.wheelhouse
    target = parse_target(platform, _choose_python(context, generations))
    uv = make_uv(context)
    needs = Needs(target=target)
    project = seed_source(layout) / "pm"
    lock = (project / "uv.lock").read_text(encoding="utf-8")
    tool = choose_wheel(parse_locked_tool(lock, TOOLS), target.system, target.machine)
    needs.add(tool, TOOLS, "pm")
    python = running_interpreter().path
    needs.add_locked(uv.export(project, python), [lock], "pm", wheelhouse)
    for generation in generations:
        if target.name == this_target() and target.python == _minor(generation):
            _add_generation(context, needs, generation)
        else:
            _add_for_elsewhere(context, uv, needs, generation)
    needs.require_all()
    return needs


def _choose_python(context: Context, generations: Sequence[Generation]) -> str:
    """Return the minor version that was asked for, else the one that the generations are for."""
    if context.python is not None:
        if re.fullmatch(r"3(\.[0-9]+){1,2}", context.python):
            return ".".join(context.python.split(".")[:2])
        found = find_interpreter(context.layout, context.environ, context.python)
        return ".".join(found.version.split(".")[:2]) if found is not None else context.python
    pythons = sorted({_minor(generation) for generation in generations})
    if len(pythons) > 1:
        raise UsageFault(
            f"the profiles of this home run on Python {' and '.join(pythons)}, and only one can be carried at a time",
            hint=f"--python {pythons[-1]}",
            context={"pythons": pythons},
        )
    return pythons[0]


def _minor(generation: Generation) -> str:
    return ".".join(str(generation.record["interpreter"]["version"]).split(".")[:2])


def _add_generation(context: Context, needs: Needs, generation: Generation) -> None:
    """Have what the generation holds among what is needed: as its record says it, to the byte."""
    record, wheelhouse = generation.record, context.network.wheelhouse
    release = load_release(context.layout, str(record["host"]["release"]))
    locks = [str(record.get("lock", ""))]
    if release is not None:
        locks.insert(0, (context.layout.release(release.digest) / "uv.lock").read_text(encoding="utf-8"))
    requirements = str(record["requirements"])
    of_host = split_requirements(release.requirements if release is not None else requirements)
    blocks = split_requirements(requirements)
    for purpose, names in (("host", blocks.keys() & of_host.keys()), ("plugins", blocks.keys() - of_host.keys())):
        text = "".join(block for name, block in blocks.items() if name in names)
        needs.add_locked(text, locks, purpose, wheelhouse)
    _add_own_wheels(context, needs, generation)


def _add_own_wheels(context: Context, needs: Needs, generation: Generation) -> None:
    """Have the wheels that were built here among what is needed: those of the host, and of plugins with an address."""
    for wheel in generation.record["wheels"]:
        path = context.layout.home / str(wheel["path"])
        purpose = "host" if context.layout.releases in path.parents else "plugins"
        name = normalise_distribution(str(wheel["file"]).partition("-")[0])
        if needs.target.choose([path.name]) is None:
            needs.unavailable.append(f"{name} (its wheel {path.name} was built here)")
        elif not path.is_file():
            raise IntegrityFault(
                f"{path} is gone from the store", hint="perdure-pm repair", context={"path": str(path), "package": name}
            )
        else:
            needs.add(Artefact(path.as_uri(), str(wheel["sha256"]), path.stat().st_size), name, purpose)


def _add_for_elsewhere(context: Context, uv: Uv, needs: Needs, generation: Generation) -> None:
    """Have what the generation would hold on another kind of machine, or Python, among what is needed.

    The lock of a checkout answers for every machine. What was locked for this one alone is resolved for that one, with
    the versions that the generation has as constraints.
    """
    record, layout, target = generation.record, context.layout, needs.target
    release = load_release(layout, str(record["host"]["release"]))
    if release is None:
        raise IntegrityFault("the release of the host is gone from the store", hint="perdure-pm repair")
    require_python(release, Interpreter(Path(), f"{target.python}.99", "CPython"))
    selection = parse_selection(release, record.get("selection", ()))
    for_all = "host.checkout" in read_source(release.source)
    release = with_extras(uv, layout, release, record["inputs"].get("extras", ()), running_interpreter().path)
    if for_all:
        lock = (layout.release(release.digest) / "uv.lock").read_text(encoding="utf-8")
        needs.add_locked(release.requirements, [lock], "host", context.network.wheelhouse)
    _add_own_wheels(context, needs, generation)
    if needs.unavailable or (for_all and not selection.requirements and not selection.sources):
        return
    wheels = [Wheel(layout.home / str(wheel["path"]), str(wheel["sha256"])) for wheel in record["wheels"]]
    asked = [f"{wheel.distribution} @ {wheel.path.as_uri()}" for wheel in wheels]
    asked += [*release.direct, *selection.requirements]
    own = {wheel.distribution for wheel in wheels}
    of_host = split_requirements(release.requirements)
    others = [item for item in record["packages"] if item["name"] not in own and item["name"] not in of_host]
    pins = [*host_pins(release), *(f"{item['name']}=={item['version']}" for item in others)]
    answer = tomllib.loads(_resolve_elsewhere(context, uv, target, asked, pins))
    for entry in answer.get("packages", ()):
        name = normalise_distribution(str(entry["name"]))
        if name in own:
            continue
        files = {_file_of(wheel): wheel for wheel in entry.get("wheels", ())}
        chosen = target.choose(list(files))
        if chosen is None:
            needs.unavailable.append(f"{name} {entry.get('version', '')}".rstrip())
            continue
        digest = str(files[chosen]["hashes"]["sha256"])
        artefact = Artefact(str(files[chosen].get("url", chosen)), digest, int(files[chosen].get("size", 0)))
        needs.add(artefact, name, "host" if name in of_host else "plugins")


def _resolve_elsewhere(context: Context, uv: Uv, target: Target, asked: Sequence[str], pins: Sequence[str]) -> str:
    folder = context.layout.scratch / f"elsewhere-{os.urandom(6).hex()}"
    context.filesystem.make_directories(folder)
    try:
        for name, lines in (("asked.in", asked), ("pins.txt", pins)):
            (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return uv.compile(folder / "asked.in", folder / "pins.txt", platform=target.platform, python=target.python)
    finally:
        context.filesystem.remove_tree(folder)


def fill_wheelhouse(context: Context, needs: Needs, folder: Path) -> int:
    """Have every file that is needed in `folder`, an empty directory, and return their size in bytes.

    Raises:
        ArtefactMissing: some cannot be had; all of them are named.
        NetworkUnreachable, IntegrityFault: see `obtain`.
    """
    network, missing, done = context.network, [], 0
    total = sum(artefact.size for artefact, _, _ in needs.files.values())
    for name, (artefact, distribution, _) in sorted(needs.files.items()):
        here = artefact.url.startswith("file:")

        def tell(more: int, _all: int | None, done: int = done) -> None:
            context.reporter.progress("wheelhouse", f"fetching {len(needs.files)} files", done=done + more, total=total)

        try:
            # What was built here lies in the store, whatever index or wheelhouse is asked for the rest.
            way = replace(network, wheelhouse=None, index_url=None) if here else network
            obtain(artefact, distribution, folder / name, network=way, on_progress=tell)
        except ArtefactMissing:
            missing.append(name)
        done += artefact.size
    if missing:
        place = "the index does not offer" if network.fetches else "without a network there is no way to"
        if network.wheelhouse is not None:
            place = f"the wheelhouse {network.wheelhouse} lacks"
        raise ArtefactMissing(
            f"{place} {name_some(missing)}; nothing was written",
            hint="run the same command with network, and with an index that has them: --index-url URL",
            context={"missing": missing},
        )
    carried = [
        Carried(name, artefact.sha256, (folder / name).stat().st_size, tuple(sorted(purposes)))
        for name, (artefact, _, purposes) in sorted(needs.files.items())
    ]
    data = {"schema": SCHEMA, "target": needs.target.name, "python": needs.target.python}
    said = {**data, "files": [file.to_json() for file in carried]}
    context.filesystem.write_durable(folder / FILE_NAME, json.dumps(said, indent=1).encode())
    return sum(file.size for file in carried)
