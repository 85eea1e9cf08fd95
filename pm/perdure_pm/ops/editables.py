"""Plugins of a generation that run from where they are edited: which they are, which are gone, and what has none.

Owns: asking a record that. Does not own: how one is installed (snapshots, editable_wheel), the form of an entry
(model.source).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from perdure_pm.model.errors import UsageFault
from perdure_pm.model.identity import EDITABLE, is_editable
from perdure_pm.store.generations import Generation

if TYPE_CHECKING:
    from perdure_pm.model.source import Source


def find_editables(record: Mapping[str, Any]) -> tuple[Source, ...]:
    """Return the plugins that a generation's record says run from where they are edited, in load order."""
    entries = [str(entry) for entry in record.get("selection", ()) if is_editable(str(entry))]
    if not entries:
        return ()
    from perdure_pm.model.requirement import parse_source  # 20 ms that a home without such plugins does not take

    return tuple(source for source in map(parse_source, entries) if source is not None and source.editable)


def find_gone(record: Mapping[str, Any]) -> tuple[Source, ...]:
    """Return those whose directory is not there any more."""
    return tuple(source for source in find_editables(record) if not os.path.isdir(source.path or ""))


def say_gone(source: Source) -> str:
    """Return the sentence for one of them."""
    return f"the plugin {source.name} runs from {source.path}, which is gone"


def refuse_editables(generation: Generation, what: str) -> None:
    """Refuse to carry a generation elsewhere that holds such plugins: what they run from stays here.

    Args:
        generation: what is to be carried.
        what: the result, in words: "a staged payload".

    Raises:
        UsageFault: it holds some; each is named.
    """
    found = find_editables(generation.record)
    if found:
        names = ", ".join(f"{source.name} ({source.path})" for source in found)
        raise UsageFault(
            f"{what} cannot hold what runs from where it is edited: {names}",
            hint=f"add it as it is now: perdure-pm plugin add '{found[0].entry.removesuffix('#' + EDITABLE)}'",
            context={"plugins": [source.name for source in found]},
        )
