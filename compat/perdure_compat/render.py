"""What is made from a manifest: facades, stub modules, type stubs, the table of a linter and the table for people.

Owns: the content of each of these files; a file that is as it should be is not among the answers. Does not own: writing
them (cli) and what is wrong (lint). A live module gets a marked region at its end and keeps the rest; a module that is
gone gets a file of its own, because `import old.module` needs one to find.

Keeps: compat-render.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from pathlib import Path

from perdure_compat.manifest import Entry, Manifest
from perdure_compat.source import Source, newline_of, text_of
from perdure_compat.tree import BEGIN, END, STUB, Tree, is_stub, without_region
from perdure_compat.type_stubs import stub_for, type_only_imports

_WIDTH = 120


def render(manifest: Manifest, tree: Tree) -> dict[Path, str | None]:
    """Return the new text of every file that is not as the manifest says; None for one that should not be there."""
    wanted: dict[Path, str | None] = {}
    modules = facade_modules(manifest, tree)
    packages = {module.rpartition(".")[0] for module in modules}
    for module, entries in modules.items():
        path = tree.future_file_of(module, package=module in packages)
        wanted[path] = facade_text(path, entries)
        if is_stub(wanted[path] or ""):
            wanted[path.with_suffix(".pyi")] = stub_for(entries, tree)
    for path in stale_files(manifest, tree, wanted):
        text = text_of(path) or ""
        wanted[path] = None if is_stub(text) or path.suffix == ".pyi" else without_region(text)
    for key, text in (("docs", human_table(manifest)), ("ruff", ruff_table(manifest))):
        if (place := manifest.place(key)) is not None:
            wanted[place] = text
    if (place := manifest.place("data")) is not None:
        wanted[place] = data_table(manifest)
    # A checkout may have given files other line ends.
    return {path: text for path, text in wanted.items() if _plain(text_of(path)) != _plain(text)}


def facade_modules(manifest: Manifest, tree: Tree) -> dict[str, list[Entry]]:
    """Return the modules that get a facade, each with the entries it answers for."""
    found: dict[str, list[Entry]] = {}
    for entry in manifest.entries:
        found.setdefault(entry.old_module, []).append(entry)
        if entry.whole and entry.new_module:
            # Each submodule needs a file as well: `import old.module.inner` looks for one.
            for module in tree.below(entry.new_module):
                inner = entry.old_module + module[len(entry.new_module) :]
                found.setdefault(inner, []).append(_inner(entry, inner, module))
    for module in list(found):
        # A package that is gone needs a file as well, or the modules in it are found by nobody. A folder without one is
        # no such: it is shared with other distributions, whose parts a file would hide.
        while (module := module.rpartition(".")[0]) and tree.is_gone(module):
            found.setdefault(module, [])
    return dict(sorted(found.items()))


def _inner(entry: Entry, old: str, new: str) -> Entry:
    return Entry(
        old_module=old,
        old_name="",
        new_module=new,
        new_name="",
        since=entry.since,
        removed_in=entry.removed_in,
        kind="module",
        note=entry.note,
        loud=entry.loud,
        warn=entry.warn,
        line=entry.line,
    )


def table_line(entry: Entry) -> tuple[str, tuple[str, ...]]:
    """Return an entry's name and values as its facade holds them."""
    if entry.kind == "removed":
        kind = "removed"
    elif entry.loud:
        kind = "loud"
    elif entry.kind == "restored":
        kind = "restored"
    else:
        kind = "moved" if entry.warn else "import"
    target = f"{entry.new_module}:{entry.new_name}" if entry.new_module else ""
    if entry.kind == "restored":
        target = f"{entry.restored_module}:{entry.old_name}"
    elif entry.whole and target:
        target = f"{entry.new_module}:*"
    values = (kind, target, entry.since, entry.removed_in, *([entry.note] if entry.note else []))
    return entry.old_name or "*", values


def facade_text(path: Path, entries: Sequence[Entry]) -> str:
    """Return the text of a module with its facade."""
    now = text_of(path)
    gone = now is None or is_stub(now)
    lines = [
        "__getattr__, __dir__ = _facade(",
        "    __name__,",
        "    {",
        *(_table_row(*table_line(entry)) for entry in sorted(entries, key=lambda each: each.old_name)),
        "    },",
        *(["    gone=True,"] if gone else []),
        ")",
    ]
    if gone:
        head = [f'"""{STUB}"""', "", "from perdure_compat import facade as _facade", ""]
        return "\n".join([*head, *lines, ""])
    own, newline = without_region(now or "").rstrip(), newline_of(now or "")
    # A linter wants imports above all code, and a pragma only where it is needed.
    late = "  # noqa: E402" if _has_code(path, own) else ""
    head = [BEGIN, f"from perdure_compat import facade as _facade{late}", ""]
    return newline.join([own, "", *head, *"\n".join([*lines, *type_only_imports(entries, late), END, ""]).split("\n")])


def _has_code(path: Path, text: str) -> bool:
    """Return whether a module has a statement that is neither its docstring nor an import."""
    body = Source(path, text).tree.body
    rest = body[1:] if body and isinstance(body[0], ast.Expr) else body
    return any(not isinstance(statement, ast.Import | ast.ImportFrom) for statement in rest)


