"""Starts a host's command in the generation that this file lies in: what a launcher gives the interpreter to run.

Owns: noticing, before anything of the host is imported, that the interpreter is not the one which the generation was
built for, and saying in one line what keeps a command from being imported. Does not own: the command; its script runs
here as it would by itself, traceback included where it fails for any other reason. It stands alone, for any Python 3
that may have come in the interpreter's place.

Keeps: start-says-why.
"""

from __future__ import annotations

import os
import sys
from types import CodeType

FOLDER = os.path.dirname(os.path.abspath(__file__))
"""The generation; known before the command's script takes this module's name and file."""
DEBUG = "PERDURE_DEBUG"
TRUE_WORDS = ("1", "true", "yes", "on")


def refuse(why: str, *others: str) -> None:
    """End the process with the reason and the commands that help."""
    home = os.path.dirname(os.path.dirname(os.path.dirname(FOLDER)))
    pm = os.path.join(home, "bin", "perdure-pm")
    sys.stderr.write(f'error: generation {os.path.basename(FOLDER)} cannot start: {why}\n  try: "{pm}" install\n')
    for words in others:
        sys.stderr.write(f'  where that finds nothing to do: "{pm}" {words}\n')
    sys.exit(1)


def find_other_python() -> str:
    """Return what is wrong where no package of the generation can be found, or an empty string.

    An interpreter of another minor version looks for them in a folder of another name, which is not there.
    """
    inside = os.path.join(sys.prefix, "")
    if any(path.startswith(inside) for path in sys.path):
        return ""
    built = "another Python"
    try:
        with open(os.path.join(sys.prefix, "pyvenv.cfg"), encoding="utf-8") as file:
            for line in file:
                if line.startswith("version"):
                    built = "Python " + line.partition("=")[2].strip()
    except (OSError, ValueError):
        pass  # then it is not said which
    return f"it was built for {built}, and its interpreter is now {sys.version.split()[0]}"


def load(path: str) -> CodeType:
    """Return the code of the command's script."""
    try:
        with open(path, "rb") as file:
            return compile(file.read(), path, "exec", dont_inherit=True)
    except (OSError, ValueError) as error:
        refuse(describe(error))
        raise  # never reached: refuse ends the process


def describe(error: Exception) -> str:
    """Return one line for what a damaged or missing module raised, with the file where that is known."""
    place = getattr(error, "filename", None) or getattr(error, "path", None)
    words = (str(getattr(error, "msg", None) or error).splitlines() or [""])[0]
    where = f" in {place}" if place and str(place) not in words else ""
    return f"{type(error).__name__}{where}: {words}"


if __name__ == "__main__":
    problem = find_other_python()
    if problem:
        refuse(problem)
    del sys.argv[0]
    try:
        code = load(sys.argv[0])
        globals().update(__doc__=None, __file__=sys.argv[0])
        exec(code)  # noqa: S102 - the script of the command that was asked for
    except (ImportError, SyntaxError) as error:
        if os.environ.get(DEBUG, "").strip().lower() in TRUE_WORDS:
            raise
        refuse(f"{describe(error)}   ({DEBUG}=1 shows where)", "rollback")
