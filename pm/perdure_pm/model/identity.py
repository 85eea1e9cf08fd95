"""Names that become parts of paths: generations and profiles.

Owns: their forms, so narrow that no name can lead out of the home. Does not own: where they lie (store.layout).
Standard library only, Python 3.9: launchers and bootstrap meet the same names.
"""

from __future__ import annotations

import re

from perdure_pm.model.errors import UsageFault

DEFAULT_PROFILE = "default"

_GENERATION = re.compile(r"([1-9][0-9]{0,8})-[0-9a-f]{12}")
_PROFILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")
_DISTRIBUTION = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")

EDITABLE = "editable"
"""The fragment of a directory's address in an entry that has its plugin run from there."""


def parse_generation_number(identity: str) -> int | None:
    """Return the number in a generation's id, or None where the text is not such an id."""
    match = _GENERATION.fullmatch(identity)
    return int(match.group(1)) if match else None


def parse_profile(name: str) -> str:
    """Return `name`, which is fit to be a directory's name.

    Raises:
        UsageFault: it is not.
    """
    if not _PROFILE.fullmatch(name):
        raise UsageFault(
            f"{name!r} cannot be a profile's name: 1 to 64 letters, digits and ._- are allowed, no dot or dash first",
            context={"profile": name},
        )
    return name


def is_distribution_name(text: str) -> bool:
    """Return whether `text` is a distribution's name as indexes take it (the core metadata specification)."""
    return _DISTRIBUTION.fullmatch(text) is not None


def normalise_distribution(name: str) -> str:
    """Return the one spelling of a distribution's name (the name normalisation of the packaging specifications)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def is_editable(entry: str) -> bool:
    """Return whether an entry has its plugin run from where it is edited; no requirement is read for that."""
    return entry.endswith(f"#{EDITABLE}")
