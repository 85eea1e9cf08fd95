"""A home with a generation to harm, a directory to work in, and a jail around commands that try to.

Owns: the small home, what is compared afterwards, and starting a command with and without the jail. Does not own: the
attempts (test_attempts).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from perdure.guard.probe import Machine
from perdure.guard.roots import Origin, Root, protected_roots
from perdure.jail.machine import LinuxSystem
from perdure.jail.service import Jail

IDENTITY = "1-0123456789ab"
PYTHON = os.path.realpath(sys.executable)
SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
ANY_PYTHON = shutil.which("python3", path=SYSTEM_PATH) or PYTHON
"""One that every user can start, where there is one."""


class Layout:
    """A home with one generation, and beside it a directory with somebody else's environment."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "deep" / "house"
        self.venv = self.home / "store" / "generations" / IDENTITY / "venv"
        self.work = folder / "work"
        self.other = self.work / "other"
        for venv in (self.venv, self.other):
            (venv / "bin").mkdir(parents=True)
            (venv / "lib").mkdir()
            (venv / "bin" / "python").symlink_to(PYTHON)
            (venv / "pyvenv.cfg").write_text(f"home = {os.path.dirname(PYTHON)}\n")
            (venv / "lib" / "module.py").write_text("x = 1\n")
        for path, text in (
            ("profiles/default/current", f"{IDENTITY}\n"),
            ("profiles/default/app.yaml", "jail: require\n"),
            ("state/default/approvals.db", "pending"),
            ("bin/perdure", "#!/bin/sh\n"),
            ("cache/wheel", "bytes"),
            ("config.yaml", "host: perdure\n"),
        ):
            (self.home / path).parent.mkdir(parents=True, exist_ok=True)
            (self.home / path).write_text(text)

    def roots(self) -> tuple[Root, ...]:
        """Return what is protected."""
        origin = Origin(
            executable=str(self.venv / "bin" / "python"),
            prefix=str(self.venv),
            base_prefix=sys.base_prefix,
            code=str(self.venv / "lib"),
            home=str(self.home),
            generation=str(self.venv.parent),
        )
        return protected_roots(origin, Machine())

    def jail(self) -> Jail:
        """Return the jail for these roots."""
        return Jail(roots=self.roots, home=str(self.home), system=LinuxSystem(os.environ))

    def contents(self) -> dict[str, tuple[int, str | bytes | None]]:
        """Return mode and content of everything in the home; what is not there is harmed."""
        found: dict[str, tuple[int, str | bytes | None]] = {}
        for folder, names, files in os.walk(self.home):
            for path in (Path(folder, name) for name in (*names, *files)):
                content: str | bytes | None = None
                if path.is_symlink():
                    content = os.readlink(path)
                elif path.is_file():
                    content = path.read_bytes() if os.access(path, os.R_OK) else None
                found[str(path.relative_to(self.home))] = (path.lstat().st_mode, content)
        return found

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return what an attempt finds its way with."""
        places = {
            "FOLDER": self.folder,
            "HOME": self.work,
            "HOUSE": self.home,
            "VENV": self.venv,
            "WORK": self.work,
            "OTHER": self.other,
        }
        own = {name: str(path) for name, path in places.items()}
        return {"PATH": SYSTEM_PATH, "PYTHON": ANY_PYTHON, **own, **(more or {})}

    def run(
        self, script: str, front: Sequence[str] = (), more: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a text in a shell, behind the words that make a jail, if any."""
        return subprocess.run(
            [*front, "/bin/sh", "-c", script],
            cwd=self.work,
            env=self.environment(more),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            start_new_session=True,
        )
