"""Words as paths: components, and what a component can be called.

Owns: cutting a spelling into components, `.` and `..`, globs with quoted parts, drive letters. Does not own: the
filesystem (probe) or what is protected (roots, paths).
"""

from __future__ import annotations

import functools
import re
import unicodedata

from perdure.domain.effect import Hole, Piece, Spelling, Text
from perdure.domain.record import dataclass
from perdure.guard import windows_paths
from perdure.guard.late import late

Component = tuple[Piece, ...]
"""The pieces of one name, without slashes but for those that a hole may hold."""

_DRIVE = late(r"([A-Za-z]):(?=[\\/]|$)")
_NATIVE = late(r"[\\/]{2}[?.][\\/]|\\\?\?\\")
_OWN_SHARE = late(r"(?i)//(?:localhost|127\.0\.0\.1|::1|\.)/([a-z])\$(?=/|$)")
_DRIVE_RELATIVE = late(r"([A-Za-z]):(?![\\/]|$)")
_MOUNTED_DRIVE = late(r"/(?:mnt|cygdrive)/([A-Za-z])(?=/|$)")
_EXTENDED = late(r"([?*+@!])\((.*)\)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Path:
    """An absolute path as far as it is known."""

    components: tuple[Component, ...]
    slash: bool = False
    """Whether it ends with a slash, which follows a link."""

    @property
    def text(self) -> str | None:
        """The path, where every character of it is known."""
        names: list[str] = []
        for component in self.components:
            name = literal(component)
            if name is None:
                return None
            names.append(name)
        return "/" + "/".join(names)

    @property
    def open(self) -> bool:
        """Whether something in it cannot be known."""
        return any(isinstance(piece, Hole) for component in self.components for piece in component)


def literal(component: Component) -> str | None:
    """Return the name, where it is known."""
    if len(component) == 1 and isinstance(component[0], Text):
        return component[0].text
    texts = [piece.text for piece in component if isinstance(piece, Text)]
    return "".join(texts) if len(texts) == len(component) else None


def split_text(path: str, *, drives: bool = False) -> tuple[str, ...]:
    """Return the components of a path that is known, as they are written, without empty ones and dots."""
    spelled = with_letters(path) if drives else path
    names = tuple(name for name in spelled.split("/") if name not in {"", "."})
    return tuple(name if name == ".." else name.rstrip(". ") or name for name in names) if drives else names


def with_letters(path: str) -> str:
    r"""Return a path with its drive as the first component, written in any way: ``C:\x``, ``/c/x``, ``/mnt/c/x``."""
    if native := _NATIVE.match(path):
        path = path[native.end() :]
        if path[:4].lower() in {"unc\\", "unc/"}:
            path = "//" + path[4:]
    path = path.replace("\\", "/")
    if found := _OWN_SHARE.match(path):
        return f"/{found[1].lower()}{path[found.end() :]}"
    if found := _DRIVE.match(path):
        return f"/{found[1].lower()}{path[found.end() :]}"
    if found := _MOUNTED_DRIVE.match(path):
        return f"/{found[1].lower()}{path[found.end() :]}"
    return path


@functools.lru_cache(maxsize=512)
def split(spelling: Spelling, directory: Spelling, *, drives: bool = False) -> Path:
    """Return the absolute path that a spelling stands for in a directory; `..` stays where it is written."""
    pieces = _with_drive(spelling) if drives else spelling
    first = pieces[0] if pieces else Text("")
    absolute = isinstance(first, Text) and first.text.startswith("/")
    # What begins with a hole may be absolute too: the hole stands for the directory as well.
    if drives and isinstance(first, Text) and (letter := _DRIVE_RELATIVE.match(first.text)):
        pieces, absolute = _on_drive(letter, (Text(first.text[letter.end() :]), *pieces[1:]), directory), True
    if not absolute and not isinstance(first, Hole):
        pieces = (*(_with_drive(directory) if drives else directory), Text("/"), *pieces)
    components: list[list[Piece]] = [[]]
    for piece in pieces:
        if not isinstance(piece, Text) or "/" not in piece.text:
            components[-1].append(piece)
            continue
        head, *rest = piece.text.split("/")
        if head:
            components[-1].append(Text(head))
        components += [[Text(name)] if name else [] for name in rest]
    slash = not components[-1]
    kept = [tuple(component) for component in components if component]
    if drives:
        kept = [long for component in kept if (long := windows_paths.name(component))]
    last = literal(kept[-1]) if kept else None
    return Path(tuple(part for part in kept if literal(part) not in {"", "."}), slash or last in {".", ".."})


def _with_drive(spelling: Spelling) -> Spelling:
    if not spelling or not isinstance(spelling[0], Text):
        return spelling
    first = with_letters(spelling[0].text)
    return (
        Text(first),
        *(Text(piece.text.replace("\\", "/")) if isinstance(piece, Text) else piece for piece in spelling[1:]),
    )


def _on_drive(letter: re.Match[str], rest: Spelling, directory: Spelling) -> Spelling:
    """Return ``C:x`` from the current directory of that drive, which is known of one drive only."""
    start, root = _with_drive(directory), f"/{letter[1].lower()}"
    first = start[0] if start else Text("")
    if isinstance(first, Text) and f"{first.text.lower()}/".startswith(f"{root}/"):
        return (*start, Text("/"), *rest)
    return (Text(f"{root}/"), Hole("the directory of the drive"), Text("/"), *rest)


def without_dots(path: Path) -> Path:
    """Return the path with each `..` taking away what stands before it, as a shell does it that trusts names."""
    if not any(literal(component) == ".." for component in path.components):
        return path
    kept: list[Component] = []
    for component in path.components:
        if literal(component) != "..":
            kept.append(component)
        elif kept and any(isinstance(piece, Hole) for piece in kept[-1]):
            # What a hole holds may be more than one name: one of them goes, and it is still open.
            kept[-1] = (Hole(),)
        elif kept:
            kept.pop()
    return Path(tuple(kept), path.slash)


@functools.lru_cache(maxsize=64)
def place_text(directory: Spelling) -> str | None:
    """Return the path of a directory without dots, where every character of it is known."""
    return without_dots(split((), directory)).text


def accepts(component: Component, name: str, *, case_sensitive: bool) -> bool:
    """Return whether the component, which has no hole, can be this name; a known one has to be it."""
    known = literal(component)
    if known is not None:
        return known == name or (not case_sensitive and folded(known) == folded(name))
    if not case_sensitive and not name.isascii():
        name = unicodedata.normalize("NFC", name)
    return _expression(component, case_sensitive=case_sensitive).fullmatch(name) is not None


def folded(name: str) -> str:
    """Return what names have in common that are one on a disk which ignores case and how accents are kept."""
    return (
        name.casefold()
        if name.isascii()
        else unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())
    )


