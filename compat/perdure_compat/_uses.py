"""What happens when a moved name is used.

Owns: telling a use from a look, finding the line that did it, the warning once per name, the record of who uses what,
and reaching the target to read and to write. Does not own: the module's hooks (the package itself).

Keeps: compat-warns-once, compat-user-line, compat-probes-are-silent, compat-recorded, compat-writes-through,
compat-hints.

Loaded when a moved name is used first. Standard library only, and nothing of weight beyond `warnings`.
"""

from __future__ import annotations

import sys
import warnings
from _thread import RLock  # the same class as threading.RLock, without importing threading
from opcode import opname

from perdure_compat import (
    MovedNameError,
    MovedNameImportError,
    MovedNameRefused,
    PerdureCompatWarning,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

    from perdure_compat import _Facade

_lock = RLock()
_warned: set[str] = set()
"""Full old names whose warning was given in this process."""
_warning_now: set[str] = set()
"""Those whose warning is being given: a `showwarning` of the user's may use the name itself."""
_settled: dict[tuple[str, str, str, int, int], str] = {}
"""How the places ask that were answered with nothing left to tell: name, file, code, its line, offset in it."""
_record: dict[tuple[str, str, int], Use] = {}
_replaced: dict[str, list[object]] = {}
"""What was at the target before each write through a facade, by full old name, the latest last."""
_REMEMBERED_WRITES = 32

_INTROSPECTION = frozenset({"doctest", "inspect", "pickle", "pkgutil", "pydoc", "rlcompleter", "sphinx"})
"""Top-level packages that read every name of a module, or those that old data holds, and want none in particular."""
_CARRIERS = frozenset(
    {"_pytest", "annotationlib", "contextlib", "functools", "importlib", "pickle", "runpy", "typing", "unittest"}
)
"""Top-level packages that use a name on somebody's behalf: the line to show is that of their caller."""
_LOOKERS = frozenset({"create_autospec", "loadTestsFromModule"})
"""Functions of unittest that read every name as well, where the rest of it acts for somebody."""
_SOURCELESS = "<string>"

# How a name was asked for.
USE, IMPORT, STAR, PROBE, LOOK = "use", "import", "star", "probe", "look"


class Use:
    """One line that used a moved name."""

    __slots__ = ("file", "line", "module", "new", "old", "probes", "uses")

    def __init__(self, old: str, new: str, module: str, file: str, line: int) -> None:
        self.old = old
        self.new = new
        self.module = module
        self.file = file
        self.line = line
        self.uses = 0
        """How often it was seen to use the name; a line that was answered once is not counted again."""
        self.probes = 0
        """How often it only looked whether the name is there."""


def uses() -> list[Use]:
    """Return the lines that used or probed moved names in this process, by old name, file and line."""
    with _lock:
        return [_record[key] for key in sorted(_record)]


def forget() -> None:
    """Have every name warn again, and the record empty: for tests, which each want to see their own warning."""
    with _lock:
        _warned.clear()
        _settled.clear()
        _record.clear()


# Reading ------------------------------------------------------------------------------------------------------------


def read(state: _Facade, name: str, entry: tuple[str, ...], frame: FrameType) -> object:
    """Return the object of a moved name for the code that runs in `frame`; a use is recorded and warned about once.

    Raises:
        MovedNameError: the name is gone, or it was a look and the target cannot be had.
        MovedNameImportError: it was a use, and the name is gone or the target cannot be had.
        MovedNameRefused: the name is not answered for safety's sake.
    """
    old = f"{state.module_name}.{name}"
    code = frame.f_code
    place = (old, code.co_filename, code.co_name, code.co_firstlineno, frame.f_lasti)
    how = _settled.get(place)
    if how is not None:
        return _resolve(state, name, entry, how)
    how = _judge(frame)
    if entry[0] in {"removed", "loud"}:
        raise _refusal(state, name, entry, how)
    value = _resolve(state, name, entry, how)
    if how == STAR:
        _warn_of_star(state, frame)
    elif how in {USE, IMPORT}:
        _tell(state, name, entry, frame)
    elif how == PROBE:
        _note(state, name, entry, _User(_user_frame(frame))).probes += 1
    _settled[place] = how
    return value


def public_names(target: str) -> list[str]:
    """Return the public names of the module that another moved to as a whole."""
    module = _import(target.partition(":")[0])
    return list(getattr(module, "__all__", None) or (name for name in dir(module) if not name.startswith("_")))


def is_star_import(frame: FrameType) -> bool:
    """Return whether the code asks for `__all__` to import everything, directly or through importlib's from-list."""
    return _is_importlib(frame) or _judge(frame) == STAR


def describe(state: _Facade, name: str, entry: tuple[str, ...]) -> str:
    """Return why a name is refused, and what to use."""
    old, package = f"{state.module_name}.{name}", state.module_name.partition(".")[0]
    kind, target, since = entry[0], _new_name(entry, name), entry[2]
    note = f": {entry[4]}" if len(entry) > 4 and entry[4] else ""
    if kind == "loud":
        place = f" is now {target}" if target else " is gone"
        return f"{old}{place}, since {package} {since}, and is not answered at its old place{note}"
    place = f"; use {target}" if target else ""
    return f"{old} is gone since {package} {since}{place}{note}"


def describe_run(state: _Facade) -> str:
    """Return what `python -m` of a module says that is nothing but its facade."""
    spec = state.namespace.get("__spec__")
    old = getattr(spec, "name", None) or str(state.namespace.get("__file__", "this module"))
    entry = state.moved.get("*")
    if entry is None:
        return f"{old} is no program any more: its names moved, and each import of one says where to"
    new = entry[1].partition(":")[0]
    return f"{old} is now {new}, since {old.partition('.')[0]} {entry[2]}: run `python -m {new}`"


def _new_name(entry: tuple[str, ...], name: str) -> str:
    module, _, attribute = entry[1].partition(":")
    if attribute == "*":
        attribute = name
    return f"{module}.{attribute}" if attribute else module


def _resolve(state: _Facade, name: str, entry: tuple[str, ...], how: str) -> object:
    module, _, attributes = entry[1].partition(":")
    if attributes == "*":
        attributes = name
    try:
        value = _import(module)
        for attribute in attributes.split(".") if attributes else ():
            value = getattr(value, attribute)
    except (ImportError, AttributeError) as error:
        if name not in state.moved and isinstance(error, AttributeError) and how != IMPORT:
            # The module moved as a whole, and this was never a name of it.
            raise MovedNameError(sys.modules.get(state.module_name), state.module_name, name) from None
        new = _new_name(entry, name)
        text = f"{state.module_name}.{name} is now {new}, which cannot be had: {error}"
        if how in {PROBE, LOOK}:
            raise MovedNameError(sys.modules.get(state.module_name), state.module_name, name, text) from error
        raise MovedNameImportError(text, name=new) from error
    return value


def _import(module: str) -> object:
    # Not sys.modules alone: another thread may be in the middle of the import, and this waits for it.
    __import__(module)
    return sys.modules[module]


def _refusal(state: _Facade, name: str, entry: tuple[str, ...], how: str) -> Exception:
    text = describe(state, name, entry)
    if entry[0] == "loud" and how != LOOK:
        return MovedNameRefused(text)
    if how == IMPORT:
        return MovedNameImportError(text, name=state.module_name)
    return MovedNameError(sys.modules.get(state.module_name), state.module_name, name, text)


# Writing ------------------------------------------------------------------------------------------------------------


def write(state: _Facade, name: str, entry: tuple[str, ...], value: object, frame: FrameType) -> None:
    """Set a moved name where it is now. What was there is kept until the write is undone."""
    if entry[0] in {"removed", "loud"}:
        raise _refusal(state, name, entry, USE)
    holder, attribute = _holder(state, name, entry)
    old = f"{state.module_name}.{name}"
    with _lock:
        replaced = _replaced.setdefault(old, [])
        if replaced and replaced[-1] is value:
            replaced.pop()  # this is how monkeypatch undoes, which is nobody's use
        else:
            _tell(state, name, entry, frame)
            if attribute in vars(holder):
                replaced.append(vars(holder)[attribute])
                del replaced[:-_REMEMBERED_WRITES]
        setattr(holder, attribute, value)


def delete(state: _Facade, name: str, entry: tuple[str, ...]) -> None:
    """Undo the latest write through the facade, or else delete the name where it is now.

    `mock.patch` undoes with a delete, because the name was not in the facade's own dictionary.
    """
    if entry[0] in {"removed", "loud"}:
        raise _refusal(state, name, entry, PROBE)
    holder, attribute = _holder(state, name, entry)
    with _lock:
        replaced = _replaced.get(f"{state.module_name}.{name}")
        if replaced:
            setattr(holder, attribute, replaced.pop())
        else:
            delattr(holder, attribute)


def _holder(state: _Facade, name: str, entry: tuple[str, ...]) -> tuple[object, str]:
    module, _, attributes = entry[1].partition(":")
    if attributes == "*":
        attributes = name
    path, _, last = attributes.rpartition(".")
    if not last:
        raise MovedNameError(
            sys.modules.get(state.module_name),
            state.module_name,
            name,
            f"{state.module_name}.{name} is the module {module}, which has no other place to be set",
        )
    return _resolve(state, name, ("moved", f"{module}:{path}", *entry[2:]), USE), last


# Use or look --------------------------------------------------------------------------------------------------------


def _judge(frame: FrameType) -> str:
    """Return how the code that runs in `frame` asks for a name, by the instruction that it is at.

    An instruction that is not known here counts as a use: a warning too many is seen, one too few is not.
    """
    if _is_importlib(frame):
        return LOOK  # the from-list of a package is looked at before the import itself asks
    code, at = frame.f_code.co_code, frame.f_lasti
    operation, argument = opname[code[at]], code[at + 1]
    if operation == "IMPORT_FROM":
        return IMPORT
    # 2 is INTRINSIC_IMPORT_STAR, from CPython 3.12 on.
    if operation == "IMPORT_STAR" or (operation == "CALL_INTRINSIC_1" and argument == 2):
        return STAR
    if not operation.startswith(("CALL", "PRECALL", "INSTRUMENTED_CALL")):
        return USE
    if _top(frame) in _INTROSPECTION or (frame.f_code.co_name in _LOOKERS and _top(frame) == "unittest"):
        return LOOK
    # `getattr(old, "name")` without a default means to have it. hasattr, a default, and whatever else is written in C
    # (an unpickler, an attrgetter) look.
    return USE if argument == 2 and _last_looker(frame) == "getattr" else PROBE


def _last_looker(frame: FrameType) -> str:
    """Return which of getattr and hasattr was loaded last before the instruction that runs."""
    code, names = frame.f_code.co_code, frame.f_code.co_names
    for at in range(frame.f_lasti, -1, -2):
        operation = opname[code[at]]
        if operation in {"LOAD_GLOBAL", "LOAD_NAME"}:
            index, shift = code[at + 1], 8
            before = at - 2
            while before >= 0 and opname[code[before]] == "EXTENDED_ARG":
                index |= code[before + 1] << shift
                before, shift = before - 2, shift + 8
            # The lowest bit of LOAD_GLOBAL tells whether a null is pushed for the call.
            index = index >> 1 if operation == "LOAD_GLOBAL" else index
            if index < len(names) and names[index] in {"getattr", "hasattr"}:
                return names[index]
    return ""


def _is_importlib(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith("<frozen importlib")


def _top(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _user_frame(frame: FrameType) -> FrameType:
    """Return the frame whose line used the name: many uses come through the standard library or a test tool."""
    found: FrameType | None = frame
    while found is not None:
        file = found.f_code.co_filename
        evaluated = file == _SOURCELESS and found.f_back and _top(found.f_back) in _CARRIERS
        if not evaluated and _top(found) not in _CARRIERS and not file.startswith("<frozen importlib"):
            return found
        found = found.f_back
    return frame


# Telling ------------------------------------------------------------------------------------------------------------


class _User:
    """The line that a use is shown at: asking a frame for its line counts through the code, so it is asked once."""

    __slots__ = ("file", "frame", "line", "module")

    def __init__(self, frame: FrameType) -> None:
        self.frame = frame
        self.file = frame.f_code.co_filename
        self.line = frame.f_lineno
        self.module = str(frame.f_globals.get("__name__", "?"))


def _note(state: _Facade, name: str, entry: tuple[str, ...], user: _User) -> Use:
    old = f"{state.module_name}.{name}"
    key = (old, user.file, user.line)
    with _lock:
        use = _record.get(key)
        if use is None:
            use = _record[key] = Use(old, _new_name(entry, name), user.module, user.file, user.line)
    return use


def _tell(state: _Facade, name: str, entry: tuple[str, ...], frame: FrameType) -> None:
    user = _User(_user_frame(frame))
    use = _note(state, name, entry, user)
    use.uses += 1
    old = use.old
    if entry[0] == "import" or old in _warned:
        return
    package = state.module_name.partition(".")[0]
    note = f" ({entry[4]})" if len(entry) > 4 and entry[4] else ""
    place = "has no new place" if entry[0] == "restored" else f"is now {use.new}"
    _warn(
        [old],
        f"{old} {place}, since {package} {entry[2]}{note}; "
        f"the old name goes away in {package} {entry[3]} (used by {user.module})",
        user,
    )


def _warn_of_star(state: _Facade, frame: FrameType) -> None:
    """Warn once of every moved name that a star import takes."""
    listed = state.namespace.get("__all__")
    names = [name for name in (listed if listed is not None else state.starred()) if name not in state.namespace]
    entries = {name: entry for name in names if (entry := state.entry(name)) is not None}
    user = _User(_user_frame(frame))
    for name, entry in entries.items():
        _note(state, name, entry, user).uses += 1
    told = {name: entry for name, entry in entries.items() if entry[0] in {"moved", "restored"}}
    olds = [old for name in told if (old := f"{state.module_name}.{name}") not in _warned]
    if olds:
        places = "; ".join(
            f"{name} is now {_new_name(entry, name)} until {entry[3]}"
            if entry[0] == "moved"
            else f"{name} goes away in {entry[3]}"
            for name, entry in told.items()
        )
        _warn(
            olds,
            f"from {state.module_name} import * takes names that moved: {places} (used by {user.module})",
            user,
        )


def _warn(olds: list[str], message: str, user: _User) -> None:
    """Give one warning for these names, unless it was given.

    They are marked only after `warn` returned: where the user's filters make it an error, the next use is an error too.
    Under one lock: without it eight threads gave the warning twice nearly every time.
    """
    with _lock:
        wanted = [old for old in olds if old not in _warned and old not in _warning_now]
        if not wanted:
            return
        _warning_now.update(wanted)
        try:
            warnings.warn_explicit(
                message,
                PerdureCompatWarning,
                user.file,
                user.line,
                module=user.module,
                registry=user.frame.f_globals.setdefault("__warningregistry__", {}),
            )
            _warned.update(wanted)
        finally:
            _warning_now.difference_update(wanted)
        # A host that logs gets it there as well. One that does not would see it twice: logging prints what nobody
        # handles.
        logging = sys.modules.get("logging")
        if logging is not None and hasattr(logging, "getLogger"):
            logger = logging.getLogger("perdure_compat")
            if logger.hasHandlers():
                logger.warning("%s:%d: %s", user.file, user.line, message)
