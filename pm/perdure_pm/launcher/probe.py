"""Run under a candidate's interpreter: imports what plugins declare, then starts the host's command, in one process.

Owns: the order and the report. Does not own: what is declared (ops.verify writes the request) and the verdict.
Standard library only: it runs inside any host's environment.
"""

import importlib
import importlib.util
import json
import runpy
import sys
from typing import Any

FAILED = 97


def probe(request: dict[str, Any]) -> int:
    """Return the exit code of the host's command after every entry was imported; the first failed import ends it."""
    sys.argv = request["command"]  # from the start: some modules read it when they are imported
    for entry in request["entries"]:
        if _is_for_another_host(entry):
            continue
        module, _, attributes = entry["entry"].partition(":")
        try:
            found = importlib.import_module(module)
            for attribute in filter(None, attributes.split(".")):
                found = getattr(found, attribute)
        except BaseException as error:  # noqa: BLE001 - SystemExit at import is a failure too
            sys.stderr.write(f"{entry['name']} ({entry['entry']}): {type(error).__name__}: {error}\n")
            return FAILED
    for module in request["modules"]:
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as error:
            # Whoever imports it, and whenever: this is missing. Any other failure may be for want of a running host.
            sys.stderr.write(f"{module}: {type(error).__name__}: {error}\n")
            return FAILED
        except BaseException as error:  # noqa: BLE001 - what it is about shows in the host alone
            sys.stderr.write(f"{module} cannot be imported by itself: {type(error).__name__}: {error}\n")
    # An import that ended the process with exit code 0 did not come here.
    with open(request["imported"], "w", encoding="ascii"):
        pass
    if not request["start"]:
        return 0
    try:
        runpy.run_path(request["command"][0], run_name="__main__")
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    return 0


def _is_for_another_host(entry: dict[str, Any]) -> bool:
    """Return whether the host by whose name the entry's group goes is not installed here."""
    word = entry.get("other_host")
    return word is not None and importlib.util.find_spec(word) is None


if __name__ == "__main__":
    sys.exit(probe(json.loads(sys.argv[1])))
