"""Looking up dotted names among the entries of manifests.

Owns: which entry a dotted name falls under. Does not own: finding the dotted names in a file (reading).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from perdure_compat.manifest import Entry, Manifest

_WORD = re.compile(rb"[A-Za-z_]\w*")
_RELATIVE = re.compile(rb"from[\s\\]*\.")


class Index:
    """The entries of one or more manifests, by old name."""

    def __init__(self, manifests: Iterable[Manifest]) -> None:
        """Index every entry; of two manifests that name the same old name, the first one counts."""
        self.entries: dict[str, Entry] = {}
        self.roots: set[str] = set()
        for manifest in manifests:
            self.roots.add(manifest.package.partition(".")[0])
            for entry in manifest.entries:
                self.entries.setdefault(entry.old, entry)
        self._tails = {entry.old.rpartition(".")[2].encode() for entry in self.entries.values()}
        self.modules: dict[str, list[Entry]] = {}
        for entry in self.entries.values():
            self.modules.setdefault(entry.old_module, []).append(entry)

    def may_be_used_in(self, raw: bytes) -> bool:
        """Return whether a file's bytes hold what every use does: the package's name and the last part of an old name.

        Parsing is what costs, and this leaves it out for most files. A relative import may leave the package unnamed.
        """
        if not any(root.encode() in raw for root in self.roots) and not _RELATIVE.search(raw) and raw.isascii():
            return False
        return not self._tails.isdisjoint(_WORD.findall(raw)) or not raw.isascii()

    def find(self, parts: Sequence[str]) -> tuple[Entry, int] | None:
        """Return the entry that a dotted name falls under and how many of its parts that took; the longest wins."""
        if not parts or parts[0] not in self.roots:
            return None
        for length in range(len(parts), 0, -1):
            entry = self.entries.get(".".join(parts[:length]))
            if entry is not None:
                return entry, length
        return None

    def new_parts(self, entry: Entry, rest: Sequence[str]) -> tuple[str, str] | None:
        """Return the new module and attribute of a name under an entry, or None where there is no new place."""
        if not entry.new_module or entry.kind in {"removed", "restored"}:
            return None
        if not entry.whole:
            return entry.new_module, ".".join([*filter(None, [entry.new_name]), *rest])
        return (entry.new_module, "") if not rest else (".".join([entry.new_module, *rest[:-1]]), rest[-1])
