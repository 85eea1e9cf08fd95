"""What a host's launcher does about `host.protect`, read from the launcher itself.

Owns: the line that says it. Does not own: writing launchers (ops.launchers), nor what the line has done
(launcher/protect.py). What a launcher does counts, not what config.yaml says: that may have been changed since.

Standard library only, Python 3.9.
"""

from __future__ import annotations

import re
import sys

from perdure_pm.store.layout import Layout
from perdure_pm.store.reading import read_regular

OFF = "off"
MAX_BYTES = 1 << 16
"""More than any launcher has."""

_LINE = re.compile(rb"^(?:#|rem) host\.protect: (require|prefer)\r?$", re.MULTILINE)


def read_protection(layout: Layout, command: str) -> str:
    """Return what the launcher of a command does: require, prefer or off."""
    try:
        text = read_regular(layout.bin / (command + (".cmd" if sys.platform == "win32" else "")), MAX_BYTES)
    except OSError:
        return OFF
    found = _LINE.search(text)
    return OFF if found is None else found[1].decode()
