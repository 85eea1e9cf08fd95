"""The uses of moved names in one file, each with how far it reaches.

Owns: what counts as a use, and how bad it will be. Does not own: which files there are (scan), and changing them
(migrate).

Keeps: compat-scan-forms, compat-scan-reach.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from perdure_compat.index import Index
from perdure_compat.manifest import Entry, has_reached
from perdure_compat.reading import Reading
from perdure_compat.scopes import Binding, Context
from perdure_compat.source import UNREADABLE, Source, Unreadable, module_name

BREAKS, WHEN_RUN, INFO = "breaks", "when-run", "info"
"""At import of the file; when the code is reached; not at all, because something else is tried."""
_FENCE = re.compile(r"^(?P<indent>[ \t]*)(?P<fence>```+|~~~+)[ \t]*(?P<language>[\w+-]*)[^\n]*$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One use of a moved name."""

    entry: Entry
    path: Path
    line: int
    column: int
    form: str
    """from, import, attribute, getattr, text (looked up by a function), mention (a text that nobody looks up), star."""
    reach: str
    written: str
    """The full old name as it is used here, which may go deeper than the entry's."""

    def text(self, version: str = "") -> str:
        """Return what this means, in words; `version` is the host's, where it is known."""
        entry = self.entry
        place = f"is now {entry.new}" if entry.new and entry.kind != "restored" else "has no new place"
        if self.entry.whole and entry.new:
            place = f"is now {entry.new}{self.written[len(entry.old) :]}"
        gone = bool(version) and has_reached(version, entry.removed_in)
        if self.reach == INFO:
            when = "nothing breaks: something else is tried, or it is a text"
        elif entry.loud or entry.kind == "removed":
            when = f"fails since {entry.since}"
        elif gone:
            when = f"gone since {entry.removed_in}"
        elif self.reach == WHEN_RUN:
            when = f"breaks at {entry.removed_in}, when this code runs"
        else:
            when = f"breaks at {entry.removed_in}, when the module is imported"
        note = f" ({entry.note})" if entry.note else ""
        return f"{self.written} {place}, since {entry.since}{note}; {when}"


def find_in_file(path: Path, index: Index) -> list[Finding] | Unreadable:
    """Return the uses in a Python file, or in the examples of a Markdown file."""
    try:
        if path.suffix == ".md":
            return find_in_markdown(path, index)
        raw = path.read_bytes()
    except OSError as error:
        return Unreadable(path, 0, error.strerror or str(error))
    except UnicodeDecodeError as error:
        return Unreadable(path, 0, f"not UTF-8: {error.reason} at byte {error.start}")
    return find_in_bytes(path, raw, index, *module_name(path))


def find_in_bytes(path: Path, raw: bytes, index: Index, module: str, package: bool) -> list[Finding] | Unreadable:  # noqa: FBT001  # what `module_name` returns
    """Return the uses in a Python file that was read; `path` is for places."""
    if not index.may_be_used_in(raw):
        return []
    try:
        reading = Reading(Source.decode(path, raw), module, package=package, roots=frozenset(index.roots))
    except UNREADABLE as error:
        return Unreadable.of(path, error)
    return sorted(find(reading, index), key=_order)


def find_in_texts(path: Path, index: Index) -> list[Finding]:
    """Return the uses in programs that a Python file holds as texts, at the lines of the file.

    A test writes a plugin that way. A text that is no whole program is passed over, as is a file that cannot be read.
    """
    try:
        raw = path.read_bytes()
        if not index.may_be_used_in(raw):
            return []
        source = Source.decode(path, raw)
    except (*UNREADABLE, OSError):
        return []
    found: list[Finding] = []
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or "import" not in node.value:
            continue
        if index.may_be_used_in(node.value.encode(errors="replace")):
            # Where its lines stand in the file is known of a text that is written over several.
            at = source.start(node)
            several = source.text.startswith(('"""', "'''"), at)
            lines = node.lineno - 1 + source.text.startswith("\\", at + 3) if several else 0
            code = textwrap.dedent(node.value)
            try:
                inner = Source(path, "\n" * lines + code)
            except UNREADABLE:
                continue
            reading = Reading(inner, "", package=False, roots=frozenset(index.roots))
            found += [each if several else replace(each, line=node.lineno) for each in find(reading, index)]
    return sorted(found, key=_order)


