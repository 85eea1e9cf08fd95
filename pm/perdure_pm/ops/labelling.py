"""Pins and labels: what people hold of the generations.

Owns: the verbs. Does not own: the file (store.labels) and what a hold means (model.retention).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perdure_pm.model.errors import UsageFault
from perdure_pm.ops.arguments import read_text
from perdure_pm.ops.context import Context, Outcome
from perdure_pm.ops.exclusive import exclusive
from perdure_pm.store.generations import find_generation, load_current
from perdure_pm.store.labels import Labels, load_labels, parse_label, save_labels


def pin(context: Context, arguments: Mapping[str, Any]) -> Outcome:
    """Have a generation pinned, or, with ``remove``, no longer.

    Args:
        context: the world.
        arguments: ``generation``: a number, id or label; the selected one without it. ``remove``: true to let go.
    """
    with exclusive(context, "pin"):
        labels = load_labels(context.layout)
        identity = _find(context, arguments, labels)
        change = frozenset([identity])
        pinned = labels.pinned - change if arguments.get("remove") is True else labels.pinned | change
        return _save(context, labels, Labels(pinned, labels.named), {"generation": identity})


def label(context: Context, arguments: Mapping[str, Any]) -> Outcome:
    """Have a name stand for a generation, or, with ``remove``, for none.

    Args:
        context: the world.
        arguments: ``name``; ``generation`` as for `pin`; ``remove``: true to drop the name.

    Raises:
        UsageFault: the name cannot be one, or there is none to remove.
    """
    name = parse_label(read_text(arguments, "name") or "")
    with exclusive(context, "label"):
        labels = load_labels(context.layout)
        named = dict(labels.named)
        if arguments.get("remove") is True:
            if name not in named:
                raise UsageFault(f"there is no label {name!r}", hint="perdure-pm history")
            identity = named.pop(name)
            if read_text(arguments, "generation") is not None and _find(context, arguments, labels) != identity:
                raise UsageFault(
                    f"{name!r} is a label of generation {identity}, not of the named one", hint="perdure-pm history"
                )
        else:
            identity = named[name] = _find(context, arguments, labels)
        return _save(context, labels, Labels(labels.pinned, named), {"generation": identity, "label": name})


def _find(context: Context, arguments: Mapping[str, Any], labels: Labels) -> str:
    wanted = read_text(arguments, "generation")
    if wanted is None:
        return load_current(context.layout, context.profile).identity
    return find_generation(context.layout, wanted, labels.named).identity


def _save(context: Context, before: Labels, after: Labels, data: dict[str, Any]) -> Outcome:
    if before == after:
        return Outcome(status="noop", data=data)
    if not context.dry_run:
        save_labels(context.filesystem, context.layout, after)
    return Outcome(status="ok", data=data)
