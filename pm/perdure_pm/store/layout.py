"""Where everything in a home lies.

Owns: every path below the home; no other module joins paths into it. Does not own: contents. Standard library only,
Python 3.9.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path


def default_home(environ: Mapping[str, str]) -> Path:
    """Return ``$PERDURE_HOME``, else the user data directory of the platform (XDG, Apple, Windows) + ``perdure``."""
    chosen = environ.get("PERDURE_HOME")
    if chosen:
        return Path(chosen)
    user = Path(os.path.expanduser("~"))
    if sys.platform == "win32":
        return Path(environ.get("LOCALAPPDATA") or user / "AppData" / "Local") / "perdure"
    if sys.platform == "darwin":
        return user / "Library" / "Application Support" / "perdure"
    data = environ.get("XDG_DATA_HOME", "")
    return (Path(data) if os.path.isabs(data) else user / ".local" / "share") / "perdure"


class Layout:
    """The paths of one home."""

    def __init__(self, home: Path) -> None:
        self.home = Path(os.path.abspath(home))

    @property
    def bin(self) -> Path:
        return self.home / "bin"

    @property
    def config(self) -> Path:
        return self.home / "config.yaml"

    @property
    def mutex(self) -> Path:
        return self.home / "mutex"

    @property
    def mutex_holder(self) -> Path:
        return self.home / "mutex.json"

    @property
    def receipts(self) -> Path:
        return self.home / "receipts"

    @property
    def unfinished(self) -> Path:
        """One empty directory for each receipt that is not finished."""
        return self.receipts / "unfinished"

    @property
    def cache(self) -> Path:
        return self.home / "cache"

    @property
    def uv_cache(self) -> Path:
        """Uv's own, which shares inodes with what was installed from it."""
        return self.cache / "uv"

    @property
    def offers(self) -> Path:
        """What an index said of a distribution's releases, for as long as it lets that be kept."""
        return self.home / "cache" / "offers"

    @property
    def scratch(self) -> Path:
        """Temporary files of PM and of what it starts: on the home's filesystem, emptied under the mutex."""
        return self.home / "cache" / "tmp"

    @property
    def interpreters(self) -> Path:
        return self.home / "python"

    @property
    def state(self) -> Path:
        """What applications keep; PM never writes below it."""
        return self.home / "state"

    # PM itself

    @property
    def pm(self) -> Path:
        return self.home / "pm"

    @property
    def policy(self) -> Path:
        return self.pm / "policy"

    @property
    def rescues(self) -> Path:
        """How often in a row PM's runtime could not be rebuilt unasked; gone once one is selected."""
        return self.pm / "rescues"

    @property
    def activation(self) -> Path:
        """Which payload is being put into this home; gone once all of it is."""
        return self.pm / "activation"

    @property
    def runtime_pointer(self) -> Path:
        return self.pm / "current"

    @property
    def runtimes(self) -> Path:
        return self.pm / "runtimes"

    def runtime(self, identity: str) -> Path:
        return self.runtimes / identity

    @property
    def incoming(self) -> Path:
        """What an archive that PM is updated from unpacks to, while it is."""
        return self.pm / "incoming"

    @property
    def seeds(self) -> Path:
        return self.pm / "seed"

    @property
    def seed_pointer(self) -> Path:
        return self.seeds / "current"

    def seed(self, digest: str) -> Path:
        return self.seeds / digest

    def uv(self, version: str) -> Path:
        return self.home / "tools" / "uv" / version / ("uv.exe" if sys.platform == "win32" else "uv")

    def test_environment(self, name: str) -> Path:
        return self.home / "test" / name

    # What is hosted

    @property
    def store(self) -> Path:
        return self.home / "store"

    @property
    def releases(self) -> Path:
        return self.store / "releases"

    def release(self, digest: str) -> Path:
        return self.releases / digest

    @property
    def plugins(self) -> Path:
        """Snapshots of plugins that are not from an index."""
        return self.store / "plugins"

    def plugin(self, digest: str) -> Path:
        return self.plugins / digest

    @property
    def packages(self) -> Path:
        """Custom packages that hosts registered (``packages`` of the worker protocol)."""
        return self.store / "packages"

    @property
    def published_into(self) -> tuple[Path, ...]:
        """The directories that a publication fills; what lies in them is read with distrust of every link."""
        return (self.generations, self.records, self.releases, self.plugins)

    @property
    def generations(self) -> Path:
        return self.store / "generations"

    def generation(self, identity: str) -> Path:
        return self.generations / identity

    @property
    def records(self) -> Path:
        """Copies of the records of generations that were committed."""
        return self.store / "records"

    def kept_record(self, identity: str) -> Path:
        return self.records / f"{identity}.json"

    @property
    def labels(self) -> Path:
        return self.store / "labels.json"

    @property
    def trash(self) -> Path:
        return self.store / "trash"

    def profile(self, name: str) -> Path:
        return self.home / "profiles" / name

    def pointer(self, profile: str) -> Path:
        return self.profile(profile) / "current"

    def profile_config(self, profile: str) -> Path:
        return self.profile(profile) / "config.yaml"

    def history(self, profile: str) -> Path:
        return self.profile(profile) / "history.jsonl"

    def pending_intent(self, profile: str) -> Path:
        """The text that the profile's config.yaml gets once a selection is committed."""
        return self.profile(profile) / "pending"

    def trial(self, profile: str) -> Path:
        return self.profile(profile) / "trial"

    def published(self, profile: str) -> Path:
        """What the profile's config.yaml said when it was published last, and which plugins sat out."""
        return self.profile(profile) / "published.json"

    def crashes(self, profile: str) -> Path:
        """What the app keeps of plugins that ended it: the app writes here, PM reads, and removes what is enabled."""
        return self.profile(profile) / "crashes"


def environment_python(environment: Path) -> Path:
    """Return the interpreter's path inside a virtual environment."""
    if sys.platform == "win32":
        return environment / "Scripts" / "python.exe"
    return environment / "bin" / "python"


def environment_scripts(environment: Path) -> Path:
    """Return the directory of a virtual environment's commands."""
    return environment / ("Scripts" if sys.platform == "win32" else "bin")


def relative_to_home(layout: Layout, path: Path) -> str | None:
    """Return `path` relative to the home with forward slashes, or None where it lies outside."""
    try:
        return path.relative_to(layout.home).as_posix()
    except ValueError:
        return None
