"""The command line of the app: parse, do, show.

Owns: the entry point. Does not own: commands (commands), what an answer looks like (output). Keeps:
app-start-is-lean.
"""

import sys


def main(arguments: list[str] | None = None) -> int:
    """Run one command line and return the process's exit code.

    Args:
        arguments: without the program's name; None takes them from `sys.argv`.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given == ["--version"]:
        # What launchers, health checks and scripts ask most: answered before a command-line library is loaded.
        from perdure import __version__

        print(f"perdure {__version__}")
        return 0
    try:
        from perdure.cli.entry import run

        return run(given)
    except KeyboardInterrupt:  # while modules were still being imported
        return 130
