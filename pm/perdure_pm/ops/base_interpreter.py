"""The interpreter that a generation is built on.

Owns: whose word counts: a flag or variable, then `host.python` of config.yaml, then what runs now, then PM's own. Does
not own: finding and bringing in interpreters (interpreters).
"""

from __future__ import annotations

from perdure_pm.adapters.interpreter import Interpreter, interpreter_from_json
from perdure_pm.adapters.uv import Uv
from perdure_pm.ops.context import Context
from perdure_pm.ops.interpreters import choose_interpreter, find_interpreter, fits, is_still
from perdure_pm.store.generations import Generation


def find_base(context: Context, current: Generation | None) -> Interpreter | None:
    """Return the interpreter to build on, or None where one must be brought in. Nothing is written.

    The one that runs now stays where nobody wants another, so that a change of plugins is not a change of interpreter.
    """
    recorded = None if current is None else current.record["interpreter"]
    wanted = _wanted(context)
    if recorded is not None and fits(context.layout, context.environ, recorded, wanted) and is_still(recorded):
        return interpreter_from_json(recorded)
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


def _wanted(context: Context) -> str | None:
    return context.python or context.host_python
