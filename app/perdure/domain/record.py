"""Dataclasses that cost next to nothing until the first instance is made.

Owns: `dataclass`, which takes what the standard one takes as far as this project asks for it, and yields a class with
slots. Does not own: what a field is: `field`, `fields`, `replace` and `asdict` are the standard ones.

A start defines two hundred classes and makes instances of a few dozen. The standard decorator compiles six functions
for each, one by one, as it is defined; here the same ones are compiled together, with the first instance
(docs/adr/0046).
"""

from __future__ import annotations

import copy
import dataclasses
import threading
from collections.abc import Callable, Iterator
from dataclasses import field
from types import FunctionType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass  # what type checkers know all about
else:

    def dataclass(*, slots: bool, frozen: bool = False, kw_only: bool = False) -> Callable[[type], type]:
        """Return a decorator that makes a class a dataclass with slots: there is no other kind here."""
        if not slots:
            raise TypeError("a dataclass without slots is the standard library's")
        return lambda written: _defined(written, frozen=frozen, kw_only=kw_only)


class _Definition:
    """What one class says of its own fields."""

    __slots__ = ("complete", "defaults", "frozen", "kw_only", "names")

    def __init__(self, names: tuple[str, ...], defaults: dict[str, object], *, frozen: bool, kw_only: bool) -> None:
        self.names = names
        self.defaults = defaults
        """What those have that have something: a value, or what `dataclasses.field` made."""
        self.frozen = frozen
        self.kw_only = kw_only
        self.complete = False


def _defined(written: type, *, frozen: bool, kw_only: bool) -> type:
    """Return a class anew: with slots, and with an `__init__` that has the functions of a dataclass compiled."""
    names = tuple(written.__annotations__)
    inherited = [name for definition in _definitions(written) for name in definition.names]
    body = {name: value for name, value in vars(written).items() if name not in names}
    defaults = {name: value for name, value in vars(written).items() if name in names}
    definition = _Definition(names, defaults, frozen=frozen, kw_only=kw_only)

    def __init__(self: object, *given: object, **named: object) -> None:  # noqa: N807  # until the class has its own
        _complete(made)
        made.__init__(self, *given, **named)  # type: ignore[misc]  # this instance is as new as before

    for name in ("__dict__", "__weakref__"):
        body.pop(name, None)
    body |= {
        "__qualname__": written.__qualname__,
        "__slots__": tuple(name for name in names if name not in inherited),
        "__match_args__": () if kw_only else tuple(dict.fromkeys((*inherited, *names))),
        "__definition__": definition,
        "__dataclass_fields__": _FIELDS,
        "__dataclass_params__": _PARAMS,
        "__reduce__": _reduced,
        "__init__": __init__,
    }
    if frozen:
        body |= {"__setattr__": _refuse_set, "__delattr__": _refuse_delete}
    made = type(written)(written.__name__, written.__bases__, body)
    return made


def _definitions(kind: type) -> Iterator[_Definition]:
    """Yield what a class and those that it inherits from say, the first of them first."""
    for one in reversed(kind.__mro__):
        if isinstance(found := vars(one).get("__definition__"), _Definition):
            yield found


_COMPLETING = threading.Lock()


def _complete(kind: type) -> None:
    """Give a class its functions; whoever makes another first instance at the same time waits for them."""
    definition: _Definition = vars(kind)["__definition__"]
    with _COMPLETING:
        if definition.complete:
            return
        scope: dict[str, object] = {"__name__": kind.__module__, "_MISSING": dataclasses.MISSING}
        exec(_source(kind, definition, scope), scope)  # noqa: S102  # names of fields alone are in it, as in the standard one
        if not definition.frozen:
            scope["__hash__"] = None
        for name in ("__repr__", "__eq__", "__hash__", "__init__"):  # the last one lets others in
            if name == "__init__" or name not in vars(kind):
                if isinstance(made := scope[name], FunctionType):
                    made.__qualname__ = f"{kind.__qualname__}.{name}"
                setattr(kind, name, made)
        definition.complete = True


