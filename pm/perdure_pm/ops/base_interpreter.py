"""The interpreter that a generation is built on, or rebuilt on.

Owns: whose word counts: a flag or variable, then `host.python` of config.yaml, then what runs now, then PM's own. Does
not own: finding and bringing in interpreters (interpreters).
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from perdure_pm.adapters.interpreter import Interpreter, interpreter_from_json, target_name
from perdure_pm.adapters.uv import Uv
from perdure_pm.model.errors import InterpreterMissing
from perdure_pm.ops.context import Context
from perdure_pm.ops.host import make_uv
from perdure_pm.ops.interpreters import choose_interpreter, find_interpreter, fits, is_shared, is_still
from perdure_pm.store.generations import Generation


def find_base(context: Context, current: Generation | None) -> Interpreter | None:
    """Return the interpreter to build on, or None where one must be brought in. Nothing is written.

    The one that runs now stays where nobody wants another, so that a change of plugins is not a change of interpreter;
    where that is gone or became another, one of its minor version comes before PM's own.
    """
    wanted = _wanted(context)
    if current is not None:
        recorded = current.record["interpreter"]
        if fits(context.layout, context.environ, recorded, wanted) and is_still(recorded):
            return interpreter_from_json(recorded)
        if wanted is None and (found := _find_alike(context, recorded)) is not None:
            return found
    return find_interpreter(context.layout, context.environ, wanted)


def ensure_base(context: Context, uv: Uv, current: Generation | None) -> Interpreter:
    """Return the interpreter to build on, brought into the home where there is none.

    Raises:
        InterpreterMissing: the one that is wanted is not there, is too old, or cannot be brought in.
    """
    found = find_base(context, current)
    return found or choose_interpreter(
        context.layout, context.filesystem, uv, context.reporter, context.environ, _wanted(context)
    )


def ensure_recorded(context: Context, record: Mapping[str, Any]) -> Interpreter | None:
    """Return an interpreter to rebuild a record on: what was locked was locked for its minor version.

    It is the recorded one, else another of its minor version that is there or can be brought in. None where there is
    none, or the record is for another machine.

    Raises:
        InterpreterMissing: the one that was asked for does not run, or is too old.
    """
    recorded = record["interpreter"]
    if context.python is None and is_still(recorded):
        return interpreter_from_json(recorded)
    if record["target"] != target_name():
        return None
    if context.python is not None:
        found = find_interpreter(context.layout, context.environ, context.python)
        return found if found is not None and found.release == interpreter_from_json(recorded).release else None
    found = _find_alike(context, recorded)
    if found is None:
        minor = ".".join(str(recorded["version"]).split(".")[:2])
        with contextlib.suppress(InterpreterMissing):
            found = choose_interpreter(
                context.layout, context.filesystem, make_uv(context), context.reporter, context.environ, minor
            )
    return found


def _find_alike(context: Context, recorded: Mapping[str, str]) -> Interpreter | None:
    """Return an interpreter of the recorded one's minor version, or None.

    First what stands in its place, then PM's own, the newest in the home, and one on the PATH.
    """
    layout, environ = context.layout, context.environ
    release = interpreter_from_json(recorded).release
    minor = ".".join(map(str, release))
    for wanted in (recorded["path"], None, minor, f"python{minor}"):
        with contextlib.suppress(InterpreterMissing):
            found = find_interpreter(layout, environ, wanted)
            # What uv shares is taken where it is what was recorded, and else left alone, as ever.
            shared = found is not None and wanted != recorded["path"] and is_shared(found.path, environ, layout)
            if found is not None and found.release == release and not shared:
                return found
    return None


def _wanted(context: Context) -> str | None:
    return context.python or context.host_python
