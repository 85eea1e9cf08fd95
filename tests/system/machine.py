"""A home, the checkout it is installed from, and running their commands as a person would.

Owns: copying a checkout, copying homes, starting commands with a plain environment, and looking at what a home holds.
Does not own: what is asserted. The tests see perdure only from outside: commands, exit codes, files.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

LIMIT_SECONDS = 240.0
"""Longer than any single command here takes on a busy machine; a hang ends the test, not the run."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """How a command ended and what it said."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The one JSON object on standard output."""
        answer: dict[str, Any] = json.loads(self.out)
        return answer

    @property
    def error(self) -> dict[str, Any]:
        """The first error of the JSON object."""
        (first, *_) = self.json["errors"]
        found: dict[str, Any] = first
        return found

    def succeeded(self) -> Answer:
        """Return this answer where the exit code is 0."""
        assert self.code == 0, f"exit {self.code}\n{self.out[-4000:]}\n{self.err[-6000:]}"
        return self


def plain_environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the scratch environment of the tests without what would choose a home."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PERDURE_", "TESTS_"))}
    return {**kept, **(more or {})}


def execute(
    command: Sequence[str | Path],
    *,
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    limit: float = LIMIT_SECONDS,
) -> Answer:
    """Run a command to its end and return what it said."""
    ended = subprocess.run(
        [str(word) for word in command],
        env=dict(plain_environment() if environment is None else environment),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=limit,
        check=False,
    )
    return Answer(code=ended.returncode, out=ended.stdout, err=ended.stderr)


@dataclass(frozen=True, kw_only=True)
class Installation:
    """One home and one checkout."""

    checkout: Path
    home: Path
    environment: Mapping[str, str] = field(default_factory=plain_environment)
    prefix: tuple[str, ...] = ()
    """What every command is started through, for example ``unshare -n``."""
    python: Path = Path(os.path.realpath(sys.executable))
    """The interpreter that runs bootstrap.py."""
    cwd: Path | None = None

    def bootstrap(self, *words: str | Path, limit: float = LIMIT_SECONDS) -> Answer:
        """Run the checkout's bootstrap.py on this home."""
        return self.run([*self.bootstrap_command(), *words], limit=limit)

    def bootstrap_command(self) -> list[str | Path]:
        """Return the start of every command line of bootstrap.py."""
        return [self.python, self.checkout / "pm" / "bootstrap.py", "--home", self.home]

    def up(self, *words: str | Path, limit: float = LIMIT_SECONDS) -> Answer:
        """Run ``bootstrap.py up --json``."""
        return self.bootstrap("up", "--json", *words, limit=limit)

    def pm(self, *words: str | Path, limit: float = LIMIT_SECONDS) -> Answer:
        """Run the home's perdure-pm."""
        return self.run([self.home / "bin" / "perdure-pm", *words], limit=limit)

    def perdure(self, *words: str | Path) -> Answer:
        """Run the home's perdure."""
        return self.run([self.home / "bin" / "perdure", *words])

    def run(self, command: Sequence[str | Path], *, limit: float = LIMIT_SECONDS) -> Answer:
        """Run a command in this installation's environment."""
        return execute([*self.prefix, *command], environment=self.environment, cwd=self.cwd, limit=limit)

    def with_environment(self, **more: str) -> Installation:
        """Return the same installation with further variables."""
        return replace(self, environment={**self.environment, **more})

    # what is there

    @property
    def generation(self) -> str:
        """The id that the default profile's pointer holds."""
        return (self.home / "profiles" / "default" / "current").read_text(encoding="ascii").strip()

    @property
    def generation_path(self) -> Path:
        return self.home / "store" / "generations" / self.generation

    @property
    def generations(self) -> list[str]:
        """Every directory among the generations, sealed or not."""
        folder = self.home / "store" / "generations"
        return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []

    @property
    def runtime(self) -> str:
        return (self.home / "pm" / "current").read_text(encoding="ascii").strip()

    @property
    def runtime_path(self) -> Path:
        return self.home / "pm" / "runtimes" / self.runtime

    @property
    def runtimes(self) -> list[str]:
        folder = self.home / "pm" / "runtimes"
        return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []

    def receipts(self) -> list[dict[str, Any]]:
        """Return every receipt, oldest first."""
        folder = self.home / "receipts"
        found = sorted(folder.glob("*.json")) if folder.is_dir() else []
        return [json.loads(path.read_bytes()) for path in found]


