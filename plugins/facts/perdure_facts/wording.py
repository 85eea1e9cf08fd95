"""Sizes and tables in words.

Owns: how the tools' texts look. Does not own: what is in them.
"""

from collections.abc import Sequence

_STEP = 1024


def size(count: int) -> str:
    """Return a number of bytes with a binary unit: `1.5 GiB`."""
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if value < _STEP:
            return f"{count} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= _STEP
    return f"{value:.1f} PiB"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table whose columns, but the last, are as wide as their widest cell."""
    lines = [heads, *rows]
    widths = [max(len(line[index]) for line in lines) for index in range(len(heads) - 1)]
    return "\n".join(
        "  ".join([*(line[index].ljust(width) for index, width in enumerate(widths)), line[-1]]).rstrip()
        for line in lines
    )
