"""Moved names keep working, and say so once.

Owns: the facade of a module that names moved away from: its `__getattr__` and `__dir__` (PEP 562), and the class that
it gives the module, through which writing reaches the target. Does not own: what a use means and the warning (`_uses`,
loaded when a moved name is used first), nor the table of what moved: each facade passes its own, which `render` writes
there from a manifest.

Keeps: compat-lazy, compat-same-object, compat-writes-through, compat-chains, compat-near-miss, compat-star.

Every host that has a facade imports this at start, so it is the standard library only, and hardly that: what a moved
name needs is imported when one is used (measured: `logging` alone costs 13 ms, `typing` 7 ms).
"""

from __future__ import annotations

import sys
from _thread import get_ident  # the same as threading's, without importing threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import FrameType
    from typing import Any

    from perdure_compat._uses import Use

__all__ = ["MovedNameError", "MovedNameImportError", "MovedNameRefused", "PerdureCompatWarning", "facade", "uses"]
__version__ = "0.1.0"

_Module: type[Any] = type(sys)  # `types.ModuleType`, without importing types

facades: dict[str, _Facade] = {}
"""The facade of each module that has one, by the module's name."""


class PerdureCompatWarning(FutureWarning):
    """A name was used at a place that it left, and where it will stop to work.

    A `FutureWarning`, because those are shown by default: the person who sees it is often not the plugin's author.
    """


class MovedNameError(AttributeError):
    """A facade has no such name, or no longer.

    The suggestion is made when someone reads the message: `hasattr` on a facade must cost nothing.
    """

    def __init__(self, module: object, module_name: str, wanted: str, text: str = "") -> None:
        # With `obj` and no `name`, the interpreter adds no second suggestion of its own to a traceback.
        super().__init__(obj=module)
        self._module_name = module_name
        self._wanted = wanted
        self._text = text

    def __str__(self) -> str:
        if self._text:
            return self._text
        text = f"module {self._module_name!r} has no attribute {self._wanted!r}"
        if self.obj is None or self._wanted.startswith("__"):
            return text
        from difflib import get_close_matches

        near = get_close_matches(self._wanted, dir(self.obj), n=1)
        return f"{text}; did you mean {near[0]!r}?" if near else text


class MovedNameImportError(ImportError):
    """A moved name was imported, and it is gone or its new place cannot be had.

    Not an AttributeError: `from old import name` turns one of those into an ImportError that lost its text.
    """


class MovedNameRefused(RuntimeError):  # the error is that something was refused
    """A moved name is not answered at its old place, because the old habit would be unsafe.

    Neither an ImportError nor an AttributeError: a plugin that catches those and goes on without the name would go on
    without the protection.
    """


class _Facade:
    """What one module answers for names that are not its own any more."""

    __slots__ = ("chained_dir", "chained_getattr", "module_name", "moved", "namespace", "refused")

    def __init__(self, module_name: str, namespace: dict[str, Any], moved: Mapping[str, tuple[str, ...]]) -> None:
        self.module_name = module_name
        self.namespace = namespace
        self.moved = moved
        self.refused: dict[int, AttributeError] = {}
        """The error on its way to the module's class, by thread."""
        self.chained_getattr: Callable[[str], object] | None = _before_facade(namespace.get("__getattr__"))
        self.chained_dir: Callable[[], list[str]] | None = _before_facade(namespace.get("__dir__"))

    def get(self, name: str) -> object:
        """Return the moved name's object; this is the module's `__getattr__`."""
        try:
            return self.answer(name, sys._getframe(1))  # noqa: SLF001  # `inspect` has the same and costs 10 ms
        except AttributeError as error:
            self.refused[get_ident()] = error
            raise

    def answer(self, name: str, frame: FrameType) -> object:
        """Return the moved name's object for the code that runs in `frame`."""
        entry = self.entry(name)
        if entry is not None:
            return _engine().read(self, name, entry, frame)
        if self.chained_getattr is not None:
            try:
                return self.chained_getattr(name)
            except AttributeError:
                if name != "__all__":
                    raise
        # `from module import *` asks for it; without an answer it would silently leave the moved names out.
        if name == "__all__" and _engine().is_star_import(frame):
            return self.starred()
        raise MovedNameError(sys.modules.get(self.module_name), self.module_name, name)

    def entry(self, name: str) -> tuple[str, ...] | None:
        """Return what the table says of a name; a module that moved as a whole moved with every public name."""
        entry = self.moved.get(name)
        if entry is None and not name.startswith("_"):
            entry = self.moved.get("*")
        return entry

    def names(self) -> list[str]:
        """Return the module's own names and those that it answers for; this is the module's `__dir__`."""
        own = self.chained_dir() if self.chained_dir is not None else self.namespace
        found = {*own, *(name for name, entry in self.moved.items() if entry[0] not in {"removed", "loud"})}
        if "*" in found:
            found.remove("*")
            found.update(_engine().public_names(self.moved["*"][1]))
        return sorted(found)

    def starred(self) -> list[str]:
        """Return what a star import takes where the module has no `__all__`."""
        return [name for name in self.names() if not name.startswith("_")]


