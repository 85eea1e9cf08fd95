"""perdure-pm's command line: parse, run the operation, render; no decisions."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path


def prepare(home: str) -> None:
    """Have everything loaded that a run begins with, and a worker of the home on its way where one will be asked."""
    from perdure_pm.cli import ahead

    ahead.start(sys.argv[1:], os.environ, Path(home))
    import perdure_pm.cli.entry  # noqa: F401 - what main loads first, so that damage of it shows before it runs


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command, by default the one that this process was started with, and return the exit code."""
    from perdure_pm.cli.entry import run_command_line

    return run_command_line(arguments)
