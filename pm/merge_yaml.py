"""Merge the defaults of a YAML file into a person's own, without losing a byte of what the person wrote.

    python3 merge_yaml.py DEFAULTS FILE            print the result
    python3 merge_yaml.py DEFAULTS FILE --in-place write it over FILE, durably
    python3 merge_yaml.py DEFAULTS FILE --out PATH write it to PATH, durably
    python3 merge_yaml.py DEFAULTS FILE --check    exit 3 where something would be added

The rules (docs/reference/merge-yaml.md):

1. What FILE says stays, byte for byte: values, comments, order, quotes, alignment, line endings, a byte order mark, and
   whether the last line ends (a text that is added and keeps its line end, |, needs one). Text is only added.
2. A key of DEFAULTS that a mapping of FILE lacks is added at the end of that mapping, with the comments directly above
   it, as DEFAULTS has it written, indented like its new neighbours. Where both have mappings, they are merged in turn.
3. A key that is there is said, whatever it says: also null, also empty. Lists are values: they are never merged.
4. A mapping with an anchor or behind an alias, and what comes through `<<`, is the person's as a whole: nothing is
   added in it, and that is told on standard error.
5. Refused, with file, line and column: what is no YAML 1.2 or no UTF-8, a key that stands there twice, several
   documents, a top that is no mapping, and anchors in DEFAULTS.
6. The result is read again before it is written: it is exactly what these rules say, or nothing is written.

Exit codes: 0 done, or nothing to add; 1 a file cannot be read or written; 2 usage, or a file is refused; 3 `--check`
found something to add.

Owns: these rules. Does not own: what the files are about. Stands alone for packagers: one file that needs ruamel.yaml
and nothing else. Keeps: merge-loses-nothing, merge-adds-defaults, merge-refuses-with-place.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import stat
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Optional

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

EXIT_IO, EXIT_REFUSED, EXIT_FOUND = 1, 2, 3
BOM = "\ufeff"
_LINES = re.compile("[^\n\r\x85\u2028\u2029]*(?:\r\n|[\n\r\x85\u2028\u2029])|[^\n\r\x85\u2028\u2029]+\\Z")
"""A line with its end, by YAML's own idea of one."""


class Refused(Exception):
    """A file cannot be merged; the message begins with its place."""


class Source(NamedTuple):
    """A file as it was read."""

    name: str
    text: str
    """Without a byte order mark, with line endings as they are."""
    mark: str
    """The byte order mark, or nothing."""
    node: Optional[Node]  # noqa: UP045 -- Python 3.9 evaluates this
    """The one document's top; None where the file says nothing."""

    def refuse(self, node: Node, message: str) -> Refused:
        return Refused(f"{self.name}:{node.start_mark.line + 1}:{node.start_mark.column + 1}: {message}")


class Edit(NamedTuple):
    """Text to be added to a source."""

    at: int
    """Offset in its text."""
    text: str


# Reading


