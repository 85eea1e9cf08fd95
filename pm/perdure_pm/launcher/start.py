"""Starts a host's command in its generation: what a launcher gives the interpreter to run.

Owns: the order. Does not own: the words where that fails (start_refusal, beside it), and the command, whose script runs
as it would by itself. Compiled at each start, so it is short; for any Python 3. Keeps: start-says-why.
"""

import sys


def refuse(folder: str, error: object) -> None:
    """End the process with the reason."""
    sys.dont_write_bytecode = True  # a generation is read-only, to root too
    sys.path.insert(0, folder)
    __import__("start_refusal").refuse(error)


if __name__ == "__main__":
    place = __file__.rpartition("/")[0]
    # An interpreter of another minor version looks for packages in a folder of another name, which is not there.
    if not any(path.startswith(sys.prefix) for path in sys.path):
        refuse(place, None)
    del sys.argv[0]
    try:
        with open(sys.argv[0], "rb") as file:
            source = file.read()
    except OSError as fault:
        refuse(place, fault)
        raise  # never reached: that ended the process
    globals().update(__doc__=None, __file__=sys.argv[0])
    try:
        # Not compiled first: `compile` has every class of the syntax tree made, which takes a millisecond and a half.
        exec(source)  # noqa: S102 - the script of the command that was asked for
    except (ImportError, SyntaxError) as fault:
        refuse(place, fault)
        raise  # where the traceback was asked for
