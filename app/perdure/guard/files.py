"""What an operation on files would do, as effects; and paths that say something else than they seem to.

Owns: which effects each operation has, given what the filesystem says of its paths. Does not own: looking at the
filesystem (tools/files), judging effects (judge), deciding (approvals). It is pure. Keeps: files-classified,
files-nt-names.

A link is its own entry: deleting or moving one acts on the link, reading and writing one acts on what it leads to, and
then both its name and that are looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from perdure.domain.effect import Act, Certainty, Effect, Reading, Span, Text, Word
from perdure.domain.operation import OperationKind
from perdure.domain.record import dataclass
from perdure.guard.late import late

_DEVICE = late(r"(?:\\\\|//)[?.](?:\\|/)|\\\?\?\\|/\?\?/")
_DRIVE = late(r"[A-Za-z]:")
_RESERVED = late(r"(?i)(?:con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]|conin\$|conout\$)(?:\..*)?")
_SHORT = late(r"(?i)[^\\/]{1,6}~[0-9]+(?:\.[^\\/]{0,3})?")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    """What the filesystem says of one path of an operation."""

    entry: str
    """Absolute, the directory without links; the entry itself may be one."""
    real: str
    """What it leads to."""
    directory: bool = False
    """Whether the entry itself is a directory."""
    role: str = "acts"
    """``acts``, or ``target`` for where something is moved to."""


def find_path_fault(path: str, *, drives: bool) -> str | None:
    """Return why a path is not what it seems to be, or None; asked before anything resolves it.

    Args:
        path: as it was given.
        drives: whether paths of this machine begin with the letter of a drive.
    """
    if not path:
        return "it is empty"
    if "\0" in path:
        return "it holds a NUL character"
    if _DEVICE.match(path):
        return "it is a name of the device namespace, which Windows resolves by other rules"
    if not drives:
        if _DRIVE.match(path) and path[2:3] in {"\\", "/"}:
            return "it is a path of Windows, and this is none"
        return "it is a share of Windows, and this is none" if path.startswith("\\\\") else None
    if path.startswith(("\\\\", "//")):
        return "it is on another machine"
    return _find_windows_fault(path)


def _find_windows_fault(path: str) -> str | None:
    rest = path[2:] if _DRIVE.match(path) else path
    if rest != path and rest[:1] not in {"\\", "/"}:
        return "it counts from the current directory of a drive, which cannot be told"
    for name in re.split(r"[\\/]", rest):
        if ":" in name:
            return f"{name} names a stream of a file, not a file"
        if name not in {".", ".."} and name != name.rstrip(". "):
            return f"Windows takes {name!r} for a name without the dots and blanks at its end"
        if _RESERVED.fullmatch(name):
            return f"{name} is a device, wherever it stands"
        if _SHORT.fullmatch(name):
            return f"{name} may be the short name of something else"
    return None


def file_reading(kind: OperationKind, facts: Sequence[FileFacts], *, cwd: str, by: str) -> Reading:
    """Return what an operation on files would do, in the form in which command lines are judged.

    Args:
        kind: what is done to them.
        facts: one for each path of the operation.
        cwd: the directory that the agent works in.
        by: the tool, as a person would name it.
    """
    effects = tuple(effect for fact in facts for effect in _effects(kind, fact, cwd, by))
    return Reading(reader="files", effects=effects)


_ACTS: dict[OperationKind, tuple[Act, bool]] = {
    OperationKind.FILE_READ: (Act.READ, True),
    OperationKind.FILE_WRITE: (Act.OVERWRITE, True),
    OperationKind.FILE_PATCH: (Act.CHANGE, True),
    OperationKind.FILE_MOVE: (Act.MOVE, False),
    OperationKind.FILE_DELETE: (Act.DELETE, False),
}
"""What each does to an entry, and whether a link there is followed."""


def _effects(kind: OperationKind, fact: FileFacts, cwd: str, by: str) -> Iterator[Effect]:
    act, follow = (Act.OVERWRITE, False) if fact.role == "target" else _ACTS[kind]
    # What is written through a link is a file of its own, with rules of its own.
    for path in dict.fromkeys((fact.entry, fact.real) if follow else (fact.entry,)):
        yield Effect(
            act=act,
            operand=Word(((Text(path),),)),
            directories=(Word(((Text(cwd),),)),),
            certainty=Certainty.DEFINITE,
            recursive=act is Act.DELETE and fact.directory,
            through_link=follow,
            by=by,
            span=Span(0, 0),
        )
