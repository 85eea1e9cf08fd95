"""uv's cache as it lies on the disk: of which distributions it holds something, and how much.

Owns: reading its names (uv 0.13: `wheels-v*/…/NAME/VERSION-TAGS`, `sdists-v*/…/NAME/VERSION`, `simple-v*/…/NAME.rkyv`).
Does not own: what is needed (ops.cache), nor what of it can still be reached, which uv itself says (`Uv.prune`). What
has none of these forms is left to uv. No link is followed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from perdure_pm.model.identity import normalise_distribution

_WHEEL = re.compile(r"(?P<version>[^-]+)(?:-\d[^-]*)?-[^-]+-[^-]+-[^-]+")
_BUCKETS = ("wheels-v", "sdists-v", "simple-v")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cached:
    """One entry of the cache."""

    path: Path
    name: str
    """The distribution, normalised."""
    version: str | None
    """As it is written there; None for what an index said of all versions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What lies in a cache: each file's inode with its size, and how many names it has here and in all."""

    inodes: dict[tuple[int, int], tuple[int, int, int]]

    def bytes(self) -> int:
        return sum(size for size, _, _ in self.inodes.values())

    def freed_since(self, before: Held) -> int:
        """Return the bytes that nothing holds any more: what a generation shares with the cache stays with that."""
        gone = (found for inode, found in before.inodes.items() if inode not in self.inodes)
        return sum(size for size, here, everywhere in gone if here == everywhere)


def find_buckets(root: Path) -> list[Path]:
    """Return the directories of the cache in which distributions have entries."""
    try:
        return sorted(path for path in root.iterdir() if path.name.startswith(_BUCKETS))
    except (FileNotFoundError, NotADirectoryError):
        return []


def find_cached(root: Path) -> Iterator[Cached]:
    """Return every entry of a distribution, in no order."""
    for bucket in find_buckets(root):
        for folder, folders, names in os.walk(bucket):
            here = Path(folder)
            if bucket.name.startswith("simple-v"):
                for name in names:
                    yield Cached(path=here / name, name=normalise_distribution(Path(name).stem), version=None)
            elif bucket.name.startswith("wheels-v"):
                for name in (*names, *folders):
                    found = _WHEEL.fullmatch(name)
                    if found is not None:
                        name_there = normalise_distribution(here.name)
                        yield Cached(path=here / name, name=name_there, version=found["version"])
            elif here.parent.name == "pypi" or here.parent.parent.name == "index":
                for name in folders:
                    yield Cached(path=here / name, name=normalise_distribution(here.name), version=name)
                folders.clear()


def measure(root: Path) -> Held:
    """Return what lies below `root`."""
    inodes: dict[tuple[int, int], tuple[int, int, int]] = {}
    for folder, _, names in os.walk(root):
        for name in names:
            try:
                status = os.lstat(os.path.join(folder, name))
            except OSError:
                continue
            inode = (status.st_dev, status.st_ino)
            here = inodes[inode][1] if inode in inodes else 0
            inodes[inode] = (status.st_size, here + 1, status.st_nlink)
    return Held(inodes=inodes)
