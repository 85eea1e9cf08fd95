"""Loads the plugins of this process and calls their hooks, each on its own.

Owns: the order (built-ins first, then boot.json's), importing, registering, calling, and the record of what each
plugin got wrong. Does not own: reading boot.json (installation, domain/boot) or running tools (tools/dispatch).

Keeps: app-boot-reads-only-boot-json: a plugin is imported because boot.json names it; no metadata is scanned, no entry
point looked up. app-broken-plugin-isolated: whatever a plugin raises or returns, at import or in a hook, becomes a
`PluginFailure`, and the others run. app-plugin-order: see hookspecs. app-crash-attributed: whose code runs is on record
(crash_notes) for the start after one that it ended.

pluggy checks that an implementation fits its specification. Its own multi-call is not used: it ends at the first
exception and calls the last registered plugin first.
"""

import contextlib
import importlib
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TypeVar

import pluggy

from perdure import __version__, hookspecs
from perdure.app_file import AppFile
from perdure.crash_notes import CrashNotes, Note, normalise
from perdure.domain.assessment import AssessmentRequest
from perdure.domain.backend import Backend
from perdure.domain.boot import Boot
from perdure.domain.finding import Finding
from perdure.domain.host import Host
from perdure.domain.json_value import JsonValue
from perdure.domain.plugin import PluginFailure, PluginSource, PluginState, Stage
from perdure.domain.tool import OfferedTool, Tool
from perdure.plugin_settings import PluginSettings, SettingsUnfit

BUILTIN = (
    PluginSource(
        name="runtime",
        distribution="perdure",
        version=__version__,
        entry="perdure.builtin.runtime:plugin",
        builtin=True,
    ),
    PluginSource(
        name="files",
        distribution="perdure",
        version=__version__,
        entry="perdure.builtin.files:plugin",
        builtin=True,
    ),
)
"""Features of the app that are plugins like any other, and use nothing but `perdure.api`."""

_LONGEST_SUMMARY = 500

_BUILTIN_CODE = os.path.join(os.path.dirname(__file__), "builtin") + os.sep
_OWN_CODE = (
    *(os.path.dirname(file) + os.sep for file in (__file__, importlib.__file__, str(pluggy.__file__))),
    "<",
)
"""Code that stands in every traceback and says nothing about the plugin: ours, pluggy's, the import system's, and what
has no file (`<frozen importlib._bootstrap>`, the `<string>` of a dataclass)."""

_Value = TypeVar("_Value")


