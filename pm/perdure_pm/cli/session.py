"""What one run of the command line knows before it does anything.

Owns: the flags as they were given, the values they resolve to, the home, and asking a person. Does not own: parsing
(options) or writing answers (render). Keeps: cli-never-hangs: nothing is asked where nobody can answer.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perdure_pm.model.errors import ConsentDeclined, ConsentMissing
from perdure_pm.model.settings import BOOLEAN, FOREIGN, SETTINGS, Value, resolve
from perdure_pm.store.home import check_written, resolve_home
from perdure_pm.store.layout import Layout, default_home
from perdure_pm.store.managed import Stamp, load_stamp

if TYPE_CHECKING:
    from perdure_pm.ops.context import Context
    from perdure_pm.ports import Reporter

PROGRAM = "perdure-pm"


@dataclass(frozen=True, slots=True, kw_only=True)
class _OwnRequest:
    """What a worker would be asked, where no worker is."""

    arguments: Mapping[str, Any]
    correlation: str = ""
    packages: Sequence[Any] = ()


class Session:
    """One run of the command line."""

    def __init__(self, environ: Mapping[str, str], *, json: bool) -> None:
        """Know the environment, and whether JSON was asked for as far as that can be seen before parsing."""
        self.environ = environ
        self.flags: dict[str, Value] = {}
        self.command = ""
        """The words of the verb, once it is known."""
        self._json = json

    @cached_property
    def values(self) -> dict[str, Value]:
        """Every setting by flag and variable; config.yaml's part is the worker's to add."""
        return resolve(SETTINGS, self.flags, self.environ, {})

    @property
    def json(self) -> bool:
        """Whether the answer is to be one JSON object."""
        return self._json or self.flags.get("json") is True

    @property
    def events(self) -> bool:
        return self.values["events"] is True

    @property
    def profile(self) -> str:
        return str(self.values["profile"])

    @property
    def yes(self) -> bool:
        return self.values["yes"] is True

    @property
    def dry_run(self) -> bool:
        return self.values["dry-run"] is True

    @cached_property
    def layout(self) -> Layout:
        """The home: --home, else the one that this runtime belongs to, else PERDURE_HOME, else the platform's place.

        A launcher acts on the home it lies in: a variable that was set for another one must not send its `uninstall`,
        nor any command that a hint names, there (docs/adr/0015).
        """
        typed = None if self.flags.get("home") is None else self.values["home"]  # an empty one is a fault, no default
        return Layout(resolve_home(str(typed) if typed else own_home(sys.prefix) or default_home(self.environ)))

    @cached_property
    def stamp(self) -> Stamp | None:
        """What a package manager of the system installed, where it installed this PM.

        Raises:
            IntegrityFault: it cannot be read.
        """
        return load_stamp(sys.prefix)

    def find_disregarded_home(self) -> str:
        """Return what PERDURE_HOME names where that is another home than the one that is acted on, else nothing."""
        named = self.environ.get("PERDURE_HOME", "").strip()
        if not named or self.flags.get("home") is not None or own_home(sys.prefix) is None:
            return ""
        return "" if os.path.realpath(named) == os.path.realpath(self.layout.home) else named

    def writable_layout(self) -> Layout:
        """Return the home, which this user can change.

        Raises:
            HomeUnusable, HomeForeign: it cannot be.
        """
        check_written(self.layout)
        return self.layout

    def request_settings(self) -> dict[str, Value]:
        """Return what flags and variables said, paths absolute: a worker does not run in this directory."""
        said = {}
        for setting in SETTINGS:
            given = self.flags.get(setting.name) is not None or bool(self.environ.get(setting.variable, "").strip())
            if setting.scope != FOREIGN and given and setting.name != "home":
                value = self.values[setting.name]
                said[setting.name] = value is True if setting.kind == BOOLEAN else value
        return said

    def context(self, reporter: Reporter) -> Context:
        """Return the context of an operation that runs in this process, made where a worker's is made."""
        from perdure_pm.composition import make_context

        return make_context(self.layout, _OwnRequest(arguments={"settings": self.request_settings()}), reporter)

    def require_consent(self, question: str) -> None:
        """Do nothing where a person said yes: by flag, by variable, or now.

        Raises:
            ConsentMissing: nobody can be asked.
            ConsentDeclined: the person said no.
        """
        if self.yes:
            return
        if self.json or not is_terminal(sys.stdin) or not is_terminal(sys.stderr):
            raise ConsentMissing(
                "this needs a person's yes, nobody can be asked here, and --yes was not given",
                hint=f"{PROGRAM} {self.command} --yes",
                context={"question": question},
            )
        # Not click's prompt: it takes an interrupt for an answer.
        sys.stderr.write(f"{question} [y/N] ")
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
            raise ConsentDeclined("the answer was no; nothing was done")


def own_home(prefix: str) -> Path | None:
    """Return the home that the runtime at `prefix` belongs to, or None where it is no runtime of a home."""
    parts = Path(prefix).parts
    return Path(*parts[:-4]) if parts[-4:-2] == ("pm", "runtimes") and parts[-1] == "venv" else None


def is_terminal(stream: object) -> bool:
    """Return whether a person is at the other end of a stream, which may be closed or None."""
    try:
        return bool(stream is not None and os.isatty(stream.fileno()))  # type: ignore[attr-defined]
    except (AttributeError, OSError, ValueError):
        return False