def _source(kind: type, definition: _Definition, scope: dict[str, object]) -> str:
    """Return the code of a class's functions; what it needs of values is put in its scope."""
    named = {name: one for one in _definitions(kind) for name in one.names}
    given: list[str] = []
    by_name: list[str] = []
    lines: list[str] = []
    for name, one in named.items():
        parameter, value = _taken(name, one.defaults.get(name, dataclasses.MISSING), scope)
        if parameter:
            (by_name if one.kw_only else given).append(parameter)
        if value:
            scope[f"_set_{name}"] = getattr(kind, name).__set__
            lines.append(f"_set_{name}(self, {value})" if definition.frozen else f"self.{name} = {value}")
    if hasattr(kind, "__post_init__"):
        lines.append("self.__post_init__()")
    parameters = ", ".join(["self", *given, *(["*", *by_name] if by_name else [])])
    own, others = ("".join(f"{who}.{name}, " for name in named) for who in ("self", "other"))
    shown = ", ".join(f"{name}={{self.{name}!r}}" for name in named)
    return (
        f"def __init__({parameters}):\n " + "\n ".join(lines or ["pass"]) + "\n"
        "def __eq__(self, other):\n"
        f" return ({own}) == ({others}) if other.__class__ is self.__class__ else NotImplemented\n"
        f"def __hash__(self):\n return hash(({own}))\n"
        f"def __repr__(self):\n return f'{{self.__class__.__qualname__}}({shown})'\n"
    )


def _taken(name: str, default: object, scope: dict[str, object]) -> tuple[str, str]:
    """Return the parameter of a field and what the field is set to, each empty where there is none."""
    init = True
    make: object = dataclasses.MISSING
    if isinstance(default, dataclasses.Field):
        if not (default.repr and default.compare and default.hash is None and default.kw_only is dataclasses.MISSING):
            raise TypeError(f"{name}: a field is compared and shown like all others here")
        init, make, default = default.init, default.default_factory, default.default
    if make is not dataclasses.MISSING:
        scope[f"_make_{name}"] = make
        made = f"_make_{name}()"
        return (f"{name}=_MISSING", f"{made} if {name} is _MISSING else {name}") if init else ("", made)
    if default is not dataclasses.MISSING:
        scope[f"_default_{name}"] = default
        return (f"{name}=_default_{name}", name) if init else ("", f"_default_{name}")
    return (name, name) if init else ("", "")


def _refuse_set(self: object, name: str, value: object) -> None:  # noqa: ARG001  # whatever it is
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_delete(self: object, name: str) -> None:  # noqa: ARG001  # whatever it is
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _reduced(self: object) -> tuple[object, tuple[type, dict[str, object]]]:
    """Return how to make a copy: a field that must not be set cannot be set by `copy` either."""
    names = {name: None for one in _definitions(type(self)) for name in one.names if hasattr(self, name)}
    return _restored, (type(self), {name: getattr(self, name) for name in names})


def _restored(kind: type, held: dict[str, object]) -> object:
    """Return an instance with what another one held."""
    _complete(next(one for one in kind.__mro__ if "__definition__" in vars(one)))
    made: object = object.__new__(kind)
    for name, value in held.items():
        getattr(kind, name).__set__(made, value)
    return made


class _Described:
    """What the standard library notes of a dataclass, found out when somebody asks."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, instance: object, kind: type) -> object:
        owner = next(one for one in kind.__mro__ if vars(one).get(self.name) is self)
        definition: _Definition = vars(owner)["__definition__"]
        # The standard decorator writes on the fields that it is given.
        defaults = {
            name: copy.copy(value) if isinstance(value, dataclasses.Field) else value
            for name, value in definition.defaults.items()
        }
        body = {"__annotations__": owner.__annotations__, "__module__": owner.__module__, **defaults}
        described: type = type(owner)(owner.__name__, owner.__bases__, body)
        dataclasses.dataclass(described, frozen=definition.frozen, kw_only=definition.kw_only)
        for name in (_FIELDS.name, _PARAMS.name):
            setattr(owner, name, vars(described)[name])
        return getattr(owner, self.name)


_FIELDS = _Described("__dataclass_fields__")
_PARAMS = _Described("__dataclass_params__")


__all__ = ["dataclass", "field"]
