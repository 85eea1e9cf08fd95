"""The page of figures that tests of the guard measure: docs/reference/guard-evidence.md.

Owns: where each test's part begins and ends there, and writing one. Does not own: the figures, or the words around
them, which people write. The tests that write there are marked `evidence`, so one command runs them all.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

PAGE = Path("docs") / "reference" / "guard-evidence.md"


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table as the page has it."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join("| " + " | ".join(str(cell).replace("|", r"\|") for cell in line) + " |\n" for line in lines)


def code(text: str) -> str:
    """Return a command as a cell of a table shows it."""
    shown = text.replace("\n", "⏎")
    return f"`` {shown} ``" if "`" in shown else f"`{shown}`"


def write_part(checkout: Path, name: str, text: str) -> None:
    """Put a text in the place of a part of the page; other tests may be writing theirs."""
    import fcntl

    path = checkout / PAGE
    with path.open("r+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        page = file.read()
        begin, end = f"<!-- measured: {name} -->\n", f"<!-- end: {name} -->\n"
        head, found, rest = page.partition(begin)
        _, closed, tail = rest.partition(end)
        if not found or not closed:
            raise ValueError(f"{path} has no part {name!r}")
        file.seek(0)
        file.write(f"{head}{begin}\n{text}\n{end}{tail}")
        file.truncate()
