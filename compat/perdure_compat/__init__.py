"""Moved names keep working, and say so once.

Owns: the PEP 562 facade: a module's `__getattr__` and `__dir__` that answer for names which moved elsewhere, and the
warning. Does not own: the table of what moved (each facade passes its own) or any import of a target before it is used.

Keeps: compat-lazy, compat-warns-once, compat-user-line, compat-same-object, compat-chains, compat-near-miss.

Every host that has a facade imports this at start, so it is the standard library only, and hardly that: what a moved
name needs is imported when one is used (measured: `logging` alone costs 13 ms, `typing` 7 ms).
"""

from __future__ import annotations

import sys
from _thread import RLock  # the same class as threading.RLock, without importing threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import FrameType, ModuleType
    from typing import Any

__all__ = ["Moved", "PerdureCompatWarning", "facade"]
__version__ = "0.1.0"


class PerdureCompatWarning(FutureWarning):
    """A name was used at a place that it left, and where it will stop to work.

    A `FutureWarning`, because those are shown by default: the person who sees it is often not the plugin's author.
    """


class Moved:
    """Where a name is now."""

    __slots__ = ("note", "removed_in", "since", "target")

    def __init__(self, target: str, *, since: str, removed_in: str, note: str = "") -> None:
        """Describe one moved name.

        Args:
            target: `module:attribute`, where the attribute may be dotted; or `module` for a module as a whole.
            since: the version in which it moved.
            removed_in: the version in which the old name stops to work.
            note: what else changed, for the warning.
        """
        self.target = target
        self.since = since
        self.removed_in = removed_in
        self.note = note


class MovedNameError(AttributeError):
    """A facade has no such name.

    The suggestion is made when someone reads the message: `hasattr` on a facade must cost nothing.
    """

    def __init__(self, module: ModuleType | None, module_name: str, wanted: str) -> None:
        # With `obj` and no `name`, the interpreter adds no second suggestion of its own to a traceback.
        super().__init__(obj=module)
        self._module_name = module_name
        self._wanted = wanted

    def __str__(self) -> str:
        text = f"module {self._module_name!r} has no attribute {self._wanted!r}"
        if self.obj is None or self._wanted.startswith("__"):
            return text
        from difflib import get_close_matches

        near = get_close_matches(self._wanted, dir(self.obj), n=1)
        return f"{text}; did you mean {near[0]!r}?" if near else text


_lock = RLock()
_warned: set[str] = set()
"""Full old names whose warning was given in this process."""
_warning_now: set[str] = set()
"""Those whose warning is being given: a `showwarning` of the user's may use the name itself."""


def facade(module_name: str, moved: Mapping[str, Moved]) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return the `__getattr__` and `__dir__` of a module that names moved away from.

    To be called by the module itself, at its end, so that its own names win and its own `__getattr__` is asked for what
    did not move::

        __getattr__, __dir__ = facade(__name__, {"old": Moved("new_home:name", since="0.3", removed_in="0.6")})

    Args:
        module_name: the module's `__name__`.
        moved: what moved, by its old name.
    """
    # Not sys.modules[module_name]: a module may be executed without being there.
    namespace = sys._getframe(1).f_globals  # noqa: SLF001  # `inspect` has the same and costs 10 ms
    own_getattr: Callable[[str], object] | None = _before_facade(namespace.get("__getattr__"))
    own_dir: Callable[[], list[str]] | None = _before_facade(namespace.get("__dir__"))

    def __getattr__(name: str) -> object:  # noqa: N807  # it is the module's
        entry = moved.get(name)
        if entry is not None:
            value = _resolve(entry.target)
            _warn_once(f"{module_name}.{name}", entry)
            return value
        if own_getattr is not None:
            return own_getattr(name)
        raise MovedNameError(sys.modules.get(module_name), module_name, name)

    def __dir__() -> list[str]:  # noqa: N807  # it is the module's
        return sorted({*(own_dir() if own_dir is not None else namespace), *moved})

    __getattr__.perdure_chained = own_getattr  # type: ignore[attr-defined]  # functions take attributes
    __dir__.perdure_chained = own_dir  # type: ignore[attr-defined]  # same
    return __getattr__, __dir__


def _before_facade(function: Any) -> Any:
    """Return what a module had before a facade: a reload finds the old facade there, which must not chain to itself."""
    return getattr(function, "perdure_chained", function)


def _resolve(target: str) -> object:
    from importlib import import_module

    module, _, attributes = target.partition(":")
    value: object = import_module(module)
    for attribute in attributes.split(".") if attributes else ():
        value = getattr(value, attribute)
    return value


def _warn_once(old: str, entry: Moved) -> None:
    if old in _warned:
        return
    import warnings

    frame = _user_frame()
    package = old.partition(".")[0]
    user = str(frame.f_globals.get("__name__", "?"))
    note = f" ({entry.note})" if entry.note else ""
    text = (
        f"{old} is now {entry.target.replace(':', '.')}, since {package} {entry.since}{note}; "
        f"the old name goes away in {package} {entry.removed_in} (used by {user})"
    )
    # Marked only after `warn` returned: where the user's filters make it an error, the next use is an error too. Under
    # one lock: without it eight threads gave the warning twice nearly every time.
    with _lock:
        if old in _warned or old in _warning_now:
            return
        _warning_now.add(old)
        try:
            warnings.warn_explicit(
                text,
                PerdureCompatWarning,
                frame.f_code.co_filename,
                frame.f_lineno,
                module=user,
                registry=frame.f_globals.setdefault("__warningregistry__", {}),
            )
            _warned.add(old)
        finally:
            _warning_now.discard(old)


def _user_frame() -> FrameType:
    """Return the frame that used the name: `from old import name` comes through frames of the import system."""
    frame = sys._getframe(1)  # noqa: SLF001  # as above
    passed = (frame.f_code.co_filename, "<frozen importlib")
    while frame.f_back is not None and frame.f_code.co_filename.startswith(passed):
        frame = frame.f_back
    return frame
