"""The cache, pruned to what the home needs to repair and to go back without a network.

Owns: what that is. Does not own: how uv's cache lies on the disk (adapters.uv_cache), nor generations (collect): they
keep their files, which they share with it.

Keeps: collect-cache-keeps-needed: whatever a generation that is there, or a record that is kept, or a runtime of PM
holds can be built again offline.
"""

from __future__ import annotations

import re
from typing import Any

from packaging.utils import canonicalize_version

from perdure_pm.adapters.uv_cache import Cached, find_buckets, find_cached, measure
from perdure_pm.model.identity import normalise_distribution
from perdure_pm.ops.context import Context
from perdure_pm.ops.host import make_uv
from perdure_pm.ops.tool_uv import find_uv_problem
from perdure_pm.store.generations import list_generations
from perdure_pm.store.layout import Layout
from perdure_pm.store.pointer import refuse_links
from perdure_pm.store.records import list_kept_records, load_kept_record

_PINNED = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?==([^\s;\\]+)", re.MULTILINE)

Needed = set[tuple[str, str]]
"""Names and versions, both in their canonical spelling."""


def require_plain_cache(layout: Layout) -> None:
    """Return where no part of the cache is a link.

    Raises:
        IntegrityFault: one is: what it leads to is not PM's to remove.
    """
    for folder in (layout.cache, layout.uv_cache, layout.scratch, *find_buckets(layout.uv_cache)):
        refuse_links(layout, folder)
    refuse_links(layout, layout.uv_cache / "archive-v0")


def prune_cache(context: Context) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Have nothing in the cache that nothing needs, and return what went and what a person should know.

    The caller holds the mutex, has collected before, and has found the cache plain.
    """
    layout, filesystem = context.layout, context.filesystem
    needed = find_needed(layout)
    if needed is None:
        return {}, ("a record cannot be read, so nobody knows what of the cache is needed: it stays as it is",)
    going = [entry for entry in find_cached(layout.uv_cache) if not is_needed(entry, needed)]
    names = sorted({f"{entry.name} {entry.version}" for entry in going if entry.version is not None})
    if context.dry_run:
        return {"removed": names}, ()
    problem = find_uv_problem(layout, thorough=True)
    if problem:  # what can still be reached, uv alone knows
        return {}, (f"{problem}: the cache stays as it is",)
    before = measure(layout.cache)
    for entry in going:
        filesystem.remove_tree(entry.path)
    for path in sorted(layout.scratch.iterdir()) if layout.scratch.is_dir() else []:
        filesystem.remove_tree(path)  # what an operation that died left; nobody else holds the mutex
    make_uv(context).prune()
    after = measure(layout.cache)
    return {"removed": names, "freed": after.freed_since(before), "left": after.bytes()}, ()


def find_needed(layout: Layout) -> Needed | None:
    """Return every distribution that something of this home holds; None where a record cannot be read."""
    generations, damaged = list_generations(layout)
    if damaged:
        return None
    kept = [load_kept_record(layout, identity) for identity in list_kept_records(layout)]
    needed: Needed = set()
    for record in (*(generation.record for generation in generations), *filter(None, kept)):
        needed.update(_spelled(str(package["name"]), str(package["version"])) for package in record["packages"])
    for path in layout.runtimes.glob("*/requirements.txt"):
        needed.update(_spelled(*found) for found in _PINNED.findall(path.read_text(encoding="utf-8", errors="replace")))
    return needed


def is_needed(entry: Cached, needed: Needed) -> bool:
    """Return whether an entry is of what is needed; what an index said is, of every name of that."""
    if entry.version is None:
        return entry.name in {name for name, _ in needed}
    return _spelled(entry.name, entry.version) in needed


def _spelled(name: str, version: str) -> tuple[str, str]:
    return normalise_distribution(name), canonicalize_version(version)
