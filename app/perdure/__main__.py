"""Lets `python -m perdure` do what the console script does: the way in where there is no launcher."""

import sys

from perdure.cli import main

if __name__ == "__main__":
    sys.exit(main())
