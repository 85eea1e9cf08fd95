"""host init: writing down what a home hosts.

Owns: the verb. Does not own: installing it (publish), the file's form (model.config). Nothing is fetched: a host that
does not exist shows at the install.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from perdure_pm.model.config import SCHEMA, find_key, parse_home_config
from perdure_pm.model.errors import ConsentMissing, UsageFault
from perdure_pm.model.requirement import parse_requirement, requirement_name
from perdure_pm.ops.arguments import read_text
from perdure_pm.ops.context import Context, Outcome
from perdure_pm.ops.exclusive import exclusive
from perdure_pm.store.config import load_file, plan_change, save_text
from perdure_pm.store.policy import mirror_policy

KEYS = ("name", "requirement", "wheel", "checkout", "with", "commands", "plugin-groups", "health", "environment")
"""The keys of ``host`` that a host is written down in; those that it does not use are taken out."""


def init_host(context: Context, arguments: Mapping[str, Any]) -> Outcome:
    """Have config.yaml say what this home hosts.

    Args:
        context: the world.
        arguments: ``source``: a requirement, a wheel's path or a checkout's; ``with``, ``commands``, ``plugin-groups``:
            lists of texts; ``health``: text; ``environment``: name → text; ``replace``: true where another host may be
            written over.

    Raises:
        UsageFault: the source is none of the three.
        ConsentMissing: the home hosts something else already.
    """
    layout = context.layout
    values = parse_host(read_text(arguments, "source") or "", layout.home)
    for name in ("with", "commands", "plugin-groups", "health", "environment"):
        if arguments.get(name):
            values[name] = arguments[name]
    with exclusive(context, "host-init"):
        file = load_file(layout, layout.config)
        before = parse_home_config(file.document)
        if before.host_name not in {None, values["name"]} and arguments.get("replace") is not True:
            raise ConsentMissing(
                f"{layout.home} hosts {before.host_name} already",
                hint="choose another home with --home DIR, or say --yes to have this one host something else",
                context={"host": before.host_name},
            )
        data = {"home": str(layout.home), "host": values}
        text = file.text if file.text.strip() else f"schema: {SCHEMA}\n"
        if context.dry_run:
            return Outcome(status="ok", data={**data, "dry_run": True})
        if text != file.text:
            save_text(context.filesystem, file, text)
        for name in KEYS:
            key, in_profile = find_key(f"host.{name}")
            file = load_file(layout, layout.config)
            changed = plan_change(file, key, values.get(name), in_profile=in_profile)
            if changed != file.text:
                save_text(context.filesystem, file, changed)
        file = load_file(layout, layout.config)
        mirror_policy(context.filesystem, layout, lazy=parse_home_config(file.document).lazy, config_digest=file.digest)
        return Outcome(status="noop" if parse_home_config(file.document) == before else "ok", data=data)


def parse_host(source: str, home: Path) -> dict[str, Any]:
    """Return the keys that name a host: a directory is a checkout, what ends in .whl a wheel, else a requirement.

    Raises:
        UsageFault: it is none of them.
    """
    path = Path(os.path.abspath(os.path.join(home, os.path.expanduser(source))))
    if os.sep in source and path.is_dir():
        return {"name": _checkout_name(path), "checkout": str(path)}
    if source.endswith(".whl"):
        if not path.is_file():
            raise UsageFault(f"there is no wheel {path}", hint="name a wheel that exists, or a requirement")
        return {"name": requirement_name(path.name.split("-")[0]), "wheel": str(path)}
    requirement = parse_requirement(source)
    return {"name": requirement_name(requirement.name), "requirement": source}


def _checkout_name(path: Path) -> str:
    import tomllib

    try:
        name = tomllib.loads((path / "pyproject.toml").read_text(encoding="utf-8"))["project"]["name"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageFault(
            f"{path} is not the checkout of a project: {error}", hint="name a directory with pyproject.toml and uv.lock"
        ) from error
    return requirement_name(str(name))
