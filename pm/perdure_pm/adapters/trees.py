"""Source trees that people edit: looked at with distrust, and copied without what no copy should hold.

Owns: what of a tree counts (no VCS data, environments, caches, builds), which members refuse it, its digest, the copy.
Does not own: what the tree is (ops.plugin_project), where a copy goes (ops.snapshots). The tree itself is only read.

Keeps: snapshot-stays-inside: a link that leaves the tree, a pipe, a device or a socket refuses it by name; no link is
followed.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
import shutil
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from perdure_pm.adapters.filesystem import explained
from perdure_pm.model.errors import SourceUnusable
from perdure_pm.store.inventory import hash_file

MAX_BYTES = 256 << 20
MAX_MEMBERS = 50_000
"""More than this is no plugin but a directory that was named by mistake."""

LEFT_OUT = frozenset(
    {
        *(".git", ".hg", ".svn", ".bzr", ".jj", "_darcs", "CVS"),
        *("__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis", ".ipynb_checkpoints"),
        *(".venv", ".tox", ".nox", ".eggs", "node_modules", ".idea", ".vscode", ".DS_Store", ".coverage", "htmlcov"),
    }
)
"""Names that are left out wherever they stand."""
LEFT_OUT_ON_TOP = frozenset({"build", "dist", "venv", "env", ".env"})
"""Names that are left out at the top only: below, a package may have them."""
_SUFFIXES = (".pyc", ".pyo", ".egg-info")
_MARKS = ("pyvenv.cfg", "CACHEDIR.TAG")
"""Files that say that their directory is an environment, or a cache."""


@dataclass(frozen=True, slots=True)
class Member:
    """One file or link of a tree."""

    path: str
    """From the top, with forward slashes."""
    kind: str
    """``file``, ``program`` (a file that may be executed) or ``link``."""
    content: str
    """A file's sha256 in hex, or where a link leads."""


def read_tree(root: Path, *, on_member: Callable[[], None] = lambda: None) -> tuple[Member, ...]:
    """Return the members of the tree at `root` that count, sorted by path.

    Raises:
        SourceUnusable: it cannot be read, is too large, or holds what no copy can hold; the member is named.
    """
    found: list[Member] = []
    size = 0
    for path, relative, status in _walk(root, ""):
        on_member()
        if stat.S_ISLNK(status.st_mode):
            found.append(Member(relative, "link", _require_inside(root, path, relative)))
            continue
        if not stat.S_ISREG(status.st_mode):
            raise _refused(root, relative, "is a pipe, a socket or a device, and no file")
        size += status.st_size
        if size > MAX_BYTES or len(found) >= MAX_MEMBERS:
            raise SourceUnusable(
                f"{root} holds more than {MAX_BYTES >> 20} MiB or {MAX_MEMBERS} files: no plugin is as large",
                hint="name the plugin's own directory, or move data and environments out of it",
                context={"path": str(root), "bytes": size, "files": len(found)},
            )
        try:
            content = hash_file(path)
        except OSError as error:
            raise _refused(root, relative, f"cannot be read: {error.strerror or error}") from error
        found.append(Member(relative, "program" if status.st_mode & 0o111 else "file", content))
    return tuple(sorted(found, key=lambda member: member.path))


def digest_tree(members: Sequence[Member]) -> str:
    """Return one sha256 in hex over the names, kinds and contents of members."""
    digest = hashlib.sha256()
    for member in members:
        name, content = os.fsencode(member.path), os.fsencode(member.content)
        digest.update(b"%d %s %s %d %s\n" % (len(name), name, member.kind.encode(), len(content), content))
    return digest.hexdigest()


def copy_tree(root: Path, members: Sequence[Member], target: Path) -> None:
    """Have the members of the tree at `root` below `target`, a new directory.

    Raises:
        SourceUnusable: a member is not there any more.
        NoSpace, HomeUnusable: it cannot be written.
    """
    with explained(target):
        target.mkdir(parents=True)
        for member in members:
            path = target / member.path
            path.parent.mkdir(parents=True, exist_ok=True)
            if member.kind == "link":
                path.symlink_to(member.content)
                continue
            try:
                source = (root / member.path).open("rb")
            except OSError as error:
                raise _refused(root, member.path, f"cannot be read: {error.strerror or error}") from error
            with source, path.open("xb") as file:
                shutil.copyfileobj(source, file, 1 << 20)
            path.chmod(0o755 if member.kind == "program" else 0o644)


def _walk(root: Path, below: str) -> Iterator[tuple[Path, str, os.stat_result]]:
    try:
        names = sorted(os.listdir(root / below))
    except OSError as error:
        raise _refused(root, below or ".", f"cannot be read: {error.strerror or error}") from error
    if below and any(mark in names for mark in _MARKS):
        return
    for name in names:
        if name in LEFT_OUT or name.endswith(_SUFFIXES) or (not below and name in LEFT_OUT_ON_TOP):
            continue
        relative = posixpath.join(below, name)
        path = root / relative
        try:
            status = path.lstat()
        except OSError as error:
            raise _refused(root, relative, f"cannot be read: {error.strerror or error}") from error
        if stat.S_ISDIR(status.st_mode):
            yield from _walk(root, relative)
        else:
            yield path, relative, status


def _require_inside(root: Path, path: Path, relative: str) -> str:
    """Return where a link leads, or refuse it: by its words, and by what is really there."""
    target = os.readlink(path)
    meant = posixpath.normpath(posixpath.join(posixpath.dirname(relative), target.replace(os.sep, "/")))
    real, top = os.path.realpath(path), os.path.realpath(root)
    if (
        os.path.isabs(target)
        or meant == ".."
        or meant.startswith("../")
        or not (real + os.sep).startswith(top + os.sep)
    ):
        raise _refused(root, relative, f"is a link that leaves the directory, to {target}")
    return target


def _refused(root: Path, relative: str, what: str) -> SourceUnusable:
    return SourceUnusable(
        f"{root / relative} {what}",
        hint="put a plain file in its place, or take it out of the plugin's directory",
        context={"path": str(root / relative)},
    )
