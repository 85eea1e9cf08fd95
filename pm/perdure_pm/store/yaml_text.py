"""YAML text: read with the place of every part, and changed in one spot with every other byte kept.

Owns: reading by YAML 1.2, faults of the text itself, and edits. Does not own: what a file may say (model.config), nor
files (store.config). Keeps: comments, order, quoting, alignment and line endings survive an edit; an edit whose result
does not read as exactly the wanted data is never returned.

Edits are made in the text, not by dumping: ruamel's dump indents lists anew, joins aligned values, and ties a comment
to the key above it, so that removing a key would take the next section's heading along. ruamel reads the result back.
"""

from __future__ import annotations

import copy
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.reader import ReaderError

from perdure_pm.model.config import Typed
from perdure_pm.model.document import Document, Fault, Place, dotted
from perdure_pm.model.errors import ConfigInvalid

MAX_PARTS = 20_000
"""More parts than this only come from aliases that multiply."""


def read_document(text: str, file: str) -> Document:
    """Return what `text` says; what is wrong with it is in the document's faults, never raised."""
    reading = _Reading(file)
    try:
        node = _compose(text)
        data = None if node is None else reading.read(node, (), ())
    except ReaderError as error:
        at = int(error.position)
        reading.add((text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)), "holds a character that YAML forbids")
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = (mark.line + 1, mark.column + 1) if mark else (0, 0)
        problem = str(error.problem or error.context or error)
        tab = "'\\t'" in problem
        reading.add(place, "a tab cannot indent or separate here; use spaces" if tab else f"is not YAML: {problem}")
    except RecursionError:
        reading.add((0, 0), "is nested too deeply")
    except (YAMLError, ValueError) as error:
        reading.add((0, 0), f"is not YAML: {error}")
    else:
        return Document(
            file=file,
            data=data,
            key_positions=reading.keys,
            value_positions=reading.values,
            texts=reading.texts,
            faults=tuple(reading.faults),
        )
    return Document(file=file, faults=tuple(reading.faults))


def edit(text: str, place: Sequence[str], value: Typed | None) -> str:
    """Return `text` with `value` at `place`, or with the key at `place` removed where it is None.

    Args:
        text: a document without faults.
        place: keys from the top.
        value: the new value.

    Raises:
        ConfigInvalid: the document is written in a way that cannot be changed from outside (an alias, say).
    """
    mark, body = ("\ufeff", text[1:]) if text.startswith("\ufeff") else ("", text)
    wanted = _prune(_with(read_document(body, "").data, place, value))
    for candidate in (_spliced, _dumped):
        try:
            changed = candidate(body, place, value)
        except (YAMLError, AttributeError, LookupError, TypeError, ValueError):
            continue
        result = read_document(changed, "")
        if not result.faults and _prune(result.data) == wanted:
            return mark + changed
    raise ConfigInvalid(
        f"{dotted(tuple(place))} is written in a way that cannot be changed from outside",
        hint="change it in the file with an editor",
        context={"key": dotted(tuple(place))},
    )


