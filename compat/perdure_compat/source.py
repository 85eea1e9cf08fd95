"""The text of one Python file, with places in it.

Owns: decoding (byte order mark, coding line, line ends), parsing, and turning the parser's places into offsets. Does
not own: what the code means (reading). Standard library only.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
import warnings
from dataclasses import dataclass
from pathlib import Path

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z")


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A file that is no Python that this interpreter reads."""

    path: Path
    line: int
    text: str


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
        self.lines = _LINE.findall(text)
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
        encoding, _ = tokenize.detect_encoding(io.BytesIO(raw).readline)
        mark = encoding == "utf-8-sig"
        try:
            text = raw.decode(encoding)
        except UnicodeDecodeError as error:
            raise SyntaxError(f"not {encoding}: {error.reason} at byte {error.start}") from error
        return cls(path, text, encoding="utf-8" if mark else encoding, mark=mark)

    @property
    def newline(self) -> str:
        """What ends most lines here."""
        ends = [line[len(line.rstrip("\r\n")) :] for line in self.lines]
        return max(("\n", "\r\n", "\r"), key=ends.count)

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
        return text.encode("utf-8-sig" if self.mark else self.encoding)


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
    """Replace a file whole, with its permissions: a crash leaves the old one."""
    temporary = path.with_name(f".{path.name}.perdure-compat")
    temporary.write_bytes(content)
    if path.exists():
        temporary.chmod(path.stat().st_mode & 0o7777)
    temporary.replace(path)
