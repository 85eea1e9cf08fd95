"""A look at what must still be there when a run is over.

Owns: which paths are looked at, which operations of PM replace each of them, what counts as damage, and the command
that repairs it. Does not own: when one looks (terminal), what is done about it (PM). Keeps: exec-damage-told: what a
run has damaged is told with its result, and what an operation of PM that writes there did meanwhile is no damage.

It is the last layer: a run got past the others. A few paths stand for the rest, since whatever takes an environment
away takes these too; every byte is for `perdure-pm doctor --deep`. Of a directory its entries count and not its time,
and byte code never does: Python writes that again.
"""

from __future__ import annotations

import json
import os
import shlex
import stat
import sys
import time
from collections.abc import Iterator, Sequence

from perdure.domain.json_value import JsonValue
from perdure.domain.record import dataclass
from perdure.installation import Installation

_BYTE_CODE = "__pycache__"
_PUBLISHING = frozenset(
    {
        *("install", "upgrade", "rollback", "repair", "confirm", "trial-judge", "collect"),
        *("plugin-add", "plugin-bisect", "plugin-disable", "plugin-enable", "plugin-remove", "plugin-update"),
    }
)
"""Operations of PM that may select another generation, each of which first ends what another one began."""
_OWN = frozenset({"install", "repair", "rescue", "self-rebuild", "self-rollback", "self-settle", "self-update"})
"""Operations that may select another runtime of PM; `up` in a checkout ends with an install."""
_MOST_LINKS = 40
_WROTE_NOTHING = frozenset({"noop", "refused"})
_CLOCK_SECONDS = 0.05
"""By how much the time of a file may be behind this process's clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentinel:
    """One path that is looked at before and after."""

    path: str
    what: str
    """What it is, for people."""
    by: frozenset[str] = frozenset()
    """The operations of PM that replace it."""
    goes: bool = False
    """Whether these may also have it gone."""
    follow: bool = False
    """Whether a link is followed; else the link itself is meant."""
    entries: bool = False
    """Whether the names in the directory count too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """One path that is not what it was."""

    path: str
    what: str
    how: str
    """``missing``, ``changed`` or ``entries missing``."""

    def to_json(self) -> dict[str, JsonValue]:
        """Return it for programs."""
        return {"path": self.path, "what": self.what, "how": self.how}

    def __str__(self) -> str:
        return f"{self.path} ({self.what}): {self.how}"


_Identity = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Seen:
    identity: _Identity
    names: frozenset[str]


class Sentinels:
    """The sentinels of one installation, as they were when a run began."""

    def __init__(self, installation: Installation, profile: str, *, prefix: str, code: str) -> None:
        """Look at them.

        Args:
            installation: what this process runs from.
            profile: the profile whose pointer counts.
            prefix: `sys.prefix`.
            code: the directory of the package `perdure`.
        """
        self._installation = installation
        self._receipts = os.path.join(installation.home, "receipts")
        self._began = time.time() - _CLOCK_SECONDS
        self._before = {
            sentinel: seen
            for sentinel in _sentinels(installation, profile, prefix, code)
            if (seen := _look(sentinel)) is not None
        }

    def __len__(self) -> int:
        return len(self._before)

    def damage(self) -> list[Damage]:
        """Return what is not as it was, though PM has not done it."""
        found: list[tuple[Sentinel, str]] = []
        for sentinel, before in self._before.items():
            now = _look(sentinel)
            if now is None:
                found.append((sentinel, "missing"))
            elif now.identity != before.identity:
                found.append((sentinel, "changed"))
            elif before.names - now.names:
                found.append((sentinel, "entries missing"))
        if any(sentinel.by for sentinel, _ in found):
            meanwhile = self._operations()
            found = [(sentinel, how) for sentinel, how in found if not _is_of_pm(sentinel, how, meanwhile)]
        return [Damage(path=sentinel.path, what=sentinel.what, how=how) for sentinel, how in found]

    def _operations(self) -> frozenset[str]:
        """Return the operations of PM that were at work since the start, or are, and may have written something."""
        found = set[str]()
        unfinished = {f"{name}.json" for name in _names(os.path.join(self._receipts, "unfinished"))}
        for name in _names(self._receipts):
            path = os.path.join(self._receipts, name)
            try:
                if name not in unfinished and os.stat(path).st_mtime < self._began:
                    continue
                with open(path, "rb") as file:
                    said = json.load(file)
                if said["status"] not in _WROTE_NOTHING:
                    found.add(str(said["operation"]))
            except (OSError, ValueError, LookupError, TypeError):
                continue  # what says nothing excuses nothing
        return frozenset(found)

    def repair(self, damage: Sequence[Damage]) -> str:
        """Return the command line that repairs it, which needs nothing of what is damaged."""
        installation = self._installation
        if installation.generation is None:
            return installation.pm_command()
        launcher = str(installation.pm_launcher)
        if all(each.path != launcher for each in damage):
            return installation.pm_command("repair")
        # The launcher is no help with itself: PM's seed is what it would have called.
        seed = installation.home / "pm" / "seed"
        try:
            digest = (seed / "current").read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError):
            return installation.pm_command()
        bootstrap = seed / digest / "pm" / "bootstrap.py"
        python = "py -3" if sys.platform == "win32" else "python3"
        return f"{python} -I {shlex.join([str(bootstrap), '--home', str(installation.home), 'rescue', 'repair'])}"


