"""For the tests of hosts and plugins that use moved names on purpose: each test sees its own warnings.

Owns: that a warning which another test has seen is given again. Does not own: pytest, which is not imported here: a
hook is a function with a name. To use it: `pytest_plugins = ["perdure_compat.pytest_plugin"]` in the topmost
`conftest.py`, or `-p perdure_compat.pytest_plugin`.
"""

from perdure_compat import _uses


def pytest_runtest_setup() -> None:
    """Have every moved name warn again before each test."""
    _uses.forget()
