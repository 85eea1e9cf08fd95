"""Whether a command can be jailed here, and the command line by which it is.

Owns: the answer for this process, tried once, and the jail of one run, made of the roots of that moment. Does not own:
what is asked of the jail (policy), or starting the command (tools). Keeps: jail-told: what cannot be jailed has a
reason.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace

from perdure.domain.layers import Layer
from perdure.domain.record import dataclass, field
from perdure.guard.probe import Machine, Probe
from perdure.guard.roots import Root
from perdure.jail import bubblewrap, seatbelt
from perdure.jail.bubblewrap import Means
from perdure.jail.machine import System
from perdure.jail.names import Names
from perdure.jail.plan import Plan, make_plan

NAME = "jail"


@dataclass(slots=True, kw_only=True)
class Jail:
    """What jails the commands of this process."""

    roots: Callable[[], Sequence[Root]]
    """Says what is protected now."""
    home: str
    system: System
    names: Names | None = None
    """Counts the names of what is held; None where nobody looks at them."""
    probe: Probe = field(default_factory=Machine)
    platform: str = sys.platform
    _means: Means | str | None = field(default=None, init=False)

    def why_not(self) -> str | None:
        """Return why no command can be jailed here; None where it can, which was tried once in this process."""
        if self._means is None:
            self._means = self._find_means()
        return self._means if isinstance(self._means, str) else None

    def layer(self) -> Layer:
        """Return the layer as it is for this process."""
        return Layer(name=NAME, why_not=self.why_not())

    def find_foreign(self) -> tuple[str, ...]:
        """Return the held files that have another name, which is not held; what a profile names is no way for them."""
        # sandbox-exec knows a path and no inode either.
        return () if self.names is None else self.names.find_foreign()

    def find_changed(self, since: int) -> tuple[str, ...]:
        """Return the held files that were changed since then, though by no held name; what was counted just now."""
        return () if self.names is None else self.names.find_changed(since)

    def plan(self) -> Plan:
        """Return what is held now."""
        return make_plan(self.roots(), self.home, self.probe, self.system.mounts())

    def arguments(self, cwd: str, status: int | None) -> list[str]:
        """Return what stands in front of a jailed command's words; only where there is no `why_not`."""
        if self.why_not() is not None or not isinstance(self._means, Means):
            raise ValueError("there is no jail here")
        return self._arguments(replace(self._means, devices=self.system.devices()), cwd, status)

    @property
    def tells_status(self) -> bool:
        """Whether what makes the jail says on a descriptor what became of the command."""
        return self.platform == "linux"

    def _arguments(self, means: Means, cwd: str, status: int | None) -> list[str]:
        if self.platform == "darwin":
            return seatbelt.make_arguments(self.plan())
        return bubblewrap.make_arguments(self.plan(), means, cwd=cwd, status=status)

    def _find_means(self) -> Means | str:
        if self.platform not in {"linux", "darwin"}:
            return f"there is no jail for {self.platform}"
        program = self.system.program()
        if program is None:
            if self.platform == "darwin":
                return "there is no sandbox-exec"
            other = self.system.distrusted()
            but = "" if other is None else f" but for {other}, which this user could replace"
            return f"bubblewrap (bwrap) is not installed{but}"
        root = self.system.is_root()
        devices = self.system.devices()
        means = Means(program=program, root=root, own_processes=True, devices=devices)
        why = self._try(means)
        if why is None:
            return means
        # In some containers /proc cannot be mounted again. A user's namespace keeps processes outside out of reach all
        # the same; of root's, which has none, the files of another process would be a way round every mount.
        shared = Means(program=program, root=root, own_processes=False, devices=devices)
        if not root and self.platform == "linux" and self._try(shared) is None:
            return shared
        if root and self.platform == "linux" and not self.system.may_mount():
            why = "root may not change mounts here (CAP_SYS_ADMIN), as in a container or under host.protect"
            if self.system.is_read_only(self.home):
                why += "; the home is read-only all the same, but for state/"
        return why

    def _try(self, means: Means) -> str | None:
        harmless = ["/usr/bin/true"] if self.platform == "darwin" else [means.program, "--version"]
        return self.system.try_out([*self._arguments(means, "/", None), *harmless])
