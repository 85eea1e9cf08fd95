"""Changing one key of config.yaml, or of a profile's, on a person's word.

Owns: the operation `config-set`. Does not own: what keys there are (model.config), the file (store.config). Keeps: a
file that would not be valid afterwards is not written; pm/policy follows config.yaml.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perdure_pm.model.config import find_key, parse_typed
from perdure_pm.model.errors import ConfigChanged, UsageFault
from perdure_pm.ops.context import Context, Outcome
from perdure_pm.ops.exclusive import exclusive
from perdure_pm.ops.recovery import recover, tidy
from perdure_pm.store.config import is_lazy, load_file, plan_change, save_text
from perdure_pm.store.policy import mirror_policy


def config_set(context: Context, arguments: Mapping[str, Any]) -> Outcome:
    """Have a key say what a person typed.

    Args:
        context: the world.
        arguments: ``key``: dotted; ``value``: the text that was typed, or null to remove the key; ``expected``: the
            digest of the file that the person saw, if that matters.

    Raises:
        UsageFault: there is no such key, or the text is no value of it.
        ConfigInvalid: the file has faults that this change does not correct.
        ConfigChanged: the file is not the one that was seen.
    """
    key, in_profile = find_key(str(arguments.get("key")))
    typed = arguments.get("value")
    value = None if typed is None else parse_typed(key, str(typed))
    if key.kind == "schema":
        raise UsageFault("schema is not to be changed", context={"key": key.name})
    layout = context.layout
    path = layout.profile_config(context.profile) if in_profile else layout.config
    with exclusive(context, "config-set"):
        notices = recover(context)
        file = load_file(layout, path)
        if arguments.get("expected") not in {None, file.digest}:
            raise ConfigChanged(f"{file.document.file} is not the file that was seen", hint="look at it again")
        text = plan_change(file, key, value, in_profile=in_profile)
        data: dict[str, Any] = {"key": key.name, "value": value, "file": str(path), "digest": file.digest}
        if text == file.text:
            return Outcome(status="noop", data=data, obligations=notices)
        if context.dry_run:
            import difflib

            changes = difflib.unified_diff(file.text.splitlines(), text.splitlines(), lineterm="", n=1)
            return Outcome(status="ok", data={**data, "dry_run": True, "diff": list(changes)[2:]}, obligations=notices)
        data["digest"] = save_text(context.filesystem, file, text)
        if not in_profile:
            # A crash or a failure before the mirror is written leaves one that does not match, which means the strict
            # value; whatever reads the intent next writes it.
            notices = (*notices, *tidy(lambda: _mirror(context)))
        return Outcome(status="ok", data=data, obligations=notices)


def _mirror(context: Context) -> None:
    # The file that stands there now, which is not ours where somebody's editor was quicker than this line.
    now = load_file(context.layout, context.layout.config)
    mirror_policy(context.filesystem, context.layout, lazy=is_lazy(now), config_digest=now.digest)
