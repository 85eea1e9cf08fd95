"""Refuses what a plugin in this process would do to what Perdure runs from.

The interpreter tells an audit hook (PEP 578) of every file that is opened and of every name that is removed, renamed or
linked, before it happens. This one lets everything pass but writing at protected roots, which raises `ProtectedPath`
where the plugin can see it. Once it is there it cannot be taken away, and nothing of the environment decides about it.

Owns: which events count, and comparing their paths with the roots. Does not own: the roots (guard.roots), who of the
app may write there (own_writers), starting programs, which are left alone here. Keeps: audit-roots-refused,
audit-others-free, exec-layers-fast.

It catches mistakes, not malice: ctypes, extension modules and other processes are not seen, nor is a hard link that
was made before, by which a file has another name elsewhere.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FrameType
from typing import TYPE_CHECKING

from perdure.domain.record import dataclass
from perdure.installation import Installation
from perdure.own_writers import current_writer

if TYPE_CHECKING:
    from perdure.guard.roots import Root

_WRITE = os.O_WRONLY | os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_TRUNC
_KEPT_SECONDS = 1.0
_STANDARD_LIBRARY = os.path.dirname(os.__file__) + os.sep


class ProtectedPath(PermissionError):
    """Something that Perdure runs from, or is repaired with, would be harmed; nothing was done."""

    def __init__(self, summary: str, path: str) -> None:
        """Say what would have happened; `filename` is the path."""
        super().__init__(errno.EPERM, summary, path)
        self.summary = summary

    def __str__(self) -> str:
        return self.summary


@dataclass(frozen=True, slots=True)
class _Operand:
    path: object
    """What the event has: text, bytes, a descriptor, or None."""
    folder: object = -1
    """The descriptor of the directory that a relative path counts from; -1 for the current one."""
    follow: bool = False
    """Whether a link at the path is followed."""
    whole: bool = False
    """Whether everything below it is meant too."""


@dataclass(frozen=True, slots=True)
class _Event:
    verb: str
    operands: Callable[[Sequence[object]], tuple[_Operand, ...]]


def _one(*, follow: bool = False, whole: bool = False, folder: int | None = None) -> Callable[..., tuple[_Operand]]:
    def operands(given: Sequence[object]) -> tuple[_Operand]:
        return (_Operand(given[0], -1 if folder is None else given[folder], follow, whole),)

    return operands


def _made(given: Sequence[object]) -> tuple[_Operand, ...]:
    """Return what would come to be: nothing where something is there already, which the caller is told anyway."""
    made = _Operand(given[0], given[2])
    return () if any(map(os.path.lexists, _resolved(made))) else (made,)


_EVENTS: dict[str, _Event] = {
    "os.remove": _Event("delete", _one(folder=1)),
    "os.rmdir": _Event("delete", _one(folder=1)),
    "os.rename": _Event(
        "move or replace", lambda given: (_Operand(given[0], given[2], whole=True), _Operand(given[1], given[3]))
    ),
    # Another name of a protected file is a way to write it.
    "os.link": _Event("link", lambda given: (_Operand(given[0], given[2], follow=True), _Operand(given[1], given[3]))),
    "os.symlink": _Event("make a link at", lambda given: (_Operand(given[1], given[2]),)),
    "os.mkdir": _Event("make a directory at", _made),
    "os.truncate": _Event("truncate", _one(follow=True)),
    "os.setxattr": _Event("change the attributes of", _one(follow=True)),
    "os.removexattr": _Event("change the attributes of", _one(follow=True)),
    "os.chmod": _Event("change the mode of", _one(follow=True, folder=2)),
    "os.chown": _Event("change the owner of", _one(follow=True, folder=3)),
    "os.chflags": _Event("change the flags of", _one(follow=True)),
    "shutil.rmtree": _Event("delete", lambda given: (_Operand(given[0], given[1] if given[1:2] else -1, whole=True),)),
    "shutil.move": _Event("move", lambda given: (_Operand(given[0], whole=True), _Operand(given[1]))),
}
"""What is looked at besides `open`, by the names that the interpreter gives its events."""


class _Roots:
    """The roots of the moment, ready to be compared with."""

    def __init__(self, roots: Sequence[Root], *, case_sensitive: bool) -> None:
        self._fold: Callable[[str], str] = str if case_sensitive else str.casefold
        self._own: dict[str, Root] = {}
        self._above: dict[str, Root] = {}
        for root in roots:
            for form in dict.fromkeys((os.path.normpath(root.path), _entry(root.path))):
                self._own.setdefault(self._fold(form), root)
                for above in _ancestors(form):
                    self._above.setdefault(self._fold(above), root)

    def find(self, path: str, *, whole: bool) -> tuple[Root, str] | None:
        """Return the root that is met, and how where it is not the path itself; None for none."""
        folded = self._fold(path)
        if (root := self._own.get(folded)) is not None:
            return root, ""
        for above in _ancestors(folded):
            if (root := self._own.get(above)) is not None:
                return root, "lies in"
        if whole and (root := self._above.get(folded)) is not None:
            return root, "contains"
        return None


class _Hook:
    def __init__(self, installation: Installation, plugins: Mapping[str, str]) -> None:
        self._installation = installation
        self._plugins = plugins
        self._kept: tuple[float, tuple[str, ...], tuple[int | None, ...], _Roots] | None = None

    def __call__(self, event: str, given: Sequence[object]) -> None:
        if event == "open":
            # Almost every call ends here: something is opened for reading.
            path, mode, flags = given
            if not isinstance(flags, int) or not flags & _WRITE or isinstance(path, int):
                return
            verb, operands = "write", _opened(path, mode, flags)
        elif (known := _EVENTS.get(event)) is not None:
            verb, operands = known.verb, known.operands(given)
        else:
            return
        for operand in operands:
            self._check(verb, operand)

    def _check(self, verb: str, operand: _Operand) -> None:
        for path in _resolved(operand):
            # Python writes byte code again, also while this imports what it needs.
            if f"{os.sep}__pycache__{os.sep}" in path + os.sep or path.endswith((".pyc", ".pyo")):
                continue
            met = self._roots().find(path, whole=operand.whole)
            if met is not None and not self._is_own(path):
                root, how = met
                place = f", which {how} {root.path}" if how else ""
                raise ProtectedPath(
                    f"{self._who()} may not {verb} {path}{place} ({root.why}): keep files elsewhere; what Perdure runs "
                    f"from is changed by PM alone: {self._installation.pm_command('--help')}",
                    path,
                )

    def _is_own(self, path: str) -> bool:
        writer = current_writer()
        if writer is None:
            return False
        home = os.path.realpath(self._installation.home)
        return path.startswith(home + os.sep) and writer.may_write(path[len(home) + 1 :].replace(os.sep, "/"))

    def _roots(self) -> _Roots:
        """Return the roots of this moment: PM may switch generations while this process runs."""
        from perdure.guard.probe import Machine
        from perdure.guard.roots import protected_roots, watched
        from perdure.origin import origin_of

        probe, now = Machine(), time.monotonic()
        if (kept := self._kept) is not None:
            at, places, stamps, roots = kept
            if now - at < _KEPT_SECONDS and stamps == tuple(map(probe.changed, places)):
                return roots
        origin = origin_of(self._installation)
        places = watched(origin, probe)
        stamps = tuple(map(probe.changed, places))
        roots = _Roots(protected_roots(origin, probe), case_sensitive=probe.case_sensitive)
        self._kept = now, places, stamps, roots
        return roots

    def _who(self) -> str:
        """Return whose code it is, as a sentence begins: the plugin where one is known, else the module."""
        module = "the code of this process"
        for frame in _frames(sys._getframe()):  # noqa: SLF001  # the one way to know who called
            name = str(frame.f_globals.get("__name__", "?"))
            if (plugin := self._plugins.get(name.partition(".")[0])) is not None:
                return f"plugin {plugin}"
            file = frame.f_code.co_filename
            own = name.startswith(("perdure.", "importlib.")) or file.startswith((_STANDARD_LIBRARY, "<frozen"))
            if module == "the code of this process" and not own:
                module = f"module {name} ({file}:{frame.f_lineno})"
        return module


_installed: list[_Hook] = []


def install(installation: Installation, plugins: Mapping[str, str]) -> None:
    """Have the protected roots refused to whatever runs in this process from now on.

    Args:
        installation: what this process runs from.
        plugins: the plugins by their top-level modules, for messages.
    """
    if not _installed:
        hook = _Hook(installation, plugins)
        _installed.append(hook)
        sys.addaudithook(hook)


def is_installed() -> bool:
    """Return whether the hook is there."""
    return bool(_installed)


def _opened(path: object, mode: object, flags: int) -> tuple[_Operand, ...]:
    """Return what an event `open` may mean: of `os.open` it does not say which directory a path counts from."""
    follow = not flags & getattr(os, "O_NOFOLLOW", 0)
    own = _Operand(path, follow=follow)
    if mode is not None or not isinstance(path, str | bytes) or os.path.isabs(path):
        return (own,)
    return own, *(_Operand(path, number, follow=follow) for number in _held_directories())


def _held_directories() -> Iterator[int]:
    """Yield the descriptors of the directories that this process has open."""
    try:
        names = os.listdir("/proc/self/fd" if sys.platform == "linux" else "/dev/fd")
    except OSError:
        return
    for name in names:
        with contextlib.suppress(OSError, ValueError):  # the one that the list was read with is closed by now
            if stat.S_ISDIR(os.fstat(int(name)).st_mode):
                yield int(name)


def _resolved(operand: _Operand) -> Iterator[str]:
    """Yield the path as an entry of its directory, and what it leads to where it is followed."""
    if isinstance(operand.path, int):
        named = _path_of(operand.path)
    elif operand.path is None:
        named = os.curdir
    else:
        named = os.fsdecode(operand.path)  # type: ignore[arg-type]  # an event has a path where it has no descriptor
    if named is None:
        return
    if isinstance(operand.folder, int) and operand.folder != -1 and not os.path.isabs(named):
        folder = _path_of(operand.folder)
        if folder is None:
            return
        named = os.path.join(folder, named)
    try:
        entry = _entry(named)
    except OSError:
        return  # relative, and the current directory is gone
    yield entry
    if operand.follow and (real := os.path.realpath(entry)) != entry:
        yield real


def _entry(path: str) -> str:
    """Return the absolute path of an entry, its directory without links; the entry itself may be one."""
    folder, name = os.path.split(os.path.abspath(path) if os.pardir not in path else _absolute(path))
    if name in {"", os.curdir, os.pardir}:
        return os.path.realpath(os.path.join(folder, name))
    return os.path.join(os.path.realpath(folder), name)


def _absolute(path: str) -> str:
    # What `..` leads to is the filesystem's to say, where a link stands before it.
    return path.rstrip("/") if os.path.isabs(path) else os.path.join(os.getcwd(), path.rstrip("/"))


def _path_of(descriptor: int) -> str | None:
    try:
        if sys.platform == "darwin":
            import fcntl

            return fcntl.fcntl(descriptor, fcntl.F_GETPATH, bytes(1024)).rstrip(b"\0").decode()
        found = os.readlink(f"/proc/self/fd/{descriptor}")
    except (OSError, ValueError):
        return None
    return found if os.path.isabs(found) else None


def _ancestors(path: str) -> Iterator[str]:
    """Yield the directories above a path, the nearest first."""
    while (above := os.path.dirname(path)) != path:
        yield above
        path = above


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back
