"""Plugins of a generation that run from where they are edited: which they are, and which are gone.

Owns: asking a record that. Does not own: how one is installed (snapshots, editable_wheel), the form of an entry
(model.source), that none is carried elsewhere (wheelhouse).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from perdure_pm.model.identity import is_editable

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
