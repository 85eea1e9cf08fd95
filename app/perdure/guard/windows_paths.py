r"""How Windows spells paths: drives, shares, devices, and names that mean another name.

Owns: from a spelling to the path that the rest of the guard compares, ``/c/Users/you``, as pure functions. Does not
own: comparing (paths), or what is on the disk (probe). Keeps: guard-windows-paths: another spelling of a path is never
judged milder; what nobody can know, such as a volume by its number, stays open.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from perdure.domain.effect import Hole, Pattern, Piece, Spelling, Text
from perdure.guard import values
from perdure.guard.late import late
from perdure.guard.values import Value

_DRIVE = late(r"([A-Za-z]):")
_NATIVE = late(r"(?://[?.]/|/\?\?/)(?:global\?\?/)?", re.IGNORECASE)
_ADMIN = late(r"//([^/]+)/([A-Za-z])\$(?=/|$)")
_LINUX = late(r"//wsl(?:\$|\.localhost)/[^/]+(?=/|$)", re.IGNORECASE)
_SHARE = late(r"//([^/]+)/([^/]*)")
_LETTER = late(r"/([A-Za-z])(?=/|$)")
_MOUNTED = late(r"/(?:mnt|cygdrive)/([A-Za-z])(?=/|$)")
_HERE = frozenset({"localhost", "127.0.0.1", "::1", "[::1]", "0--1.ipv6-literal.net", "."})
_SHORT = late(r"([^.~/]{1,7})~\d{1,6}(?:\.([^./]{0,3}))?")
_STREAM = late(r":[^/]*$")


def place(path: Value, directories: Value, environment: Mapping[str, str], *, drives: bool, globs: bool) -> Value:
    """Return a path as Windows means it, absolute and with slashes, in a shell that is in one of the directories.

    Args:
        path: as it is written, quotes and escapes gone.
        directories: where the shell may be, as this returns paths.
        environment: the variables of the session: the machine's own name stands in one of them.
        drives: whether the machine has drives; on one that has none, drives are below ``/mnt`` as WSL shows them.
        globs: whether `*` and `?` stand for names.
    """
    found: list[Spelling] = []
    for pieces in path:
        slashed: Spelling = tuple(
            Text(piece.text.replace("\\", "/")) if isinstance(piece, Text) else piece for piece in pieces
        )
        absolute = _absolute(slashed, directories, environment, drives=drives)
        found += map(_globbed, absolute) if globs else absolute
    return values.union(tuple(dict.fromkeys(found))) if found else path


def _absolute(  # noqa: C901  # one line for each way in which Windows writes a path
    pieces: Spelling, directories: Value, environment: Mapping[str, str], *, drives: bool
) -> list[Spelling]:
    first = pieces[0] if pieces else Text("")
    if not isinstance(first, Text):
        if isinstance(first, Hole):
            return [pieces]
        return [_joined(start, Text("/"), *pieces) for start in directories]
    head, rest = first.text, pieces[1:]
    if native := _NATIVE.match(head):
        head = head[native.end() :]
        if head.lower().startswith("unc/"):
            head = "//" + head[4:]
        elif not _DRIVE.match(head):
            if re.match(r"(?i)physicaldrive|harddisk", head):
                return [(Text("/dev/PhysicalDrive0"),)]
            return [(Hole(first.text), *rest)]
        elif native[0].startswith("//.") and len(head.strip("/")) == 2:  # the drive itself, below any file system
            return [(Text("/dev/PhysicalDrive0"),)]
    if share := _ADMIN.match(head):
        return [_shared(share, head, rest, environment, drives=drives)]
    if linux := _LINUX.match(head):
        return [_joined((), Text((head[linux.end() :] or "/") if not drives else f"/|linux|{head}"), *rest)]
    if remote := _SHARE.match(head):
        return [_joined((), Text(f"/|share|{remote[1]}|{remote[2]}{head[remote.end() :]}"), *rest)]
    if letter := _DRIVE.match(head):
        root = drive(letter[1], drives=drives)
        after = head[2:]
        if after.startswith("/"):
            return [_joined((), Text(root + after), *rest)]
        if not after and not rest:
            return [(Text(root),)]
        return [_on_drive(start, root, (Text(after), *rest)) for start in directories]
    if head.startswith("/"):
        return [_joined((), Text(_drive_of(start)), *pieces) for start in directories]
    return [_joined(start, Text("/"), Text(head), *rest) for start in directories]


def _shared(
    share: re.Match[str], head: str, rest: Spelling, environment: Mapping[str, str], *, drives: bool
) -> Spelling:
    after = head[share.end() :]
    own = next((held for name, held in environment.items() if name.upper() == "COMPUTERNAME"), None)
    if share[1].lower() in _HERE or (own is not None and share[1].lower().partition(".")[0] == own.lower()):
        return _joined((), Text(drive(share[2], drives=drives) + after), *rest)
    if own is not None:
        return _joined((), Text(f"/|share|{share[1]}|{share[2]}${after}"), *rest)
    return _joined((), Hole(share[0]), Text(after), *rest)  # it may be this machine by a name of its own


def _on_drive(start: Spelling, root: str, rest: Spelling) -> Spelling:
    r"""Return ``C:x``: from the current directory of that drive, which is known of one drive only."""
    first = start[0] if start else Text("")
    if isinstance(first, Text) and (first.text.lower() + "/").startswith(root + "/"):
        return _joined(start, Text("/"), *rest)
    return _joined((), Text(root + "/"), Hole("the directory of the drive"), Text("/"), *rest)


def drive(letter: str, *, drives: bool) -> str:
    """Return the directory that a drive is."""
    return f"/{letter.lower()}" if drives else f"/mnt/{letter.lower()}"


def _drive_of(start: Spelling) -> str:
    first = start[0] if start else Text("")
    if isinstance(first, Text):
        if found := _MOUNTED.match(first.text):
            return found[0]
        if found := _LETTER.match(first.text):
            return found[0]
    return ""


def _joined(start: Spelling, *pieces: Piece) -> Spelling:
    return values.merged((*start, *pieces))


def spelled(path: Value) -> Value:
    """Return a path of this guard's as Windows writes it, for the text of a command."""
    found: list[Spelling] = []
    for pieces in path:
        first = pieces[0] if pieces else Text("")
        if isinstance(first, Text) and (letter := _MOUNTED.match(first.text) or _LETTER.match(first.text)):
            rest = (Text(f"{letter[1].upper()}:{first.text[letter.end() :] or '/'}"), *pieces[1:])
        else:
            rest = pieces
        found.append(tuple(Text(p.text.replace("/", "\\")) if isinstance(p, Text) else p for p in rest))
    return tuple(found)


