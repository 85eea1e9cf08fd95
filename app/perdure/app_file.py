"""The profile's app.yaml: what a person set for the app, read once and told apart by sections.

Owns: finding `profiles/<name>/app.yaml`, reading it with bounds, and which sections there are. Does not own: what a
section means (plugin_settings has `plugins`, tools.jail has `jail`), or writing. Keeps: app-file-read-whole: a file
that cannot be read, and a section that nobody knows, are faults with their place, never a setting that is left out.

Nothing is read before the first section is asked for, and the YAML library is loaded only where there is a file.
"""

import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path

from perdure.installation import Installation

PROFILE_VARIABLE = "PERDURE_PROFILE"
MAX_BYTES = 1 << 20
SECTIONS = ("approvals", "backends", "command_allowlist", "files", "jail", "plugins")
"""The sections that a person may write, each read by the module that it is for."""
_PROFILE = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")


class AppFileUnfit(ValueError):
    """What a person set does not fit, or cannot be read; the text says where."""


class AppFile:
    """The app.yaml of one profile."""

    def __init__(self, path: Path | None, *, fault: str | None = None) -> None:
        """Know where it is; None for none.

        Args:
            path: the file, which need not exist.
            fault: why it cannot even be said where it is.
        """
        self.path = path
        self._fault = fault
        self._document: Mapping[str, object] | None = None
        self._data: bytes | None = None

    def section(self, name: str) -> object:
        """Return what a section holds, not validated; None where there is none.

        Raises:
            AppFileUnfit: the file cannot be read, or is no mapping.
        """
        if name not in SECTIONS:
            raise KeyError(name)
        return self._read().get(name)

    def place(self, name: str) -> str:
        """Return how a message names a setting of this file."""
        return f"{self.path}: {name}"

    def require_known(self) -> None:
        """Have a file without sections that nobody reads: a misspelt policy must not pass for none.

        Raises:
            AppFileUnfit: it has such a section, or cannot be read.
        """
        unknown = sorted(str(name) for name in self._read() if name not in SECTIONS)
        if unknown:
            raise AppFileUnfit(
                f"{self.path}: there is no section {', '.join(unknown)}; the sections are {', '.join(SECTIONS)}"
            )

    def holds_what_was_read(self) -> bool:
        """Return whether the file is still the one that was read, byte by byte; False where that cannot be told."""
        try:
            return self._document is not None and self._bytes() == self._data
        except (OSError, AppFileUnfit):
            return False

    def _bytes(self) -> bytes | None:
        """Return what the file holds, as far as it is looked at; None where there is none.

        Raises:
            AppFileUnfit: it is no file.
        """
        if self.path is None or not os.path.lexists(self.path):
            return None
        # A pipe would be waited for without end, and a device has none.
        if not stat.S_ISREG(os.stat(self.path).st_mode):
            raise AppFileUnfit(f"{self.path} cannot be read: it is not a file")
        with open(self.path, "rb") as file:
            return file.read(MAX_BYTES + 1)

    def _read(self) -> Mapping[str, object]:
        if self._fault is not None:
            raise AppFileUnfit(self._fault)
        if self._document is None:
            try:
                self._document = self._load()
            except AppFileUnfit as fault:
                self._fault = str(fault)
                raise
        return self._document

    def _load(self) -> Mapping[str, object]:
        try:
            data = self._data = self._bytes()
        except OSError as error:
            raise AppFileUnfit(f"{self.path} cannot be read: {error}") from error
        if data is None:
            return {}
        if len(data) > MAX_BYTES:
            raise AppFileUnfit(f"{self.path} is larger than {MAX_BYTES} bytes")
        from ruamel.yaml import YAML
        from ruamel.yaml.error import YAMLError

        try:
            document: object = YAML(typ="safe", pure=True).load(data.decode("utf-8-sig"))
        except (YAMLError, RecursionError, ValueError, TypeError, LookupError, AttributeError) as error:
            # Values are made while reading: a day that no month has is a ValueError of the library's own.
            said = " ".join(str(error).split())
            raise AppFileUnfit(f"{self.path} cannot be read: {said}") from error
        if document is None:
            return {}
        if not isinstance(document, dict):
            raise AppFileUnfit(f"{self.path} must be a mapping of sections to settings")
        return document


def find_app_file(installation: Installation, environ: Mapping[str, str]) -> AppFile:
    """Return the file of the profile that this process was started for.

    A profile that the home does not have is a fault: its missing file would be read as one without a policy.
    """
    profile = environ.get(PROFILE_VARIABLE) or "default"
    if not _PROFILE.fullmatch(profile):
        return AppFile(None, fault=f"{PROFILE_VARIABLE} is {profile!r}, which is no profile's name")
    profiles = installation.home / "profiles"
    folder = profiles / profile
    if profiles.is_dir() and not folder.is_dir():
        return AppFile(None, fault=f"there is no profile {profile} in {installation.home}")
    return AppFile(folder / "app.yaml")
