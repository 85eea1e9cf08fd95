"""What is done about the jail for one run, and whether a jailed command was really started.

Owns: putting policy and machine together, the refusal where a jail is required and there is none, and reading what
bubblewrap says. Does not own: making the jail (jail), starting it (processes). Keeps: jail-told, jail-never-laxer,
exec-recorded.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import time
from collections.abc import Sequence
from dataclasses import replace

import anyio
from anyio.abc import Process

from perdure.domain.errors import CommandNotExecutable, JailUnavailable, PerdureError
from perdure.domain.json_value import is_line
from perdure.domain.layers import Layer
from perdure.domain.record import dataclass, field
from perdure.installation import Installation
from perdure.jail.bubblewrap import Status, explain_failure, parse_status
from perdure.jail.machine import is_replaceable
from perdure.jail.policy import Mode, Policy
from perdure.jail.service import NAME, Jail

_POLL_SECONDS = 0.0005
_SECONDS_TO_SEE = 0.25
"""How long the start of a command is looked out for before its streams are read; its end tells as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """What a jail does not hold."""

    paths: tuple[str, ...]
    """Files that have another name in a place where a command can write."""
    hint: str
    """The command line that helps."""
    changed: bool = False
    """Whether the first of them was changed while the command ran."""

    @property
    def text(self) -> str:
        """Say it in one line."""
        more = f", and {len(self.paths) - 1} more" if len(self.paths) > 1 else ""
        first = self.paths[0] if is_line(self.paths[0]) else repr(self.paths[0])
        what = "was changed, while the command ran," if self.changed else "can be written"
        return f"{first}{more} {what} by another name, a hard link outside of what is held"


@dataclass(frozen=True, slots=True, kw_only=True)
class Confinement:
    """How the commands of one profile are confined."""

    jail: Jail
    policy: Policy = field(default_factory=Policy)
    asked: Mode | None = None
    """What whoever starts the command asks for; not laxer than the policy."""
    installation: Installation | None = None
    """What the way out of a gap is named by."""

    @property
    def mode(self) -> Mode:
        """The stricter of what is asked and what the policy says."""
        return max(self.asked or Mode.OFF, self.policy.mode, key=lambda mode: mode.strictness)

    def layer(self) -> Layer:
        """Return the jail as it is for a command that is not named in the operator's list."""
        if self.mode is Mode.OFF:
            return Layer(name=NAME, why_not="the policy of this profile turns it off")
        return self.jail.layer()

    def gap(self, since: int | None = None) -> Gap | None:
        """Return what a jail does not hold at this moment, or has not held; None where it holds everything.

        Args:
            since: when the command was started (`names.now`), which may have taken its way in away again.
        """
        found = self.jail.find_foreign()
        changed = () if since is None else self.jail.find_changed(since)
        paths = tuple(dict.fromkeys((*found, *changed)))
        return Gap(paths=paths, hint=self._way_out(paths), changed=paths[0] in changed) if paths else None

    def _way_out(self, paths: Sequence[str]) -> str:
        """Return the command line that takes the first gap away, or that shows what is to be removed."""
        path, installation = paths[0], self.installation
        state = None if installation is None else os.path.realpath(installation.home / "state")
        if installation is not None and state is not None:
            home = os.path.dirname(state)
            for each in paths:
                # PM writes nothing below state, and nothing outside of the home.
                if each.startswith(home + os.sep) and not each.startswith(state + os.sep):
                    return installation.pm_command("repair")
        return f"find {shlex.quote(_mount_of(path))} -xdev -samefile {shlex.quote(path)}   (and remove the other name)"

    def look(self) -> tuple[Layer, Gap | None]:
        """Return the jail as it is for a command, and what it does not hold."""
        layer = self.layer()
        gap = self.gap() if layer.active else None
        return (layer, None) if gap is None else (replace(layer, gap=gap.text), gap)

    def require_whole(self) -> None:
        """Return where a jail holds everything.

        Raises:
            JailUnavailable: something that it should hold can be reached by another name.
        """
        if (gap := self.gap()) is not None:
            raise JailUnavailable(
                f"the command was not run: it has to be jailed, and the jail is not whole: {gap.text}",
                hint=gap.hint,
                context={"why_not": f"it is not whole: {gap.text}", "paths": list(gap.paths)},
            )

    def layer_for(self, program: str, command: Sequence[str], script: str | None) -> Layer:
        """Return the jail as it is for one command.

        Args:
            program: the file that it is for; of a text for a shell, the one that its first word names.
            command: program and arguments; empty for a script.
            script: the text for a shell.

        Raises:
            JailUnavailable: it must be jailed, and cannot be.
        """
        template = None if self.mode is Mode.OFF else self.policy.template_for(command, script)
        # A program that an earlier run may have put there is not the one that the operator meant.
        if template is not None and not is_replaceable(program):
            return Layer(name=NAME, why_not=f"the operator has {template!r} run outside")
        layer = self.layer()
        if layer.why_not is not None and self.mode is Mode.REQUIRE:
            raise JailUnavailable(
                f"the command was not run: it has to be jailed, and that is not possible here: {layer.why_not}",
                context={"why_not": layer.why_not},
            )
        return layer

    def hides_state(self, program: str, command: Sequence[str], script: str | None) -> bool:
        """Return whether the app's own state is not there for one command on this machine; see `layer_for`."""
        try:
            return self.layer_for(program, command, script).active
        except JailUnavailable:
            return False

    def layer_of(self, backend: str, *, isolated: bool) -> Layer:
        """Return the jail as it is for a command that runs in a backend.

        Raises:
            JailUnavailable: it must be jailed, and the backend is not known to reach nothing of this machine.
        """
        why = f"the command runs in the backend {backend}"
        if self.mode is Mode.REQUIRE and not isolated:
            raise JailUnavailable(
                f"the command was not run: it has to be jailed, and the backend {backend} is not isolated",
                context={"why_not": why},
            )
        return Layer(name=NAME, why_not=why)


