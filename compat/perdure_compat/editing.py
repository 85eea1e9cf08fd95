"""Changing a manifest's file: a new entry, and entries whose version has come.

Owns: the text of manifests and archives, with comments kept. Does not own: what else changes with them (render).

Keeps: compat-remove.
"""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from pathlib import Path

from perdure_compat.manifest import Entry, Fault, Manifest, ManifestFaults, has_reached, parse_manifest
from perdure_compat.render import entry_text, render
from perdure_compat.source import Source, newline_of, text_of
from perdure_compat.tree import Tree

_HEADER = re.compile(r"\s*\[")


def with_entry(manifest: Manifest, text: str, entry: Entry) -> str:
    """Return a manifest's text with one more entry at its end.

    Raises:
        ManifestFaults: the entry, or the manifest with it, is at fault.
    """
    newline = newline_of(text)
    after = f"{text.rstrip()}\n\n{entry_text(entry)}".replace("\r\n", "\n").replace("\n", newline)
    parse_manifest(after, manifest.path)
    return after


def remove(manifest: Manifest, tree: Tree, up_to: str, *, hints: bool) -> dict[Path, str | None]:
    """Return every file as it is without the entries whose version of removal has come by `up_to`.

    The entries go to the archive, from which the codemod still works. With `hints` the facades stay, and what is asked
    for there raises an error that names the new place.
    """
    leaving = [entry for entry in manifest.entries if entry.kind != "removed" and has_reached(up_to, entry.removed_in)]
    if not hints:
        leaving = [entry for entry in manifest.entries if has_reached(up_to, entry.removed_in)]
    if not leaving:
        return {}
    text = text_of(manifest.path) or ""
    rest = _without(manifest, text, leaving, hints=hints)
    archive = manifest.place("archive") or manifest.path.with_name(f"{manifest.path.stem}-archive.toml")
    smaller = parse_manifest(rest, manifest.path)
    bodies = _without_bodies(manifest, tree, leaving)
    changed: dict[Path, str | None] = {**render(smaller, tree), manifest.path: rest, **bodies}
    changed[archive] = _archived(manifest, archive, leaving)
    return changed


def _without(manifest: Manifest, text: str, leaving: list[Entry], *, hints: bool) -> str:
    if any(not entry.line for entry in leaving):
        raise ManifestFaults([Fault(str(manifest.path), "entries are written inline; write them as [[moved]] tables")])
    lines = text.splitlines(keepends=True)
    for entry in sorted(leaving, key=lambda each: each.line, reverse=True):
        start = entry.line - 1
        end = next((at for at in range(start + 1, len(lines)) if _HEADER.match(lines[at])), len(lines))
        # Comments and empty lines right above the next header are the next entry's.
        while end > start + 1 and (not lines[end - 1].strip() or lines[end - 1].lstrip().startswith("#")):
            end -= 1
        while start > 0 and lines[start - 1].lstrip().startswith("#") and not hints:
            start -= 1
        new = entry_text(replace(entry, kind="removed", loud=False, warn=True, constructed_only=False)) if hints else ""
        lines[start:end] = [new] if new else []
    newline = newline_of(text)
    rest = "".join(lines).replace("\r\n", "\n")
    return (re.sub(r"\n{3,}", "\n\n", rest).rstrip() + "\n").replace("\n", newline)


def _archived(manifest: Manifest, archive: Path, leaving: list[Entry]) -> str:
    before = text_of(archive) or (
        "# Names that are gone, for the codemod of plugins that still use them.\n"
        f'schema = 1\npackage = "{manifest.package}"\n'
    )
    known = {entry.old for entry in parse_manifest(before, archive).entries}
    more = "".join(f"\n{entry_text(entry)}" for entry in leaving if entry.old not in known)
    return before + more.replace("\n", newline_of(before))


def _without_bodies(manifest: Manifest, tree: Tree, leaving: list[Entry]) -> dict[Path, str | None]:
    """Return the modules of restored definitions without those that leave; one with nothing left to do goes whole."""
    staying = {entry.restored_module for entry in manifest.entries if entry.kind == "restored" and entry not in leaving}
    changed: dict[Path, str | None] = {}
    for module in sorted({entry.restored_module for entry in leaving if entry.kind == "restored"}):
        path = tree.file_of(module)
        if path is None:
            continue
        if module not in staying:
            changed[path] = None
            continue
        source = Source.load(path)
        names = {entry.old_name for entry in leaving if entry.restored_module == module}
        text = source.text
        for statement in reversed(source.tree.body):
            if isinstance(statement, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef) and statement.name in names:
                first = statement.decorator_list[0] if statement.decorator_list else statement
                end = source.line_end(source.end(statement))
                text = (
                    text[: source.line_start(source.start(first))].rstrip() + source.newline + text[end:].lstrip("\r\n")
                )
        changed[path] = text
    return changed
