"""`command_allowlist` of a profile's app.yaml: what its operator lets pass without being asked.

Owns: reading it again when it changes, and adding to it or taking from it without touching anything else of the file.
Does not own: what a line covers (grants, rules), or the rest of the file (app_file). Keeps: approvals-allowlist: a line
that was taken away stays away and no longer counts; what is granted here and what is on disk are both kept; a file that
is not of the form grants nothing and is never overwritten.

The file is edited as text, so that comments and spelling stay, and what was written is read again before it counts.
"""

from __future__ import annotations

import ast
import contextlib
import json
import os
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from perdure.own_writers import claim

if TYPE_CHECKING:
    from ruamel.yaml.nodes import Node

KEY = "command_allowlist"
MAX_BYTES = 1 << 20
_WRITER = claim("allowlist")


class AllowlistUnfit(ValueError):
    """The list, or the file around it, is not of the form; nothing was written."""


class Allowlist:
    """The list of one profile, as this process sees it."""

    def __init__(self, path: Path, lock: Path, warn: Callable[[str], None]) -> None:
        """Know the file, which need not exist.

        Args:
            path: the profile's app.yaml.
            lock: a file of the app's own state that keeps writers apart; it is made when somebody writes.
            warn: takes a sentence about what is wrong with the file.
        """
        self._path = path
        self._lock = lock
        self._warn = warn
        self._signature: tuple[int, ...] | None = None
        self._read: tuple[str, ...] = ()
        self._unsaved: tuple[str, ...] = ()

    def entries(self) -> tuple[str, ...]:
        """Return the lines that count now: those on disk, and those granted here that could not be saved."""
        signature = self._sign()
        if signature != self._signature:
            self._signature = signature
            try:
                self._read = parse(self._text(), self._warn, str(self._path))
            except AllowlistUnfit as fault:
                self._warn(f"{fault}: it grants nothing")
                self._read = ()
        return tuple(dict.fromkeys((*self._read, *self._unsaved)))

    def add(self, *entries: str) -> bool:
        """Have these lines count from now on, and return whether they are on disk: where that fails, it is warned of.

        A set of lines never takes one away: what is written is everything on disk, and these.
        """
        wanted = tuple(dict.fromkeys((*self._unsaved, *entries)))
        try:
            with self._writing():
                text = self._text()
                known = parse(text, self._warn, str(self._path))
                missing = [entry for entry in wanted if entry not in known]
                if missing:
                    self._write(text, _added(text, known, missing), (*known, *missing))
        except (OSError, AllowlistUnfit) as fault:
            self._unsaved = wanted
            self._warn(f"{self._path} was not written, so that this counts for this process only: {fault}")
            return False
        self._unsaved = ()
        self._signature = None
        return True

    def remove(self, entry: str) -> bool:
        """Take a line away, and return whether it was there.

        Raises:
            AllowlistUnfit: the file is not of the form, or the line cannot be taken out of it.
            OSError: it cannot be written.
        """
        self._unsaved = tuple(kept for kept in self._unsaved if kept != entry)
        with self._writing():
            text = self._text()
            known = parse(text, self._warn, str(self._path))
            if entry not in known:
                return False
            self._write(text, _removed(text, entry), tuple(kept for kept in known if kept != entry))
        self._signature = None
        return True

    def _sign(self) -> tuple[int, ...]:
        try:
            found = os.stat(self._path)
        except OSError as error:
            return (error.errno or -1,)
        return (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)

    def _text(self) -> str:
        try:
            if not stat.S_ISREG(os.stat(self._path).st_mode):
                raise AllowlistUnfit(f"{self._path} cannot be read: it is not a file")
            with open(self._path, "rb") as file:
                data = file.read(MAX_BYTES + 1)
        except FileNotFoundError:
            return ""
        except OSError as error:
            raise AllowlistUnfit(f"{self._path} cannot be read: {error.strerror or error}") from error
        if len(data) > MAX_BYTES:
            raise AllowlistUnfit(f"{self._path} is larger than {MAX_BYTES} bytes")
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise AllowlistUnfit(f"{self._path} cannot be read: {error}") from error

    def _write(self, old: str, new: str, entries: Sequence[str]) -> None:
        before, after = _load(old, str(self._path)), _load(new, str(self._path))
        if after != {**before, KEY: list(entries)} or list(after) != list(dict.fromkeys([*before, KEY])):
            raise AllowlistUnfit(f"{self._path}: {KEY} cannot be edited as it is written; edit it by hand")
        target = Path(os.path.realpath(self._path))
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f"{target.name}.")
        try:
            with open(handle, "wb") as file:
                file.write(new.encode())
                file.flush()
                os.fsync(file.fileno())
            with contextlib.suppress(FileNotFoundError):
                os.chmod(name, stat.S_IMODE(os.stat(target).st_mode))
            # A crash before this line leaves the old file, and a temporary one beside it that nothing reads.
            os.replace(name, target)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise
        if sys.platform != "win32":
            folder = os.open(target.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Keep other processes of the app from writing meanwhile."""
        with _WRITER.writing():
            self._lock.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _WRITER.writing(), open(self._lock, "a+b") as file:
            if sys.platform == "win32":
                import msvcrt

                msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)
            else:
                import fcntl

                fcntl.flock(file, fcntl.LOCK_EX)
            yield


def parse(text: str, warn: Callable[[str], None], path: str) -> tuple[str, ...]:
    """Return the lines of the list in a file's text, each once.

    Raises:
        AllowlistUnfit: the file cannot be read, or the list is no list of texts.
    """
    value = _load(text, path).get(KEY)
    if value is None:
        return ()
    if isinstance(value, str):
        recovered = _stringified(value)
        if recovered is None:
            raise AllowlistUnfit(f"{path}: {KEY} must be a list of texts, not a text")
        warn(f"{path}: {KEY} is a list in quotes: it counts as the list, and should be written as one")
        return recovered
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise AllowlistUnfit(f"{path}: {KEY} must be a list of texts")
    return tuple(dict.fromkeys(item for item in value if item.split()))


def _stringified(text: str) -> tuple[str, ...] | None:
    try:
        value: object = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        return None
    return tuple(dict.fromkeys(item for item in value if item.split()))


def _load(text: str, path: str) -> dict[object, object]:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        document: object = YAML(typ="safe", pure=True).load(text)
    except (YAMLError, RecursionError, ValueError, TypeError, LookupError, AttributeError) as error:
        raise AllowlistUnfit(f"{path} cannot be read: {' '.join(str(error).split())}") from error
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise AllowlistUnfit(f"{path} must be a mapping of sections to settings")
    return document


def _node(text: str) -> tuple[Node | None, Node | None, Node | None]:
    """Return the nodes of the document, of the key, and of the list."""
    from ruamel.yaml import YAML
    from ruamel.yaml.nodes import MappingNode

    root = YAML(typ="safe", pure=True).compose(text)
    if isinstance(root, MappingNode):
        for key, value in root.value:
            if key.value == KEY:
                return root, key, value
    return root, None, None


def _added(text: str, known: Sequence[str], missing: Sequence[str]) -> str:
    from ruamel.yaml.nodes import MappingNode, SequenceNode

    root, key, value = _node(text)
    block = [f"- {_quoted(entry)}\n" for entry in missing]
    if key is None or value is None:
        ended = text if not text or text.endswith("\n") else f"{text}\n"
        if isinstance(root, MappingNode) and root.flow_style:
            at = root.end_mark.index - 1
            listed = ", ".join(map(_quoted, missing))
            comma = ", " if root.value else ""
            return f"{text[:at]}{comma}{KEY}: [{listed}]{text[at:]}"
        at = len(ended) if root is None else _line_end(ended, root.end_mark.index)
        return f"{ended[:at]}{KEY}:\n{''.join(block)}{ended[at:]}"
    if isinstance(value, SequenceNode) and value.flow_style:
        at = value.end_mark.index - 1
        comma = ", " if value.value and not text[:at].rstrip().endswith(",") else ""
        return f"{text[:at]}{comma}{', '.join(map(_quoted, missing))}{text[at:]}"
    if isinstance(value, SequenceNode):
        indent = " " * value.start_mark.column
        at = _line_end(text, value.value[-1].end_mark.index)
        before = text[:at] if text[:at].endswith("\n") else f"{text[:at]}\n"
        return before + "".join(indent + line for line in block) + text[at:]
    # Nothing, or a list in quotes: it becomes a list, with what it held.
    whole = "".join(f"\n- {_quoted(entry)}" for entry in (*known, *missing))
    start = key.end_mark.index + text[key.end_mark.index :].index(":") + 1
    stop = max(start, value.end_mark.index) if value.value else start
    return f"{text[:start]}{whole}{text[stop:]}"


def _removed(text: str, entry: str) -> str:
    from ruamel.yaml.nodes import SequenceNode

    while True:
        _, key, value = _node(text)
        if key is None or not isinstance(value, SequenceNode):
            raise AllowlistUnfit(f"{KEY} is not written as a list; edit it by hand")
        number = next((at for at, item in enumerate(value.value) if item.value == entry), None)
        if number is None:
            return text
        items = value.value
        if value.flow_style:
            start = items[number].start_mark.index
            if number + 1 < len(items):
                stop = items[number + 1].start_mark.index
            else:
                stop = value.end_mark.index - 1
                start = items[number - 1].end_mark.index if number else start
            text = text[:start] + text[stop:]
        elif len(items) == 1:
            start = key.end_mark.index + text[key.end_mark.index :].index(":") + 1
            text = f"{text[:start]} []{text[_line_end(text, items[0].end_mark.index, keep=True) :]}"
        else:
            start = text.rindex("\n", 0, items[number].start_mark.index) + 1
            text = text[:start] + text[_line_end(text, items[number].end_mark.index) :]


def _line_end(text: str, at: int, *, keep: bool = False) -> int:
    """Return the place behind the line that a place is in; with `keep`, the place of its line feed."""
    if not keep and (at == 0 or text[at - 1 : at] == "\n"):
        return at
    end = text.find("\n", at)
    return len(text) if end < 0 else end if keep else end + 1


def _quoted(entry: str) -> str:
    return json.dumps(entry, ensure_ascii=not entry.isprintable())
