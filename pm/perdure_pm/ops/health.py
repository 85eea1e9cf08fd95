"""What shows that a host works: more than a version call, which says nothing about plugins.

Owns: the table of better checks for known hosts, and the choice. Does not own: running one (ops.verify).

Each check was tried with the host it is for: it loads the plugins the way the host does, ends by itself, and needs no
network and no state. `host.health` in config.yaml overrides it.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Arguments of a host's command."""

    arguments: tuple[str, ...]
    accepted: tuple[int, ...] = (0,)
    """Exit codes that mean health."""


DEFAULT = (Check(arguments=("--version",)), Check(arguments=("--help",)))
"""For a host that is not known: many commands have no version call, and end with a usage error when asked for it."""

KNOWN: dict[str, Check] = {
    "perdure": Check(arguments=("plugins", "--check")),
    "datasette": Check(arguments=("plugins", "--all")),
    "llm": Check(arguments=("plugins",)),
    "sqlite-utils": Check(arguments=("plugins",)),
    "keyring": Check(arguments=("--list-backends",)),
    "cz": Check(arguments=("ls",)),
    # An empty folder has no tests, which pytest says with 5; a plugin that breaks it gives another code.
    "pytest": Check(arguments=("--collect-only", "-q", "-p", "no:cacheprovider", "."), accepted=(0, 5)),
    # Reads one empty file from nothing: every checker is loaded.
    "flake8": Check(arguments=("--isolated", "-"), accepted=(0, 1)),
}


def choose_checks(command: str, configured: str | None) -> tuple[Check, ...]:
    """Return the checks for a host's command, the first of which that passes shows health.

    The configured one, else a known one, else what nearly every command answers.
    """
    if configured is not None:
        return (Check(arguments=tuple(shlex.split(configured))),)
    return (KNOWN[command],) if command in KNOWN else DEFAULT


def choose_main(commands: Sequence[str], name: str, configured: Sequence[str]) -> str:
    """Return the command that is started: the first one configured, else the distribution's namesake, else the first.

    The others are imported and not started: they may be anything, a server or a shell too.
    """
    if configured:
        return configured[0]
    return name if name in commands else commands[0]