class Watch:
    """Reads what bubblewrap says of one run."""

    def __init__(self) -> None:
        """Have a descriptor for it to write to."""
        self._reading, self.writing = os.pipe()
        os.set_blocking(self._reading, False)
        self._data = b""

    def started(self) -> None:
        """Leave the descriptor to the process that has it now."""
        os.close(self.writing)
        self.writing = -1

    def close(self) -> None:
        """Have nothing left of it; the jail's first process is not left as a zombie."""
        if self.writing >= 0:
            os.close(self.writing)
        child = self.status().child
        os.close(self._reading)
        if child is not None:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(child, os.WNOHANG)

    def status(self) -> Status:
        """Return what it has said until now."""
        try:
            while data := os.read(self._reading, 4096):
                self._data += data
        except BlockingIOError:
            pass
        return parse_status(self._data)

    async def see_start(self, process: Process) -> int | None:
        """Return the command's process once it is seen to run; None where it ended before, or cannot be seen."""
        deadline = time.monotonic() + _SECONDS_TO_SEE
        own = _command_line(process.pid)
        if not own:
            return None  # it has ended already, and what it had started may still be about to
        while process.returncode is None and time.monotonic() < deadline:
            child = self.status().child
            if child is not None:
                # The command itself, or the first of the jail's own processes, whose only child it is.
                for pid in (child, *_children(child)):
                    words = _command_line(pid)
                    if words and words != own:
                        return pid
            await anyio.sleep(_POLL_SECONDS)
        return None


def layers_of(jail: Layer) -> tuple[Layer, ...]:
    """Return the layers that a run has, given how the jail is for it."""
    return (Layer(name="environment"), Layer(name="floor"), jail, Layer(name="sentinels"))


def not_jailed(program: str, said: str) -> PerdureError:
    """Return the error of a command that was not started, from what bubblewrap wrote to stderr."""
    why = explain_failure(said)
    if "execvp" in why:
        return CommandNotExecutable(f"{program} cannot be started: {why}", context={"program": program})
    return JailUnavailable(f"the command was not run: its jail could not be made: {why}", context={"why_not": why})


def _mount_of(path: str) -> str:
    """Return the mount that a path lies on: a file has no name on another one."""
    while not os.path.ismount(path):
        path = os.path.dirname(path)
    return path


def _command_line(pid: int) -> bytes:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read()
    except OSError:
        return b""


def _children(pid: int) -> list[int]:
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return [int(word) for word in file.read().split()]
    except (OSError, ValueError):
        return []