def read_source(name: str, data: bytes) -> Source:
    """Return a file's text and its document.

    Raises:
        Refused: it is not UTF-8, no YAML, several documents, no mapping, or has a key twice.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        raise Refused(f"{name}:{line}:{column}: is not UTF-8") from error
    mark, text = (BOM, text[1:]) if text.startswith(BOM) else ("", text)
    source = Source(name, text, mark, _compose(name, text))
    if source.node is not None:
        if not isinstance(source.node, MappingNode):
            raise source.refuse(source.node, "must be a mapping of keys to values")
        _refuse_duplicates(source, source.node, set())
    return source


def _compose(name: str, text: str) -> Node | None:
    yaml = YAML(typ="rt", pure=True)
    try:
        nodes = list(yaml.compose_all(text)) if hasattr(yaml, "compose_all") else list(_compose_all(yaml, text))
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        raise Refused(f"{name}{place}: is not YAML: {error.problem or error.context}") from error
    except (YAMLError, RecursionError, ValueError) as error:
        raise Refused(f"{name}: is not YAML: {str(error).splitlines()[0]}") from error
    if len(nodes) > 1:
        line = nodes[1].start_mark.line + 1
        raise Refused(f"{name}:{line}:1: a second document begins; a file must hold one")
    node = nodes[0] if nodes else None
    if isinstance(node, ScalarNode) and node.start_mark.index == node.end_mark.index:
        return None  # comments only
    return node


def _compose_all(yaml: YAML, text: str) -> Iterator[Node]:
    _, parser = yaml.get_constructor_parser(text)
    composer = yaml.composer
    try:
        while composer.check_node():
            yield composer.get_node()
    finally:
        parser.dispose()


def _refuse_duplicates(source: Source, node: Node, seen: set[int]) -> None:
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, SequenceNode):
        for item in node.value:
            _refuse_duplicates(source, item, seen)
    if not isinstance(node, MappingNode):
        return
    places: dict[object, Node] = {}
    for key, value in node.value:
        shape = shape_of(key)
        if shape in places and not _is_merge(key):
            first = places[shape].start_mark
            raise source.refuse(
                key, f"{key.value} stands here again; the first is at {first.line + 1}:{first.column + 1}"
            )
        places[shape] = key
        _refuse_duplicates(source, value, seen)


def shape_of(node: Node | None, above: tuple[int, ...] = ()) -> Any:
    """Return what a node says, without how it is written: comparable, and hashable."""
    if node is None or id(node) in above:
        return None
    if isinstance(node, ScalarNode):
        return (str(node.tag), "" if str(node.tag).endswith(":null") else node.value)
    if isinstance(node, SequenceNode):
        return (str(node.tag), tuple(shape_of(item, (*above, id(node))) for item in node.value))
    pairs = [(shape_of(key), shape_of(value, (*above, id(node)))) for key, value in node.value]
    return (str(node.tag), tuple(pairs))


def _is_merge(key: Node) -> bool:
    return isinstance(key, ScalarNode) and key.value == "<<" and not key.style


def _keys(node: MappingNode) -> dict[object, Node | None]:
    """Return each key that a mapping has with its value; None for what comes through ``<<``."""
    found: dict[object, Node | None] = {}
    for key, value in node.value:
        if _is_merge(key):
            for source in value.value if isinstance(value, SequenceNode) else [value]:
                if isinstance(source, MappingNode):
                    found = {**dict.fromkeys(_keys(source)), **found}
        else:
            found[shape_of(key)] = value
    return found


# Merging


def merge(defaults: Source, own: Source) -> tuple[str, list[str]]:
    """Return the merged text, the byte order mark included, and what a person should know.

    Raises:
        Refused: DEFAULTS has anchors, or the result would not be what the rules say.
    """
    _refuse_anchors(defaults, defaults.node)
    if not isinstance(defaults.node, MappingNode):
        return own.mark + own.text, []
    newline = "\r\n" if "\r\n" in own.text else "\n"
    if not isinstance(own.node, MappingNode):
        return own.mark + _fill_empty(defaults, own, newline), []
    if not own.text.endswith(("\n", "\r")):
        return _merge_unended(defaults, own, newline)
    edits: list[Edit] = []
    notices: list[str] = []
    wanted = _merge_mapping(defaults, defaults.node, own, own.node, newline, edits, notices)
    text = own.text
    # At one place, what an inner mapping gets, which was found first, stands before what one around it gets.
    for _, edit in sorted(enumerate(edits), key=lambda item: (item[1].at, item[0]), reverse=True):
        text = text[: edit.at] + edit.text + text[edit.at :]
    if shape_of(_compose(own.name, text)) != wanted:
        raise Refused(f"{own.name}: is written in a way that nothing can be added to from outside; merge it by hand")
    return own.mark + text, notices


def _merge_unended(defaults: Source, own: Source, newline: str) -> tuple[str, list[str]]:
    """Merge a file whose last line does not end, and have it not end again where that says the same."""
    text = own.text + newline
    merged, notices = merge(defaults, Source(own.name, text, own.mark, _compose(own.name, text)))
    if merged == own.mark + text:
        return own.mark + own.text, notices
    cut = merged[: -len(newline)]
    same = shape_of(_compose(own.name, cut[len(own.mark) :])) == shape_of(_compose(own.name, merged[len(own.mark) :]))
    return (cut if same else merged), notices


def _fill_empty(defaults: Source, own: Source, newline: str) -> str:
    """Return the text of a file that says nothing yet: its comments, and then the defaults as they are."""
    text = own.text + (newline if own.text and not own.text.endswith("\n") else "")
    text += newline.join(line.rstrip("\r\n") for line in _LINES.findall(defaults.text)) + newline
    if shape_of(_compose(own.name, text)) != shape_of(defaults.node):
        raise Refused(f"{own.name}: says nothing, and nothing can be added behind what stands there")
    return text


def _merge_mapping(
    defaults: Source,
    given: MappingNode,
    own: Source,
    node: MappingNode,
    newline: str,
    edits: list[Edit],
    notices: list[str],
) -> Any:
    """Add to `edits` what `node` lacks of `given`, and return what the mapping will say."""
    there = _keys(node)
    shapes = {shape_of(key): shape_of(value) for key, value in node.value}
    missing = []
    for key, value in given.value:
        shape = shape_of(key)
        if shape not in there:
            missing.append((key, value))
            continue
        mine = there[shape]
        if not isinstance(value, MappingNode) or not isinstance(mine, MappingNode):
            continue
        if mine.anchor is not None:
            if any(shape_of(below) not in _keys(mine) for below, _ in value.value):
                mark = next(mark.start_mark for mark, _ in node.value if shape_of(mark) == shape)
                place = f"{own.name}:{mark.line + 1}:{mark.column + 1}"
                notices.append(f"{place}: {key.value} is shared by an anchor, so nothing was added in it")
            continue
        shapes[shape] = _merge_mapping(defaults, value, own, mine, newline, edits, notices)
    if missing:
        edits.append(_add(defaults, given, missing, own, node, newline))
    pairs = [*shapes.items(), *((shape_of(key), shape_of(value)) for key, value in missing)]
    return (str(node.tag), tuple(pairs))


def _add(
    defaults: Source,
    given: MappingNode,
    missing: Sequence[tuple[Node, Node]],
    own: Source,
    node: MappingNode,
    newline: str,
) -> Edit:
    """Return the edit that adds keys at the end of a mapping."""
    if node.flow_style:
        words = ", ".join(f"{_flow(defaults, key)}: {_flow(defaults, value)}" for key, value in missing)
        if not node.value:
            return Edit(own.text.rindex("}", 0, node.end_mark.index), words)
        return Edit(node.value[-1][1].end_mark.index, f", {words}")
    column = node.value[0][0].start_mark.column
    lines: list[str] = []
    for key, value in missing:
        if given.flow_style:
            lines.append(" " * column + f"{_flow(defaults, key)}: {_flow(defaults, value)}")
        else:
            lines += [_shift(line, key.start_mark.column, column) for line in _written(defaults, key, value)]
    return Edit(_end_of(own, node, column), "".join(line + newline for line in lines))


def _written(source: Source, key: Node, value: Node) -> list[str]:
    """Return the lines of a key and its value, with the comments directly above."""
    lines = [line.rstrip("\r\n\x85\u2028\u2029") for line in _LINES.findall(source.text)]
    first, last = key.start_mark.line, max(key.end_mark.line, last_line(value))
    while (
        first > 0 and lines[first - 1].lstrip().startswith("#") and _indent(lines[first - 1]) == key.start_mark.column
    ):
        first -= 1
    return lines[first : last + 1]


def _shift(line: str, before: int, after: int) -> str:
    """Return a line moved from one column to another; what stands further left stays at the new one."""
    return "" if not line.strip() else " " * after + line[min(before, _indent(line)) :]


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _end_of(own: Source, node: MappingNode, column: int) -> int:
    """Return the offset behind the last line of a block mapping, with the comments that are as far in as its keys."""
    lines = _LINES.findall(own.text)
    line = last_line(node) + 1
    stop = _document_end(lines)
    here = line
    while here < stop and (not lines[here].strip() or lines[here].lstrip().startswith("#")):
        if lines[here].strip() and _indent(lines[here]) < column:
            break
        here += 1
        # Blank lines are passed only where a comment of this mapping follows; at the top everything is.
        if lines[here - 1].strip() or column == 0:
            line = here
    return sum(len(text) for text in lines[:line])


def _document_end(lines: Sequence[str]) -> int:
    return next((number for number, line in enumerate(lines) if line.rstrip() == "..."), len(lines))


def last_line(node: Node) -> int:
    """Return the number of a node's last line; a block's own end mark stands behind the comments that follow it."""
    if isinstance(node, MappingNode) and not node.flow_style and node.value:
        key, value = node.value[-1]
        return max(int(key.end_mark.line), last_line(value))
    if isinstance(node, SequenceNode) and not node.flow_style and node.value:
        # Of an entry that says nothing only the dash is written, and its mark stands there.
        return max(int(node.value[-1].start_mark.line), last_line(node.value[-1]))
    if node.start_mark.index == node.end_mark.index:
        return 0  # nothing is written: its key's line is the last
    line, column = int(node.end_mark.line), int(node.end_mark.column)
    return line - 1 if column == 0 and line > node.start_mark.line else line


def _flow(source: Source, node: Node) -> str:
    """Return a node on one line, in flow style; a scalar as it is written, where it stands on one line."""
    if isinstance(node, MappingNode):
        return "{" + ", ".join(f"{_flow(source, key)}: {_flow(source, value)}" for key, value in node.value) + "}"
    if isinstance(node, SequenceNode):
        return "[" + ", ".join(_flow(source, item) for item in node.value) + "]"
    written = source.text[node.start_mark.index : node.end_mark.index]
    if not isinstance(node, ScalarNode):
        return written
    if node.style in {"|", ">"} or "\n" in written:
        return json.dumps(node.value, ensure_ascii=False)
    if not node.style and set(written) & set(",[]{}"):
        return json.dumps(node.value, ensure_ascii=False)
    return written or "null"


def _refuse_anchors(source: Source, node: Node | None) -> None:
    if node is None:
        return
    if node.anchor is not None:
        raise source.refuse(node, "defaults must be written without anchors: what is taken from them stands alone")
    for child in node.value if isinstance(node, SequenceNode) else ():
        _refuse_anchors(source, child)
    for key, value in node.value if isinstance(node, MappingNode) else ():
        _refuse_anchors(source, key)
        _refuse_anchors(source, value)


# The command


def write_durably(path: Path, data: bytes) -> None:
    """Replace a file, all or nothing; a link stays a link, and what it leads to is replaced."""
    target = Path(os.path.realpath(path))
    mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o644
    temporary = target.with_name(f".{target.name}.{os.urandom(6).hex()}.tmp")
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(mode)
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    if os.name == "posix":
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def main(arguments: Sequence[str] | None = None) -> int:
    """Merge as the command line says, and return the exit code."""
    parser = argparse.ArgumentParser(description="Merge YAML defaults into a file, keeping every byte of the file.")
    parser.add_argument("defaults", metavar="DEFAULTS", type=Path)
    parser.add_argument("file", metavar="FILE", type=Path)
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--in-place", action="store_true", help="write the result over FILE")
    where.add_argument("--out", metavar="PATH", type=Path, help="write the result to PATH")
    where.add_argument("--check", action="store_true", help="write nothing; exit 3 where something would be added")
    chosen = parser.parse_args(arguments)
    try:
        defaults = read_source(str(chosen.defaults), chosen.defaults.read_bytes())
        data = chosen.file.read_bytes() if chosen.file.exists() else b""
        text, notices = merge(defaults, read_source(str(chosen.file), data))
    except Refused as refused:
        print(f"error: {refused}", file=sys.stderr)
        return EXIT_REFUSED
    except OSError as error:
        print(f"error: {error.filename}: cannot be read: {error.strerror}", file=sys.stderr)
        return EXIT_IO
    for notice in notices:
        print(f"notice: {notice}", file=sys.stderr)
    merged = text.encode("utf-8")
    if chosen.check:
        return EXIT_FOUND if merged != data else 0
    target = chosen.file if chosen.in_place else chosen.out
    if target is None:
        sys.stdout.buffer.write(merged)
        return 0
    try:
        if merged != data or target != chosen.file:
            write_durably(target, merged)
    except OSError as error:
        print(f"error: {target}: cannot be written: {error.strerror}", file=sys.stderr)
        return EXIT_IO
    return 0


if __name__ == "__main__":
    sys.exit(main())