def _globbed(pieces: Spelling) -> Spelling:
    """Return the pieces with `*` and `?` as patterns, which match a leading dot too, and ``*.*`` every name."""
    result: list[Piece] = []
    for piece in pieces:
        if not isinstance(piece, Text) or not re.search(r"[*?\[]", piece.text):
            if type(piece) is Pattern and (not result or _ends_name(result[-1])):
                result.append(Text(""))
            result.append(piece)
            continue
        for part in values.globbed(re.sub(r"(?<![^/])\*\.\*(?![^/])", "*", piece.text)):
            if type(part) is Pattern and (not result or _ends_name(result[-1])):
                result.append(Text(""))
            result.append(part)
    return tuple(result)


def _ends_name(piece: Piece) -> bool:
    return isinstance(piece, Text) and piece.text.endswith("/")


def name(component: Spelling) -> Spelling:
    r"""Return what a name of a path leads to on Windows: without dots and blanks at its end, without a stream's name.

    A short name such as ``PROGRA~1`` is a pattern of the names that may have it; a name of dots and blanks is open.
    """
    last = component[-1] if component else Text("")
    if isinstance(last, Text):
        text = last.text
        if len(component) == 1 and text in {"", ".", ".."}:
            return component
        text = _STREAM.sub("", text).rstrip(". ")
        if not text and len(component) == 1:
            return (Hole(last.text),) if last.text.strip(". ") == "" else ()
        if text != last.text:
            component = (*component[:-1], Text(text)) if text else component[:-1]
    if len(component) == 1 and isinstance(only := component[0], Text) and "~" in only.text:
        return _long(only.text)
    return component


def _long(text: str) -> Spelling:
    short = _SHORT.fullmatch(text)
    if short is None:
        return (Text(text),)
    stem, extension = short[1], short[2]
    hashed = re.fullmatch(r"(.{0,2})[0-9A-Fa-f]{4}", stem)
    pieces: list[Piece] = [Text("")]
    for character in hashed[1] if hashed else stem:
        # Blanks and dots are left out of a short name, and what DOS did not allow is an underscore there.
        pieces += [Pattern("*( |.)"), Pattern("?") if character == "_" else Text(character)]
    pieces.append(Pattern("*"))
    if extension:
        pieces += [Text("." + extension), Pattern("*")]
    return tuple(pieces)
