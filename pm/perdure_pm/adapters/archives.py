"""Unpacking an archive that someone else made, without letting it out of its directory.

Owns: which members are allowed, and their modes. Does not own: where an archive comes from, or its hash. A member
that is absolute, climbs out, goes through a link, is a device or a pipe, or a link that leads out, refuses the whole
archive.
Invariant: archive-stays-inside.
"""

from __future__ import annotations

import os
import posixpath
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO

from perdure_pm.adapters.filesystem import explained
from perdure_pm.model.errors import IntegrityFault

HINT = "register an archive whose members all lie inside it"


def unpack(
    archive: Path,
    target: Path,
    *,
    on_member: Callable[[], None] = lambda: None,
    max_bytes: int | None = None,
) -> None:
    """Have the members of a tar (plain, gz, bz2, xz) or zip file below `target`, a new directory.

    On an error, `target` is left half full; its owner removes it.

    Raises:
        IntegrityFault: it is no such file, is damaged, unpacks to more than `max_bytes`, or a member is not allowed;
            the member is named.
        NoSpace, HomeUnusable: it cannot be written.
    """
    with explained(target):
        target.mkdir()
        try:
            # In this order: a zip file is known by its end, which a tar file has too whose last member is one.
            if tarfile.is_tarfile(archive):
                _unpack_tar(archive, _Tree(target, max_bytes), on_member)
            elif zipfile.is_zipfile(archive):
                _unpack_zip(archive, _Tree(target, max_bytes), on_member)
            else:
                raise IntegrityFault(f"{archive.name} is neither a tar nor a zip file", hint=HINT)
        except (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, UnicodeError) as error:
            raise IntegrityFault(f"{archive.name} cannot be read as an archive: {error}", hint=HINT) from error
    # Link by link against what is really there now: a chain of harmless links can lead out where no single name does.
    root = os.path.realpath(target)
    for folder, folders, files in os.walk(target):
        for name in (*folders, *files):
            path = os.path.join(folder, name)
            if os.path.islink(path) and not _is_below(os.path.realpath(path), root):
                raise _refused(os.path.relpath(path, target), "a link that leads out of the archive")


def check_zip(archive: Path) -> None:
    """Return when no member of a zip file has a name that leads out of where somebody else will unpack it.

    Raises:
        IntegrityFault: one has, is no plain file or directory, or the file is no zip file; the member is named.
    """
    try:
        with zipfile.ZipFile(archive) as file:
            for member in file.infolist():
                name = member.orig_filename
                _split(name)
                if _kind(member) not in {stat.S_IFREG, stat.S_IFDIR}:
                    raise _refused(name, "a link, a device or something else that is no file")
    except (zipfile.BadZipFile, EOFError, OSError, UnicodeError) as error:
        raise IntegrityFault(f"{archive.name} cannot be read as an archive: {error}", hint=HINT) from error


class _Tree:
    """The directory that members go into, and what is in it so far."""

    def __init__(self, target: Path, max_bytes: int | None) -> None:
        self._target = target
        self._left = max_bytes
        self._files: set[str] = set()
        self._links: set[str] = set()

    def place(self, name: str) -> Path:
        """Return where the member `name` goes, its parent made; refuse a name that is not inside."""
        parts = _split(name)
        if any("/".join(parts[: end + 1]) in self._links for end in range(len(parts))):
            raise _refused(name, "a member behind a link")
        path = self._target.joinpath(*parts)
        (path if not parts else path.parent).mkdir(parents=True, exist_ok=True)
        return path

    def add_directory(self, name: str) -> None:
        self.place(name).mkdir(exist_ok=True)

    def add_file(self, name: str, source: IO[bytes], *, executable: bool) -> None:
        path = self._fresh(name)
        with path.open("xb") as file:
            # Counted as it comes: what a member says of its own size is only said.
            while block := source.read(1 << 20):
                if self._left is not None:
                    self._left -= len(block)
                    if self._left < 0:
                        raise _refused(name, "more bytes than are allowed, from")
                file.write(block)
        path.chmod(0o755 if executable else 0o644)
        self._files.add("/".join(_split(name)))

    def add_link(self, name: str, points_to: str) -> None:
        path = self._fresh(name)
        own = "/".join(_split(name))
        meant = posixpath.normpath(posixpath.join(posixpath.dirname(own), points_to))
        # By its words here; by what is really there when everything is unpacked.
        if not points_to or meant.startswith(("/", "..")) or "\\" in points_to or "\0" in points_to:
            raise _refused(name, "a link that leads out of the archive")
        path.symlink_to(points_to)
        self._links.add(own)

    def add_hard_link(self, name: str, other: str) -> None:
        key = "/".join(_split(other))
        if key not in self._files:
            raise _refused(name, "a hard link to something that is no file of the archive")
        path = self._fresh(name)
        shutil.copy(self._target / key, path)  # a copy: one name's file is never changed through another
        self._files.add("/".join(_split(name)))

    def _fresh(self, name: str) -> Path:
        path = self.place(name)
        if os.path.lexists(path):
            raise _refused(name, "a second member of that name")
        return path


def _unpack_tar(archive: Path, tree: _Tree, on_member: Callable[[], None]) -> None:
    with tarfile.open(archive) as file:
        for member in file:
            on_member()
            if member.isdir():
                tree.add_directory(member.name)
            elif member.isreg():
                source = file.extractfile(member)
                if source is None:
                    raise _refused(member.name, "a member without contents")
                tree.add_file(member.name, source, executable=bool(member.mode & 0o111))
            elif member.issym():
                tree.add_link(member.name, member.linkname)
            elif member.islnk():
                tree.add_hard_link(member.name, member.linkname)
            else:
                raise _refused(member.name, "a device, a pipe or something else that is no file")


def _kind(member: zipfile.ZipInfo) -> int:
    """Return the type bits of a member; what a zip file's maker did not say is a plain file."""
    return stat.S_IFMT(member.external_attr >> 16) or (stat.S_IFDIR if member.is_dir() else stat.S_IFREG)


def _unpack_zip(archive: Path, tree: _Tree, on_member: Callable[[], None]) -> None:
    with zipfile.ZipFile(archive) as file:
        for member in file.infolist():
            on_member()
            mode, kind = member.external_attr >> 16, _kind(member)
            # ZipInfo cleans names by the rules of this platform; the archive's own word counts here.
            name = member.orig_filename
            try:
                if member.is_dir():
                    tree.add_directory(name)
                elif kind == stat.S_IFREG:
                    with file.open(member) as source:
                        tree.add_file(name, source, executable=bool(mode & 0o111))
                elif kind == stat.S_IFLNK:
                    tree.add_link(name, file.read(member).decode("utf-8"))
                else:
                    raise _refused(name, "a device, a pipe or something else that is no file")
            except (NotImplementedError, RuntimeError) as error:
                raise _refused(name, f"a member that cannot be read ({error})") from error


def _split(name: str) -> list[str]:
    """Return the parts of a member's name, or refuse it."""
    if name.startswith("/") or "\\" in name or "\0" in name or ":" in name.partition("/")[0]:
        raise _refused(name, "an absolute name")
    parts = [part for part in name.split("/") if part not in {"", "."}]
    if ".." in parts:
        raise _refused(name, "a name that climbs out of the archive")
    return parts


def _is_below(path: str, root: str) -> bool:
    return path == root or path.startswith(root + os.sep)


def _refused(name: str, what: str) -> IntegrityFault:
    return IntegrityFault(f"the archive has {what}: {name!r}", hint=HINT, context={"member": name})
