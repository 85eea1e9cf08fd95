"""Whether the host is started with its home read-only, and whether that works here.

Owns: asking both, of the launchers as they are and of the machine. Does not own: the protection itself
(launcher/protect.py), nor the setting (model.config). Keeps: pm-status-reads-only: trying it writes nothing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from perdure_pm.adapters.processes import run
from perdure_pm.model.errors import DeadlineExceeded
from perdure_pm.store.layout import Layout
from perdure_pm.store.protection import OFF, read_protection

SECONDS = 10.0
ORDER = (OFF, "prefer", "require")


def find_protection(layout: Layout, commands: Sequence[str]) -> Mapping[str, Any]:
    """Return what the launchers of these commands do: ``policy``, the strictest of them, and ``why_not``.

    ``why_not`` says why the home cannot be protected here, and is None where it can, or where nobody asks for it.
    """
    policy = max((read_protection(layout, command) for command in commands), key=ORDER.index, default=OFF)
    return {"policy": policy, "why_not": None if policy == OFF else find_obstacle(layout)}


def find_obstacle(layout: Layout) -> str | None:
    """Return why no home can be protected here; None where this one can, which is tried."""
    if sys.platform == "win32":
        return "there is no protection of hosts for Windows"
    script = Path(__file__).resolve().parent.parent / "launcher" / "protect.py"
    command = [sys.executable, "-I", "-S", str(script), "why", str(layout.home)]
    try:
        ended = run(command, environment={"PATH": os.defpath}, directory=None, timeout=SECONDS)
    except (OSError, DeadlineExceeded) as error:
        return f"trying it failed: {error}"
    if ended.returncode != 0:
        return f"trying it failed: {(ended.stderr.strip().splitlines() or ['no reason'])[-1]}"
    return ended.stdout.strip() or None
