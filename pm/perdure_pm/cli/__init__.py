"""perdure-pm's command line: parse, run the operation, render; no decisions."""

from __future__ import annotations

from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command, by default the one that this process was started with, and return the exit code."""
    from perdure_pm.cli.entry import run_command_line

    return run_command_line(arguments)
