"""The files that a command would run, as they are now.

Owns: which of a command's words are files whose contents decide what happens, and their digests. Does not own: what
follows from a change (approvals.recheck). Keeps: operands-digested: a script that is named by a command is the one that
was looked at, or the command is not started.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import shutil
import stat
from collections.abc import Iterator, Mapping

from perdure.domain.effect import Act, Reading
from perdure.domain.operation import Digest, Operation

_MOST = 32
"""How many files are looked at."""
_MOST_BYTES = 16 << 20
"""Of a larger one the size and the time of its last change stand for the contents."""


def resolved(operation: Operation, reading: Reading, environment: Mapping[str, str]) -> Operation:
    """Return the operation with its program and the digests of its operands, as they are at this moment."""
    found = dict.fromkeys(_operands(operation, reading, environment))
    digests = tuple(digest for path in list(found)[:_MOST] if (digest := _digest(path)) is not None)
    executable = _program(operation.argv[0], operation.cwd, environment) if operation.argv else None
    return dataclasses.replace(operation, executable=executable, digests=digests)


def _operands(operation: Operation, reading: Reading, environment: Mapping[str, str]) -> Iterator[str]:
    """Yield the absolute paths that the words of what is run may name."""
    for effect in reading.effects:
        if effect.act is not Act.RUN:
            continue
        folders = [known for folder in effect.directories if (known := folder.known) is not None] or [operation.cwd]
        program = effect.operand.known
        if program is not None and (path := _program(program, operation.cwd, environment)) is not None:
            yield path
        for word in effect.arguments:
            text = word.known
            # An option may carry its file behind an equals sign.
            for part in (text, text.partition("=")[2]) if text else ():
                if part and "\0" not in part and len(part) < 4096:
                    yield from (os.path.normpath(os.path.join(operation.cwd, folder, part)) for folder in folders)


def _program(name: str, cwd: str, environment: Mapping[str, str]) -> str | None:
    if "\0" in name:
        return None
    if os.sep in name:
        return os.path.realpath(os.path.join(cwd, name))
    found = shutil.which(name, path=environment.get("PATH", os.defpath))
    return None if found is None else os.path.realpath(os.path.join(cwd, found))


def _digest(path: str) -> Digest | None:
    try:
        found = os.stat(path)
        if not stat.S_ISREG(found.st_mode):
            return None
        if found.st_size > _MOST_BYTES:
            mark = f"{found.st_dev}:{found.st_ino}:{found.st_size}:{found.st_mtime_ns}"
            return Digest(path=path, sha256=hashlib.sha256(mark.encode()).hexdigest())
        with open(path, "rb") as file:
            return Digest(path=path, sha256=hashlib.sha256(file.read()).hexdigest())
    except OSError:
        return Digest(path=path, sha256="") if os.path.lexists(path) else None