class _Reading:
    """One walk over the nodes of a document."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.keys: dict[Place, tuple[int, int]] = {}
        self.values: dict[Place, tuple[int, int]] = {}
        self.texts: dict[Place, str] = {}
        self.faults: list[Fault] = []
        self._constructor = YAML(typ="safe", pure=True).constructor
        self._parts = 0

    def add(self, position: tuple[int, int], message: str, place: Place = ()) -> None:
        self.faults.append(
            Fault(file=self.file, line=position[0], column=position[1], key=dotted(place), message=message)
        )

    def read(self, node: Node, place: Place, above: tuple[int, ...]) -> object:
        position = _position(node)
        self.values[place] = position
        self._parts += 1
        if id(node) in above or self._parts > MAX_PARTS:
            if self._parts <= MAX_PARTS + 1:
                self.add(position, "refers to itself" if id(node) in above else "has too many parts", place)
            return None
        if isinstance(node, SequenceNode):
            return [self.read(item, (*place, index), (*above, id(node))) for index, item in enumerate(node.value)]
        if isinstance(node, MappingNode):
            return self._read_mapping(node, place, above)
        return self._read_scalar(node, position, place) if isinstance(node, ScalarNode) else None

    def _read_mapping(self, node: MappingNode, place: Place, above: tuple[int, ...]) -> dict[str, object]:
        found: dict[str, object] = {}
        for key, value in node.value:
            name = key.value if isinstance(key, ScalarNode) else "?"
            at = (*place, name)
            if not isinstance(key, ScalarNode):
                self.add(_position(key), "a key must be text", place)
            elif name == "<<":
                # Read as an ordinary key it would hide what the merged mapping says.
                self.add(_position(key), "merging mappings is not supported; write the keys out", place)
            elif name in found:
                first = self.keys[at]
                self.add(_position(key), f"stands here again; the first is at {first[0]}:{first[1]}", at)
            else:
                self.keys[at] = _position(key)
                found[name] = self.read(value, at, (*above, id(node)))
                if _is_empty(value):  # it is said to stand where the next thing does, which may be lines below
                    self.values[at] = (key.end_mark.line + 1, key.end_mark.column + 1)
        return found

    def _read_scalar(self, node: ScalarNode, position: tuple[int, int], place: Place) -> object:
        tag = str(node.tag)
        if not node.style:
            self.texts[place] = str(node.value)
        # A `%YAML 1.1` line must not turn `no` into false either.
        if tag.endswith(":bool") and node.value.lower() not in {"true", "false"}:
            return str(node.value)
        try:
            return self._constructor.construct_object(node, deep=True)
        except (YAMLError, ValueError, OverflowError):
            self.add(position, f"has the tag {tag}, which means nothing here", place)
            return None


@lru_cache(maxsize=8)
def _compose(text: str) -> Node | None:
    """Return the nodes of a text, which nothing here changes: an edit and its check ask about the same text again."""
    # The C reader follows YAML 1.1, where `no` is false.
    node = YAML(typ="safe", pure=True).compose(text)
    return node if isinstance(node, Node) else None


def _position(node: Node) -> tuple[int, int]:
    return (node.start_mark.line + 1, node.start_mark.column + 1)


def _with(data: object, place: Sequence[str], value: Typed | None) -> object:
    """Return a copy of `data` with `value` at `place`."""
    top: dict[str, object] = copy.deepcopy(data) if isinstance(data, dict) else {}
    here = top
    for part in place[:-1]:
        below = here.get(part)
        if not isinstance(below, dict):
            below = here[part] = {}
        here = below
    if value is None:
        here.pop(place[-1], None)
    else:
        here[place[-1]] = value
    return top


def _prune(data: object) -> object:
    """Return `data` without empty sections: whether one is left behind makes no difference."""
    if data is None:
        return {}
    if not isinstance(data, dict):
        return data
    kept = {key: _prune(value) for key, value in data.items()}
    return {key: value for key, value in kept.items() if value != {}}


def _dumped(text: str, place: Sequence[str], value: Typed | None) -> str:
    """The way round for text that `_spliced` does not understand: comments and order survive, indentation may not."""
    yaml = YAML(typ="rt")
    yaml.preserve_quotes = True
    yaml.width = 1 << 20
    data = yaml.load(text)
    here = data
    for part in place[:-1]:
        if not isinstance(here.get(part), Mapping):
            here[part] = {}
        here = here[part]
    if value is None:
        del here[place[-1]]
    else:
        here[place[-1]] = value
    out = io.StringIO()
    yaml.dump(data, out)
    return out.getvalue().replace("\n", "\r\n") if "\r\n" in text else out.getvalue()


def _spliced(text: str, place: Sequence[str], value: Typed | None) -> str:
    lines = _Lines(text)
    node = _compose(text)
    if node is None or (isinstance(node, ScalarNode) and _is_empty(node)):
        return lines.inserted(len(lines.lines), _block(place, value, 0))
    found = list(_descend(node, place))
    if len(found) < len(place):
        return _add(lines, found[-1].value if found else node, place, value, found)
    last = found[-1]
    if value is None:
        return _remove(lines, last)
    if isinstance(value, list) and isinstance(last.value, SequenceNode) and not last.value.flow_style:
        return _change_list(lines, last.value, value)
    if _is_empty(last.value):
        colon = text.index(":", last.key.end_mark.index)
        return f"{text[: colon + 1]} {_scalar(value)}{text[colon + 1 :]}"
    start, end = last.value.start_mark.index, last.value.end_mark.index
    if isinstance(last.value, ScalarNode) and last.value.style in {"|", ">"}:
        end = lines.end_of(_last_line(last.value))
    return text[:start] + _scalar(value, getattr(last.value, "style", None)) + text[end:]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    mapping: MappingNode
    index: int

    @property
    def key(self) -> Node:
        key: Node = self.mapping.value[self.index][0]
        return key

    @property
    def value(self) -> Node:
        value: Node = self.mapping.value[self.index][1]
        return value


def _descend(node: Node, place: Sequence[str]) -> Iterator[_Entry]:
    """Yield the entry of each part of `place`, as far as there are any."""
    for part in place:
        if not isinstance(node, MappingNode):
            return
        index = next((at for at, (key, _) in enumerate(node.value) if key.value == part), None)
        if index is None:
            return
        entry = _Entry(mapping=node, index=index)
        yield entry
        node = entry.value


def _add(lines: _Lines, below: Node, place: Sequence[str], value: Typed | None, found: list[_Entry]) -> str:
    rest = place[len(found) :]
    if value is None:
        return lines.text
    if isinstance(below, MappingNode) and below.flow_style:
        words = f"{_plain(rest[0])}: {_flow(rest[1:], value)}"
        if not below.value:
            return lines.text[: below.end_mark.index - 1] + words + lines.text[below.end_mark.index - 1 :]
        at = below.value[-1][1].end_mark.index
        return f"{lines.text[:at]}, {words}{lines.text[at:]}"
    if isinstance(below, MappingNode):
        column = below.value[0][0].start_mark.column
        return lines.inserted(lines.behind_comments(_last_line(below) + 1, column), _block(rest, value, column))
    # An empty section: its first key goes below its name.
    key = found[-1].key
    return lines.inserted(key.end_mark.line + 1, _block(rest, value, key.start_mark.column + 2))


def _remove(lines: _Lines, entry: _Entry) -> str:
    members, index = entry.mapping.value, entry.index
    if not entry.mapping.flow_style:
        first, last = entry.key.start_mark.line, max(entry.key.end_mark.line, _last_line(entry.value))
        return lines.without(range(first, last + 1))
    start, end = entry.key.start_mark.index, entry.value.end_mark.index
    if index + 1 < len(members):
        end = members[index + 1][0].start_mark.index
    elif index > 0:
        start = members[index - 1][1].end_mark.index
    return lines.text[:start] + lines.text[end:]


def _change_list(lines: _Lines, node: SequenceNode, value: list[str]) -> str:
    """Move whole entries, each with the comments above it; those of entries that go stay."""
    first, column = node.value[0].start_mark.line, node.start_mark.column
    chunks: dict[str, list[str]] = {}
    start = first
    for item in node.value:
        end = _last_line(item) + 1
        goes = item.value not in value
        chunks[str(item.value)] = lines.lines[start : item.start_mark.line if goes else end]
        start = end
    order = [*chunks, *(name for name in value if name not in chunks)]
    if [name for name in order if name in value] != value:
        order = [*(name for name in chunks if name not in value), *value]
    empty = [] if value else [f"{' ' * column}[]"]
    new = [chunks.get(name, f"{' ' * column}- {_scalar(name)}") for name in order]
    return lines.replaced(first, start, [*empty, *new])


def _is_empty(node: Node) -> bool:
    return isinstance(node, ScalarNode) and node.start_mark.index == node.end_mark.index


def _last_line(node: Node) -> int:
    """Return the last line of a node. A block's own end mark stands behind the comments that follow it."""
    if isinstance(node, MappingNode) and not node.flow_style and node.value:
        key, value = node.value[-1]
        return max(int(key.end_mark.line), _last_line(value))
    if isinstance(node, SequenceNode) and not node.flow_style and node.value:
        return _last_line(node.value[-1])
    if _is_empty(node):
        return 0  # the key's line is the last one; where an empty value is said to stand differs
    line, column = node.end_mark.line, node.end_mark.column
    return int(line - 1 if column == 0 and line > node.start_mark.line else line)


