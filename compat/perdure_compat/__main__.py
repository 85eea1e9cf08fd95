"""`python -m perdure_compat`."""

import sys

from perdure_compat.command_line import main

if __name__ == "__main__":
    sys.exit(main())
