"""What the configuration of a repository makes git run, also where it only reads.

Owns: finding the configuration that git would read in a directory, and the settings in it that name programs. Does not
own: what follows (git_program). A clone brings no configuration, but an archive, a link, or a directory that looks like
a repository of its own does, and then ``git status`` runs what it says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from perdure.domain.effect import Spelling, Text
from perdure.guard import values
from perdure.guard.late import late
from perdure.guard.session import Probe

_SECTION = late(r'\s*\[\s*([\w.-]+)\s*(?:"((?:[^"\\]|\\.)*)")?\s*\]')
_SETTING = late(r"\s*([A-Za-z][A-Za-z0-9-]*)\s*(?:=\s*(.*))?$")
_RUNS = late(
    r"core\.(?:fsmonitor|pager|hookspath|sshcommand|gitproxy|alternaterefscommand)|pager\..*|gpg\.(?:.*\.)?program"
    r"|diff\.external|diff\..*\.(?:command|textconv)|filter\..*\.(?:clean|smudge|process)|include\.path"
    r"|includeif\..*\.path",
    re.DOTALL,
)
_HARMLESS = late(r"true|false|yes|no|on|off|[01]?|git-lfs(?: [\w%-]+)*", re.IGNORECASE)
"""A switch, and the filters that nearly every repository with large files has."""
_DECIDING = frozenset({".git", "HEAD", "config", "config.worktree", "commondir"})
_MOST_UPWARDS = 40


def programs(directory: str, probe: Probe) -> Iterator[tuple[str, str]]:
    """Yield the settings that name a program, with their values, of the repository that a directory is in.

    A repository that is not in a directory called ``.git`` counts as one that names a program: nothing else that
    writes there is asked about.
    """
    for path in _configurations(directory, probe):
        if ".git" not in path.split("/"):
            yield "core.hookspath", ""
        yield from _settings(probe.script(path) or "")


def decides(path: Spelling) -> bool:
    """Return whether a file that is written may make a directory a repository, or say what that runs."""
    last = values.base(path)
    written = values.spelled(last)
    return written in _DECIDING if written is not None else not any(isinstance(piece, Text) for piece in last)


def _configurations(directory: str, probe: Probe) -> Iterator[str]:
    place = directory.rstrip("/")
    for _ in range(_MOST_UPWARDS):
        inside = f"{place}/.git"
        if probe.is_directory(inside):
            yield from (f"{inside}/config.worktree", f"{inside}/config")
            return
        elsewhere = probe.script(inside)
        if elsewhere is not None and elsewhere.startswith("gitdir:"):
            inside = elsewhere.removeprefix("gitdir:").strip()
            inside = inside if inside.startswith("/") else f"{place}/{inside}"
            common = (probe.script(f"{inside}/commondir") or "").strip()
            shared = common if common.startswith("/") or not common else f"{inside}/{common}"
            yield from (f"{inside}/config.worktree", f"{shared or inside}/config")
            return
        # A directory may be a repository by itself.
        if probe.is_directory(f"{place}/objects") and probe.script(f"{place}/HEAD") is not None:
            yield f"{place}/config"
            return
        if not place:
            return
        place = place.rpartition("/")[0]


def _settings(text: str) -> Iterator[tuple[str, str]]:
    section = ""
    for line in text.replace("\\\n", "").splitlines():
        rest = line
        while (found := _SECTION.match(rest)) is not None:
            section = found[1].lower() + (f".{found[2]}" if found[2] is not None else "")
            rest = rest[found.end() :]
        setting = _SETTING.match(rest)
        if setting is None:
            continue
        name, value = f"{section}.{setting[1].lower()}", (setting[2] or "").strip().strip('"')
        if _RUNS.fullmatch(name) and not _HARMLESS.fullmatch(value):
            yield name, value
