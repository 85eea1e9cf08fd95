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
from perdure_pm.model.errors import ConfigInvalid, ConsentMissing, UsageFault
from perdure_pm.model.requirement import find_requirement_problem, requirement_name
from perdure_pm.model.source import without_secret
from perdure_pm.ops.arguments import read_text
from perdure_pm.ops.context import Context, Outcome
from perdure_pm.ops.exclusive import exclusive
from perdure_pm.store.config import ConfigFile, load_file, plan_change, save_text, with_text
from perdure_pm.store.policy import mirror_policy

SAID = ("with", "commands", "plugin-groups", "health", "serve", "environment")
"""What a person says of a host beside where it comes from."""

KEYS = ("name", "requirement", "wheel", "checkout", *SAID)
"""The keys of ``host`` that a host is written down in; those that it does not use are taken out."""


def init_host(context: Context, arguments: Mapping[str, Any]) -> Outcome:
    """Have config.yaml say what this home hosts.

    Args:
        context: the world.
        arguments: ``source``: a requirement, a wheel's path or a checkout's; ``with``, ``commands``, ``plugin-groups``:
            lists of texts; ``health``, ``serve``: text; ``environment``: name → text; ``replace``: true where another
            host may be written over.

    Raises:
        UsageFault: the source is none of the three, or a value is none that config.yaml may hold.
        ConsentMissing: the home hosts something else already.
    """
    layout = context.layout
    values = parse_host(read_text(arguments, "source") or "", layout.home)
    for name in SAID:
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
        text = _written(file, values)
        if context.dry_run:
            return Outcome(status="ok", data={**data, "dry_run": True})
        if text != file.text:
            save_text(context.filesystem, file, text)
        file = load_file(layout, layout.config)
        mirror_policy(context.filesystem, layout, lazy=parse_home_config(file.document).lazy, config_digest=file.digest)
        return Outcome(status="noop" if parse_home_config(file.document) == before else "ok", data=data)


def _written(file: ConfigFile, values: Mapping[str, Any]) -> str:
    """Return the text of config.yaml with the host written down: all of it is saved at once, or nothing.

    Raises:
        UsageFault: a value is none that the file may hold.
    """
    after = file if file.text.strip() else with_text(file, f"schema: {SCHEMA}\n")
    for name in KEYS:
        key, in_profile = find_key(f"host.{name}")
        try:
            text = plan_change(after, key, values.get(name), in_profile=in_profile)
        except ConfigInvalid as fault:
            # The file was read before and is valid: the fault is in what was typed, and at no line that anybody sees.
            faults = fault.context.get("faults")
            if not isinstance(faults, list):
                raise  # it is written in a way that cannot be changed from outside
            raise UsageFault(
                "; ".join(str(one).partition(" ")[2] for one in faults),  # behind FILE:LINE:COLUMN
                hint="correct it on the command line; nothing was written down",
                context={"key": f"host.{name}"},
            ) from fault
        after = with_text(after, text)
    return after.text


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
    way = "name a requirement such as NAME>=1,<2, a wheel, or a checkout with its own uv.lock"
    if os.path.isabs(source):
        kind = "is neither a wheel nor a checkout" if os.path.lexists(source) else "is not there"
        raise UsageFault(f"{source} {kind}", hint=way, context={"source": source})
    problem = find_requirement_problem(source)
    if problem is not None:
        raise UsageFault(f"a host {problem}", hint=way, context={"source": without_secret(source)})
    return {"name": requirement_name(source), "requirement": source}


def _checkout_name(path: Path) -> str:
    import tomllib

    try:
        name = tomllib.loads((path / "pyproject.toml").read_text(encoding="utf-8"))["project"]["name"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageFault(
            f"{path} is not the checkout of a project: {error}", hint="name a directory with pyproject.toml and uv.lock"
        ) from error
    return requirement_name(str(name))
