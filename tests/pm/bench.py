"""A home of the fake host with PM called on it: in this process, with any clock, or by its launcher, as people do.

Owns: calling and looking. Does not own: the fake host (tests/pm/fake_host) or what is asserted.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from perdure_pm.adapters.filesystem import LocalFilesystem
from perdure_pm.composition import OPERATIONS
from perdure_pm.model.network import Network
from perdure_pm.ops.context import Context, Outcome
from perdure_pm.store.generations import Generation, load_current
from perdure_pm.store.layout import Layout
from perdure_pm.store.receipts import Receipt, load_all
from tests.pm.command_line import CommandLine, Ended
from tests.pm.fake_host import Workshop


class Listening:
    """A reporter that calls a listener at each step and callback, by its name."""

    def __init__(self, on_stage: Callable[[str], None]) -> None:
        self._on_stage = on_stage

    def progress(self, stage: str, message: str, *, done: int | None = None, total: int | None = None) -> None:
        self._on_stage(stage)

    def callback(self, name: str, payload: dict[str, Any]) -> None:
        self._on_stage(name)

    def heartbeat(self) -> None:
        """Say nothing."""

    def committed(self) -> None:
        self._on_stage("committed")


class Launched(CommandLine):
    """perdure-pm through the launcher of its home."""

    def command(self, *words: str) -> list[str]:
        return [str(self.home / "bin" / "perdure-pm"), *words]


@dataclass(kw_only=True)
class Bench:
    """One home."""

    workshop: Workshop
    layout: Layout
    network: Network
    prefix: tuple[str, ...] = ()
    """What the host is started through."""
    now: datetime = field(default_factory=lambda: datetime.now(UTC).replace(microsecond=0))
    """What PM's clock says where it is called in this process."""

    def context(
        self,
        *,
        profile: str = "default",
        on_stage: Callable[[str], None] = lambda stage: None,
        wait: bool = False,
        dry_run: bool = False,
        lazy: bool = False,
        lazy_allowed: bool = True,
    ) -> Context:
        """Return the world of one operation; `on_stage` is called at each step that it tells of."""
        return Context(
            layout=self.layout,
            filesystem=LocalFilesystem(),
            reporter=Listening(on_stage),
            network=self.network,
            clock=lambda: self.now,
            environ={},
            profile=profile,
            correlation="",
            wait=wait,
            dry_run=dry_run,
            lazy=lazy,
            lazy_allowed=lazy_allowed,
        )

    def call(self, operation: str, context: Context | None = None, **arguments: Any) -> Outcome:
        """Return how an operation ended that ran in this process; what it raises is raised."""
        return OPERATIONS[operation].function(context or self.context(), arguments)

    def add(self, *requirements: str, **arguments: Any) -> str:
        """Have plugins added, and return the generation that is selected then."""
        return str(self.call("plugin-add", requirements=list(requirements), **arguments).data["generation"])

    def pass_time(self, **amount: float) -> None:
        """Move PM's clock."""
        self.now += timedelta(**amount)

    def pm(self, *words: str, variables: Mapping[str, str] | None = None) -> Ended:
        """Run the home's perdure-pm to its end."""
        return self.command_line(*words, variables={**self.settings(), **(variables or {})})

    @property
    def command_line(self) -> Launched:
        return Launched(self.layout.home)

    def settings(self) -> dict[str, str]:
        """Return the variables that say where packages come from."""
        found = {"PERDURE_INDEX_URL": self.network.index_url, "PERDURE_WHEELHOUSE": self.network.wheelhouse}
        return {name: str(value) for name, value in found.items() if value is not None}

    def start(self, *words: str, variables: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Start the host through its launcher, and return how it ended."""
        return subprocess.run(
            [*self.prefix, str(self.layout.bin / "fakehost"), *words],
            env={"PATH": os.defpath, "HOME": str(self.layout.home.parent), "LC_ALL": "C.UTF-8", **(variables or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    # what is there

    @property
    def current(self) -> Generation:
        return load_current(self.layout, "default")

    @property
    def generations(self) -> list[str]:
        return sorted(os.listdir(self.layout.generations))

    @property
    def config(self) -> Path:
        """The profile's configuration."""
        return self.layout.profile_config("default")

    def receipts(self, operation: str | None = None) -> list[Receipt]:
        """Return the receipts, of one operation where it is named, oldest first."""
        found, damaged = load_all(self.layout)
        assert damaged == []
        return [receipt for receipt in reversed(found) if operation in {None, receipt.operation}]