@functools.lru_cache(maxsize=1024)
def _expression(component: Component, *, case_sensitive: bool) -> re.Pattern[str]:
    """Return what the names of a component have in common; only a written dot matches a leading one."""
    hidden = "" if isinstance(component[0], Text | Hole) else r"(?!\.)"
    flags = re.DOTALL if case_sensitive else re.DOTALL | re.IGNORECASE
    made = "".join(map(expression, component))
    return re.compile(
        hidden + (made if case_sensitive or made.isascii() else unicodedata.normalize("NFC", made)), flags
    )


def expression(piece: Piece) -> str:
    """Return the regular expression of what a piece can stand for."""
    if isinstance(piece, Hole):
        return ".*"
    if isinstance(piece, Text):
        return re.escape(piece.text)
    return _glob(piece.text)


def _glob(text: str) -> str:
    if found := _EXTENDED.fullmatch(text):
        parts = "|".join(_glob(part) for part in found[2].split("|"))
        return {
            "?": f"(?:{parts})?",
            "*": f"(?:{parts})*",
            "+": f"(?:{parts})+",
            "@": f"(?:{parts})",
            "!": f"(?:(?!(?:{parts})(?:/|$))[^/]*)",
        }[found[1]]
    made: list[str] = []
    at = 0
    while at < len(text):
        character = text[at]
        at += 1
        if character == "*":
            while text[at : at + 1] == "*":
                at += 1
            made.append("[^/]*")
        elif character == "?":
            made.append("[^/]")
        elif character == "[" and (end := _class_end(text, at)) is not None:
            made.append(_class(text[at:end]))
            at = end + 1
        elif character == "\\" and at < len(text):
            made.append(re.escape(text[at]))
            at += 1
        else:
            made.append(re.escape(character))
    return "".join(made)


def _class_end(text: str, start: int) -> int | None:
    """Return where the bracket that was opened before `start` closes; the first character may be a bracket itself."""
    at = start + 1 if text[start : start + 1] in {"!", "^"} else start
    if text[at : at + 1] == "]":
        at += 1
    while at < len(text) and text[at] != "]":
        if text[at] == "[" and text[at + 1 : at + 2] in {":", ".", "="}:
            closing = text.find(text[at + 1] + "]", at + 2)
            at = at if closing < 0 else closing + 1
        at += 1
    return at if at < len(text) else None


_NAMED = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "blank": r" \t",
    "digit": "0-9",
    "lower": "a-z",
    "space": r"\s",
    "upper": "A-Z",
    "word": r"\w",
    "xdigit": "0-9A-Fa-f",
}


def _class(text: str) -> str:
    negated = text[:1] in {"!", "^"}
    body = re.sub(r"\[:(\w+):\]", lambda found: _NAMED.get(found[1], r"\x21-\x7e"), text[negated:])
    body = re.sub(r"\[[.=](.)[.=]\]", r"\1", body)
    escaped = re.sub(r"[\[\]&~|^]", lambda found: "\\" + found[0], body)
    try:
        made = f"[{'^' if negated else ''}{escaped}]"
        re.compile(made)
    except re.error:
        return "[^/]"
    return made
