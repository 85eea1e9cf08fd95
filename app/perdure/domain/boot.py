"""boot.json: which plugins a generation holds, in load order.

Owns: the form of the document (schema 1, written by pm) and its parsing. Does not own: finding or reading the file
(installation) or importing what it names (plugin_manager). Keeps: app-boot-faults-named.

A document that is not of this form as a whole is refused with every fault and its place; an entry of the plugin list
that is wrong by itself is that plugin's failure, and the others load.
"""

import json
import re

from perdure.domain.plugin import PluginFailure, PluginSource
from perdure.domain.record import dataclass

SCHEMA = 1

_ENTRY = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Boot:
    """A generation's boot manifest."""

    generation: str
    """Id of the generation it was written for."""
    host: str
    """Distribution of the application, `perdure`."""
    host_version: str
    """Its version."""
    plugins: tuple[PluginSource | PluginFailure, ...]
    """In load order; a failure stands where the entry that caused it stood."""
    external: tuple[str | PluginFailure, ...] = ()
    """Names of the plugins that are programs of their own."""


class BootFaults(ValueError):
    """Everything that is wrong with a boot manifest as a whole."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__("; ".join(faults))
        self.faults = faults


def parse_boot(text: str) -> Boot:
    """Return the manifest that `text` holds.

    Raises:
        BootFaults: it is no JSON, of another schema, or misses what every manifest has.
    """
    try:
        document: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BootFaults([f"not JSON: {error}"]) from error
    if not isinstance(document, dict):
        raise BootFaults([f"$ must be an object, not {_kind(document)}"])
    schema: object = document.get("schema")
    # `True == 1` in Python, and not in JSON.
    if isinstance(schema, bool) or schema != SCHEMA:
        raise BootFaults([f"$.schema is {json.dumps(schema)}; this version of perdure reads schema {SCHEMA}"])
    faults: list[str] = []
    generation = _text(document.get("generation"), "$.generation", faults)
    host: object = document.get("host")
    if isinstance(host, dict):
        name, version = (_text(host.get(key), f"$.host.{key}", faults) for key in ("name", "version"))
    else:
        name = version = ""
        faults.append(f"$.host must be an object, not {_kind(host)}")
    listed: object = document.get("plugins")
    if not isinstance(listed, list):
        faults.append(f"$.plugins must be an array, not {_kind(listed)}")
        listed = []
    if faults:
        raise BootFaults(faults)
    return Boot(
        generation=generation,
        host=name,
        host_version=version,
        plugins=tuple(_parse_entry(entry, index, document.get("manifests")) for index, entry in enumerate(listed)),
        external=_parse_external(document.get("external")),
    )


def _parse_external(listed: object) -> tuple[str | PluginFailure, ...]:
    """Return the names in ``external``, which older manifests do not have."""
    if listed is None:
        return ()
    if not isinstance(listed, list):
        return (PluginFailure(plugin="$.external", stage="boot", summary=f"must be an array, not {_kind(listed)}"),)
    found: list[str | PluginFailure] = []
    for index, entry in enumerate(listed):
        place, faults = f"$.external[{index}]", list[str]()
        name = _text(entry.get("name") if isinstance(entry, dict) else None, f"{place}.name", faults)
        found.append(PluginFailure(plugin=place, stage="boot", summary=faults[0]) if faults else name)
    return tuple(found)


def _parse_entry(entry: object, index: int, manifests: object) -> PluginSource | PluginFailure:
    place = f"$.plugins[{index}]"
    if not isinstance(entry, dict):
        return PluginFailure(plugin=place, stage="boot", summary=f"must be an object, not {_kind(entry)}")
    faults: list[str] = []
    name, distribution, version, target = (
        _text(entry.get(key), f"{place}.{key}", faults) for key in ("name", "distribution", "version", "entry")
    )
    if target and not _ENTRY.fullmatch(target):
        faults.append(f"{place}.entry is {target!r}, not module:attribute")
    if faults:
        return PluginFailure(plugin=name or place, stage="boot", summary="; ".join(faults))
    # PM wrote what the plugin.yaml says, and checked that its settings are a schema.
    manifest: object = manifests.get(distribution) if isinstance(manifests, dict) else None
    schema: object = manifest.get("settings") if isinstance(manifest, dict) else None
    settings = schema if isinstance(schema, dict) else None
    return PluginSource(name=name, distribution=distribution, version=version, entry=target, settings=settings)


def _text(value: object, place: str, faults: list[str]) -> str:
    if isinstance(value, str) and value:
        return value
    faults.append(f"{place} must be " + ("text that is not empty" if value == "" else f"text, not {_kind(value)}"))
    return ""


def _kind(value: object) -> str:
    if value is None:
        return "null or missing"
    names = {bool: "a boolean", int: "a number", float: "a number", str: "text", list: "an array", dict: "an object"}
    return names[type(value)]
