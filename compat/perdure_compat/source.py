"""The text of one Python file, with places in it.

Owns: decoding (byte order mark, coding line, line ends), parsing, and turning the parser's places into offsets. Does
not own: what the code means (reading). Standard library only.
"""

from __future__ import annotations

import ast
import codecs
import contextlib
import errno
import io
import os
import re
import tempfile
import tokenize
import warnings
from dataclasses import dataclass
from pathlib import Path

PYTHON = (".py", ".pyi", ".pyw")
"""What the names of Python's files end with."""
UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)
"""What the parser raises for a file that is no Python, or nested too deeply for it."""
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z")


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A file that is no Python that this interpreter reads."""

    path: Path
    line: int
    text: str

    @classmethod
    def of(cls, path: Path, error: BaseException) -> Unreadable:
        """Return what the parser's error says of a file."""
        if isinstance(error, SyntaxError):
            return cls(path, error.lineno or 0, error.msg or "not Python")
        return cls(path, 0, str(error) if isinstance(error, ValueError) else "nested too deeply")


class Source:
    """One file's text, its tree, and offsets into it."""

    def __init__(
        self, path: Path, text: str, *, encoding: str = "utf-8", mark: bool = False, expression: bool = False
    ) -> None:
        """Parse the text: a module, or one expression.

        Raises:
            SyntaxError: it is not Python.
        """
        self.path = path
        self.text = text
        self.encoding = encoding
        self.mark = mark
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about invalid escapes, in a file that is not ours to judge
            if expression:
                value = ast.parse(text, filename=str(path), mode="eval").body
                self.tree = ast.Module(body=[ast.copy_location(ast.Expr(value), value)], type_ignores=[])
            else:
                self.tree = ast.parse(text, filename=str(path))
        self.lines = lines_of(text)
        self._starts = [0]
        for line in self.lines:
            self._starts.append(self._starts[-1] + len(line))

    @classmethod
    def load(cls, path: Path) -> Source:
        """Read a file.

        Raises:
            SyntaxError: it is not Python, or not in the encoding that it names.
            OSError: it cannot be read.
        """
        return cls.decode(path, path.read_bytes())

    @classmethod
    def decode(cls, path: Path, raw: bytes) -> Source:
        """Read a file's bytes.

        Raises:
            SyntaxError: they are not Python, or not in the encoding that they name.
        """
        text, encoding, mark = decoded(raw)
        return cls(path, text, encoding=encoding, mark=mark)

    @property
    def newline(self) -> str:
        """What ends most lines here."""
        return newline_of(self.text)

    def offset(self, line: int, column: int) -> int:
        """Return where a place of the parser's is: a line from 1 and a column in UTF-8 bytes."""
        start = self._starts[line - 1]
        text = self.lines[line - 1] if line <= len(self.lines) else ""
        return start + (column if text.isascii() else len(text.encode()[:column].decode(errors="replace")))

    def start(self, node: ast.AST) -> int:
        """Return where a node begins."""
        return self.offset(node.lineno, node.col_offset)  # type: ignore[attr-defined]  # every node with a place has

    def end(self, node: ast.AST) -> int:
        """Return where a node ends."""
        return self.offset(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]  # as above

    def line_of(self, offset: int) -> int:
        """Return the line, from 1, that an offset lies in."""
        low, high = 0, len(self._starts) - 1
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self._starts[middle] <= offset else (low, middle - 1)
        return low + 1

    def line_start(self, offset: int) -> int:
        """Return where the line of an offset begins."""
        return self._starts[self.line_of(offset) - 1]

    def line_end(self, offset: int) -> int:
        """Return where the line of an offset ends, before its line end."""
        line = self.line_of(offset) - 1
        return self._starts[line] + len(self.lines[line].rstrip("\r\n")) if line < len(self.lines) else len(self.text)

    def encoded(self, text: str) -> bytes:
        """Return another text as this file would hold it."""
        return encoded(text, self.encoding, mark=self.mark)


