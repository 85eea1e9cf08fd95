"""What a plan says of ages and newest releases, for people.

Owns: the words. Does not own: the findings (ops.screening).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

SHOWN_NAMES = 6


def show_screening(found: Mapping[str, Any] | None) -> str:
    """Return what is worth telling, a line each; nothing where everything is old enough and the newest there is."""
    if not found:
        return ""
    lines = []
    if found["unknown_age"]:
        lines.append(f"unknown age: {_some(found['unknown_age'])} (the index does not say when it was uploaded)")
    if found["unknown_newest"]:
        lines.append(f"not known whether there is a newer release: {_some(found['unknown_newest'])}")
    for held in found["held_back"]:
        taken = f"{held['taken']} is taken" if held["taken"] else "it is left out"
        lines.append(f"in quarantine: {held['name']} {held['version']} of {held['uploaded'][:10]}; {taken}")
    for behind in found["behind"]:
        chosen, newest = _dated(behind["chosen"]), _dated(behind["newest"])
        why = f": {behind['why']}" if behind["why"] else ""
        lines.append(f"behind: {behind['name']} {chosen} although there is {newest}{why}")
    lines += [
        f"let through: {one['name']} {one['version']} until {one['until']} because {one['reason']}"
        for one in found["exceptions"]
    ]
    return "\n".join([*lines, *found["warnings"]])


def _some(names: Sequence[str]) -> str:
    more = len(names) - SHOWN_NAMES
    return ", ".join(names[:SHOWN_NAMES]) + (f" and {more} more" if more > 0 else "")


def _dated(offer: Mapping[str, Any]) -> str:
    return f"{offer['version']} of {offer['uploaded'][:10]}" if offer["uploaded"] else str(offer["version"])
