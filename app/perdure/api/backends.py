"""What a plugin offers as a place where commands run."""

from perdure.domain.backend import Backend, FarCommand, Launch

__all__ = ["Backend", "FarCommand", "Launch"]