def lines_of(text: str) -> list[str]:
    """Return a text's lines with their ends, as Python counts them: a form feed ends none."""
    return _LINE.findall(text)


def newline_of(text: str) -> str:
    """Return what ends most lines of a text."""
    ends = [line[len(line.rstrip("\r\n")) :] for line in lines_of(text)]
    return max(("\n", "\r\n", "\r"), key=ends.count)


def decoded(raw: bytes) -> tuple[str, str, bool]:
    """Return the text of a Python file, its encoding, and whether a byte order mark stands before it.

    Raises:
        SyntaxError: it is not in the encoding that it names, or the text would not give these bytes again.
    """
    encoding, _ = tokenize.detect_encoding(io.BytesIO(raw).readline)
    mark = encoding == "utf-8-sig"
    try:
        text = raw.decode(encoding)
        same = encoded(text, encoding, mark=mark) == raw
    except UnicodeDecodeError as error:
        raise SyntaxError(f"not {encoding}: {error.reason} at byte {error.start}") from error
    except (UnicodeError, LookupError) as error:
        raise SyntaxError(f"not {encoding}: {error}") from error
    if not same:
        raise SyntaxError(f"{encoding} does not give the same bytes again, so nothing here can be changed safely")
    return text, "utf-8" if mark else encoding, mark


def encoded(text: str, encoding: str, *, mark: bool) -> bytes:
    """Return a text's bytes."""
    return text.encode("utf-8-sig" if mark else encoding)


def text_of(path: Path) -> str | None:
    """Return a file's text with its line ends as they are, or None where there is no file.

    Raises:
        SyntaxError: it is not in the encoding that it names, which is UTF-8 where it names none.
        OSError: it cannot be read.
    """
    try:
        return _text_and_form(path)[0]
    except FileNotFoundError:
        return None


def encoded_like(path: Path, text: str) -> bytes:
    """Return a text as the file that is there would hold it: in its encoding, and with its line ends where it has none.

    Raises:
        SyntaxError: as for `text_of`.
        OSError: as for `text_of`.
        UnicodeEncodeError: the file's encoding cannot write the text.
    """
    try:
        before, encoding, mark = _text_and_form(path)
    except FileNotFoundError:
        return text.encode()
    if "\r" not in text:
        text = text.replace("\n", newline_of(before))
    return encoded(text, encoding, mark=mark)


def _text_and_form(path: Path) -> tuple[str, str, bool]:
    raw = path.read_bytes()
    try:
        if path.suffix in PYTHON:
            return decoded(raw)
        mark = raw.startswith(codecs.BOM_UTF8)
        return raw.decode("utf-8-sig"), "utf-8", mark
    except UnicodeDecodeError as error:
        raise SyntaxError(f"not UTF-8: {error.reason} at byte {error.start}", (str(path), 0, 0, "")) from error
    except SyntaxError as error:
        error.filename = str(path)
        raise


def module_name(path: Path) -> tuple[str, bool]:
    """Return the dotted name of a file by the packages around it, and whether it is a package itself."""
    package = path.stem == "__init__"
    parts = [] if package else [path.stem]
    folder = path.parent
    while (folder / "__init__.py").is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    return ".".join(parts), package


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file whole, with its owner and permissions: a crash or a full disk leaves the old one.

    What a link leads to is replaced, and not the link.

    Raises:
        OSError: it cannot be written; the file is as it was.
    """
    path = Path(os.path.realpath(path))
    before = path.stat() if path.exists() else None
    if before is not None and not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, "it may not be written", str(path))
    # A name of its own: two of these may be at work at once.
    handle, name = tempfile.mkstemp(prefix=f".{path.name[:100]}.", suffix=".perdure-compat", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if before is None:
            umask = os.umask(0)
            os.umask(umask)
            temporary.chmod(0o666 & ~umask)
        else:
            with contextlib.suppress(OSError, AttributeError):  # another user's file, and no right to give it back
                os.chown(temporary, before.st_uid, before.st_gid)
            temporary.chmod(before.st_mode & 0o7777)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
