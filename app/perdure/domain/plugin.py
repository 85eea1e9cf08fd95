"""What became of each plugin in this process.

Owns: the values that `perdure plugins` and `perdure doctor` show. Does not own: loading (plugin_manager).
"""

from collections.abc import Mapping
from typing import Literal

from perdure.domain.json_value import JsonValue
from perdure.domain.record import dataclass

Stage = Literal["boot", "settings", "import", "register", "hook", "crash", "program"]
"""Where a plugin failed: its entry in boot.json, what a person set for it, its import, its registration, a call of one
of its hooks, an earlier start, which it ended, or the program that it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginSource:
    """Where a plugin comes from."""

    name: str
    """The plugin's name, unique in this process."""
    distribution: str
    """The distribution that brought it."""
    version: str
    """That distribution's version."""
    entry: str
    """`module:attribute` of the plugin object."""
    builtin: bool = False
    """Whether it is part of the app itself."""
    settings: Mapping[str, JsonValue] | None = None
    """The schema of its settings; None where it has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginFailure:
    """One thing that a plugin got wrong, kept so that the others can run."""

    plugin: str
    """The plugin's name, or its place in boot.json when it has none."""
    stage: Stage
    """Where it failed."""
    hook: str | None = None
    """The hook, when one is involved."""
    summary: str
    """One line: what it did."""
    place: str | None = None
    """`file:line` of the last line of code that ran, when an exception tells."""
    hint: str | None = None
    """A command that changes it, where there is one."""

    def to_json(self) -> dict[str, JsonValue]:
        """Return the object that stands in ``failures``."""
        return {
            "plugin": self.plugin,
            "stage": self.stage,
            "hook": self.hook,
            "summary": self.summary,
            "place": self.place,
            "hint": self.hint,
        }

    def __str__(self) -> str:
        """Return the failure as one line of text."""
        where = {
            "boot": "its entry in boot.json",
            "settings": "its settings",
            "import": "import",
            "register": f"registration of hook {self.hook}" if self.hook else "registration",
            "hook": f"hook {self.hook}",
            "crash": "an earlier start",
            "program": "its program",
        }[self.stage]
        return f"plugin {self.plugin}: {where}: {self.summary}" + (
            f" ({self.place})" if self.place else f"; bring it back: {self.hint}" if self.hint else ""
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginState:
    """One plugin of this process."""

    source: PluginSource
    """Where it comes from."""
    loaded: bool
    """Whether its hooks are called."""
    load_seconds: float
    """What importing and registering it took."""
    hooks: tuple[str, ...] = ()
    """The hooks it implements, sorted."""
