#!/usr/bin/env python3
"""From a checkout to an application that answers, with nothing but git and any Python of at least 3.9.

    python3 pm/bootstrap.py up       PM's own runtime, the app in generation 1, launchers; ends with the app answering
    python3 pm/bootstrap.py test     the whole test suite, in environments it builds itself

Owns: nothing but the first step: it makes the package beside it importable and hands over to perdure_pm.bootstrapping,
which is standard library only. A copy of both is every home's seed.
"""

import os
import sys

if sys.version_info < (3, 9):  # noqa: UP036 - this file is what an older Python meets first
    sys.stderr.write("error: this is Python %s; bootstrap.py needs 3.9 or newer\n" % sys.version.split()[0])  # noqa: UP031
    sys.exit(2)

if not sys.flags.isolated and os.name == "posix":
    # What PYTHONPATH and its like say is somebody's wish for another program: start again without it, before a module
    # of theirs is met. On Windows an exec would let the shell go on, so there it stays.
    base = getattr(sys, "_base_executable", None) or sys.executable
    try:  # noqa: SIM105 - contextlib could be one of theirs
        os.execv(base, [base, "-I", os.path.abspath(__file__), *sys.argv[1:]])
    except OSError:
        pass  # an interpreter that does not find itself still runs this

sys.dont_write_bytecode = True  # a seed is read-only, and a checkout is not the place for what root may leave behind
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

try:
    from perdure_pm.bootstrapping import main
except Exception as error:  # noqa: BLE001 - whatever a damaged file raises; there is nothing else to say it with
    sys.stderr.write("error: the files beside %s are damaged: %s\n" % (os.path.abspath(__file__), error))  # noqa: UP031
    sys.stderr.write("  try: python3 pm/bootstrap.py up   (in a complete checkout of Perdure)\n")
    sys.exit(8)

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
