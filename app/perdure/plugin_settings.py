"""What a person set for a plugin in the profile's app.yaml, checked against the schema that its plugin.yaml has.

Owns: `plugins:` of `profiles/<name>/app.yaml`, and the verdict on each plugin's part. Does not own: the rest of that
file, the schema (boot.json has it, PM checked that it is one), giving settings to a plugin (plugin_manager). The file
is only read. Keeps: app-settings-validated: a plugin sees no settings but such as fit its schema.

Nothing is read for a start without plugins that have settings; the library that validates is loaded only where there is
something to judge: it takes longer than everything else together.
"""

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from perdure.domain.json_value import JsonValue, find_non_json
from perdure.domain.plugin import PluginSource
from perdure.installation import Installation

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

PROFILE_VARIABLE = "PERDURE_PROFILE"
MAX_BYTES = 1 << 20
_PROFILE = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")
_SAY_NOTHING_OF_EMPTY = {
    "$schema",
    "$id",
    "$defs",
    "title",
    "description",
    "type",
    "properties",
    "additionalProperties",
}
"""Keywords under which an object without members fits."""


class SettingsUnfit(ValueError):
    """What a person set does not fit, or cannot be read; the text says where."""


class PluginSettings:
    """The settings of one profile."""

    def __init__(self, path: Path | None, *, is_tried: Callable[[], bool] = lambda: False) -> None:
        """Know the file, which is read when the first plugin with settings comes; None for none.

        Args:
            path: the profile's app.yaml.
            is_tried: says whether this process only tries a generation that the profile does not run; asked where
                settings do not fit.
        """
        self._path = path
        self._is_tried = is_tried
        self._read: Mapping[str, object] | SettingsUnfit | None = None

    @property
    def tried(self) -> bool:
        """Whether what a person set is judged by another generation: it keeps none from being selected."""
        return self._is_tried()

    def find(self, source: PluginSource) -> Mapping[str, JsonValue]:
        """Return the settings of a plugin, checked; empty where nobody set any, and for one without a schema.

        Raises:
            SettingsUnfit: they do not fit its schema, or the file cannot be read.
        """
        schema = source.settings
        if schema is None:
            return {}
        if self._read is None:
            try:
                self._read = self._load()
            except SettingsUnfit as fault:
                self._read = fault
        if isinstance(self._read, SettingsUnfit):
            raise self._read
        # By the distribution's name, in any spelling, as everywhere in the configuration.
        wanted = _normalise(source.distribution)
        value = next((value for name, value in self._read.items() if _normalise(str(name)) == wanted), None)
        if value is None and set(schema) <= _SAY_NOTHING_OF_EMPTY:
            return {}
        place = f"plugins.{source.distribution}"
        settings = {} if value is None else value
        unsayable = find_non_json(settings, place)
        faults = [unsayable] if unsayable is not None else _find_faults(settings, schema, place)
        if faults or not isinstance(settings, dict):
            raise SettingsUnfit(f"{self._path}: {'; '.join(faults) or f'{place} must be a mapping'}")
        return settings

    def _load(self) -> Mapping[str, object]:
        if self._path is None or not os.path.lexists(self._path):
            return {}
        from ruamel.yaml import YAML
        from ruamel.yaml.error import YAMLError

        try:
            data = self._path.read_bytes()[: MAX_BYTES + 1]
            if len(data) > MAX_BYTES:
                raise SettingsUnfit(f"{self._path} is larger than {MAX_BYTES} bytes")
            document: object = YAML(typ="safe", pure=True).load(data.decode("utf-8-sig"))
        except (OSError, UnicodeDecodeError, YAMLError, RecursionError) as error:
            said = " ".join(str(error).split())
            raise SettingsUnfit(f"{self._path} cannot be read: {said}") from error
        plugins = document.get("plugins") if isinstance(document, dict) else document
        if plugins is None:
            return {}
        if not isinstance(plugins, dict):
            raise SettingsUnfit(f"{self._path}: plugins must be a mapping of plugins to their settings")
        return plugins


def find_settings(installation: Installation, environ: Mapping[str, str]) -> PluginSettings:
    """Return the settings of the profile that this process was started for."""
    profile = environ.get(PROFILE_VARIABLE) or "default"
    if installation.generation is None or not _PROFILE.fullmatch(profile):
        return PluginSettings(None)
    folder = installation.home / "profiles" / profile
    own = installation.generation.name

    def is_tried() -> bool:
        try:
            return (folder / "current").read_text(encoding="ascii").strip() != own
        except (OSError, UnicodeDecodeError):
            return True

    return PluginSettings(folder / "app.yaml", is_tried=is_tried)


def _find_faults(settings: object, schema: Mapping[str, JsonValue], place: str) -> list[str]:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    try:
        Draft202012Validator.check_schema(dict(schema))
        # An empty registry: the default one would fetch a `$ref` from the network.
        validator = Draft202012Validator({"type": "object", **schema}, registry=Registry())
        return [
            _describe(fault, place) for fault in sorted(validator.iter_errors(settings), key=lambda at: at.json_path)
        ]
    except (SchemaError, Unresolvable) as error:
        return [f"{place}: the schema in its plugin.yaml cannot be used: {str(error).splitlines()[0]}"]


def _describe(fault: "ValidationError", place: str) -> str:
    return f"{place}{fault.json_path.removeprefix('$')}: {fault.message}"


def _normalise(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
