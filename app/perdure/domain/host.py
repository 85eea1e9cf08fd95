"""What a plugin is told about the process it lives in.

Owns: the value. Does not own: finding it out (installation).
"""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """The app that hosts a plugin, in this process."""

    version: str
    """The app's version."""
    python: str
    """The interpreter's version, three numbers."""
    executable: Path
    """The interpreter."""
    generation: str | None
    """Id of the generation this process runs from; None outside one."""
    home: Path | None
    """The home that the generation lies in; None outside one."""
