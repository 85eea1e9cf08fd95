"""What a plugin is told about the process it lives in.

Owns: the value. Does not own: finding it out (installation).
"""

from pathlib import Path

from perdure.domain.record import dataclass


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