def _sentinels(installation: Installation, profile: str, prefix: str, code: str) -> Iterator[Sentinel]:
    home, launchers = str(installation.home), _PUBLISHING | _OWN
    yield Sentinel(path=str(installation.executable), what="the interpreter's link or file")
    yield Sentinel(path=os.path.realpath(installation.executable), what="the interpreter", follow=True)
    for link in _links(str(installation.executable)):
        yield Sentinel(path=link, what="a link on the way to the interpreter")
    yield Sentinel(path=os.path.join(prefix, "pyvenv.cfg"), what="what says which interpreter the environment is of")
    yield Sentinel(path=os.path.dirname(code), what="the installed packages", entries=True)
    yield Sentinel(path=os.path.join(code, "__init__.py"), what="the code of Perdure")
    if installation.generation is not None:
        yield Sentinel(path=str(installation.generation / "boot.json"), what="the list of plugins")
        yield Sentinel(path=str(installation.generation / "record.json"), what="what the generation contains")
        yield Sentinel(
            path=os.path.join(home, "profiles", profile, "current"), what="the profile's pointer", by=_PUBLISHING
        )
        yield Sentinel(path=os.path.join(home, "bin", "perdure"), what="the launcher of Perdure", by=launchers)
        yield Sentinel(path=str(installation.pm_launcher), what="the launcher of PM", by=_OWN)
        yield Sentinel(path=os.path.join(home, "pm", "current"), what="PM's pointer", by=_OWN)
        yield Sentinel(path=os.path.join(home, "pm", "seed", "current"), what="PM's seed", by=_OWN)
        yield from _uv(os.path.join(home, "tools", "uv"))
        yield Sentinel(path=os.path.join(home, "state"), what="the app's own state")


def _links(path: str) -> Iterator[str]:
    """Yield the links that a link leads over, which no mount of a jail can hold."""
    for _ in range(_MOST_LINKS):
        try:
            path = os.path.join(os.path.dirname(path), os.readlink(path))
        except OSError:
            return
        if os.path.islink(path):
            yield path


def _is_of_pm(sentinel: Sentinel, how: str, operations: frozenset[str]) -> bool:
    return bool(sentinel.by & operations) and (how == "changed" or (how == "missing" and sentinel.goes))


def _uv(folder: str) -> Iterator[Sentinel]:
    name = "uv.exe" if sys.platform == "win32" else "uv"
    for version in _names(folder):
        yield Sentinel(path=os.path.join(folder, version, name), what="the uv of PM", by=_OWN | _PUBLISHING, goes=True)


def _look(sentinel: Sentinel) -> _Seen | None:
    try:
        found = os.stat(sentinel.path) if sentinel.follow else os.lstat(sentinel.path)
    except (OSError, ValueError):
        return None
    if stat.S_ISDIR(found.st_mode):
        # Its time and size change with every entry, as with the byte code that Python puts beside a module.
        return _Seen((found.st_ino, found.st_mode), _names(sentinel.path) if sentinel.entries else frozenset())
    return _Seen((found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns), frozenset())


def _names(folder: str) -> frozenset[str]:
    try:
        return frozenset(os.listdir(folder)) - {_BYTE_CODE}
    except OSError:
        return frozenset()
