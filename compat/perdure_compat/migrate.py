"""Moving one file's uses to the new names.

Owns: which uses can be moved and what is written instead, in one pass over all entries; what cannot be decided is left
as it is and listed with the reason. Does not own: reading (reading), how import statements look (statements), files.

Keeps: compat-migrate-keeps-text, compat-migrate-idempotent, compat-migrate-leaves.

Edits are made at the places of single tokens, so whatever is not a moved name stays as it was, byte for byte. A result
that does not parse is thrown away.
"""

from __future__ import annotations

import ast
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from perdure_compat.findings import find
from perdure_compat.index import Index
from perdure_compat.manifest import Entry
from perdure_compat.outcome import Left, Migration
from perdure_compat.reading import Reading
from perdure_compat.rewriting import StatementWriter
from perdure_compat.scopes import Binding, Reference, Scope, Text
from perdure_compat.source import UNREADABLE, Source, Unreadable, module_name
from perdure_compat.statements import module_span

_WORD = re.compile(r"[^\W\d]\w*")


@dataclass(slots=True, eq=False)
class _Use:
    """A place in an expression that is to be written anew."""

    reference: Reference
    bindings: list[Binding]
    end: int
    module: str
    attribute: str
    literal: ast.Constant | None = None
    literal_text: str = ""


def migrate_files(paths: Sequence[Path], index: Index) -> tuple[list[Migration], list[Unreadable]]:
    """Return what becomes of files that belong together; nothing is written.

    That they are known together is what allows to rename a module's own use of a name: no other file asks for it.
    """
    readings: list[Reading] = []
    unreadable: list[Unreadable] = []
    asked: dict[str, set[Path]] = {}
    for path in paths:
        try:
            raw = path.read_bytes()
            for word in set(re.findall(rb"(?:import|[.,(])\s*([^\W\d]\w*)", raw)):
                asked.setdefault(word.decode("latin-1"), set()).add(path)
            if not index.may_be_used_in(raw):
                continue
            name, package = module_name(path)
            readings.append(Reading(Source.decode(path, raw), name, package=package, roots=frozenset(index.roots)))
        except UNREADABLE as error:
            unreadable.append(Unreadable.of(path, error))
        except OSError as error:
            unreadable.append(Unreadable(path, 0, error.strerror or str(error)))
    found = []
    for reading in readings:
        path = reading.source.path
        outside = frozenset(name for name, places in asked.items() if places - {path})
        migration = migrate(reading, index, asked_outside=outside)
        if migration.changed or migration.left:
            found.append(migration)
    return found, unreadable


def migrate(reading: Reading, index: Index, *, asked_outside: frozenset[str] | None = None) -> Migration:
    """Return what becomes of a file that was read.

    Args:
        reading: the file.
        index: what moved.
        asked_outside: the names that other files may ask of this one; None where that is not known.
    """
    return _Migrator(reading, index, asked_outside).run()