def find_in_markdown(path: Path, index: Index) -> list[Finding]:
    """Return the uses in a Markdown file's Python examples, at the lines of the file.

    An example that is no whole program is passed over: documents show parts.
    """
    text = path.read_text(encoding="utf-8-sig")
    found: list[Finding] = []
    fences = list(_FENCE.finditer(text))
    at = 0
    while at + 1 < len(fences):
        opening, closing = fences[at], fences[at + 1]
        at += 2
        if opening["language"].lower() not in {"python", "py", "pycon", "python3"}:
            continue
        lines = text[opening.end() + 1 : closing.start()].splitlines(keepends=True)
        code = "".join(line.removeprefix(opening["indent"]).removeprefix(">>> ").removeprefix("... ") for line in lines)
        try:
            source = Source(path, "\n" * text.count("\n", 0, opening.end() + 1) + code)
        except UNREADABLE:
            continue
        found += find(Reading(source, "", package=False, roots=frozenset(index.roots)), index)
    return sorted(found, key=_order)


def find(reading: Reading, index: Index) -> Iterator[Finding]:
    """Yield every use of a moved name in a file that was read."""
    for binding in reading.imports:
        yield from _of_import(reading, binding, index)
    for reference in reading.references:
        for meaning in reading.meanings(reference):
            hit = index.find((*meaning, *reference.attributes)) if meaning else None
            # What the import itself brought in is the import's use.
            if hit is not None and hit[1] > len(meaning):
                entry, length = hit
                line = reading.source.line_of(reference.start)
                written = ".".join((*meaning, *reference.attributes)[: None if entry.whole else length])
                column = reference.start - reading.source.line_start(reference.start) + 1
                reach = _reach(reference.context, guarded=len(reading.meanings(reference)) > 1)
                yield _finding(reading, entry, line, column, "attribute", reach, written)
    for call in reading.calls:
        dotted = reading.resolve(call.target)
        hit = index.find((*dotted, *str(call.literal.value).split("."))) if dotted else None
        if dotted and hit is not None and hit[1] > len(dotted):
            written = ".".join((*dotted, str(call.literal.value)))
            yield _at(reading, hit[0], call.literal, "getattr", _reach(call.context), written)
    for text in reading.texts:
        value = str(text.literal.value)
        hit = index.find(value.split("."))
        if hit is not None:
            reach = _reach(text.context) if text.looked_up else INFO
            yield _at(reading, hit[0], text.literal, "text" if text.looked_up else "mention", reach, value)


def _of_import(reading: Reading, binding: Binding, index: Index) -> Iterator[Finding]:
    statement, alias = binding.statement, binding.alias
    if statement is None or alias is None:
        return
    reach = _reach(binding.context, guarded=reading.two_homes(binding))
    if binding.name == "*":
        yield from _of_star(reading, binding, index, reach)
        return
    whole = binding.dotted if isinstance(statement, ast.ImportFrom) else tuple(alias.name.split("."))
    hit = index.find(whole)
    # `import package.module` binds the package alone, and asks for the module: only a module can be there.
    if hit is not None and (isinstance(statement, ast.ImportFrom) or hit[0].whole):
        form = "from" if isinstance(statement, ast.ImportFrom) else "import"
        yield _at(reading, hit[0], alias, form, reach, ".".join(whole))


def _of_star(reading: Reading, binding: Binding, index: Index, reach: str) -> Iterator[Finding]:
    """Yield what is used of a star import; the rest of what it brings is nobody's need."""
    origin = binding.dotted[:-1]
    if binding.alias is None:
        return
    hit = index.find(origin)
    if hit is not None and hit[0].whole:
        yield _at(reading, hit[0], binding.alias, "star", reach, ".".join(origin))
        return
    used = {reference.root for reference in reading.references if not reference.scope.lookup(reference.root)}
    for entry in index.modules.get(".".join(origin), ()):
        if entry.old_name in used:
            yield _at(reading, entry, binding.alias, "star", reach, entry.old)


def _reach(context: Context, *, guarded: bool = False) -> str:
    if guarded or context.guarded:
        return INFO
    return WHEN_RUN if context.function or context.typing else BREAKS


def _at(reading: Reading, entry: Entry, node: ast.AST, form: str, reach: str, written: str) -> Finding:
    line, column = getattr(node, "lineno", 0), getattr(node, "col_offset", 0) + 1
    return _finding(reading, entry, line, column, form, reach, written)


def _finding(reading: Reading, entry: Entry, line: int, column: int, form: str, reach: str, written: str) -> Finding:
    return Finding(
        entry=entry, path=reading.source.path, line=line, column=column, form=form, reach=reach, written=written
    )


def _order(finding: Finding) -> tuple[int, int, str]:
    return finding.line, finding.column, finding.written
