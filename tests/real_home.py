"""The guard that keeps tests away from what a person has.

Owns: which places of the real user are off limits, the audit hook that refuses them, and the scratch environment that
takes their place; also that no directory which everybody shares, the one for temporary files and those above it,
changes its mode. Does not own: pytest's hooks (conftest). Standard library only.

What the hook cannot see is a child process; children are kept away by the environment they inherit, and a comparison
of the guarded places before and after the run tells of one that went there all the same.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, MutableMapping
from pathlib import Path

CARRIED = "TESTS_REAL_HOME"
"""Carries the real user's places to the processes of pytest-xdist, which start with the scratch environment."""

KEPT_FOR_NETWORK = (
    "PERDURE_INDEX_URL",
    "PERDURE_PROXY",
    "PERDURE_CERTIFICATE",
    "PERDURE_WHEELHOUSE",
    "PERDURE_OFFLINE",
    "PERDURE_PYTHON_DOWNLOADS",
)
"""How this machine reaches an index: tests that really fetch get these through the fixture `network_environment`."""

_DROPPED_PREFIXES = ("PERDURE_", "UV_", "PIP_")
_DROPPED = ("VIRTUAL_ENV", "CONDA_PREFIX", "FORCE_COLOR", "CLICOLOR_FORCE", "NO_COLOR", "XDG_RUNTIME_DIR")

_WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

# Audit events, and which of their arguments are paths that are changed or listed.
_PATH_EVENTS = {
    "os.chmod": (0,),
    "os.chown": (0,),
    "os.listdir": (0,),
    "os.mkdir": (0,),
    "os.remove": (0,),
    "os.rmdir": (0,),
    "os.scandir": (0,),
    "os.truncate": (0,),
    "os.utime": (0,),
    "shutil.rmtree": (0,),
    "os.link": (0, 1),
    "os.rename": (0, 1),
    "os.symlink": (1,),
}
_READING_EVENTS = {"os.listdir", "os.scandir"}
_MODE_EVENTS = {"os.chmod", "os.chown"}
# Where the event carries directory descriptors, they follow the paths (chmod and mkdir have a mode in between).
_DESCRIPTORS = {
    "os.chmod": (2,),
    "os.chown": (3,),
    "os.mkdir": (2,),
    "os.remove": (1,),
    "os.rmdir": (1,),
    "os.utime": (3,),
    "os.link": (2, 3),
    "os.rename": (2, 3),
    "os.symlink": (2,),
    "shutil.rmtree": (1,),
}


class RealHomeTouched(RuntimeError):
    """A test reached for something that belongs to the person who runs it."""