class _Migrator:
    def __init__(self, reading: Reading, index: Index, asked_outside: frozenset[str] | None) -> None:
        self.reading = reading
        self.source = reading.source
        self.index = index
        self.asked_outside = asked_outside
        self.edits: list[tuple[int, int, str]] = []
        self.left: list[Left] = []
        self.moved = 0
        self.writer = StatementWriter(reading, self.edits)
        self.kept: set[Binding] = set()
        """Imports that stay as they are, and with them what is reached through them."""

    def run(self) -> Migration:
        for binding in self.reading.imports:
            self.move_import(binding)
        uses = [use for reference in self.reading.references if (use := self.use_of(reference)) is not None]
        uses += [use for call in self.reading.calls if (use := self.use_of_call(call.target, call.literal)) is not None]
        self.move_uses(uses)
        for text in self.reading.texts:
            self.move_text(text)
        self.writer.write_all()
        after = self.applied()
        if after is None:
            line = min((left.line for left in self.left), default=1)
            self.left.append(Left(self.source.path, line, "everything", "the result would not be Python"))
            after, self.moved = self.source.text, 0
        lefts = tuple(sorted(set(self.left), key=lambda each: (each.line, each.written)))
        return Migration(self.source.path, self.source.text, after, self.moved, lefts, self.source)

    def leave(self, line: int, written: str, reason: str, *, guarded: bool = False) -> None:
        self.left.append(Left(self.source.path, line, written, reason, guarded))

    def applied(self) -> str | None:
        text = self.source.text
        for start, end, new in sorted(set(self.edits), reverse=True):
            text = text[:start] + new + text[end:]
        try:
            Source(self.source.path, text)
        except (SyntaxError, ValueError):
            return None
        return text

    def refusal(self, entry: Entry) -> str:
        """Return why an entry's uses are never moved, or nothing."""
        if entry.loud:
            return "what it does matters for safety: move it by hand" + (f" ({entry.note})" if entry.note else "")
        if entry.kind == "restored":
            return f"it has no new place, and goes away in {entry.removed_in}"
        if entry.kind == "removed" or not entry.new_module:
            return f"it is gone since {entry.since}" + (f" ({entry.note})" if entry.note else "")
        return ""

    # Imports

    def move_import(self, binding: Binding) -> None:
        node, alias = binding.statement, binding.alias
        if node is None or alias is None:
            return
        if isinstance(node, ast.Import):
            dotted = tuple(alias.name.split("."))
            hit = self.index.find(dotted)
            if hit is None or not hit[0].whole:
                return
        else:
            dotted = binding.dotted
            hit = self.index.find(dotted)
        if alias.name == "*":
            self.move_star(binding, node)
            return
        if hit is None:
            return
        if binding.outside and isinstance(node, ast.Import) and not alias.asname:
            self.kept.add(binding)
            self.leave(node.lineno, alias.name, "a `global` or `nonlocal` gives the import to another scope")
            return
        entry, length = hit
        written = ".".join(dotted)
        reason = self.refusal(entry)
        if binding.context.guarded or self.reading.two_homes(binding):
            self.kept.add(binding)
            self.leave(node.lineno, written, "a fallback is beside it", guarded=True)
            return
        target = self.index.new_parts(entry, dotted[length:])
        if reason or target is None:
            self.kept.add(binding)
            self.leave(node.lineno, written, reason)
            return
        number = node.names.index(alias)
        if isinstance(node, ast.Import):
            self.move_module(binding, number, f"{target[0]}.{target[1]}" if target[1] else target[0])
        else:
            self.move_name(binding, number, *target)

    def move_module(self, binding: Binding, number: int, new: str) -> None:
        """`import old.module`, with or without another name."""
        node, alias = binding.statement, binding.alias
        assert isinstance(node, ast.Import) and alias is not None  # noqa: S101, PT018  # only called with these
        self.moved += 1
        if alias.asname:
            self.writer.statement(node).texts[number] = f"{new} as {alias.asname}"
        else:
            # What the file reaches through the name is written anew by move_uses, which may need the parent still.
            self.writer.statement(node).texts[number] = new

    def move_name(self, binding: Binding, number: int, module: str, name: str) -> None:
        """`from old import name`."""
        node, alias = binding.statement, binding.alias
        assert isinstance(node, ast.ImportFrom) and alias is not None  # noqa: S101, PT018  # only called with these
        if not name:
            # The new place is a module as a whole.
            parent, _, last = module.rpartition(".")
            if not parent:
                self.moved += 1
                self.writer.statement(node).texts[number] = ""
                self.writer.statement(node).plain.append(
                    f"import {module}" + (f" as {binding.name}" if binding.name != module else "")
                )
                return
            module, name = parent, last
        if "." in name:
            self.kept.add(binding)
            self.leave(
                node.lineno, f"{'.'.join(binding.dotted)}", f"{module}:{name} is an attribute, which no import takes"
            )
            return
        self.moved += 1
        local = binding.name
        if local != name and not alias.asname and self.may_rename(binding, name):
            for reference in binding.references:
                self.edits.append((reference.start, reference.ends[0], name))
            local = name
        statement = self.writer.statement(node)
        statement.homes[number] = module
        statement.texts[number] = name if local == name else f"{name} as {local}"

    def may_rename(self, binding: Binding, new: str) -> bool:
        """Return whether every use of an imported name can be written with another: none is hidden, none clashes."""
        scope, old = binding.scope, binding.name
        if len(scope.bindings.get(old, ())) != 1 or any(
            (reference.stored and not reference.attributes)
            # In the body of a class that binds the name as well, it may be either.
            or reference.scope.lookup(old) != [binding]
            or not self.stands_as_read(reference, 0)
            for reference in binding.references
        ):
            return False
        if scope.kind == "module" and (self.asked_outside is None or old in self.asked_outside):
            return False
        names: set[str] = set()
        for node in ast.walk(self.source.tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                names.update(_WORD.findall(node.value))
            elif isinstance(node, ast.Global | ast.Nonlocal):
                names.update(node.names)
        bound = {reference.root for reference in self.reading.references}
        bound.update(name for each in self.scopes() for name in each.bindings)
        return old not in names and new not in bound

    def scopes(self) -> set[Scope]:
        found = {self.reading.scope}
        for reference in self.reading.references:
            scope: Scope | None = reference.scope
            while scope is not None and scope not in found:
                found.add(scope)
                scope = scope.parent
        return found

    def move_star(self, binding: Binding, node: ast.Import | ast.ImportFrom) -> None:
        origin = binding.dotted[:-1]
        hit = self.index.find(origin)
        if hit is not None and hit[0].whole and isinstance(node, ast.ImportFrom):
            target = self.index.new_parts(hit[0], origin[hit[1] :])
            reason = self.refusal(hit[0])
            if target is not None and not reason and not binding.context.guarded:
                self.moved += 1
                self.edits.append((*module_span(self.source, node), ".".join(filter(None, target))))
            else:
                self.leave(
                    node.lineno, f"{'.'.join(origin)}.*", reason or "a fallback is beside it", guarded=not reason
                )
            return
        for finding in find(self.reading, self.index):
            if finding.form == "star" and finding.line == node.lineno:
                self.leave(node.lineno, finding.written, "it comes with a star import: name what is needed")

    # Chains

    def use_of(self, reference: Reference) -> _Use | None:
        meanings = self.reading.meanings(reference)
        if len(meanings) > 1 or () in meanings:
            for meaning in meanings:
                hit = self.index.find((*meaning, *reference.attributes)) if meaning else None
                if hit is not None and hit[1] > len(meaning):
                    self.leave(
                        self.source.line_of(reference.start),
                        ".".join((*meaning, *reference.attributes)),
                        f"{reference.root} has more than one meaning here",
                        guarded=True,
                    )
            return None
        return self.plan(reference, meanings, reference.attributes, None)

    def use_of_call(self, reference: Reference, literal: ast.Constant) -> _Use | None:
        meanings = self.reading.meanings(reference)
        if len(meanings) != 1 or () in meanings:
            return None
        return self.plan(reference, meanings, (*reference.attributes, str(literal.value)), literal)

    def plan(
        self,
        reference: Reference,
        meanings: set[tuple[str, ...]],
        attributes: tuple[str, ...],
        literal: ast.Constant | None,
    ) -> _Use | None:
        meaning = next(iter(meanings), ())
        dotted = (*meaning, *attributes)
        hit = self.index.find(dotted) if meaning else None
        if hit is None or hit[1] <= len(meaning):
            return None
        entry, length = hit
        reached = length - len(meaning)
        if literal is not None and reached <= len(reference.attributes):
            return None  # the chain before it moved as a whole, and is written anew by itself
        line = self.source.line_of(reference.start)
        if not self.stands_as_read(reference, reached if literal is None else len(reference.attributes)):
            self.leave(line, ".".join(dotted[:length]), "it is written in a way that is not changed here")
            return None
        bindings = reference.scope.lookup(reference.root)
        if any(binding in self.kept or binding.context.guarded for binding in bindings):
            self.leave(line, ".".join(dotted), "its import stays", guarded=True)
            return None
        reason = self.refusal(entry)
        if reason:
            self.leave(line, ".".join(dotted[:length]), reason)
            return None
        new_module, new_name = entry.new_module, entry.new_name
        if literal is None:
            return _Use(reference, bindings, reference.ends[reached], new_module, new_name)
        holder, _, last = new_name.rpartition(".")
        if not last or entry.whole:
            self.leave(line, ".".join(dotted), "the new place is a module, which has no attribute to name")
            return None
        raw = self.rewritten(literal, str(literal.value), last)
        if raw is None:
            self.leave(line, ".".join(dotted), "the text is written in a way that is not changed here")
            return None
        return _Use(reference, bindings, reference.ends[-1], new_module, holder, literal, raw)

    def stands_as_read(self, reference: Reference, reached: int) -> bool:
        """Return whether a chain's place in the text holds the chain, with nothing that an edit of it would break.

        Within an f-string older parsers may give another place; brackets that hold a comment could not be taken away.
        """
        span = self.source.text[reference.starts[reached] : reference.ends[reached]]
        code = re.sub(r"#[^\r\n]*|\\?\s+", "", span)
        if "(" in code and "#" in span:
            return False
        wanted = ".".join([reference.root, *reference.attributes[:reached]])
        return unicodedata.normalize("NFKC", code.replace("(", "").replace(")", "")) == wanted

    def move_uses(self, uses: list[_Use]) -> None:
        groups: dict[tuple[int, ...], list[_Use]] = {}
        for use in uses:
            groups.setdefault(tuple(map(id, use.bindings)), []).append(use)
        for group in groups.values():
            bindings = group[0].bindings
            planned = {id(use.reference) for use in group}
            others = [
                reference for binding in bindings for reference in binding.references if id(reference) not in planned
            ]
            if not others and self.retarget(bindings, group):
                continue
            written = [use for use in group if self.write_use(use)]
            if written and not others and len(written) == len(group):
                self.drop_imports(bindings)

    def retarget(self, bindings: list[Binding], group: list[_Use]) -> bool:
        """Let the name under which a module is known stand for the new module, where that serves all its uses."""
        modules = {use.module for use in group}
        if len(bindings) != 1 or len(modules) != 1:
            return False
        binding, module = bindings[0], next(iter(modules))
        node, alias = binding.statement, binding.alias
        if node is None or alias is None or (isinstance(node, ast.Import) and not alias.asname):
            return False
        # The chain goes through the name at once: `o.name`, not `o.module.name`.
        old_module = ".".join(binding.dotted)
        if any(len(use.bindings) != 1 or self.dotted_before(use) != old_module for use in group):
            return False
        if isinstance(node, ast.ImportFrom) and not self.retarget_from(binding, module):
            return False
        if isinstance(node, ast.Import):
            self.writer.statement(node).texts[node.names.index(alias)] = f"{module} as {binding.name}"
        for use in group:
            self.edit(use, use.reference.root + (f".{use.attribute}" if use.attribute else ""))
        return True

    def retarget_from(self, binding: Binding, module: str) -> bool:
        node, alias = binding.statement, binding.alias
        parent, _, last = module.rpartition(".")
        if not isinstance(node, ast.ImportFrom) or alias is None or not parent:
            return False
        number = node.names.index(alias)
        self.writer.statement(node).homes[number] = parent
        self.writer.statement(node).texts[number] = last if last == binding.name else f"{last} as {binding.name}"
        return True

    def dotted_before(self, use: _Use) -> str:
        """Return the module that a use's chain names before the name that moved."""
        meaning = use.bindings[0].dotted
        count = use.reference.ends.index(use.end)
        attributes = use.reference.attributes[: count if use.literal is not None else count - 1]
        return ".".join((*meaning, *attributes))

    def write_use(self, use: _Use) -> bool:
        """Write the new place in full, or by the name under which the file knows its module."""
        reference = use.reference
        line = self.source.line_of(reference.start)
        known = self.known_as(use.module, reference, line)
        if known is None:
            root = use.module.partition(".")[0]
            bound = reference.scope.lookup(root)
            if any(binding.dotted != (root,) for binding in bound):
                written = ".".join((*use.bindings[0].dotted, *reference.attributes))
                self.leave(line, written, f"{root} means something else here, so {use.module} cannot be named")
                return False
            if any(binding.outside for binding in use.bindings):
                self.leave(
                    line,
                    ".".join((*use.bindings[0].dotted, *reference.attributes)),
                    "a `global` or `nonlocal` gives the import to another scope",
                )
                return False
            for node in [binding.statement for binding in use.bindings]:
                if node is not None and f"import {use.module}" not in self.writer.statement(node).plain:
                    self.writer.statement(node).plain.append(f"import {use.module}")
            known = use.module
        self.edit(use, known + (f".{use.attribute}" if use.attribute else ""))
        return True

    def known_as(self, module: str, reference: Reference, line: int) -> str | None:
        """Return the name under which a module is imported already where a reference stands."""
        wanted = tuple(module.split("."))
        for binding in self.reading.imports:
            if binding.dotted == wanted and binding.statement not in self.writer.statements:
                seen = reference.scope.lookup(binding.name)
                bound = binding.line < line or reference.context.function
                if seen == [binding] and bound and not binding.context.conditional:
                    return binding.name
        return None

    def edit(self, use: _Use, text: str) -> None:
        self.moved += 1
        self.writer.fixed.add(use.reference)
        start = use.reference.starts[use.reference.ends.index(use.end)]
        span = self.source.text[start : use.end]
        # A chain over several lines may have comments in it, which stay, and with them the lines.
        kept = "".join(re.findall(r"#[^\r\n]*|\s+", span)) if "#" in span else ""
        self.edits.append((start, use.end, text + kept))
        if use.literal is not None:
            self.edits.append((self.source.start(use.literal), self.source.end(use.literal), use.literal_text))

    def drop_imports(self, bindings: list[Binding]) -> None:
        """Take out imports that nothing is reached through any more, where a new one stands in the same statement."""
        for binding in bindings:
            node, alias = binding.statement, binding.alias
            if node is None or alias is None or node not in self.writer.statements:
                continue
            statement, number = self.writer.statements[node], node.names.index(alias)
            if statement.plain and number not in statement.texts:
                statement.texts[number] = ""

    # Texts

    def move_text(self, text: Text) -> None:
        literal, value = text.literal, str(text.literal.value)
        parts = value.split(".")
        hit = self.index.find(parts)
        if hit is None:
            return
        entry, length = hit
        if not text.looked_up:
            self.leave(literal.lineno, value, "it is a text, and nothing here tells what for", guarded=True)
            return
        reason = self.refusal(entry)
        if text.by == "__import__":
            reason = reason or "the call gives the package at the top, and what is done with that is not changed here"
        new = ".".join([entry.new, *parts[length:]])
        raw = None if reason else self.rewritten(literal, value, new)
        if raw is None:
            self.leave(literal.lineno, value, reason or "the text is written in a way that is not changed here")
            return
        self.moved += 1
        self.edits.append((self.source.start(literal), self.source.end(literal), raw))

    def rewritten(self, literal: ast.Constant, old: str, new: str) -> str | None:
        """Return a text's literal with another value, or None where it is not written plainly."""
        raw = self.source.text[self.source.start(literal) : self.source.end(literal)]
        quotes = raw[: len(raw) - len(raw.lstrip("\"'"))]
        return f"{quotes}{new}{quotes}" if quotes and raw == f"{quotes}{old}{quotes}" else None