class PluginManager:
    """The plugins of this process."""

    def __init__(
        self,
        host: Host,
        clock: Callable[[], float],
        notes: CrashNotes | None = None,
        settings: PluginSettings | None = None,
    ) -> None:
        """Start without any plugin.

        Args:
            host: what hooks are told about this process.
            clock: seconds, for load times.
            notes: where it is kept whose code runs, for a start after one that a plugin ended; None keeps nothing.
            settings: what a person set for plugins; None for nothing.
        """
        self._settings = settings or PluginSettings(AppFile(None))
        self._notes = notes
        self._host = host
        self._clock = clock
        self._registry = pluggy.PluginManager("perdure")
        self._registry.add_hookspecs(hookspecs)
        self._tools: dict[str, OfferedTool] | None = None
        self.states: list[PluginState] = []
        """Every plugin that has a name, in load order, failed ones included."""
        self.failures: list[PluginFailure] = []
        """What plugins got wrong so far, in the order in which it happened."""

    def load(self, boot: Boot | None) -> None:
        """Import and register the built-in plugins and those of `boot`, in this order.

        One that ended an earlier start is left out.
        """
        left_out = {} if self._notes is None else self._notes.read()
        with self._watched():
            self._load_each(boot, left_out)

    def _load_each(self, boot: Boot | None, left_out: Mapping[str, Note]) -> None:
        self.failures += [entry for entry in boot.external if isinstance(entry, PluginFailure)] if boot else []
        for entry in (*BUILTIN, *(boot.plugins if boot is not None else ())):
            if isinstance(entry, PluginFailure):
                self.failures.append(entry)
            elif any(state.source.name == entry.name for state in self.states):
                self._record(entry.name, "boot", "a plugin of this name is already there; this one is left out")
            elif (note := self._find_note(entry, left_out)) is not None:
                summary = f"the app ended while {note.during} ({note.at}), so it is left out"
                self.failures.append(
                    PluginFailure(plugin=entry.name, stage="crash", summary=summary, hint=note.bring_back)
                )
                self.states.append(PluginState(source=entry, loaded=False, load_seconds=0.0))
            else:
                begun = self._clock()
                with self._at_work(entry, "importing it"):
                    hooks = self._load_one(entry)
                self.states.append(
                    PluginState(
                        source=entry,
                        loaded=hooks is not None,
                        load_seconds=self._clock() - begun,
                        hooks=hooks or (),
                    )
                )

    def tools(self) -> dict[str, OfferedTool]:
        """Return every tool by name, in load order; plugins are asked once per process."""
        if self._tools is None:
            self._tools = {}
            for plugin, tool in self._collect("tools", Tool):
                if (earlier := self._tools.get(tool.name)) is not None:
                    self._record(
                        plugin, "hook", f"tool {tool.name} is already offered by plugin {earlier.plugin}", hook="tools"
                    )
                else:
                    self._tools[tool.name] = OfferedTool(plugin=plugin, tool=tool)
        return self._tools

    def backends(self) -> list[tuple[str, Backend]]:
        """Return the backends that plugins provide, each with the plugin's name."""
        return self._collect("backends", Backend)

    def findings(self) -> list[tuple[str, Finding]]:
        """Return what plugins report to doctor, each with the plugin's name."""
        return self._collect("findings", Finding)

    def assess(self, names: Sequence[str], request: AssessmentRequest, seconds: float) -> list[tuple[str, object]]:
        """Return what each of these plugins answers to `assess`: an exception where it raised, or is not done in time.

        One that is not done is left behind: nothing waits for it, and what it says later counts for nothing.
        """
        found: list[tuple[str, object]] = []
        for implementation in self._registry.hook.assess.get_hookimpls():
            name = implementation.plugin_name
            if name not in names:
                continue
            answers: list[object] = []
            given = {"host": self._host, "request": request}

            def ask(implementation: pluggy.HookImpl = implementation, answers: list[object] = answers) -> None:
                try:
                    answers.append(implementation.function(*(given[word] for word in implementation.argnames)))  # noqa: B023  # the same for all
                except BaseException as error:  # noqa: BLE001  # as in every other hook
                    answers.append(error)

            thread = threading.Thread(target=ask, name=f"assess {name}", daemon=True)
            thread.start()
            thread.join(seconds)
            answer = answers[0] if answers else TimeoutError(f"it did not answer within {seconds:g} s")
            if isinstance(answer, BaseException):
                self._record_exception(name, "hook", answer, hook="assess")
            found.append((name, answer))
        return found

    def _find_note(self, source: PluginSource, left_out: Mapping[str, Note]) -> Note | None:
        note = None if source.builtin or not left_out else left_out.get(normalise(source.distribution))
        return note if note is not None and note.version == source.version else None

    def _watched(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext() if self._notes is None else self._notes.watching()

    @contextlib.contextmanager
    def _at_work(self, source: PluginSource, during: str) -> Iterator[None]:
        """Have it on record, for a start after this one, whose code runs in the block."""
        if self._notes is None or source.builtin:
            yield
            return
        self._notes.at_work(source, during)
        try:
            yield
        finally:
            self._notes.at_work(None)

    def _load_one(self, source: PluginSource) -> tuple[str, ...] | None:
        module_name, _, attributes = source.entry.partition(":")
        settings: Mapping[str, JsonValue] | None = {}
        try:
            settings = {} if source.builtin else self._settings.find(source)
        except SettingsUnfit as fault:
            if not self._settings.tried:
                self._record(source.name, "settings", str(fault))
                return None
            settings = None
        try:
            plugin: object = importlib.import_module(module_name)
            for attribute in attributes.split("."):
                plugin = getattr(plugin, attribute)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001  # SystemExit at import is as much the plugin's fault as any other
            self._record_exception(source.name, "import", error)
            return None
        if settings is None:
            return ()  # it can be imported, which is all that can be tried without its settings
        try:
            hooks = self._register(source.name, plugin)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001  # registration reads the plugin's attributes: its code may run
            if self._registry.has_plugin(source.name):
                self._registry.unregister(name=source.name)
            self._record_exception(source.name, "register", error)
            return None
        return hooks if self._configure(source.name, hooks or (), settings) else None

    def _configure(self, name: str, hooks: Sequence[str], settings: Mapping[str, JsonValue]) -> bool:
        """Have the plugin know its settings; return whether it took them. One that did not is left out."""
        if "configure" not in hooks:
            return True
        implementation = next(
            found for found in self._registry.hook.configure.get_hookimpls() if found.plugin_name == name
        )
        given = {"host": self._host, "settings": settings}
        try:
            implementation.function(*(given[argument] for argument in implementation.argnames))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001  # as in every other hook
            self._registry.unregister(name=name)
            self._record_exception(name, "hook", error, hook="configure")
            return False
        return True

    def _register(self, name: str, plugin: object) -> tuple[str, ...] | None:
        if plugin is None:
            self._record(name, "register", "the entry is None, not a plugin object")
            return None
        self._registry.register(plugin, name=name)
        hooks: list[str] = []
        for caller in self._registry.get_hookcallers(plugin) or ():
            hooks.append(caller.name)
            for implementation in caller.get_hookimpls():
                if implementation.plugin_name != name:
                    continue
                fault = None
                if not caller.has_spec():
                    fault = "there is no hook of this name"
                elif implementation.wrapper or implementation.hookwrapper:
                    fault = "wrappers are not supported: a plugin does not stand between others"
                elif implementation.tryfirst or implementation.trylast:
                    fault = "tryfirst and trylast are not supported: the order is that of the configuration"
                if fault is not None:
                    self._registry.unregister(name=name)
                    self._record(name, "register", fault, hook=caller.name)
                    return None
        return tuple(sorted(hooks))

    def _collect(self, hook: str, kind: type[_Value]) -> list[tuple[str, _Value]]:
        """Call `hook` on every plugin that implements it and return the values of `kind`, with the plugins' names."""
        implementations = {
            implementation.plugin_name: implementation
            for implementation in getattr(self._registry.hook, hook).get_hookimpls()
        }
        found: list[tuple[str, _Value]] = []
        with self._watched():
            self._ask_each(hook, kind, implementations, found)
        return found

    def _ask_each(
        self,
        hook: str,
        kind: type[_Value],
        implementations: Mapping[str, pluggy.HookImpl],
        found: list[tuple[str, _Value]],
    ) -> None:
        for state in self.states:
            implementation = implementations.get(state.source.name)
            if implementation is None:
                continue
            name = state.source.name
            given = {"host": self._host}
            try:
                with self._at_work(state.source, f"asking it for its {hook}"):
                    answer: object = implementation.function(*(given[argument] for argument in implementation.argnames))
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # noqa: BLE001  # a hook that exits must not end the others
                self._record_exception(name, "hook", error, hook=hook)
                continue
            found += [(name, value) for value in self._checked(name, hook, answer, kind)]

    def _checked(self, plugin: str, hook: str, answer: object, kind: type[_Value]) -> Iterable[_Value]:
        if answer is None:
            return
        # Not any iterable: a generator would run the plugin's code here, outside the try.
        if not isinstance(answer, list | tuple):
            self._record(plugin, "hook", f"returned {_type_name(answer)}, not a list of {kind.__name__}", hook=hook)
            return
        items: Sequence[object] = answer
        for item in items:
            if isinstance(item, kind):
                yield item
            else:
                fault = f"returned a list with {_type_name(item)} in it, not {kind.__name__}"
                self._record(plugin, "hook", fault, hook=hook)

    def _record_exception(self, plugin: str, stage: Stage, error: BaseException, *, hook: str | None = None) -> None:
        self._record(plugin, stage, describe_exception(error), hook=hook, place=last_place(error.__traceback__))

    def _record(
        self, plugin: str, stage: Stage, summary: str, *, hook: str | None = None, place: str | None = None
    ) -> None:
        self.failures.append(PluginFailure(plugin=plugin, stage=stage, hook=hook, summary=summary, place=place))


def describe_exception(error: BaseException) -> str:
    """Return type and message as one line, for an exception that may not even be able to say what it is."""
    try:
        said = " ".join(str(error).split())
    except Exception:  # noqa: BLE001  # __str__ is the plugin's code too
        said = ""
    text = f"{_type_name(error)}: {said}" if said else _type_name(error)
    return text if len(text) <= _LONGEST_SUMMARY else text[:_LONGEST_SUMMARY] + "…"


def last_place(trace: TracebackType | None) -> str | None:
    """Return `file:line` of the innermost line of someone else's code, or None when only ours ran."""
    place = None
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if file.startswith(_BUILTIN_CODE) or not file.startswith(_OWN_CODE):
            place = f"{file}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place


def _type_name(value: object) -> str:
    return type(value).__name__
