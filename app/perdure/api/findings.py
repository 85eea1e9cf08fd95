"""What a plugin reports to `perdure doctor`."""

from perdure.domain.finding import Finding

__all__ = ["Finding"]
