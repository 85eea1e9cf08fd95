"""Becomes the program of an external plugin: run by its launcher, or by the app, with a generation's own interpreter.

Owns: its directory, its environment, and its end with whoever started it where that was asked for. Does not own: which
programs there are (boot.json beside this file), or whether they can run (ops.external, before the switch). It stands
alone, for any Python 3. Keeps: external-started.
"""

import contextlib
import json
import os
import signal
import sys

WITH_PARENT = "--with-parent"
"""First word: the program gets SIGTERM when the process that started it ends, however that ends."""
LEFT_OUT = ("PYTHON", "UV_", "PIP_", "VIRTUAL_ENV", "PERDURE_", "__PYVENV_LAUNCHER__")
"""Variables that begin so would lead the program's own Python or tools into the host's, or into PM's."""
PR_SET_PDEATHSIG = 1


def start(words: list[str]) -> str:
    """Become the program; return what kept it from that."""
    parent = os.getppid()
    with_parent = words[:1] == [WITH_PARENT]
    name, *more = words[with_parent:]
    folder = os.path.dirname(os.path.abspath(__file__))
    try:
        with open(os.path.join(folder, "boot.json"), encoding="utf-8") as file:
            programs = {item["name"]: item for item in json.load(file).get("external", ())}
        program = programs[name]
        command, directory = [*program["command"], *more], program["directory"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"generation {os.path.basename(folder)} has no external plugin {name} ({type(error).__name__}: {error})"
    kept = {key: value for key, value in os.environ.items() if not key.startswith(LEFT_OUT)}
    try:
        os.chdir(directory)
        if with_parent and not _end_with(parent):
            return f"{name} was not started: who asked for it has ended"
        os.execvpe(command[0], command, kept)
    except OSError as error:
        place = directory if error.filename == directory else command[0]
        return f"the plugin {name} cannot be started: {place}: {error.strerror or error}"


def _end_with(parent: int) -> bool:
    """Have this process, and what it becomes, end with `parent`; return whether that is still there."""
    with contextlib.suppress(ImportError, OSError, AttributeError):  # no Linux: whoever started it ends it
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    return os.getppid() == parent


if __name__ == "__main__":
    sys.stderr.write(f"error: {start(sys.argv[1:])}\n")
    sys.exit(1)
