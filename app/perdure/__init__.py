"""Perdure, the application: tools for people and agents, served by plugins.

Owns: the version. Does not own: anything that costs time to import; `perdure --version` loads this and little else.
"""

__version__ = "0.1.0"