def interpreters(oldest: tuple[int, int], newest: tuple[int, int]) -> dict[Path, tuple[int, ...]]:
    """Return the base interpreters of this machine between two minor versions: on the PATH, and of a pyenv."""
    names = [f"python3.{minor}" for minor in range(oldest[1], newest[1] + 1)]
    folders = [Path(folder) for folder in [*os.environ["PATH"].split(os.pathsep), "/usr/bin", "/usr/local/bin"]]
    root = os.environ.get("PYENV_ROOT")
    folders += sorted(Path(root).glob("versions/*/bin")) if root else []
    probe = "import os, sys; print(os.path.realpath(getattr(sys, '_base_executable', sys.executable)))"
    found: dict[Path, tuple[int, ...]] = {}
    for folder in folders:
        for name in names:
            if not (folder / name).is_file():
                continue
            asked = execute([folder / name, "-I", "-c", f"{probe}; print(*sys.version_info[:3])"])
            if asked.code == 0:  # a pyenv's shim says no to a version that is not chosen
                path, version = asked.out.splitlines()
                found.setdefault(Path(path), tuple(map(int, version.split())))
    return found


def copy_checkout(source: Path, target: Path) -> Path:
    """Have what a fresh clone of `source`, with its uncommitted changes, would hold at `target`."""
    listed = subprocess.run(
        ["git", "-C", str(source), "ls-files", "-co", "--exclude-standard", "-z"], capture_output=True, check=True
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (source / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source / name, target / name)
    return target


def copy_home(source: Path, target: Path) -> Path:
    """Have a copy of a home at `target` that shares no inode with it: a name outside of a home is damage."""
    target.mkdir()
    subprocess.run(["cp", "-a", f"{source}/.", str(target)], check=True)
    return target


def seed_caches(source: Path, target: Path) -> Path:
    """Have a home at `target` that holds nothing but the caches and tools of `source`."""
    (target / "cache").mkdir(parents=True)
    for name in ("cache/uv", "tools"):
        subprocess.run(["cp", "-a", str(source / name), str(target / name)], check=True)
    return target


def fingerprint(root: Path, *, without: Sequence[str] = ()) -> dict[str, str]:
    """Return what lies below `root`: path → kind, mode and contents; times are left out.

    Args:
        root: a directory.
        without: relative paths that are left out with everything below them.
    """
    found: dict[str, str] = {}
    for folder, folders, names in os.walk(root):
        for name in [*folders, *names]:
            path = Path(folder, name)
            relative = path.relative_to(root).as_posix()
            if any(relative == left or relative.startswith(f"{left}/") for left in without):
                continue
            status = path.lstat()
            if stat.S_ISLNK(status.st_mode):
                found[relative] = f"link to {os.readlink(path)}"
            elif stat.S_ISREG(status.st_mode):
                digest = hashlib.sha256(path.read_bytes()).hexdigest()
                found[relative] = f"{stat.S_IMODE(status.st_mode):o} {digest}"
            else:
                found[relative] = f"{stat.S_IMODE(status.st_mode):o} directory"
    return found


def built_contents(environment: Path, *, byte_code: bool = True) -> dict[str, str]:
    """Return what a built environment holds, without what two equal builds may say differently.

    That is: the time at which a wheel of our own was built (uv_cache.json, and its line in RECORD), and the time of a
    module in the head of its byte code. The path of the home is in direct_url.json, RECORD and the byte code of our own
    wheels: two builds are compared at the same path, or `byte_code` is false and the files of our own wheels that say
    where they came from are left out.
    """
    found: dict[str, str] = {}
    for path in sorted(environment.rglob("*")):
        name = path.relative_to(environment).as_posix()
        if path.is_symlink():
            found[name] = f"link to {os.readlink(path)}"
        elif path.is_file():
            data = path.read_bytes()
            own = name.rpartition("/")[0].rpartition("/")[2].startswith("perdure")
            if path.name == "uv_cache.json" or (own and not byte_code and path.name in {"direct_url.json", "RECORD"}):
                continue
            if path.suffix == ".pyc":
                data = data[16:] if byte_code else b""
            if path.name == "RECORD":
                data = b"\n".join(line for line in data.splitlines() if b"/uv_cache.json," not in line)
            found[name] = hashlib.sha256(data).hexdigest()
    return found


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Return the paths that two fingerprints say differently."""
    return sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
