"""Says in one line why a command of a generation cannot start, and which command helps.

Owns: the words. Does not own: noticing it (start, which imports this only then). It stands alone, for any Python 3 that
may have come in the interpreter's place.

Keeps: start-says-why.
"""

from __future__ import annotations

import os
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))
"""The generation."""
DEBUG = "PERDURE_DEBUG"
TRUE_WORDS = ("1", "true", "yes", "on")


def refuse(error: Exception | None) -> None:
    """End the process; return where the traceback was asked for.

    Args:
        error: what the script, or a module that it needs, raised; None where the interpreter is another one now.
    """
    more = ""
    if error is None:
        why = f"it was built for {name_build()}, and its interpreter is now {sys.version.split()[0]}"
    elif os.environ.get(DEBUG, "").strip().lower() in TRUE_WORDS:
        return
    else:
        why, more = f"{describe(error)}   ({DEBUG}=1 shows where)", "repair"
    home = os.path.dirname(os.path.dirname(os.path.dirname(FOLDER)))
    pm = os.path.join(home, "bin", "perdure-pm")
    sys.stderr.write(f'error: generation {os.path.basename(FOLDER)} cannot start: {why}\n  try: "{pm}" install\n')
    if more:
        sys.stderr.write(f'  where that finds nothing to do: "{pm}" {more}\n')
    sys.exit(1)


def name_build() -> str:
    """Return the Python that the generation was built for, in words."""
    try:
        with open(os.path.join(sys.prefix, "pyvenv.cfg"), encoding="utf-8") as file:
            found = [line.partition("=")[2].strip() for line in file if line.startswith("version")]
    except (OSError, ValueError):
        found = []
    return f"Python {found[0]}" if found else "another Python"


def describe(error: Exception) -> str:
    """Return one line for what a damaged or missing module raised, with the file where that is known."""
    place = getattr(error, "filename", None) or getattr(error, "path", None)
    words = (str(getattr(error, "msg", None) or error).splitlines() or [""])[0]
    where = f" in {place}" if place and str(place) not in words else ""
    return f"{type(error).__name__}{where}: {words}"
