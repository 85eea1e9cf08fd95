"""What is written down about each run.

Owns: `state/<profile>/runs-<year>-<month>.jsonl`: one line when a command was judged, one when it was really started,
one when it had ended. Does not own: reading them back. Keeps: exec-recorded: what was started is on record before
anything else is done for it, and what was not started is never recorded as executed.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping
from pathlib import Path

from perdure.domain.errors import RunRecordLost
from perdure.domain.json_value import JsonValue
from perdure.installation import Installation
from perdure.own_writers import claim

SCHEMA = 1
_WRITER = claim("run-record")


def record_folder(installation: Installation, profile: str) -> Path | None:
    """Return where a profile's runs are recorded; None where there is no home.

    PM makes that; of what Nix installed nobody else does, and there it is made with the first record.
    """
    if not (installation.managed or installation.home.is_dir()) or os.sep in profile or profile.startswith("."):
        return None
    return installation.home / "state" / profile


class RunRecord:
    """The record of one run; without a folder nothing is kept."""

    def __init__(self, folder: Path | None, run: str) -> None:
        """Know where the lines of this run go."""
        self._folder = folder
        self._run = run

    def write(self, event: str, at: str, **said: JsonValue) -> None:
        """Append one line.

        Args:
            event: ``judged``, ``executed``, ``failed-to-start`` or ``ended``.
            at: UTC, as in ``2030-01-31T12:00:00Z``.
            said: what belongs to it.

        Raises:
            RunRecordLost: it cannot be written.
        """
        if self._folder is None:
            return
        line: Mapping[str, JsonValue] = {"schema": SCHEMA, "run": self._run, "event": event, "at": at, **said}
        path = self._folder / f"runs-{at[:7]}.jsonl"
        try:
            # One write to a file that is only appended to: lines of two runs do not mix.
            with _WRITER.writing():
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                os.write(handle, json.dumps(line).encode() + b"\n")
            finally:
                os.close(handle)
        except OSError as error:
            raise RunRecordLost(
                f"the run cannot be recorded in {path}: {error.strerror or error}",
                hint=_way_to(path) if isinstance(error, PermissionError) else None,
                context={"path": str(path)},
            ) from error


def _way_to(path: Path) -> str | None:
    """Return what gives this user the way to a file again; None where it is not a directory of theirs that bars it."""
    barred = next((folder for folder in reversed(path.parents) if not os.access(folder, os.X_OK)), None)
    if barred is None or not hasattr(os, "geteuid") or os.lstat(barred).st_uid != os.geteuid():
        return None
    return shlex.join(["chmod", "u+rwx", str(barred)])
