"""Regular expressions that are compiled when they are first used.

Owns: that, because compiling all of the guard's took a sixth of what importing it takes, and a verdict needs few of
them. Does not own: what they say; `tests/app/guard` compiles every one.
"""

from __future__ import annotations

import re
from typing import cast

_METHODS = ("findall", "finditer", "fullmatch", "match", "search", "split", "sub", "subn")


def late(written: str, flags: int = 0) -> re.Pattern[str]:
    """Return what serves as the compiled expression; the functions of `re` themselves do not take it."""
    return cast("re.Pattern[str]", Late(written, flags))


class Late:
    """An expression that becomes its compiled form with the first question to it."""

    def __init__(self, written: str, flags: int) -> None:
        self._written = written
        self._flags = flags

    def __getattr__(self, name: str) -> object:
        """Return what the compiled expression has by this name, and have its methods at hand from now on."""
        compiled = re.compile(self._written, self._flags)
        vars(self).update((method, getattr(compiled, method)) for method in _METHODS)
        return getattr(compiled, name)
