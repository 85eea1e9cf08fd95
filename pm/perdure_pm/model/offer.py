"""What an index offers of one distribution, and how far behind it what was resolved is.

Owns: the releases with their ages, which of them is the newest that could be meant, and when an older one is too far
back to be taken without a word. Does not own: reading an index (adapters.offers).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

FAR_BACK = timedelta(days=2 * 365)
"""A release that is so much older than the newest one was made for another time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One release."""

    version: str
    uploaded: datetime | None
    """When the first of its files was; None where the index does not say."""
    requires_python: str = ""
    has_wheel: bool = True


def find_newest(
    offers: Sequence[Offer], specifier: SpecifierSet, python: str, *, before: datetime | None, prereleases: bool
) -> Offer | None:
    """Return the newest release that a requirement could mean on this Python; None where there is none.

    Args:
        offers: what there is; withdrawn files left out.
        specifier: the requirement's versions.
        python: the version of the interpreter.
        before: what was uploaded later is in quarantine; what has no age is not.
        prereleases: whether a pre-release is meant, too.
    """
    found: list[tuple[Version, Offer]] = []
    for offer in offers:
        try:
            version = Version(offer.version)
            runs = SpecifierSet(offer.requires_python).contains(python, prereleases=True)
        except (InvalidVersion, InvalidSpecifier):
            continue
        in_quarantine = before is not None and offer.uploaded is not None and offer.uploaded > before
        if runs and not in_quarantine and specifier.contains(version, prereleases=prereleases):
            found.append((version, offer))
    return max(found, key=lambda pair: pair[0])[1] if found else None


def is_far_back(chosen: Offer, newest: Offer) -> bool:
    """Return whether there is a major version between them (below 1.0 a minor one), or more than two years."""
    old, new = Version(chosen.version), Version(newest.version)
    if (old.epoch, old.major) != (new.epoch, new.major) or (new.major == 0 and old.minor != new.minor):
        return True
    if chosen.uploaded is None or newest.uploaded is None:
        return False
    return newest.uploaded - chosen.uploaded > FAR_BACK
