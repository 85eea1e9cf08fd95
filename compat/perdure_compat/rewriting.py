"""What becomes of a file's import statements.

Owns: writing each one anew from what was decided for its names: in place, split, merged into a neighbour, with others
beside it. Does not own: the decisions (migrate).

Keeps: compat-migrate-keeps-text.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from perdure_compat.reading import Reading
from perdure_compat.scopes import Reference
from perdure_compat.statements import Part, comment_for, module_span, parts_of, place_of, write_from


@dataclass(slots=True)
class Statement:
    """What becomes of one import statement."""

    node: ast.Import | ast.ImportFrom
    texts: dict[int, str] = field(default_factory=dict)
    """By index of the alias: what stands there instead, empty for nothing."""
    homes: dict[int, str] = field(default_factory=dict)
    """By index of the alias of a `from` import: the module that it comes from now."""
    plain: list[str] = field(default_factory=list)
    """`import` statements that are added after it, or take its place."""


class StatementWriter:
    """Turns decisions about import statements into edits of the text."""

    def __init__(self, reading: Reading, edits: list[tuple[int, int, str]]) -> None:
        """Write into `edits`, which other edits are in as well."""
        self.reading = reading
        self.source = reading.source
        self.edits = edits
        self.statements: dict[ast.stmt, Statement] = {}
        self.merged: dict[ast.stmt, set[str]] = {}
        """Imports that took names of others, and all the names in them then."""
        self.fixed: set[Reference] = set()
        """References that are written anew."""

    def statement(self, node: ast.Import | ast.ImportFrom) -> Statement:
        """Return what is decided for a statement."""
        return self.statements.setdefault(node, Statement(node))

    def write_all(self) -> None:
        """Add the edits of every statement that something was decided for."""
        for statement in self.statements.values():
            self.write(statement)

    def write(self, statement: Statement) -> None:
        node = statement.node
        place = place_of(self.source, node)
        plain = list(dict.fromkeys(statement.plain))
        if isinstance(node, ast.Import):
            plain = self.write_plain(statement, node, plain)
        elif statement.texts and self.write_from(statement, node, plain):
            return
        if plain:
            separator = f"{self.source.newline}{place.indent}" if place.alone else "; "
            at = self.source.line_end(place.end) if place.alone else place.end
            self.edits.append((at, at, "".join(f"{separator}{text}" for text in plain)))

    def write_plain(self, statement: Statement, node: ast.Import, plain: list[str]) -> list[str]:
        """Edit an `import`; return the statements that are still to be added after it."""
        # What is imported under another name binds no package at the top.
        present = {alias.name for at, alias in enumerate(node.names) if at not in statement.texts and not alias.asname}
        present.update(text for text in statement.texts.values() if text and " as " not in text)
        wanted = [text.removeprefix("import ") for text in plain]
        modules = [new for new in wanted if not any(each == new or each.startswith(f"{new}.") for each in present)]
        for number, alias in enumerate(node.names):
            text = statement.texts.get(number)
            if text is None:
                continue
            if text == "":
                text = modules.pop(0) if modules else ""
            elif not alias.asname and " as " not in text:
                text = self.with_parent(alias, text)
            if text:
                self.edits.append((self.source.start(alias), self.source.end(alias), text))
        return [f"import {module}" for module in modules]

    def with_parent(self, alias: ast.alias, new: str) -> str:
        """Return what takes the place of `import old.module` where the file still reaches others through its parent."""
        root = alias.name.partition(".")[0]
        if new.partition(".")[0] == root:
            return new
        others = [
            reference
            for binding in self.reading.imports
            if binding.alias is alias
            for reference in binding.references
            if reference not in self.fixed
        ]
        parent = alias.name.rpartition(".")[0]
        return f"{parent}, {new}" if others and parent else new

    def write_from(self, statement: Statement, node: ast.ImportFrom, plain: list[str]) -> bool:
        """Edit a `from` import; return whether it was written anew together with what is added after it."""
        old_module = self.source.text[slice(*module_span(self.source, node))]
        homes = {
            number: statement.homes.get(number, old_module)
            for number in range(len(node.names))
            if statement.texts.get(number) != ""
        }
        if len(set(homes.values())) == 1 and len(homes) == len(node.names):
            self.edits.append((*module_span(self.source, node), homes[0]))
            for number, text in statement.texts.items():
                alias = node.names[number]
                if text != self.source.text[self.source.start(alias) : self.source.end(alias)]:
                    self.edits.append((self.source.start(alias), self.source.end(alias), text))
            self.merge(node, homes[0], statement)
            return False
        place = place_of(self.source, node)
        parts = parts_of(self.source, node)
        for number, text in statement.texts.items():
            parts[number] = replace(parts[number], text=text)
        groups: dict[str, list[Part]] = {}
        for number, home in homes.items():
            groups.setdefault(home, []).append(parts[number])
        several = node.end_lineno != node.lineno
        written: list[str] = []
        for home, names in groups.items():
            comment = comment_for(place.comment, first=not written) if place.alone else ""
            written.append(
                write_from(
                    home,
                    names,
                    several_lines=several and place.alone,
                    indent=place.indent,
                    newline=self.source.newline,
                    comment=comment,
                )
            )
        written += [
            text
            + (f"  {comment}" if (comment := comment_for(place.comment, first=not written)) and place.alone else "")
            for text in plain
        ]
        separator = f"{self.source.newline}{place.indent}" if place.alone else "; "
        end = self.source.line_end(place.end) if place.alone else place.end
        self.edits.append((place.start, end, separator.join(written)))
        return True

    def merge(self, node: ast.ImportFrom, module: str, statement: Statement) -> None:
        """Put the names into an import of the same module that stands in the same run of imports."""
        place = place_of(self.source, node)
        body = next((binding.context.body for binding in self.reading.imports if binding.statement is node), ())
        if not place.alone or place.comment or any(part.above or part.beside for part in parts_of(self.source, node)):
            return
        for other in _run_around(body, node):
            if (
                isinstance(other, ast.ImportFrom)
                and other is not node
                and other.level == 0
                and other.module == module
                and other.names[0].name != "*"
                and other not in self.statements
                and place_of(self.source, other).alone
            ):
                have = self.merged.setdefault(
                    other,
                    {self.source.text[self.source.start(alias) : self.source.end(alias)] for alias in other.names},
                )
                names = [text for text in statement.texts.values() if text not in have]
                have.update(names)
                start = self.source.line_start(place.start)
                end = self.source.line_end(place.end)
                end += len(self.source.newline) if end < len(self.source.text) else 0
                self.edits[:] = [edit for edit in self.edits if not place.start <= edit[0] < place.end]
                self.edits.append((start, end, ""))
                last = self.source.start(other.names[-1])
                at = self.source.end(other.names[-1])
                before = self.source.text[self.source.line_start(last) : last]
                separator = "," + (" " if before.strip() else f"{self.source.newline}{before}")
                self.edits.append((at, at, "".join(f"{separator}{name}" for name in names)))
                return


def _run_around(body: Iterable[ast.stmt], node: ast.stmt) -> list[ast.stmt]:
    """Return the imports that stand directly around one, with nothing else between."""
    statements = list(body)
    if node not in statements:
        return []
    at = statements.index(node)
    first = last = at
    while first > 0 and isinstance(statements[first - 1], ast.Import | ast.ImportFrom):
        first -= 1
    while last + 1 < len(statements) and isinstance(statements[last + 1], ast.Import | ast.ImportFrom):
        last += 1
    return statements[first : last + 1]
