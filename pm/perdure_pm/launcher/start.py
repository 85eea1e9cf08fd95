"""Starts a host's command in the generation that this file lies in: what a launcher gives the interpreter to run.

Owns: noticing, before anything of the host is imported, that the interpreter is not the one which the generation was
built for, and saying in one line what keeps a command from being imported. Does not own: the command; its script runs
here as it would by itself, traceback included where it fails for any other reason. It stands alone, for any Python 3
that may have come in the interpreter's place, and is compiled at each start: it imports nothing and stays short.

Keeps: start-says-why.
"""

import os
import sys

FOLDER = os.path.dirname(__file__)
"""The generation; known before the command's script takes this module's file."""


def refuse(why: str, other: str = "") -> None:
    """End the process with the reason and the commands that help."""
    folder = os.path.abspath(FOLDER)
    pm = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(folder))), "bin", "perdure-pm")
    sys.stderr.write(f'error: generation {os.path.basename(folder)} cannot start: {why}\n  try: "{pm}" install\n')
    if other:
        sys.stderr.write(f'  where that finds nothing to do: "{pm}" {other}\n')
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


if __name__ == "__main__":
    # An interpreter of another minor version looks for packages in a folder of another name, which is not there.
    if not any(path.startswith(sys.prefix) for path in sys.path):
        refuse(f"it was built for {name_build()}, and its interpreter is now {sys.version.split()[0]}")
    del sys.argv[0]
    try:
        with open(sys.argv[0], "rb") as file:
            source = file.read()
    except OSError as error:
        refuse(describe(error))
        raise  # never reached: that ended the process
    globals().update(__doc__=None, __file__=sys.argv[0])
    try:
        # Not compiled first: `compile` has every class of the syntax tree made, which takes a millisecond and a half.
        exec(source)  # noqa: S102 - the script of the command that was asked for
    except (ImportError, SyntaxError) as error:
        if os.environ.get("PERDURE_DEBUG", "").strip().lower() in ("1", "true", "yes", "on"):
            raise
        refuse(f"{describe(error)}   (PERDURE_DEBUG=1 shows where)", "repair")
