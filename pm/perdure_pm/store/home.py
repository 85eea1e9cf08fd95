"""Whether a path can be a home, asked before anything is written.

Owns: resolving the path and the refusals. Does not own: what is written then. Keeps: root never leaves files in another
user's home; a home that cannot work is refused in one sentence that names the path.

Standard library only, Python 3.9: bootstrap asks the same.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from perdure_pm.model.errors import HomeForeign, HomeUnusable
from perdure_pm.store.layout import Layout
from perdure_pm.store.reading import open_regular

LAUNCHER_MARK = b"Written by perdure-pm"
"""What the first lines of every launcher say."""


def resolve_home(path: str | os.PathLike[str]) -> Path:
    """Return the real path of a home that is named relatively, or through links, also where it does not exist yet."""
    return Path(os.path.realpath(os.path.abspath(path)))


def check_home(layout: Layout) -> None:
    """Do nothing where this user can make and change this home; nothing is written to find out.

    Raises:
        HomeForeign: root would write into another user's home.
        HomeUnusable: the home, or where it is to be made, is no directory, cannot be written, cannot be on a PATH, or
            is a place of other things.
    """
    home = layout.home
    if home == home.parent:
        raise _unusable(home, "is the root of a filesystem, not a directory of PM's own")
    try:
        str(home).encode()
    except UnicodeEncodeError:
        raise _unusable(home, "is not UTF-8, and uv takes no other paths") from None
    if os.path.islink(home) and not os.path.exists(home):
        raise _unusable(home, f"is a link to {os.readlink(home)}, which does not exist")
    if os.pathsep in str(home):
        raise _unusable(home, f"holds {os.pathsep!r}, and so its commands could not be found through PATH")
    nearest = home
    while not os.path.lexists(nearest) and nearest != nearest.parent:
        nearest = nearest.parent
    try:
        status = os.stat(nearest)
    except OSError as error:
        raise _unusable(nearest, f"cannot be looked at: {error.strerror or error}") from error
    if not stat.S_ISDIR(status.st_mode):
        raise _unusable(nearest, "is not a directory")
    _refuse_foreign(home, nearest, status.st_uid)
    effective = os.access in os.supports_effective_ids
    if not os.access(nearest, os.W_OK | os.X_OK, effective_ids=effective):
        raise _unusable(nearest, "cannot be written by this user")
    _refuse_foreign_commands(layout)


def check_written(layout: Layout) -> None:
    """Do nothing where this user can change this home, and PM's first writes would not go through a link.

    Raises:
        HomeForeign, HomeUnusable: see `check_home`; or a link stands where PM makes a directory.
    """
    check_home(layout)
    for folder in (layout.bin, layout.receipts, layout.unfinished, layout.cache, layout.scratch, layout.pm):
        if os.path.islink(folder):
            raise HomeUnusable(
                f"{folder} is a link, and PM makes none there: nothing is written through it",
                hint=f"remove the link {folder}, or put what it leads to in its place; then run the same command again",
                context={"path": str(folder)},
            )


def is_launcher(path: Path) -> bool:
    """Return whether PM wrote the file at `path` as a launcher."""
    try:
        with open_regular(path) as file:
            return LAUNCHER_MARK in file.read(512)
    except OSError:
        return False


def _refuse_foreign_commands(layout: Layout) -> None:
    """Refuse to become the home of a directory that has commands of these names; later they are PM's, to be mended."""
    if os.path.lexists(layout.runtime_pointer):
        return
    for name in ("perdure-pm", "perdure"):
        path = layout.bin / name
        if os.path.lexists(path) and not is_launcher(path):
            raise _unusable(path, "is there already, and PM did not write it")


def _refuse_foreign(home: Path, nearest: Path, owner: int) -> None:
    if not hasattr(os, "geteuid") or os.geteuid() != 0 or owner == 0:
        return
    name = _user_name(owner)
    raise HomeForeign(
        f"root must not change {home}: {nearest} belongs to {name}",
        hint=f"run the same command as {name}, or choose another home with --home DIR",
        context={"path": str(nearest), "owner": owner},
    )


def _user_name(number: int) -> str:
    try:
        import pwd

        return pwd.getpwuid(number).pw_name
    except (ImportError, KeyError):
        return f"the user with the number {number}"


def _unusable(path: Path, reason: str) -> HomeUnusable:
    return HomeUnusable(
        f"{path} {reason}", hint="choose another home with --home DIR, or correct that", context={"path": str(path)}
    )