class Places:
    """What belongs to the real user: roots that must not be touched at all, and roots that must not be written."""

    def __init__(self, untouchable: list[str], unwritable: list[str], user_home: str) -> None:
        self.untouchable = untouchable
        self.unwritable = unwritable
        self.user_home = user_home

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Places:
        """Return the places of the user whose environment this is, or those that an outer process carried over."""
        if CARRIED in environ:
            return cls(**json.loads(environ[CARRIED]))
        home = os.path.expanduser("~")
        data = environ.get("XDG_DATA_HOME") or os.path.join(home, ".local", "share")
        untouchable = [
            environ.get("PERDURE_HOME", ""),
            os.path.join(data, "perdure"),
            os.path.join(home, ".local", "share", "perdure"),
            os.path.join(home, "Library", "Application Support", "perdure"),
            os.path.join(environ.get("LOCALAPPDATA") or os.path.join(home, "AppData", "Local"), "perdure"),
        ]
        unwritable = [
            os.path.join(environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config"), "uv"),
            os.path.join(home, ".config", "uv"),
            os.path.join(home, ".local", "bin"),
            os.path.join(data, "uv"),
        ]
        return cls(_with_targets(untouchable), _with_targets(unwritable), home)

    def to_json(self) -> str:
        """Return what `of` reads back in a child process."""
        return json.dumps({"untouchable": self.untouchable, "unwritable": self.unwritable, "user_home": self.user_home})

    def contents(self) -> dict[str, list[str] | None]:
        """Return the names directly inside each place: what a stray child process would have changed."""
        found: dict[str, list[str] | None] = {}
        for root in self.untouchable + self.unwritable:
            try:
                found[root] = sorted(os.listdir(root))
            except OSError:
                found[root] = None
        shared = tempfile.gettempdir()
        found[shared] = [f"mode {os.stat(shared).st_mode & 0o7777:04o}"]
        return found


class Guard:
    """The audit hook; hooks cannot be removed, so it is switched on and off."""

    def __init__(self, places: Places, shared: str | None = None) -> None:
        """Guard the places, and the mode of `shared` (the directory for temporary files) and what lies above it."""
        self.places = places
        self.touched: list[str] = []
        """Every refusal, for code that swallows exceptions."""
        self.active = False
        # `bootstrap.py test` runs pytest from an environment inside the home, with an interpreter that may lie there.
        uv = os.environ.get("PERDURE_TEST_UV", "")
        everybodys = Path(os.path.realpath(shared or tempfile.gettempdir()))
        self._shared = {str(folder) for folder in (everybodys, *everybodys.parents)}
        self._own = _with_targets([sys.prefix, sys.base_prefix, sys.exec_prefix, os.path.dirname(uv) if uv else ""])

    def install(self) -> None:
        """Start to refuse."""
        self.active = True
        sys.addaudithook(self._hook)

    @contextlib.contextmanager
    def off(self) -> Iterator[None]:
        """Allow everything for a moment: for the guard's own look at the guarded places."""
        self.active = False
        try:
            yield
        finally:
            self.active = True

    def _hook(self, event: str, arguments: tuple[object, ...]) -> None:
        if not self.active:
            return
        if event == "open":
            path, mode, flags = arguments[0], arguments[1], arguments[2]
            writes = bool(isinstance(flags, int) and flags & _WRITE_FLAGS) or (
                isinstance(mode, str) and any(letter in mode for letter in "wax+")
            )
            self._judge(event, path, None, writes=writes)
        elif event in _PATH_EVENTS:
            descriptors = _DESCRIPTORS.get(event, ())
            for position, index in enumerate(_PATH_EVENTS[event]):
                place = descriptors[position] if position < len(descriptors) else None
                descriptor = arguments[place] if place is not None and place < len(arguments) else None
                self._judge(event, arguments[index], descriptor, writes=event not in _READING_EVENTS)
        elif event == "subprocess.Popen":
            environment = arguments[3]
            if isinstance(environment, Mapping) and environment.get("HOME") == self.places.user_home:
                self._refuse("a child process was given the real HOME")

    def _judge(self, event: str, raw: object, descriptor: object, *, writes: bool) -> None:
        path = _absolute(raw, descriptor)
        if path is None or _below(path, self._own):
            return
        if event in _MODE_EVENTS and os.path.realpath(path) in self._shared:
            self._refuse(f"{event} on {path}, which everybody shares")
        if _below(path, self.places.untouchable) or (writes and _below(path, self.places.unwritable)):
            self._refuse(f"{event} on {path}")

    def _refuse(self, what: str) -> None:
        self.touched.append(what)
        raise RealHomeTouched(f"a test touched what is not its own: {what}; use tmp_path and the scratch environment")


def enter_scratch_environment(environ: MutableMapping[str, str], scratch: Path) -> None:
    """Point everything that names a user's place to `scratch`, and drop what would change what tests see."""
    for name in list(environ):
        if name.startswith(_DROPPED_PREFIXES) and not name.startswith("PERDURE_TEST_"):
            del environ[name]
    for name in _DROPPED:
        environ.pop(name, None)
    for name, place in {
        "HOME": "home",
        "USERPROFILE": "home",
        "LOCALAPPDATA": "local",
        "APPDATA": "roaming",
        "XDG_DATA_HOME": "data",
        "XDG_CONFIG_HOME": "config",
        "XDG_CACHE_HOME": "cache",
        "XDG_STATE_HOME": "xdg-state",
        "PERDURE_HOME": "perdure-home",
    }.items():
        environ[name] = str(scratch / place)
    (scratch / "home").mkdir(parents=True, exist_ok=True)
    environ["PATH"] = path_without_perdure(environ.get("PATH", os.defpath), scratch)


def path_without_perdure(path: str, scratch: Path) -> str:
    """Return `path` with an installed Perdure hidden.

    A directory that holds one is replaced by a directory of links to everything else in it: it may be /usr/bin.
    """
    entries = []
    for number, entry in enumerate(path.split(os.pathsep)):
        names = _names(entry)
        if any(name.lower().startswith("perdure") for name in names):
            replacement = scratch / f"path-{number}"
            replacement.mkdir(parents=True, exist_ok=True)
            for name in names:
                link = replacement / name
                if not name.lower().startswith("perdure") and not os.path.lexists(link):
                    link.symlink_to(os.path.join(entry, name))
            entries.append(str(replacement))
        else:
            entries.append(entry)
    return os.pathsep.join(entries)


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _with_targets(paths: list[str]) -> list[str]:
    """Return the absolute forms of `paths` and what they lead to, without the empty ones."""
    chosen = [os.path.abspath(path) for path in paths if path]
    return sorted({*chosen, *(os.path.realpath(path) for path in chosen)})


def _absolute(raw: object, descriptor: object) -> str | None:
    if not isinstance(raw, (str, bytes, os.PathLike)):
        return None
    path = os.fsdecode(raw)
    if not os.path.isabs(path) and isinstance(descriptor, int) and descriptor >= 0:
        try:
            path = os.path.join(os.readlink(f"/proc/self/fd/{descriptor}"), path)
        except OSError:
            return None
    return os.path.abspath(path)


def _below(path: str, roots: list[str]) -> bool:
    return any(path == root or path.startswith(root + os.sep) for root in roots)
