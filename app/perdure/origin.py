"""What this process is made of, for finding out what is protected.

Owns: the one answer that commands, tools and the audit hook share. Does not own: the roots that follow from it
(guard.roots).
"""

from __future__ import annotations

import os
import sys

import perdure
from perdure.guard.roots import Origin
from perdure.installation import Installation


def origin_of(installation: Installation) -> Origin:
    """Return what this process is made of."""
    return Origin(
        executable=str(installation.executable),
        prefix=os.path.abspath(sys.prefix),
        base_prefix=os.path.abspath(sys.base_prefix),
        code=os.path.dirname(os.path.abspath(perdure.__file__)),
        home=str(installation.home),
        generation=None if installation.generation is None else str(installation.generation),
    )
