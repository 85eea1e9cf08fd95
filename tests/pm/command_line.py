"""Running perdure-pm as a user does: another process, and everything it wrote."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CODE = "import sys; from perdure_pm.cli import main; sys.exit(main())"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a run ended."""

    exit_code: int
    out: str
    err: str

    @property
    def envelope(self) -> dict[str, Any]:
        """The one JSON object on standard output."""
        answer: dict[str, Any] = json.loads(self.out)
        return answer


class CommandLine:
    """perdure-pm on one home, with a small environment."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.environment = {
            "PATH": os.defpath,
            "HOME": str(home.parent),
            "PERDURE_HOME": str(home),
            "LC_ALL": "C.UTF-8",
        }

    def command(self, *words: str) -> list[str]:
        """Return the command of a run."""
        assert importlib.util.find_spec("perdure_pm") is not None
        return [sys.executable, "-I", "-c", CODE, *words]

    def __call__(
        self,
        *words: str,
        variables: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        shell_suffix: str | None = None,
    ) -> Ended:
        """Return how perdure-pm with `words` ended; `home` in its output is written as HOME.

        Args:
            words: the command line.
            variables: over the small environment.
            cwd: where it runs.
            shell_suffix: redirections, for a run through a shell.
        """
        command = self.command(*words)
        if shell_suffix is not None:
            command = ["/bin/sh", "-c", f'"$@" {shell_suffix}', "sh", *command]
        ended = subprocess.run(
            command,
            env={**self.environment, **(variables or {})},
            cwd=cwd or self.home.parent,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        home = str(self.home)
        return Ended(
            exit_code=ended.returncode, out=ended.stdout.replace(home, "HOME"), err=ended.stderr.replace(home, "HOME")
        )