class _FacadeModule(_Module):  # type: ignore[misc]  # the class of modules, which is no name that mypy knows
    """The class of a module with a facade: writing a moved name reaches the target."""

    def __getattr__(self, name: str) -> object:
        # Reached where the module's own `__getattr__` refused, and the interpreter dropped its error. That hook is the
        # facade's, unless the module defined one after the facade; then the facade has not been asked yet.
        state = facades[self.__dict__["__name__"]]
        refused = state.refused.pop(get_ident(), None)
        if refused is not None:
            raise refused
        return state.answer(name, sys._getframe(1))  # noqa: SLF001  # as above

    def __setattr__(self, name: str, value: object) -> None:
        state = facades.get(self.__dict__.get("__name__", ""))
        if state is None or name in self.__dict__ or (entry := state.entry(name)) is None:
            super().__setattr__(name, value)
        elif sys.modules.get(f"{state.module_name}.{name}") is not value:
            _engine().write(state, name, entry, value, sys._getframe(1))  # noqa: SLF001  # as above
        # Else the import system binds a submodule of the same name, which must not hide what moved: before the move the
        # package's own definition won as well, in whichever order the two were imported.
        elif "*" in state.moved:
            super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        state = facades.get(self.__dict__.get("__name__", ""))
        if state is None or name in self.__dict__ or (entry := state.entry(name)) is None:
            super().__delattr__(name)
        else:
            _engine().delete(state, name, entry)


def facade(
    module_name: str, moved: Mapping[str, tuple[str, ...]], *, gone: bool = False
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return the `__getattr__` and `__dir__` of a module that names moved away from.

    To be called by the module itself, at its end, so that its own names win and its own `__getattr__` is asked for what
    did not move::

        __getattr__, __dir__ = facade(__name__, {"old": ("moved", "new_home:name", "0.3", "0.6")})

    Args:
        module_name: the module's `__name__`.
        moved: by old name: what happens (`moved`: answered with a warning; `import`: answered without; `restored`:
            answered with a warning that has no new place; `removed`: refused with a hint; `loud`: refused with an error
            that no plugin catches by accident), the target as `module:attribute` where the attribute may be dotted or
            empty, the version of the move, the version in which the old name stops to work, and a note. The name `*`
            stands for every other public name, and its target is a module.
        gone: the module is nothing but its facade.
    """
    # Not sys.modules[module_name]: a module may be executed without being there.
    namespace = sys._getframe(1).f_globals  # noqa: SLF001  # as above
    state = _Facade(module_name, namespace, moved)
    if gone and module_name == "__main__":
        raise SystemExit(_engine().describe_run(state))
    facades[module_name] = state
    module = sys.modules.get(module_name)
    if module is not None and module.__dict__ is namespace and not isinstance(module, _FacadeModule):
        kind = type(module)
        module.__class__ = _FacadeModule if kind is _Module else type("FacadeModule", (_FacadeModule, kind), {})
    return state.get, state.names


def uses() -> list[Use]:
    """Return the lines of this process that used or probed moved names, by old name, file and line."""
    loaded = sys.modules.get("perdure_compat._uses")
    return loaded.uses() if loaded is not None else []


def _engine() -> Any:
    """Return the module that does the work, loaded when it is needed first."""
    # Not sys.modules: another thread may be loading it, and an import waits. `from` would cost a microsecond more.
    import perdure_compat._uses as loaded

    return loaded


def _before_facade(function: Any) -> Any:
    """Return what a module had before a facade: a reload finds the old facade there, which must not chain to itself."""
    state = getattr(function, "__self__", None)
    if not isinstance(state, _Facade):
        return function
    return state.chained_getattr if function.__name__ == "get" else state.chained_dir
