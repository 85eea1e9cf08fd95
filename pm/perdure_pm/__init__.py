"""PM: a package-manager runtime that installs, publishes and repairs an application it never shares an environment with."""

__version__ = "0.1.0"
