"""What is protected, and why: what this process runs from, what PM would mend it with, and what is the app's own.

Owns: finding the roots, from the process's own paths, the `pyvenv.cfg` of each environment, and the documented layout
of the home. Does not own: comparing (paths) or refusing (judge). Keeps: guard-roots-computed, guard-roots-layout,
guard-others-free: every other environment and interpreter on the machine belongs to whoever made it.

The roots are computed when they are asked for: PM may have switched generations since the process started.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping

from perdure.domain.record import dataclass, field
from perdure.guard.late import late
from perdure.guard.patterns import with_letters
from perdure.guard.probe import Probe


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """Something that must stay as it is: a file, a link, or a directory with all that is in it."""

    path: str
    """Absolute; a link is meant itself, not what it leads to."""
    why: str
    secret: bool = False
    """Whether it is not to be read by a command either."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry of the home's documented layout."""

    pattern: str
    """Relative to the home; `*` stands for each name there."""
    why: str
    protected: bool = True
    secret: bool = False


def _free(pattern: str, why: str) -> Entry:
    return Entry(pattern=pattern, why=why, protected=False)


HOME: tuple[Entry, ...] = (
    Entry(pattern="bin", why="the launchers of this home"),
    Entry(pattern="config.yaml", why="what this home is told to install"),
    Entry(pattern="mutex", why="the lock that keeps PM's operations apart"),
    _free("mutex.json", "says to people who holds the lock"),
    Entry(pattern="receipts", why="the receipts of PM's operations"),
    Entry(pattern="state", why="the app's own state", secret=True),
    _free("cache", "PM fetches what is missing in it again"),
    _free("python", "the interpreters that something protected was made from are roots of their own"),
    Entry(pattern="tools", why="the uv that PM works with"),
    Entry(pattern="pm", why="PM's runtimes, its seed, and its pointers"),
    Entry(pattern="store/releases", why="the wheels that a generation is repaired from"),
    Entry(pattern="store/plugins", why="the plugins that a generation is repaired from"),
    _free("store/generations", "the current ones and those that a process holds are roots of their own"),
    Entry(pattern="store/records", why="the records that a generation is repaired from"),
    Entry(pattern="store/labels.json", why="what people pinned and named"),
    _free("store/trash", "what PM is about to delete"),
    Entry(pattern="store/packages", why="packages that hosts registered"),
    Entry(pattern="profiles/*/config.yaml", why="what a profile is told to select"),
    Entry(pattern="profiles/*/app.yaml", why="the app's own policy"),
    Entry(pattern="profiles/*/current", why="the pointer to the generation that a profile runs"),
    Entry(pattern="profiles/*/history.jsonl", why="the history that a rollback goes by"),
    Entry(pattern="profiles/*/trial", why="what is on trial"),
    Entry(pattern="profiles/*/pending", why="the configuration that follows a commit"),
    Entry(pattern="profiles/*/crashes", why="which plugins ended a start"),
    Entry(pattern="profiles/*/published.json", why="what a profile published last"),
    _free("test", "test environments"),
)
"""The layout of docs/reference/home.md, entry by entry; the most specific one that fits a path counts."""

