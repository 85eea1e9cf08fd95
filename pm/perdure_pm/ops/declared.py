"""What the distributions of a built environment declare: commands, and what a host loads of its plugins.

Owns: reading entry points, telling those that are for this host from those that are for another one, and naming the
modules of a plugin that has no entry points. Does not own: importing any of it (launcher/probe.py) nor the verdict
(verify). docs/adr/0014 says why a plugin is tried just so.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from perdure_pm.model.identity import normalise_distribution
from perdure_pm.store.inventory import find_site_packages

COMMAND_GROUPS = frozenset({"console_scripts", "gui_scripts"})
"""The entry-point groups that name commands."""
PLUGIN_GROUP = "perdure"
"""The entry-point group by which a wheel says that it is a plugin of our app."""
API_GROUP = "perdure.plugin_api"
"""The entry-point group in which a host names the generations of the plugin API that it offers: ``1 = its module``."""
NO_PLUGINS = frozenset({"test", "tests", "testing", "doc", "docs", "example", "examples", "benchmark", "benchmarks"})
"""Names under which distributions install by mistake what no host loads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry point of a plugin."""

    name: str
    distribution: str
    version: str
    group: str
    value: str
    """``module:attribute``."""

    def other_host(self, host: str, groups: Collection[str]) -> str | None:
        """Return the module of the host whose group this is, where it seems to be another one than `host`.

        A group is called after the host that reads it: ``tox``, ``pytest11``, ``mkdocs.plugins``. It is this host's
        where it has the host's name in it, and where `groups`, those that a person named, are not empty.
        """
        word = re.split(r"[^A-Za-z0-9_]", self.group)[0].rstrip("0123456789_")
        if groups or _letters(host) in _letters(self.group) or not word.isidentifier():
            return None
        return word


def parse_entry_points(text: str) -> dict[str, dict[str, str]]:
    """Return an entry_points.txt as group → name → value."""
    import configparser  # 2 ms that an install with nothing to do does not need

    parser = configparser.ConfigParser(delimiters=("=",), interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # names of commands keep their case
    parser.read_string(text)
    # What stands in brackets are extras, which older wheels named there.
    return {
        group: {name: value.partition("[")[0].strip() for name, value in parser.items(group)}
        for group in parser.sections()
    }


def find_distributions(environment: Path) -> dict[str, Path]:
    """Return the dist-info directory of every distribution by its normalised name."""
    found = find_site_packages(environment).glob("*.dist-info")
    return {normalise_distribution(info.name.partition("-")[0]): info for info in found}


def read_requires_python(info: Path) -> str | None:
    """Return which Python a distribution says it is for; None where it says nothing that can be read."""
    try:
        text = (info / "METADATA").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    headers = text.partition("\n\n")[0].splitlines()
    said = next((line.partition(":")[2].strip() for line in headers if line.lower().startswith("requires-python:")), "")
    from packaging.specifiers import InvalidSpecifier, SpecifierSet  # not for those who ask for commands alone

    try:
        return str(SpecifierSet(said)) if said else None
    except InvalidSpecifier:  # older metadata has `>=2.7.*` and the like
        return None


def read_commands(environment: Path, name: str) -> dict[str, str]:
    """Return the commands that a distribution declares in the environment it is installed in, and what they start."""
    groups = _read_groups(find_distributions(environment).get(name))
    return {command: value for group in COMMAND_GROUPS for command, value in groups.get(group, {}).items()}


def read_entries(environment: Path, names: Collection[str], *, own: bool, groups: Collection[str]) -> list[Entry]:
    """Return the entry points by which distributions are plugins, in the order of `names`.

    Args:
        environment: where they are installed.
        names: normalised names of distributions.
        own: whether the host is our app, which has one group of its own.
        groups: the groups that a person named; empty: all but those that name commands.
    """
    there = find_distributions(environment)
    return [
        Entry(
            name=key,
            distribution=name,
            version=there[name].name.removesuffix(".dist-info").partition("-")[2],
            group=group,
            value=value,
        )
        for name in names
        if name in there
        for group, entries in _read_groups(there[name]).items()
        if (group == PLUGIN_GROUP if own else group in groups if groups else group not in COMMAND_GROUPS)
        for key, value in entries.items()
    ]


def find_modules(environment: Path, name: str) -> list[str]:
    """Return what can be imported of a distribution: its top-level modules, and what is in namespace packages."""
    info = find_distributions(environment).get(name)
    try:
        rows = list(csv.reader((info / "RECORD").read_text(encoding="utf-8").splitlines())) if info is not None else []
    except OSError:
        return []
    if info is not None and (info.parent / f"__editable__.{name}.pth").is_file():
        top = (info / "top_level.txt").read_text(encoding="utf-8").split()
        return sorted(word for word in top if word.isidentifier() and word not in NO_PLUGINS)
    paths = [PurePosixPath(row[0]) for row in rows if row and row[0].endswith(".py") and not row[0].startswith("..")]
    packages = {path.parent for path in paths if path.name == "__init__.py"}
    found = set()
    for path in paths:
        # The outermost package that the file is in, else the file itself.
        inside = [parent for parent in path.parents if parent in packages]
        module = inside[-1] if inside else path.with_suffix("")
        if all(part.isidentifier() for part in module.parts) and module.parts[0] not in NO_PLUGINS:
            found.add(".".join(module.parts))
    return sorted(found)


def _read_groups(info: Path | None) -> Mapping[str, dict[str, str]]:
    if info is None or not (info / "entry_points.txt").is_file():
        return {}
    return parse_entry_points((info / "entry_points.txt").read_text(encoding="utf-8"))


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
