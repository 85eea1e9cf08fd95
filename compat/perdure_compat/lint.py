"""What is wrong between a manifest and its tree.

Owns: every check that the project itself must pass: targets that are there, names that really moved, files that are as
rendered, versions that have come, and no use of an old name by the project. Does not own: faults of the manifest alone
(manifest), mending (render, remove).

Keeps: compat-lint-manifest, compat-lint-uses.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from fnmatch import fnmatch
from pathlib import Path

from perdure_compat.findings import find_in_texts
from perdure_compat.index import Index
from perdure_compat.manifest import Entry, Fault, Manifest, has_reached
from perdure_compat.render import render
from perdure_compat.scan import files_below, scan
from perdure_compat.source import PYTHON
from perdure_compat.tree import BEGIN, END, Tree, is_stub

_RESOLVE = """
import importlib, json, sys, warnings
warnings.simplefilter("ignore")
for old, module, name, refused in json.load(sys.stdin):
    try:
        value = importlib.import_module(module)
        for part in name.split("."):
            value = getattr(value, part) if part else value
        problem = "is answered, and should be refused" if refused else ""
    except Exception as error:
        problem = "" if refused and type(error).__module__ == "perdure_compat" else f"{type(error).__name__}: {error}"
    if problem:
        print(json.dumps([old, problem]))
"""


def lint(manifest: Manifest, tree: Tree, version: str | None) -> list[Fault]:
    """Return everything that is wrong, in the order of the files.

    Args:
        manifest: what the project says of its moves.
        tree: where its package lies.
        version: what the tree's version is, where it is known: an entry whose version of removal has come is a fault.
    """
    faults = [fault for entry in manifest.entries for fault in _of_entry(manifest, entry, tree, version)]
    for path, text in render(manifest, tree).items():
        state = "should not be there any more" if text is None else "is not as the manifest says"
        faults.append(Fault(str(path), f"{state}: run `perdure-compat render`"))
    return [*faults, *uses_in_tree(manifest)]


def uses_in_tree(manifest: Manifest) -> list[Fault]:
    """Return the uses of old names in the places that the manifest wants linted; guarded ones are uses as well.

    So are those in a program that a test holds as a text: it is what the next reader copies.
    """
    places = manifest.tree.get("lint")
    wanted = [manifest.path.parent / place for place in places] if isinstance(places, list) else []
    missing = [
        Fault(manifest.path.as_posix(), f"tree: lint: there is no {place}") for place in wanted if not place.exists()
    ]
    files = [path for path in files_below(wanted, suffixes=(*PYTHON, ".md")) if not _excepted(manifest, path)]
    index = Index([manifest])
    report = scan(files, index)
    written = [finding for path in files if path.suffix != ".md" for finding in find_in_texts(path, index)]
    found = [
        Fault(f"{os.path.relpath(finding.path)}:{finding.line}", f"uses {finding.written}, which {_now(finding.entry)}")
        for finding in [*report.findings, *written]
        if finding.form != "mention"
    ]
    unreadable = [
        Fault(f"{os.path.relpath(bad.path)}:{bad.line}", f"cannot be read: {bad.text}") for bad in report.unreadable
    ]
    return [*missing, *found, *unreadable]


def unresolved(manifest: Manifest, places: Sequence[Path]) -> list[Fault]:
    """Return the entries that a fresh interpreter does not answer as the manifest says, with `places` on its path."""
    wanted = [
        [entry.old, entry.old_module, entry.old_name, entry.loud or entry.kind == "removed"]
        for entry in manifest.entries
        if not (entry.whole and entry.kind == "removed")
    ]
    path = os.pathsep.join([*map(str, places), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-c", _RESOLVE],
        input=json.dumps(wanted),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
    )
    if done.returncode != 0:
        return [Fault(str(manifest.path), f"the interpreter that resolves the entries failed: {done.stderr.strip()}")]
    lines = {entry.old: entry for entry in manifest.entries}
    return [
        Fault(manifest.at(lines[old]), f"{old}: {problem}")
        for old, problem in (json.loads(line) for line in done.stdout.splitlines() if line.startswith("["))
    ]


def _of_entry(manifest: Manifest, entry: Entry, tree: Tree, version: str | None) -> Iterable[Fault]:
    place = manifest.at(entry)
    if version is not None and entry.kind != "removed" and has_reached(version, entry.removed_in):
        yield Fault(
            place,
            f"{entry.old}: {entry.removed_in} has come (this is {version}): "
            f"run `perdure-compat remove --up-to {entry.removed_in}`",
        )
    source = tree.source_of(entry.old_module)
    if source is not None and tree.file_of(entry.old_module) is not None and not is_stub(source.text):
        if entry.whole and entry.kind != "removed":
            yield Fault(place, f"{entry.old} is still a module of its own: {source.path}")
        definition = tree.definition(entry.old_module, entry.old_name) if entry.old_name else None
        if definition is not None and not _for_type_checkers(source.text, definition.lineno):
            yield Fault(place, f"{entry.old} is still defined, at {source.path}:{definition.lineno}")
    if entry.kind == "restored":
        yield from _target(place, entry, entry.restored_module, entry.old_name, tree)
    elif entry.new_module and entry.kind != "removed":
        yield from _target(place, entry, entry.new_module, entry.new_name, tree)


def _target(place: str, entry: Entry, module: str, name: str, tree: Tree) -> Iterable[Fault]:
    package = module.partition(".")[0] == entry.old_module.partition(".")[0]
    source = tree.source_of(module)
    if package and source is None:
        yield Fault(place, f"{entry.old}: there is no module {module}")
    elif (
        package
        and name
        and not any(
            # A module with a hook of its own may answer what no statement defines.
            [
                tree.definition(module, name.partition(".")[0]),
                tree.definition(module, "__getattr__"),
                tree.file_of(f"{module}.{name}"),
            ]
        )
    ):
        yield Fault(place, f"{entry.old}: {module} defines no {name}")


def _for_type_checkers(text: str, line: int) -> bool:
    """Return whether a line lies in what `render` wrote, whose block for type checkers names what moved."""
    before = text.splitlines()[: line - 1]
    return any(BEGIN in each for each in before) and not any(
        each.startswith(END) and "begin" not in each for each in before
    )


def _excepted(manifest: Manifest, path: Path) -> bool:
    absolute = os.path.abspath(path)
    return any(
        fnmatch(absolute, os.path.abspath(manifest.path.parent / exception.path)) for exception in manifest.exceptions
    )


def _now(entry: Entry) -> str:
    return f"is now {entry.new}" if entry.new and entry.kind != "restored" else f"goes away in {entry.removed_in}"
