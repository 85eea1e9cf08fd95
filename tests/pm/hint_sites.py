"""Every text of PM that tells a person to run a command, found in its source; and the commands in a printed one.

Owns: finding both. Does not own: the states in which they are printed (hint_states), or running anything.

A place is known by its file and its text, as it stands in the source, with the expressions of an f-string in braces: a
text that is changed is a new one, which nobody has tried yet.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import perdure_pm

ROOT = Path(perdure_pm.__file__).parent
HINT_NAMES = ("hint", "default_hint")
NAMED = re.compile(
    r"""perdure-pm['"}]*\s+[a-z{-]|\{PROGRAM\}\s+[a-z{]|bootstrap\.py\s+(?:--|[a-z])|"""
    r"\b(?:uv lock|git ls-remote|git checkout)\b"
)
"""What makes a text one that names a command."""
PROGRAM = re.compile(
    r"""(?:'[^'\n]*/perdure-pm'|"[^"\n]*/perdure-pm"|[^\s'"(]*\bperdure-pm|"""
    r"python3 pm/bootstrap\.py|uv(?= lock)|git(?= checkout| ls-remote))(?= )"
)
"""Where the command begins in a text that was printed."""
_ENDS = re.compile(r"   \(|[,;:)](?=\s|$)| and not |\n")
"""Where a command ends, outside quotes: a remark, or another sentence."""


@dataclass(frozen=True, kw_only=True)
class Site:
    """One text in the source."""

    file: str
    """Relative to the package, with forward slashes."""
    line: int
    text: str
    is_hint: bool
    """Whether it stands where a hint is given; else it is any other text that names a command."""

    @property
    def key(self) -> str:
        return f"{self.file}: {self.text}"

    @property
    def pattern(self) -> re.Pattern[str]:
        """What the text looks like when it was printed."""
        parts = re.split(r"(\{[^{}]*\})", self.text)
        spelled = ["(?:.+?)" if part.startswith("{") and part.endswith("}") else re.escape(part) for part in parts]
        # Printed, the program is spelled so that it can be called from there.
        return re.compile("".join(spelled).replace(re.escape("perdure-pm "), r"\S*perdure-pm\S* (?:--\S+ \S+ )*"))


def find_sites() -> list[Site]:
    """Return every hint and every other text that names a command, without docstrings, in the order of the source."""
    found = []
    for path in sorted(ROOT.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        inner = set(_docstrings(tree)) | set(_parts(tree))
        hints = {id(node) for value in _hint_values(tree) for node in ast.walk(value)}
        for node in ast.walk(tree):
            text = None if id(node) in inner else _text(node)
            if text and (id(node) in hints or NAMED.search(text)):
                name = path.relative_to(ROOT).as_posix()
                found.append(Site(file=name, line=node.lineno, text=text, is_hint=id(node) in hints))  # type: ignore[attr-defined]
    return found


def commands_in(printed: str) -> list[str]:
    """Return the commands that a text names, each as a shell takes it.

    A command ends before a remark in brackets after three spaces, a comma, a semicolon, a colon or the end.
    """
    return [_command(printed[found.start() :]) for found in PROGRAM.finditer(printed)]


def _command(text: str) -> str:
    quote = ""
    for at, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif _ENDS.match(text, at):
            return text[:at].rstrip()
    return text.rstrip()


def _text(node: ast.AST) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(
            str(part.value) if isinstance(part, ast.Constant) else f"{{{ast.unparse(part.value)}}}"  # type: ignore[attr-defined]
            for part in node.values
        )
    return None


def _hint_values(tree: ast.AST) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg in HINT_NAMES:
            yield node.value
        elif isinstance(node, ast.Dict):
            named = zip(node.keys, node.values, strict=True)
            yield from (value for key, value in named if isinstance(key, ast.Constant) and key.value == "hint")


def _docstrings(tree: ast.AST) -> Iterator[int]:
    for node in ast.walk(tree):
        for child in getattr(node, "body", []) if not isinstance(node, (ast.Lambda, ast.IfExp)) else []:
            if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
                yield id(child.value)


def _parts(tree: ast.AST) -> Iterator[int]:
    """Return what stands inside f-strings: it is no text of its own."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield from (id(part) for part in ast.walk(node) if part is not node)
