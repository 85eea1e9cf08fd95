"""What a start leaves behind when a plugin ends it, and what the next start makes of that.

While plugins are imported, registered and asked, a file below the profile says which one is at work, under a lock that
ends with the process. A start that finds such a file without its lock knows whose code ended the one before: it keeps a
note, and leaves the plugin out until `perdure-pm plugin enable` removes the note, or another version of it is there.

Owns: `profiles/<name>/crashes/`: `loading-*` of starts, `<distribution>.json` of notes. Does not own: the decision to
leave a plugin out (plugin_manager), removing notes (pm, which shares the form and no code). Keeps:
app-crash-attributed: what cannot be written costs the attribution, never the start.

Nothing is flushed: what a process wrote survives its death, and what a power loss takes was no plugin's fault. A
generation that the profile does not run, as PM tries one, keeps no notes. Without POSIX locks there are none either.
"""

import contextlib
import json
import os
import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from perdure.domain.plugin import PluginSource
from perdure.domain.record import dataclass
from perdure.installation import Installation
from perdure.own_writers import claim

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

SCHEMA = 1
PROFILE_VARIABLE = "PERDURE_PROFILE"
_PROFILE = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")
_LOADING = "loading-"
_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_LONGEST = 1 << 16
_WRITER = claim("crash-notes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """One plugin that ended a start."""

    version: str
    during: str
    """What was done with it, as in "importing it"."""
    at: str
    """UTC."""
    bring_back: str
    """The command line that has it loaded again."""


class CrashNotes:
    """The notes of one profile."""

    def __init__(self, folder: Path, bring_back: Callable[[str], str]) -> None:
        """Know the place, and how a person brings a distribution back."""
        self._folder = folder
        self._bring_back = bring_back
        self._own = folder / f"{_LOADING}{os.getpid()}-{secrets.token_hex(4)}"
        self._pid = os.getpid()
        self._file: int | None = None
        self._boot = _read_boot_id()

    def read(self) -> dict[str, Note]:
        """Return the notes by normalised distribution, those on starts that died since included."""
        try:
            names = os.listdir(self._folder)
        except OSError:
            return {}
        with _WRITER.writing():
            for name in names:
                if name.startswith(_LOADING):
                    self._take_over(self._folder / name)
        found: dict[str, Note] = {}
        with contextlib.suppress(OSError):
            names = os.listdir(self._folder)
        for name in names:
            if name.endswith(".json") and (note := self._read_note(self._folder / name)) is not None:
                found[name.removesuffix(".json")] = note
        return found

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Have this start found by the next one if it ends before the block does."""
        self._open()
        try:
            yield
        finally:
            # A plugin may have forked: the child must not take away what tells of its parent.
            if self._file is not None and os.getpid() == self._pid:
                with contextlib.suppress(OSError), _WRITER.writing():
                    self._own.unlink()
                os.close(self._file)
            self._file = None

    def at_work(self, source: PluginSource | None, during: str = "") -> None:
        """Have it on record that this plugin's code runs from now on; None: nobody's."""
        if self._file is None:
            return
        line: dict[str, object] = {}
        if source is not None:
            line = {
                "plugin": source.name,
                "distribution": source.distribution,
                "version": source.version,
                "during": during,
                "boot": self._boot,
            }
        with contextlib.suppress(OSError):
            os.pwrite(self._file, json.dumps(line).encode() + b"\n", 0)

    def _open(self) -> None:
        if fcntl is None:
            return
        try:
            with _WRITER.writing():
                self._folder.mkdir(exist_ok=True)
                self._file = os.open(self._own, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
            # Not flock: a child that a plugin forks would hold that one beyond the death of this process.
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if self._file is not None:
                os.close(self._file)
            self._file = None

    def _take_over(self, path: Path) -> None:
        """Have a note of what a dead start was at, and its file gone; a start that lives is left alone."""
        if fcntl is None:
            return
        try:
            file = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
        except OSError:
            return
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            text = os.pread(file, _LONGEST, 0).partition(b"\n")[0]
            at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(os.fstat(file).st_mtime))
            self._note(text, at)
            path.unlink(missing_ok=True)
        except OSError:
            pass  # it lives, or this user may not write here
        finally:
            os.close(file)

    def _note(self, text: bytes, at: str) -> None:
        try:
            data: object = json.loads(text)
        except ValueError:
            return
        # A machine that went down in the middle of a start says nothing about the plugin.
        if not isinstance(data, dict) or data.get("boot") != self._boot:
            return
        said = {key: data.get(key) for key in ("plugin", "distribution", "version", "during")}
        if not all(isinstance(value, str) and value for value in said.values()):
            return
        name = normalise(str(said["distribution"]))
        if not re.fullmatch(r"[a-z0-9-]+", name):
            return
        draft = self._folder / f".{name}.{secrets.token_hex(4)}"
        draft.write_text(json.dumps({"schema": SCHEMA, **said, "at": at}), encoding="utf-8")
        draft.replace(self._folder / f"{name}.json")

    def _read_note(self, path: Path) -> Note | None:
        try:
            data: object = json.loads(path.read_bytes()[:_LONGEST])
        except (OSError, ValueError):
            return None
        if not isinstance(data, dict):
            return None
        version, during, at = (data.get(key) for key in ("version", "during", "at"))
        if not (isinstance(version, str) and isinstance(during, str) and isinstance(at, str)):
            return None
        return Note(version=version, during=during, at=at, bring_back=self._bring_back(path.stem))


def find_notes(installation: Installation, environ: Mapping[str, str]) -> CrashNotes | None:
    """Return the notes of the profile that this process was started for; None where it runs no profile's generation."""
    profile = environ.get(PROFILE_VARIABLE) or "default"
    if installation.generation is None or not _PROFILE.fullmatch(profile):
        return None
    folder = installation.home / "profiles" / profile
    try:
        selected = (folder / "current").read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
    if selected != installation.generation.name:
        return None
    named = () if profile == "default" else ("--profile", profile)

    def bring_back(distribution: str) -> str:
        return installation.pm_command("plugin", "enable", distribution, *named)

    return CrashNotes(folder / "crashes", bring_back)


def normalise(distribution: str) -> str:
    """Return a distribution's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


def _read_boot_id() -> str:
    try:
        with open(_BOOT_ID, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""
