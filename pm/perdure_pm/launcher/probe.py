"""Run under a candidate's interpreter: imports what plugins declare, then starts the host's command, in one process.

What plugins hold that declare nothing is imported when the host has ended, where it cannot change the start any more.

Owns: the order and the report. Does not own: what is declared (ops.verify writes the request) and the verdict.
Standard library only: it runs inside any host's environment.
"""

import contextlib
import faulthandler
import importlib
import importlib.util
import json
import os
import runpy
import sys
import traceback
from collections.abc import Iterator
from typing import Any, NoReturn

FAILED = 97
SHOWN_FRAMES = 8
"""How much of a stack is shown where a process ends without an error: its end."""


def probe(request: dict[str, Any]) -> int:
    """Return the exit code of the host's command after every entry was imported; the first failed import ends it."""
    sys.dont_write_bytecode = True  # what runs from where it is edited is a person's own directory
    sys.argv = request["command"]  # from the start: some modules read it when they are imported
    faulthandler.enable()  # a crash is to be seen, too
    os._exit = _exit_loudly
    for entry in request["entries"]:
        if _is_for_another_host(entry):
            continue
        _write(request["importing"], entry["name"])
        _limit(request["import_seconds" if "distribution" in entry else "seconds"])
        module, _, attributes = entry["entry"].partition(":")
        try:
            with _watched() if "distribution" in entry else contextlib.nullcontext():
                found = importlib.import_module(module)
                for attribute in filter(None, attributes.split(".")):
                    found = getattr(found, attribute)
        except BaseException as error:  # noqa: BLE001 - SystemExit at import is a failure too
            traceback.print_exception(error)
            sys.stderr.write(f"{entry['name']} ({entry['entry']}): {type(error).__name__}: {error}\n")
            return FAILED
    # An import that ended the process with exit code 0 did not come here.
    _write(request["imported"])
    code = _start(request) if request["start"] else 0
    if code in request["accepted"] and request["modules"]:
        os.unlink(request["imported"])
        if not _import_modules(request):
            return FAILED
        _write(request["imported"])
        _write(request["looked"])
    return code


def _start(request: dict[str, Any]) -> int:
    """Return the exit code of the host's command."""
    _limit(request["seconds"])
    try:
        runpy.run_path(request["command"][0], run_name="__main__")
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        if code:  # without the head of a traceback: that would tell of a defect, and this may be a usage error
            sys.stderr.write("the exit was asked for by:\n")
            traceback.print_tb(stop.__traceback__, limit=-SHOWN_FRAMES)
        return code
    return 0


def _import_modules(request: dict[str, Any]) -> bool:
    """Import what plugins hold that declare nothing; return whether nothing that they need is missing."""
    for module in request["modules"]:
        _write(request["importing"], module)
        _limit(request["import_seconds"])
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as error:
            # Whoever imports it, and whenever: this is missing. Any other failure may be for want of a running host.
            _tell(f"{module}: {type(error).__name__}: {error}")
            return False
        except BaseException as error:  # noqa: BLE001 - what it is about shows in the host alone
            _tell(f"{module} cannot be imported by itself: {type(error).__name__}: {error}")
    return True


def _tell(text: str) -> None:
    with contextlib.suppress(Exception):  # the host may have closed it, or put something else there
        sys.stderr.write(f"{text}\n")


def _write(path: str, text: str = "") -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def _limit(seconds: float) -> None:
    """Have the process show where it is and end, where it does not come to the next limit in time."""
    faulthandler.dump_traceback_later(seconds, exit=True)


_exit = os._exit


def _exit_loudly(status: int) -> NoReturn:
    """End the process at once, as asked, and show who asked."""
    with contextlib.suppress(Exception):
        sys.stderr.write(f"the process was ended at once with {status} by:\n")
        traceback.print_stack(limit=SHOWN_FRAMES)
        sys.stderr.flush()
    _exit(status)


class _Refused(BaseException):
    """A plugin did at import what belongs to nobody but the host. No plugin catches it by accident."""


class _Silent:
    """Standard output that nothing may be written to: a host may speak a protocol on it."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.armed = True

    def write(self, text: str) -> int:
        """Refuse a text while a plugin is imported; afterwards whoever kept this stream writes to the real one."""
        if self.armed:
            raise _Refused(f"printed {text[:80]!r} to standard output when it was imported")
        return int(self._stream.write(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def _watched() -> Iterator[None]:
    """Have what a plugin does at import refused where it is done: printing to standard output, and forking."""

    def fork() -> int:
        raise _Refused("forked when it was imported")

    stream, silent = sys.stdout, _Silent(sys.stdout)
    forks = {name: getattr(os, name) for name in ("fork", "forkpty") if hasattr(os, name)}
    sys.stdout = silent
    for name in forks:
        setattr(os, name, fork)
    try:
        yield
    finally:
        silent.armed = False
        for name, real in forks.items():
            setattr(os, name, real)
        if sys.stdout is silent:
            sys.stdout = stream


def _is_for_another_host(entry: dict[str, Any]) -> bool:
    """Return whether the host by whose name the entry's group goes is not installed here."""
    word = entry.get("other_host")
    return word is not None and importlib.util.find_spec(word) is None


if __name__ == "__main__":
    sys.exit(probe(json.loads(sys.argv[1])))