def _block(place: Sequence[str], value: Typed | None, column: int) -> list[str]:
    """Return the lines that say `value` at `place`, the first key in `column`."""
    if value is None:
        return []
    heads = [f"{' ' * (column + 2 * depth)}{_plain(part)}:" for depth, part in enumerate(place)]
    return [*heads[:-1], f"{heads[-1]} {_scalar(value)}"]


def _flow(place: Sequence[str], value: Typed) -> str:
    return f"{{{_plain(place[0])}: {_flow(place[1:], value)}}}" if place else _scalar(value)


def _scalar(value: Typed, style: str | None = None) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, list):
        return "[" + ", ".join(_scalar(entry) for entry in value) + "]"
    if style == "'" and value.isprintable():
        return "'" + value.replace("'", "''") + "'"
    return json.dumps(value, ensure_ascii=False) if style == '"' else _plain(value)


def _plain(text: str) -> str:
    """Return `text` without quotes where it reads as itself in every context, else between double quotes."""
    try:
        unharmed = read_document(f"[{text}]", "").data == [text] and read_document(f"k: {text}", "").data == {"k": text}
    except YAMLError:
        unharmed = False
    return text if unharmed and text.isprintable() else json.dumps(text, ensure_ascii=False)


class _Lines:
    """A text by its lines, each with the ending that it has."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = io.StringIO(text, newline="").readlines()
        self._ending = "\r\n" if "\r\n" in text else "\n"

    def end_of(self, line: int) -> int:
        """Return the index behind a line's last character, its ending left out."""
        return len("".join(self.lines[: line + 1]).rstrip("\r\n"))

    def behind_comments(self, at: int, column: int) -> int:
        """Return the first line from `at` on that is no comment indented deeper than `column`."""
        while at < len(self.lines):
            words = self.lines[at].lstrip(" ")
            if not words.startswith("#") or len(self.lines[at]) - len(words) <= column:
                break
            at += 1
        return at

    def inserted(self, at: int, new: Sequence[str]) -> str:
        return self.replaced(at, at, new)

    def replaced(self, start: int, end: int, new: Sequence[str | list[str]]) -> str:
        """Return the text with `new` for the lines from `start` to before `end`: lines without endings, or with."""
        text = "".join(self.lines[:start])
        for part in new:
            if text and not text.endswith("\n"):
                text += self._ending
            text += "".join(part) if isinstance(part, list) else part + self._ending
        return text + "".join(self.lines[end:])

    def without(self, gone: range) -> str:
        return self.replaced(gone.start, gone.stop, [])
