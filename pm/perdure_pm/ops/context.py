"""What an operation is given and what it gives back.

Owns: the two values. Does not own: who fills them (composition). An operation never reads the environment, the clock or
a flag by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from perdure_pm import ports
from perdure_pm.model.network import Network
from perdure_pm.store.layout import Layout

if TYPE_CHECKING:
    from perdure_pm.model.registration import Registration


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The world of one operation."""

    layout: Layout
    filesystem: ports.Filesystem
    reporter: ports.Reporter
    network: Network
    clock: Callable[[], datetime]
    """Aware, in UTC."""
    environ: Mapping[str, str]
    """The environment of whoever asked; only the network's settings are taken from it."""
    profile: str
    correlation: str
    """The caller's id for what this is part of; receipts carry it."""
    python: str | None = None
    """The interpreter that was asked for: a path, a command's name or a version."""
    host_python: str | None = None
    """The same as config.yaml has it (`host.python`), for generations alone."""
    packages: tuple[Registration, ...] = ()
    lazy: bool = False
    """Whether no person asked for this in so many words."""
    lazy_allowed: bool = True
    wait: bool = True
    """Whether to wait for the mutex."""
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How an operation ended, when it did not raise."""

    status: str
    """``ok``, ``noop`` or ``refused``."""
    data: dict[str, Any] = field(default_factory=dict)
    """What it tells of itself: JSON values."""
    obligations: tuple[str, ...] = ()
    """What is left for a person to do; carried by the receipt."""