_SHARED = frozenset({"/", "/usr", "/usr/local", "/opt", "/opt/local", "/opt/homebrew"})
"""Prefixes that an interpreter shares with everything else: of these its own files are meant, not the directory."""
_MINOR = late(r"(?:python|pypy|graalpy)(\d+\.\d+)t?(?:\.exe)?")
_MOST_LINKS = 40
_HOME_LINE = late(r"^home\s*=\s*(.+?)\s*$", re.MULTILINE)
_POINTER = late(r"[0-9]+-[0-9a-f]{6,64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What this process is made of."""

    executable: str
    prefix: str
    """`sys.prefix`."""
    base_prefix: str
    """`sys.base_prefix`."""
    code: str
    """The directory of the package `perdure`."""
    home: str
    """The home around it, or the one that `perdure pm` would talk to."""
    generation: str | None
    """The generation's directory, where it runs from one."""


@dataclass(slots=True)
class _Found:
    probe: Probe
    roots: dict[str, Root] = field(default_factory=dict)

    def add(self, path: str, why: str, *, secret: bool = False) -> None:
        """Have it protected; who says so first gives the reason."""
        self.roots.setdefault(path, Root(path=path, why=why, secret=secret))


def protected_roots(origin: Origin, probe: Probe) -> tuple[Root, ...]:
    """Return what is protected now, each path once, with the reason that was found first."""
    found = _Found(probe)
    _add_environment(found, origin.executable, origin.prefix, origin.base_prefix, "this process")
    if not _inside(origin.code, found.roots):
        found.add(origin.code, "the code of Perdure that this process runs")
    _add_home(found, origin)
    return tuple(found.roots.values())


def watched(origin: Origin, probe: Probe) -> tuple[str, ...]:
    """Return the files and directories of which one changes when other generations or runtimes are to be protected."""
    home = origin.home
    places = (_join(home, name) for name in ("profiles", "store/generations", "pm/runtimes", "pm/current"))
    return (*places, *_places(home, "profiles/*/current", probe))


def environment_roots(executable: str, prefix: str, base: str, probe: Probe) -> tuple[Root, ...]:
    """Return what an interpreter with these paths runs from."""
    found = _Found(probe)
    _add_environment(found, executable, prefix, base, "this process")
    return tuple(found.roots.values())


def _add_environment(found: _Found, executable: str, prefix: str, base: str, whose: str) -> None:
    if prefix != base:
        found.add(prefix, f"the environment of {whose}")
        found.add(_join(prefix, "pyvenv.cfg"), f"what says which interpreter the environment of {whose} was made from")
    found.add(executable, f"the interpreter of {whose}")
    for link in _links(executable, found.probe):
        found.add(link, f"a link on the way to the interpreter of {whose}")
    real = found.probe.real(executable)
    if real != executable and not with_letters(real).startswith(with_letters(prefix) + "/"):
        found.add(real, f"the interpreter that {executable} leads to")
    _add_base(found, base, executable, whose)


def _add_base(found: _Found, base: str, executable: str, whose: str) -> None:
    real = found.probe.real(base)
    if real not in _SHARED:
        for place in dict.fromkeys((real, base)):
            found.add(place, f"the base interpreter of {whose}")
        return
    # The directory is everybody's: its interpreter and that one's standard library are ours.
    for minor in sorted(_minors(found.probe, executable, _join(real, "bin/python3"))):
        for name in (f"bin/python{minor}", f"lib/python{minor}", f"lib64/python{minor}"):
            found.add(_join(real, name), f"the base interpreter of {whose}")
        for folder in ("lib", "lib64"):
            for name in found.probe.names(_join(real, folder)):
                if name.startswith(f"libpython{minor}"):
                    found.add(_join(real, f"{folder}/{name}"), f"the library of the base interpreter of {whose}")


def _minors(probe: Probe, executable: str, default: str) -> set[str]:
    """Return the minor versions that an interpreter's name and what it leads to say, else those of the default one."""
    for path in (executable, default):
        names = (path.rpartition("/")[2], probe.real(path).rpartition("/")[2])
        if found := {match[1] for name in names if (match := _MINOR.fullmatch(name))}:
            return found
    return set()


def _links(path: str, probe: Probe) -> Iterator[str]:
    """Yield every link that is followed on the way to what a path leads to, but for those of shared directories."""
    pending, done = path, set[str]()
    for _ in range(_MOST_LINKS):
        for part in _ancestors(pending):
            target = None if part in done or part in _SHARED or part.count("/") < 2 else probe.link(part)
            if target is not None:
                done.add(part)
                # Everybody's own links, such as /usr/bin/python3, belong to the system that made them.
                if posixpath.dirname(posixpath.dirname(part)) not in _SHARED:
                    yield part
                pending = posixpath.normpath(posixpath.join(posixpath.dirname(part), target)) + pending[len(part) :]
                break
        else:
            return


def _ancestors(path: str) -> Iterator[str]:
    """Yield the path's ancestors from the top, and the path."""
    at = path.find("/", 1)
    while at >= 0:
        yield path[:at]
        at = path.find("/", at + 1)
    yield path


def _add_home(found: _Found, origin: Origin) -> None:
    home, probe = origin.home, found.probe
    if origin.generation is None and not {"pm", "profiles", "state"} & set(probe.names(home)):
        return
    for place in HOME:
        if place.protected:
            for path in _places(home, place.pattern, probe):
                found.add(path, place.why, secret=place.secret)
    # A new policy may be put where there is none yet.
    found.add(_join(home, "state"), "the app's own state", secret=True)
    found.add(_join(home, "profiles"), "what the profiles are told, and what guards their runs")
    current = {(probe.text(path) or "").strip() for path in _places(home, "profiles/*/current", probe)}
    generations = _join(home, "store/generations")
    for name in probe.names(generations):
        path = _join(generations, name)
        if name in current and _POINTER.fullmatch(name):
            found.add(path, "the generation that a profile runs")
        elif path == origin.generation:
            found.add(path, "the generation that this process runs from")
        elif probe.held(_join(path, "lease")):
            found.add(path, "a generation that a process holds")
        else:
            continue
        _add_named_base(found, _join(path, "venv"), f"generation {name}")
    for name in probe.names(_join(home, "pm/runtimes")):
        _add_named_base(found, _join(home, f"pm/runtimes/{name}/venv"), f"PM's runtime {name}")


def _add_named_base(found: _Found, venv: str, whose: str) -> None:
    """Have the base protected that the environment's own pyvenv.cfg names."""
    named = _HOME_LINE.search(found.probe.text(_join(venv, "pyvenv.cfg")) or "")
    if named is None:
        return
    executable = next(
        (path for path in (_join(venv, "bin/python"), _join(venv, "Scripts/python.exe")) if found.probe.link(path)),
        _join(named[1], "python3"),
    )
    for link in _links(executable, found.probe):
        if not link.startswith(venv + "/"):
            found.add(link, f"a link on the way to the interpreter of {whose}")
    base = named[1].rstrip("/\\")
    base = posixpath.dirname(base) if base.rpartition("/")[2] in {"bin", "Scripts"} else base
    _add_base(found, base, executable, whose)


def _places(home: str, pattern: str, probe: Probe) -> Iterator[str]:
    folder, star, rest = pattern.partition("/*/")
    if not star:
        yield _join(home, pattern)
        return
    for name in probe.names(_join(home, folder)):
        yield _join(home, f"{folder}/{name}/{rest}")


def _inside(path: str, roots: Mapping[str, Root]) -> bool:
    return any(path == root or path.startswith(root + "/") for root in roots)


def _join(folder: str, name: str) -> str:
    return f"{folder.rstrip('/')}/{name}"
