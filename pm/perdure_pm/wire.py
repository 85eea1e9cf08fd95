"""The worker protocol: versioned frames, one JSON object per line, and how errors cross.

Owns: what each frame holds, who sends it, its bounds, versions, and the form of an error on the wire. Does not own:
when a frame is sent (client, worker). `docs/reference/worker-protocol.md` is compared with `FRAMES` and with the
constants here. Invariants: wire-versions-named, wire-frames-bounded, wire-errors-survive.

Standard library only, Python 3.9: the client is imported into processes that have none of PM's dependencies.
"""

from __future__ import annotations

import builtins
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from perdure_pm.model.errors import (
    EXIT_CONFLICT,
    EXIT_REFUSED,
    InternalFault,
    OperationCancelled,
    PerdureError,
    ProtocolMismatch,
    WorkerTransportFault,
    error_from_json,
)

VERSION = 1
VERSIONS: tuple[int, ...] = (1,)
"""The versions that this code speaks, oldest first."""

MAX_FRAME_BYTES = 4 * 1024 * 1024
"""The longest line, its end included."""

CALLBACK_DEADLINE = 60.0
"""Seconds that a caller's callback may take before the worker takes its silence for a refusal."""

IDLE_DEADLINE = 120.0
"""Seconds without a frame after which a client ends the worker, where the caller names no other number."""

GRACE_SECONDS = 10.0
"""How long a cancelled worker may take to clean up before its tree is killed."""

CALLBACK_NAMES: tuple[str, ...] = ("before_publish", "progress", "published", "rolled_back")
"""What a caller may register: `before_publish` may refuse by raising, the others inform. `progress` is served by the
client from `progress` frames and never asked for on the wire."""

STATUSES = ("ok", "noop", "refused", "failed", "cancelled")
"""What a `result` can say."""

OPERATION_NAMES: tuple[str, ...] = (
    "collect",
    "config-set",
    "confirm",
    "host-init",
    "install",
    "label",
    "package-install",
    "pin",
    "plugin-add",
    "plugin-bisect",
    "plugin-check",
    "plugin-disable",
    "plugin-enable",
    "plugin-remove",
    "plugin-update",
    "python-install",
    "python-uninstall",
    "repair",
    "rollback",
    "self-rebuild",
    "self-rollback",
    "self-settle",
    "self-update",
    "stage",
    "trial-judge",
    "upgrade",
    "wheelhouse-build",
)
"""Every operation of the worker, sorted: a client refuses any other before it acquires a runtime."""


@dataclass(frozen=True)
class Frame:
    """One kind of frame: who sends it, and its fields (beside `type`) with their kinds; every field is required."""

    sender: str
    fields: Mapping[str, str]


FRAMES: Mapping[str, Frame] = {
    "hello": Frame("worker", {"v": "integer", "versions": "array of integers", "pid": "integer"}),
    "request": Frame(
        "client",
        {
            "v": "integer",
            "id": "string",
            "correlation": "string",
            "operation": "string",
            "arguments": "object",
            "deadline": "number or null",
            "idle_deadline": "number or null",
            "callbacks": "array of strings",
            "packages": "array",
        },
    ),
    "progress": Frame(
        "worker",
        {
            "id": "string",
            "stage": "string",
            "message": "string",
            "done": "integer or null",
            "total": "integer or null",
        },
    ),
    "heartbeat": Frame("worker", {"id": "string"}),
    "callback": Frame(
        "worker", {"id": "string", "call": "integer", "name": "string", "payload": "object", "deadline": "number"}
    ),
    "callback_result": Frame(
        "client", {"id": "string", "call": "integer", "ok": "boolean", "reason": "string or null"}
    ),
    "cancel": Frame("client", {"id": "string", "cause": "string"}),
    "committed": Frame("worker", {"id": "string"}),
    "result": Frame(
        "worker",
        {
            "id": "string",
            "status": "string",
            "data": "object",
            "error": "object or null",
            "receipt": "object or null",
            "obligations": "array of strings",
        },
    ),
}


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


KINDS: Mapping[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "string or null": lambda value: value is None or isinstance(value, str),
    "integer": _is_integer,
    "integer or null": lambda value: value is None or _is_integer(value),
    "number": _is_number,
    "number or null": lambda value: value is None or _is_number(value),
    "boolean": lambda value: isinstance(value, bool),
    "object": lambda value: isinstance(value, dict),
    "object or null": lambda value: value is None or isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "array of strings": lambda value: isinstance(value, list) and all(isinstance(item, str) for item in value),
    "array of integers": lambda value: isinstance(value, list) and all(_is_integer(item) for item in value),
}
"""The words that `Frame.fields` and the reference page use for what a field holds."""


