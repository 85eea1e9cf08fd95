"""PM: a package-manager runtime for an application that it never shares an environment with."""

__version__ = "0.1.0"
