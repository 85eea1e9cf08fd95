"""What a person set for a plugin in the profile's app.yaml, checked against the schema that its plugin.yaml has.

Owns: `plugins:` of the file, and the verdict on each plugin's part. Does not own: reading the file (app_file), the
schema (boot.json has it, PM checked that it is one), giving settings to a plugin (plugin_manager). Keeps:
app-settings-validated: a plugin sees no settings but such as fit its schema.

Nothing is read for a start without plugins that have settings; the library that validates is loaded only where there is
something to judge: it takes longer than everything else together.
"""

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from perdure.app_file import AppFile, AppFileUnfit
from perdure.domain.json_value import JsonValue, find_non_json
from perdure.domain.plugin import PluginSource
from perdure.installation import Installation

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

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

    def __init__(self, file: AppFile, *, is_tried: Callable[[], bool] = lambda: False) -> None:
        """Know the file, which is read when the first plugin with settings comes.

        Args:
            file: the profile's app.yaml.
            is_tried: says whether this process only tries a generation that the profile does not run; asked where
                settings do not fit.
        """
        self._file = file
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
            raise SettingsUnfit(f"{self._file.path}: {'; '.join(faults) or f'{place} must be a mapping'}")
        return settings

    def _load(self) -> Mapping[str, object]:
        try:
            plugins = self._file.section("plugins")
        except AppFileUnfit as fault:
            raise SettingsUnfit(str(fault)) from fault
        if plugins is None:
            return {}
        if not isinstance(plugins, dict):
            raise SettingsUnfit(f"{self._file.place('plugins')} must be a mapping of plugins to their settings")
        return plugins


def find_settings(installation: Installation, file: AppFile) -> PluginSettings:
    """Return the settings in a profile's file; none outside a generation, which has no plugins."""
    if installation.generation is None:
        return PluginSettings(AppFile(None))
    if file.path is None:
        return PluginSettings(file)
    current = file.path.parent / "current"
    own = installation.generation.name

    def is_tried() -> bool:
        if installation.managed:
            return False  # no profile selects it: it is what runs
        try:
            return current.read_text(encoding="ascii").strip() != own
        except (OSError, UnicodeDecodeError):
            return True

    return PluginSettings(file, is_tried=is_tried)


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