# Frames and bytes


def encode(kind: str, **fields: Any) -> bytes:
    """Return the line of one frame.

    Raises:
        WorkerTransportFault: the fields are not those of `kind`, hold what is not data, or are too many bytes.
    """
    _require_form(kind, fields)
    try:
        # ASCII only: a path that is not UTF-8 still crosses, and no separator but our own can end the line.
        line = json.dumps({"type": kind, **fields}, allow_nan=False, separators=(",", ":")).encode("ascii") + b"\n"
    except (TypeError, ValueError, RecursionError) as error:
        raise WorkerTransportFault(f"a {kind} frame holds something that is not JSON data: {error}") from error
    if len(line) > MAX_FRAME_BYTES:
        raise _too_long(f"a {kind} frame of {len(line)} bytes")
    return line


def decode(line: bytes, *, sender: str) -> dict[str, Any] | None:
    """Return the frame in `line`, or None for a kind of frame that a newer worker sends and this code does not know.

    Such frames only inform: whatever the other side must understand raises the version. An unknown frame *to* a worker
    is a fault, because a veto or a cancellation must not be lost. Unknown fields are ignored in both directions.

    Args:
        line: one line, with or without its end.
        sender: ``worker`` or ``client``: who wrote it.

    Raises:
        WorkerTransportFault: it is not a frame that this sender may send.
    """
    try:
        frame = json.loads(line.decode("utf-8"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise _malformed(sender, f"not JSON: {error}", line) from error
    if not isinstance(frame, dict) or not isinstance(frame.get("type"), str):
        raise _malformed(sender, "not an object with a type", line)
    kind = FRAMES.get(frame["type"])
    if kind is None:
        if sender == "worker":
            return None
        raise _malformed(sender, f"unknown type {frame['type']!r}", line)
    if kind.sender != sender:
        raise _malformed(sender, f"{frame['type']} is sent by the {kind.sender}", line)
    try:
        _require_form(frame["type"], frame)
    except WorkerTransportFault as fault:
        raise _malformed(sender, fault.summary, line) from fault
    return frame


class Decoder:
    """Turns bytes, in whatever pieces they come, into frames; holds at most one frame's bytes."""

    def __init__(self, sender: str) -> None:
        """Decode what `sender` writes."""
        self._sender = sender
        self._pending = bytearray()

    def feed(self, chunk: bytes) -> list[dict[str, Any]]:
        """Return the frames that `chunk` completes.

        Raises:
            WorkerTransportFault: a line is malformed, or longer than `MAX_FRAME_BYTES`.
        """
        self._pending += chunk
        *lines, rest = self._pending.split(b"\n")
        self._pending = rest
        if max(len(line) for line in (*lines, rest)) >= MAX_FRAME_BYTES:
            raise _too_long(f"a line from the {self._sender}")
        frames = (decode(bytes(line), sender=self._sender) for line in lines)
        return [frame for frame in frames if frame is not None]

    @property
    def is_between_frames(self) -> bool:
        """Whether everything that came was whole."""
        return not self._pending


def require_version(theirs: Sequence[int], *, they: str, we: str) -> None:
    """Do nothing where both sides speak `VERSION`.

    Raises:
        ProtocolMismatch: they do not; both are named.
    """
    if VERSION in theirs:
        return
    spoken = " and ".join(str(version) for version in theirs) or "none"
    raise ProtocolMismatch(
        f"this {we} speaks version {VERSION} of the worker protocol, the {they} speaks {spoken}",
        hint="perdure-pm self rebuild",
        context={we: [VERSION], they: list(theirs)},
    )


def find_code(value: object, place: str) -> list[str]:
    """Return, by place, everything in `value` that is not JSON data (functions, objects, sets, NaN ...)."""
    if value is None or isinstance(value, (str, bool, int)):
        return []
    if isinstance(value, float):
        return [] if value - value == 0 else [f"{place}: {value} is not a JSON number"]
    if isinstance(value, Mapping):
        faults = [f"{place}: the key {key!r} is not a string" for key in value if not isinstance(key, str)]
        return faults + [fault for key, item in value.items() for fault in find_code(item, f"{place}.{key}")]
    if isinstance(value, (list, tuple)):
        return [fault for index, item in enumerate(value) for fault in find_code(item, f"{place}[{index}]")]
    return [f"{place}: {type(value).__name__} is not data"]


# Errors

BUILTIN_ERRORS: tuple[str, ...] = (
    "ArithmeticError",
    "BlockingIOError",
    "BrokenPipeError",
    "ChildProcessError",
    "ConnectionAbortedError",
    "ConnectionError",
    "ConnectionRefusedError",
    "ConnectionResetError",
    "EOFError",
    "FileExistsError",
    "FileNotFoundError",
    "IndexError",
    "InterruptedError",
    "IsADirectoryError",
    "KeyError",
    "LookupError",
    "NotADirectoryError",
    "OSError",
    "OverflowError",
    "PermissionError",
    "ProcessLookupError",
    "TimeoutError",
    "TypeError",
    "ValueError",
    "ZeroDivisionError",
)
"""Types that reach the caller as themselves (a subclass arrives as the nearest of these). The rest is a defect in PM:
nobody can act on an AttributeError, so it arrives as `internal` and its traceback stands on stderr."""


class RemoteCause(Exception):
    """What caused an error in the worker, as text: ``Type: message``."""


def encode_error(error: BaseException) -> dict[str, Any]:
    """Return the `error` object of a `result` frame and of a receipt.

    It is `PerdureError.to_json` and `type`, `causes` (the chain, nearest first) and `builtin` (``{type, args}`` of a
    built-in exception, else null).
    """
    builtin = None
    if isinstance(error, PerdureError):
        told = error
    else:
        name = next((base.__name__ for base in type(error).__mro__ if base.__name__ in BUILTIN_ERRORS), None)
        told = InternalFault(str(error) or type(error).__name__)
        if name is None:
            told = InternalFault(f"{type(error).__name__}: {error}")
        else:
            builtin = {"type": name, "args": [_plain(item) for item in _arguments(error)]}
    return {
        **told.to_json(),
        "context": _plain(told.context),
        "type": type(error).__name__,
        "causes": _causes(error),
        "builtin": builtin,
    }


def decode_error(data: Mapping[str, Any]) -> Exception:
    """Return the exception that `encode_error` described, of the same type, with its causes as text."""
    builtin = data.get("builtin")
    found: Exception
    if isinstance(builtin, dict) and builtin.get("type") in BUILTIN_ERRORS:
        found = getattr(builtins, str(builtin["type"]))(*builtin.get("args", ()))
    else:
        found = error_from_json(dict(data))
    link: BaseException = found
    for cause in data.get("causes") or ():
        link.__cause__ = RemoteCause(str(cause))
        link = link.__cause__
    return found


def status_of(error: BaseException) -> str:
    """Return the status of an operation that ended with `error`: a policy or a conflict *refused*, the rest failed."""
    if isinstance(error, OperationCancelled):
        return "cancelled"
    if isinstance(error, PerdureError) and error.exit_code in {EXIT_REFUSED, EXIT_CONFLICT}:
        return "refused"
    return "failed"


def _arguments(error: BaseException) -> tuple[object, ...]:
    if isinstance(error, OSError) and error.filename is not None:
        # `args` lacks the file names; the constructor takes them (the fourth is Windows' own number).
        if error.filename2 is not None:
            return (error.errno, error.strerror, error.filename, None, error.filename2)
        return (error.errno, error.strerror, error.filename)
    return error.args


def _causes(error: BaseException) -> list[str]:
    found: list[str] = []
    seen = {id(error)}
    link = error.__cause__
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        found.append(f"{type(link).__name__}: {link}")
        link = link.__cause__
    return found


def _plain(value: Any) -> Any:
    """Return `value` as JSON data, with words in the place of what is none."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item) for item in value]
    return value if not find_code(value, "") else str(value)


def _require_form(kind: str, fields: Mapping[str, Any]) -> None:
    for name, wanted in FRAMES[kind].fields.items():
        if name not in fields:
            raise WorkerTransportFault(f"{kind} lacks {name}")
        if not KINDS[wanted](fields[name]):
            raise WorkerTransportFault(f"{kind}.{name} is not a {wanted}")


def _refuse_constant(text: str) -> float:
    raise ValueError(f"{text} is not a JSON number")


def _malformed(sender: str, reason: str, line: bytes) -> WorkerTransportFault:
    return WorkerTransportFault(
        f"the {sender} sent a malformed frame: {reason}",
        hint="run the same command again; if it happens again: perdure-pm self rebuild",
        context={"line": line[:200].decode("utf-8", "replace")},
    )


def _too_long(what: str) -> WorkerTransportFault:
    return WorkerTransportFault(
        f"{what} exceeds the protocol's bound of {MAX_FRAME_BYTES} bytes",
        hint="send less at once: write what is large to a file and send its path",
        context={"bound": MAX_FRAME_BYTES},
    )
