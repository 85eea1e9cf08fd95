"""Starts the app so that nothing of a plugin runs, not even what a distribution has Python run at every start.

The launcher runs this file as ``python -I -S safe_start.py …`` where safe mode was asked for: without the `site` module
no path file (`.pth`) and no `sitecustomize` of the environment is looked at. What site does for the app is done here:
its own packages are found, and the generation is held.

Owns: that start. Does not own: leaving out plugins (cli.session). Keeps: app-safe-mode-imports-none.
"""

import contextlib
import importlib
import os
import sys


def start() -> int:
    """Run the command line in safe mode and return the process's exit code."""
    packages = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    # <environment>/lib/python3.x/site-packages, or on Windows <environment>/Lib/site-packages
    above = os.path.dirname(packages)
    environment = os.path.dirname(above) if sys.platform == "win32" else os.path.dirname(os.path.dirname(above))
    sys.prefix = sys.exec_prefix = environment
    sys.path.append(packages)
    with contextlib.suppress(ImportError):
        importlib.import_module("perdure_lease")  # as the environment's own path file would: PM's, and no plugin's
    os.environ["PERDURE_SAFE_MODE"] = "1"
    from perdure.cli import main

    return main()


if __name__ == "__main__":
    sys.exit(start())
