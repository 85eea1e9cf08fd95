"""How macOS spells paths: directories with two names.

Owns: the one name that both are compared by, as a pure function. Does not own: case and Unicode forms
(patterns.folded), or links on the disk (probe).
"""

from __future__ import annotations

from typing import TypeVar

_T = TypeVar("_T")

_DATA = ("system", "volumes", "data")
_PRIVATE = frozenset({"tmp", "var", "etc"})


def without_firmlinks(names: tuple[_T, ...], known: tuple[str | None, ...]) -> tuple[_T, ...]:
    """Return the components of an absolute path below the name that people use.

    Args:
        names: the components.
        known: each as text where it is known.
    """
    folded = tuple(name.casefold() if name is not None else None for name in known)
    if folded[:3] == _DATA:
        return without_firmlinks(names[3:], known[3:])
    if len(folded) > 1 and folded[0] == "private" and folded[1] in _PRIVATE:
        return names[1:]
    return names