def _table_row(name: str, values: tuple[str, ...]) -> str:
    row = f"        {_quoted(name)}: ({', '.join(map(_quoted, values))}),"
    if len(row) <= _WIDTH:
        return row
    return "\n".join(
        [f"        {_quoted(name)}: (", *(f"            {_quoted(value)}," for value in values), "        ),"]
    )


def _quoted(text: str) -> str:
    plain = repr(text)
    return plain if '"' in text else '"' + plain[1:-1].replace("\\'", "'") + '"'


def stale_files(manifest: Manifest, tree: Tree, wanted: Mapping[Path, object]) -> list[Path]:
    """Return files of the package that were written here and are wanted no more."""
    folder = tree.root.joinpath(*manifest.package.split("."))
    own = tree.file_of(manifest.package)
    places = {*folder.rglob("*.py"), *folder.rglob("*.pyi"), *([own] if own is not None else [])}
    found = []
    for path in sorted(places):
        if path not in wanted:
            raw = path.read_bytes()  # which may be no text: only what was written here matters
            if STUB.encode() in raw.partition(b"\n")[0] or BEGIN.encode() in raw:
                found.append(path)
    return found


def ruff_table(manifest: Manifest) -> str:
    """Return ruff's table of banned names, which a plugin extends its settings with."""
    lines = [
        "# Written by `perdure-compat render` from the manifest. To use it, extend it and select TID251.",
        "[lint.flake8-tidy-imports.banned-api]",
    ]
    lines += [
        f'"{entry.old}".msg = {_toml(_sentence(entry, manifest.package))}'
        for entry in sorted(manifest.entries, key=lambda each: each.old)
    ]
    return "\n".join(lines) + "\n"


def data_table(manifest: Manifest) -> str:
    """Return the manifest's entries as a package ships them, for tools that know the package only as installed."""
    return (
        "# Written by `perdure-compat render` from the manifest: where the names of earlier versions are now.\n"
        f"schema = 1\npackage = {_toml(manifest.package)}\n" + "".join(f"\n{entry_text(e)}" for e in manifest.entries)
    )


def entry_text(entry: Entry) -> str:
    """Return an entry as a manifest writes it."""
    module = entry.kind == "module"
    pairs: list[tuple[str, str | bool]] = [
        ("old", entry.old_module if module else _place(entry.old_module, entry.old_name)),
        *(
            [("new", entry.new_module if module else _place(entry.new_module, entry.new_name))]
            if entry.new_module
            else []
        ),
        ("since", entry.since),
        ("removed-in", entry.removed_in),
        *([("kind", entry.kind)] if entry.kind != "moved" else []),
        *([("note", entry.note)] if entry.note else []),
        *([("loud", True)] if entry.loud else []),
        *([("warn", entry.warn)] if entry.warn != (entry.kind != "import") else []),
        *([("constructed-only", True)] if entry.constructed_only else []),
    ]
    return "[[moved]]\n" + "".join(f"{key} = {_toml(value)}\n" for key, value in pairs)


def _place(module: str, name: str) -> str:
    """Return a place as a manifest writes it: with a colon only where the last dot does not say it."""
    if not name:
        return f"{module}:" if "." in module else module
    return f"{module}:{name}" if "." in name else f"{module}.{name}"


def human_table(manifest: Manifest) -> str:
    """Return the page for people: what moved where, and until when the old name works."""
    lines = [
        "# Moved names",
        "",
        "<!-- Written by `perdure-compat render` from the manifest. -->",
        "",
        f"Where names of `{manifest.package}` are that earlier versions offered elsewhere. Until the version that the",
        "table names the old name works and warns once; `perdure-compat migrate` writes the new one.",
        "",
    ]
    if not manifest.entries:
        return "\n".join([*lines, "Nothing has moved.", ""])
    lines += ["| old name | now | since | works until | note |", "|---|---|---|---|---|"]
    for entry in sorted(manifest.entries, key=lambda each: each.old):
        place = f"`{entry.new}`" if entry.new else "removed" if entry.kind == "removed" else "no new place"
        until = "refused" if entry.loud or entry.kind == "removed" else entry.removed_in
        note = entry.note.replace("|", "\\|").replace("\n", " ")
        lines.append(f"| `{entry.old}` | {place} | {entry.since} | {until} | {note} |")
    return "\n".join([*lines, ""])


def _sentence(entry: Entry, package: str) -> str:
    place = f"is now {entry.new}" if entry.new and entry.kind != "restored" else "has no new place"
    note = f" ({entry.note})" if entry.note else ""
    if entry.kind == "removed":
        return f"Gone since {package} {entry.since}{note}."
    return f"It {place}, since {package} {entry.since}{note}; the old name goes away in {entry.removed_in}."


def _toml(value: str | bool) -> str:  # noqa: FBT001  # it is the value
    if isinstance(value, bool):
        return "true" if value else "false"
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'


def _plain(text: str | None) -> str | None:
    return None if text is None else text.replace("\r\n", "\n")
