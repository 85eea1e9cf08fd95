"""The one place that picks adapters and knows the operations.

Owns: the table of operations, and making an operation's context from a request. Does not own: the operations.
"""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

from perdure_pm import ports
from perdure_pm.adapters.filesystem import LocalFilesystem
from perdure_pm.model.errors import ConfigInvalid, UsageFault
from perdure_pm.model.settings import SETTINGS, network_of, resolve
from perdure_pm.ops.context import Context, Outcome
from perdure_pm.store.config import load_home_config
from perdure_pm.store.generations import current_generation
from perdure_pm.store.layout import Layout
from perdure_pm.store.policy import lazy_allowed

if TYPE_CHECKING:
    from perdure_pm.model.registration import Registration


@dataclass(frozen=True, slots=True)
class Operation:
    """One entry of the table."""

    place: str
    """The module below ops, and the function in it."""
    mutating: bool
    """Whether it leaves a receipt."""
    frees: bool = False
    """Whether it makes room, and so begins on a full disk too."""

    @property
    def function(self) -> Callable[[Context, Mapping[str, Any]], Outcome]:
        """The operation, imported now: a worker serves one, and the others would double its start."""
        module, _, name = self.place.partition(":")
        found: Callable[[Context, Mapping[str, Any]], Outcome] = getattr(
            importlib.import_module(f"perdure_pm.ops.{module}"), name
        )
        return found


OPERATIONS: dict[str, Operation] = {
    "config-set": Operation("configure:config_set", mutating=True),
    "host-init": Operation("host_init:init_host", mutating=True),
    "install": Operation("install:install", mutating=True),
    "package-install": Operation("packages:install_packages", mutating=True),
    "confirm": Operation("trial:confirm", mutating=True),
    "label": Operation("labelling:label", mutating=True),
    "pin": Operation("labelling:pin", mutating=True),
    "plugin-add": Operation("plugins:add_plugins", mutating=True),
    "plugin-bisect": Operation("bisect:bisect_plugins", mutating=True),
    "plugin-check": Operation("plugin_check:check_plugin", mutating=False),
    "plugin-disable": Operation("switching:disable_plugins", mutating=True),
    "plugin-enable": Operation("switching:enable_plugins", mutating=True),
    "plugin-remove": Operation("plugins:remove_plugins", mutating=True),
    "plugin-update": Operation("plugins:update_plugins", mutating=True),
    "repair": Operation("repair:repair", mutating=True),
    "rollback": Operation("rollback:rollback", mutating=True),
    "collect": Operation("collect:collect", mutating=True, frees=True),
    "stage": Operation("stage:stage", mutating=True),
    "trial-judge": Operation("trial:judge_start", mutating=True),
    "upgrade": Operation("install:upgrade", mutating=True),
    "wheelhouse-build": Operation("wheelhouse:build_wheelhouse", mutating=True),
    "self-rebuild": Operation("own_runtime:rebuild_self", mutating=True),
    "self-rollback": Operation("own_runtime:rollback_self", mutating=True),
    "self-settle": Operation("own_runtime:settle_self", mutating=True),
    "self-update": Operation("own_runtime:update_self", mutating=True),
    "python-install": Operation("interpreter_verbs:install_interpreter", mutating=True),
    "python-uninstall": Operation("interpreter_verbs:uninstall_interpreter", mutating=True, frees=True),
}


def load_ahead(name: str) -> None:
    """Have what an operation needs imported before it is asked for; what breaks in that says so then."""
    with contextlib.suppress(Exception):
        _ = OPERATIONS[name].function
        import perdure_pm.store.yaml_text  # noqa: F401 - every home has a configuration to read


class Request(Protocol):
    """What the worker knows of a request."""

    @property
    def correlation(self) -> str:
        """The caller's id."""

    @property
    def arguments(self) -> Mapping[str, Any]:
        """``settings``: flags by name; ``lazy``: whether nobody asked for it; the rest is the operation's own."""

    @property
    def packages(self) -> Sequence[Any]:
        """Registrations, not parsed yet."""


def make_context(layout: Layout, request: Request, reporter: ports.Reporter) -> Context:
    """Return the context of one operation: flags before variables before config.yaml.

    Raises:
        RegistrationInvalid: the request's packages are not plain data of the documented form.
        UsageFault: a setting says nothing clear.
    """
    flags = request.arguments.get("settings", {})
    if not isinstance(flags, Mapping):
        raise UsageFault("the settings of a request must be an object")
    host_python = None
    try:
        loaded = load_home_config(layout)
        config, host_python = loaded.values, loaded.host_python
    except ConfigInvalid:
        config = {}  # the operations that need it say every fault; `self rebuild` must work all the same
    values = resolve(SETTINGS, flags, os.environ, config, config_directory=layout.home)
    no_lazy = values["no-lazy"] is True
    return Context(
        layout=layout,
        filesystem=LocalFilesystem(),
        reporter=reporter,
        network=network_of(values),
        clock=lambda: datetime.now(UTC),
        environ=os.environ,
        profile=str(values["profile"]),
        correlation=request.correlation,
        python=None if values["python"] is None else str(values["python"]),
        host_python=_from_home(layout, host_python),
        packages=_parse_packages(layout, str(values["profile"]), request.packages),
        lazy=request.arguments.get("lazy") is True,
        lazy_allowed=lazy_allowed(layout, os.environ, no_lazy=no_lazy),
        wait=values["no-wait"] is not True,
        dry_run=values["dry-run"] is True,
    )


def _from_home(layout: Layout, python: str | None) -> str | None:
    """Return what config.yaml names as an interpreter; a path that is relative counts from the home."""
    return str(layout.home / python) if python is not None and os.path.dirname(python) else python


def _parse_packages(layout: Layout, profile: str, raw: Sequence[Any]) -> tuple[Registration, ...]:
    """Return the registrations of a request; nearly none has any, and then no record is read to check their names."""
    if not raw:
        return ()
    from perdure_pm.model.registration import parse_registrations

    return parse_registrations(list(raw), reserved=_host_commands(layout, profile))


def _host_commands(layout: Layout, profile: str) -> list[str]:
    current = current_generation(layout, profile)
    return [] if current is None else list(current.record["host"]["commands"])
