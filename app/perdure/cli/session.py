"""What the commands of one invocation share.

Owns: where this process runs from, its output, and loading plugins at most once. Does not own:
any command. Keeps: app-safe-mode-imports-none.
"""

import contextlib
from collections.abc import Callable, Mapping

from perdure import audit_hook
from perdure.app_file import AppFile, find_app_file
from perdure.cli.output import Output
from perdure.crash_notes import find_notes
from perdure.domain.boot import Boot
from perdure.domain.plugin import PluginSource
from perdure.domain.record import dataclass, field
from perdure.installation import Installation
from perdure.plugin_manager import PluginManager
from perdure.plugin_settings import find_settings

VERDICT_COMMANDS = frozenset({"guard explain", "approvals test"})
"""Commands whose exit code is a verdict: a usage error there must not look like one."""


@dataclass(slots=True, kw_only=True)
class Session:
    """One invocation of the command line."""

    installation: Installation
    """Where this process runs from."""
    environ: Mapping[str, str]
    """The process's environment."""
    clock: Callable[[], float]
    """Seconds, for load times."""
    output: Output
    """The two streams."""
    safe_mode: bool = False
    """Whether nothing but the app's own code is loaded."""
    command: str = "perdure"
    """Name of the command that was asked for, once it is known."""
    manager: PluginManager | None = field(default=None, init=False)
    """The plugins, once a command has loaded them."""
    app_file: AppFile = field(init=False)
    """What a person set for the app; read when something of it is asked for."""

    def __post_init__(self) -> None:
        """Know which profile's settings count."""
        self.app_file = find_app_file(self.installation, self.environ)

    def load(self, boot: Boot | None) -> PluginManager:
        """Return the plugins of this process; from here on nothing but our data reaches stdout."""
        self.output.reserve_stdout()
        # Before the first line of a plugin runs.
        sources = () if boot is None or self.safe_mode else boot.plugins
        modules = {
            each.entry.partition(":")[0].partition(".")[0]: each.name
            for each in sources
            if isinstance(each, PluginSource)
        }
        audit_hook.install(self.installation, modules)
        notes = None if self.safe_mode else find_notes(self.installation, self.environ)
        settings = find_settings(self.installation, self.app_file)
        self.manager = PluginManager(self.installation.host(), self.clock, notes, settings)
        self.manager.load(None if self.safe_mode else boot)
        return self.manager

    def load_boot(self) -> Boot | None:
        """Return what this generation lists; nothing in safe mode, which is there for a list that cannot be trusted.

        Raises:
            PerdureError: boot.json of this generation is missing or invalid.
        """
        return None if self.safe_mode else self.installation.load_boot()

    def programs(self, boot: Boot | None) -> contextlib.AbstractContextManager[None]:
        """Return a block in which the programs of external plugins run, which a plugin's tool may talk to."""
        if boot is None or not boot.external or self.manager is None:
            return contextlib.nullcontext()
        from perdure.external import running

        names = [name for name in boot.external if isinstance(name, str)]
        return running(self.installation, names, self.manager.failures)

    def load_with_tools(self, boot: Boot | None) -> PluginManager:
        """Return the plugins, asked for their tools, with a warning for each failure."""
        manager = self.load(boot)
        manager.tools()
        for failure in manager.failures:
            self.output.warn(str(failure))
        return manager
