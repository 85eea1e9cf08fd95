"""Command lines that people wrote: examples of manual pages, scripts of packages, and collections of examples.

Owns: finding them in files. Does not own: what the guard says of them. A collection's notation is no command: a line
with keystrokes (``<Ctrl c>``), alternatives within a word (``start|stop``), an ellipsis or a remark in parentheses at
its end is set aside by `as_typed`.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from pathlib import Path

_FONT = re.compile(r"\\f(?:\[[^\]]*\]|\(..|.)|\\[&|^/,)%]|\\s[-+]?\d")
_CHARACTERS = {r"\-": "-", r"\e": "\\", r"\\": "\\", r"\(aq": "'", r"\(dq": '"', r"\(ga": "`", r"\(ha": "^"}
_CHARACTERS |= {r"\(ti": "~", r"\(rs": "\\", r"\'": "'", r"\`": "`", r"\ ": " ", r"\~": " ", r"\(lq": '"', r"\(rq": '"'}
_CHARACTERS |= {r"\*(Aq": "'"}
_CHARACTERS |= {r"\[aq]": "'", r"\[ti]": "~", r"\[ha]": "^", r"\[dq]": '"', r"\[rs]": "\\", r"\[ga]": "`", r"\.": "."}
_ESCAPED = re.compile(r"\\(?:\*?\([A-Za-z]{2}|\[[a-z]+\]|.)")
_PROMPT = re.compile(r"\s*(?:[$%]|\w+@[\w-]+[:~\w/]*[$#])\s+(?=[a-z./])")
_NOTATION = re.compile(r"<[^<>]*>|\w\|\w|\.\.\.|\[[a-z_ -]+\]|\{\{|\s\([\w; -]+\)$")


def as_typed(line: str) -> bool:
    """Return whether a line is a command as somebody would type it, without notation for people in it."""
    return _NOTATION.search(line) is None and not _goes_on(line)


def _goes_on(line: str) -> bool:
    """Return whether a line ends within a quotation, or before a here-document: the next one belongs to it."""
    plain = re.sub(r"\\.", "", line)
    return (
        line.endswith(("\\", "|", "||", "&&", "; do", "; then", " {"))
        or "<<" in line
        or any(plain.count(quote) % 2 for quote in "'\"`")
    )


def manual_examples(folder: Path) -> Iterator[str]:
    """Yield the lines of the examples of manual pages: where a page shows text as it is, and a line has a prompt.

    In a section called EXAMPLES the lines that begin with the name of the page count, too.
    """
    for path in sorted(folder.glob("*.gz")):
        if path.is_symlink():
            continue
        try:
            text = gzip.decompress(path.read_bytes()).decode("utf-8", "replace")
        except (OSError, EOFError):
            continue
        yield from _examples(text, path.name.split(".")[0])


def _examples(text: str, page: str) -> Iterator[str]:
    shown = examples = False
    for line in text.splitlines():
        if line.startswith((".EX", ".nf", ".Bd", ".Dl", ".sp -1")):
            shown = True
        elif line.startswith((".EE", ".fi", ".Ed")):
            shown = False
        elif line.startswith((".SH", ".Sh", ".SS", ".Ss")):
            shown, examples = False, "EXAMPLE" in line.upper()
        elif shown and not line.startswith((".", "'")):
            plain = _plain(line)
            typed = _PROMPT.match(plain)
            if typed is not None:
                yield plain[typed.end() :].strip()
            elif examples and plain.strip().startswith((f"{page} ", f"sudo {page} ")):
                yield plain.strip()


def _plain(line: str) -> str:
    """Return a line of groff without its escapes."""
    return _ESCAPED.sub(lambda match: _CHARACTERS.get(match[0], match[0][1:]), _FONT.sub("", line))


def package_scripts(folder: Path) -> Iterator[str]:
    """Yield the scripts that packages run when they come and go."""
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if path.suffix in {".preinst", ".postinst", ".prerm", ".postrm"}:
            text = path.read_text("utf-8", "replace")
            if re.match(r"#!\s*/bin/(?:ba|da)?sh", text):
                yield text


def collection(path: Path) -> Iterator[str]:
    """Yield the commands of a table of examples: platform, page, command."""
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8")
    for line in text.splitlines():
        if not line.startswith("#"):
            yield line.split("\t")[2]
