"""The app's three ways to its PM: asking for one line of status, confirming a trial, handing a whole command over.

Owns: starting `<home>/bin/perdure-pm`, and nothing else of PM; the two share no code. Does not own: any decision about
the installation: what PM says is shown, not interpreted. Keeps: app-pm-asked-cleanly, app-pm-handed-over.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Literal, NoReturn, cast

from perdure.domain.errors import PmMissing
from perdure.domain.json_value import JsonValue
from perdure.domain.record import dataclass
from perdure.installation import Installation

# What would make PM's Python or uv look elsewhere, or say something else than the plain status of this home.
_DROPPED_PREFIXES = ("PYTHON", "VIRTUAL_ENV", "UV_", "PIP_", "CONDA_", "PERDURE_")
_DROPPED = ("POETRY_ACTIVE", "PIPENV_ACTIVE")
_KEPT = ("PERDURE_PROFILE",)


@dataclass(frozen=True, slots=True, kw_only=True)
class PmAnswer:
    """What came of asking PM something."""

    status: Literal["ok", "absent", "failed", "silent"]
    """PM answered; there is none in this home; it could not answer; it did not answer in time."""
    line: str
    """One line for people."""
    data: JsonValue = None
    """PM's own status data, when it answered."""


def clean_environment(environ: Mapping[str, str], home: str) -> dict[str, str]:
    """Return the environment in which PM is asked: nothing that steers Python, uv or PM, and no lazy install."""
    kept = {
        name: value
        for name, value in environ.items()
        if name in _KEPT or not (name.startswith(_DROPPED_PREFIXES) or name in _DROPPED)
    }
    # Asking must not install: a launcher that finds no PM runtime says so instead of building one.
    return {**kept, "PERDURE_HOME": home, "PERDURE_NO_LAZY": "1"}


def ask_pm(installation: Installation, environ: Mapping[str, str], timeout: float) -> PmAnswer:
    """Return what PM says about this home.

    Args:
        installation: names the home.
        environ: this process's environment; PM gets a cleaned one.
        timeout: seconds after which PM, with whatever it started, is ended.
    """
    return _ask(installation, ["status"], environ, timeout)


def confirm_trial(installation: Installation, generation: str, environ: Mapping[str, str], timeout: float) -> PmAnswer:
    """Return what PM says to keeping `generation`, which is on trial; arguments as for `ask_pm`.

    The generation is named, so that a slow process of an old one never confirms what was selected since.
    """
    return _ask(installation, ["confirm", generation], environ, timeout)


def _ask(installation: Installation, words: Sequence[str], environ: Mapping[str, str], timeout: float) -> PmAnswer:
    """Return what PM answers to a command, as JSON."""
    launcher = installation.pm_launcher
    if not os.access(launcher, os.X_OK):
        why = f"{launcher} is not executable" if launcher.is_file() else f"there is no {launcher}"
        return PmAnswer(status="absent", line=why)
    try:
        process = subprocess.Popen(
            [str(launcher), *words, "--json"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=clean_environment(environ, str(installation.home)),
            # A group of its own, so that ending it ends what the launcher has become or started.
            start_new_session=True,
        )
    except OSError as error:
        return PmAnswer(status="failed", line=f"{launcher} cannot be started: {error.strerror or error}")
    with process:
        try:
            output, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            _end(process)
            return PmAnswer(status="silent", line=f"{launcher} {words[0]} did not answer within {timeout:g} s")
        except BaseException:
            _end(process)
            raise
    return _read_answer(output, process.returncode, f"{launcher} {words[0]}")


def _end(process: "subprocess.Popen[bytes]") -> None:
    if sys.platform == "win32":
        process.kill()
    else:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _read_answer(output: bytes, exit_code: int, command: str) -> PmAnswer:
    try:
        envelope: object = json.loads(output)
    except (ValueError, RecursionError):
        envelope = None
    if not isinstance(envelope, dict):
        return PmAnswer(status="failed", line=f"{command} ended with exit code {exit_code} and no JSON")
    data = cast("JsonValue", envelope.get("data"))
    if exit_code != 0:
        errors = envelope.get("errors")
        first = errors[0] if isinstance(errors, list) and errors else None
        summary = first.get("summary") if isinstance(first, dict) else None
        said = summary if isinstance(summary, str) else "no reason given"
        return PmAnswer(status="failed", line=f"{said} (exit code {exit_code})", data=data)
    summary = data.get("summary") if isinstance(data, Mapping) else None
    return PmAnswer(status="ok", line=summary if isinstance(summary, str) else "answers", data=data)


def hand_over(installation: Installation, arguments: Sequence[str], environ: Mapping[str, str]) -> NoReturn:
    """Replace this process by the home's PM.

    The launcher does this before any Python starts; this is for an app that was started without it.

    Raises:
        PmMissing: the home has no PM launcher, or it cannot be started.
    """
    launcher = installation.pm_launcher
    context: dict[str, JsonValue] = {"path": str(launcher), "home": str(installation.home)}
    if not os.access(launcher, os.X_OK):
        hint = installation.pm_command()
        raise PmMissing(f"there is no PM in {installation.home}: {launcher} is missing", hint=hint, context=context)
    command = [str(launcher), *arguments]
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        if sys.platform == "win32":
            # Windows has no exec: the caller's shell would go on while PM still runs.
            sys.exit(subprocess.run(command, env=environ, check=False).returncode)
        os.execve(launcher, command, environ)
    except OSError as error:
        reason = error.strerror or str(error)
        raise PmMissing(f"{launcher} cannot be started: {reason}", context={**context, "reason": reason}) from error
