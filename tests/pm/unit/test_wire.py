"""Frames, versions and errors of the worker protocol, without any process."""

from __future__ import annotations

import json
from typing import Any

import pytest

from perdure_pm import wire
from perdure_pm.model import errors

SAMPLES: dict[str, Any] = {
    "string": "x",
    "string or null": None,
    "integer": 1,
    "integer or null": None,
    "number": 1.5,
    "number or null": None,
    "boolean": True,
    "object": {},
    "object or null": None,
    "array": [],
    "array of strings": ["x"],
    "array of integers": [1],
}


def sample(kind: str) -> dict[str, Any]:
    return {name: SAMPLES[field] for name, field in wire.FRAMES[kind].fields.items()}


@pytest.mark.parametrize("kind", wire.FRAMES)
def test_a_frame_survives_the_line(kind: str) -> None:
    line = wire.encode(kind, **sample(kind))
    assert line.count(b"\n") == 1
    assert wire.decode(line, sender=wire.FRAMES[kind].sender) == {"type": kind, **sample(kind)}


def test_text_of_any_kind_survives_the_line() -> None:
    odd = "line\nbreak \u2028 é \udcff \0"
    line = wire.encode("cancel", id="1", cause=odd)
    frame = wire.decode(line, sender="client")
    assert frame is not None
    assert frame["cause"] == odd


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_frames_come_whole_out_of_pieces_of_any_size(size: int) -> None:
    data = wire.encode("heartbeat", id="é") * 3
    decoder = wire.Decoder("worker")
    found = [frame for start in range(0, len(data), size) for frame in decoder.feed(data[start : start + size])]
    assert found == [{"type": "heartbeat", "id": "é"}] * 3


@pytest.mark.proves("wire-frames-bounded")
def test_a_frame_over_the_bound_is_not_sent() -> None:
    with pytest.raises(errors.WorkerTransportFault, match="exceeds the protocol's bound of 4194304 bytes") as caught:
        wire.encode("cancel", id="1", cause="x" * wire.MAX_FRAME_BYTES)
    assert caught.value.hint


@pytest.mark.proves("wire-frames-bounded")
def test_a_line_over_the_bound_is_refused_before_it_ends() -> None:
    decoder = wire.Decoder("worker")
    decoder.feed(b"x" * (wire.MAX_FRAME_BYTES - 1))
    with pytest.raises(errors.WorkerTransportFault, match="exceeds the protocol's bound"):
        decoder.feed(b"x")


def test_a_frame_of_exactly_the_bound_passes() -> None:
    empty = len(wire.encode("cancel", id="1", cause=""))
    line = wire.encode("cancel", id="1", cause="x" * (wire.MAX_FRAME_BYTES - empty))
    assert len(line) == wire.MAX_FRAME_BYTES
    assert len(wire.Decoder("client").feed(line)) == 1


@pytest.mark.proves("wire-malformed-refused")
@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"hello\n", "not JSON"),
        (b"\xff\n", "not JSON"),
        (b"\n", "not JSON"),
        (b"[1]\n", "not an object with a type"),
        (b'{"type": 1}\n', "not an object with a type"),
        (b'{"type": "heartbeat"}\n', "heartbeat lacks id"),
        (b'{"type": "heartbeat", "id": 1}\n', "heartbeat.id is not a string"),
        (b'{"type": "cancel", "id": "1", "cause": "x"}\n', "cancel is sent by the client"),
        (b'{"type": "progress", "id": "1", "stage": "s", "message": "m", "done": NaN, "total": null}\n', "NaN"),
        (b'{"type": "progress", "id": "1", "stage": "s", "message": "m", "done": true, "total": null}\n', "done"),
        (b"[" * 100_000 + b"\n", "not JSON"),
    ],
)
def test_a_malformed_frame_is_refused_with_what_is_wrong(line: bytes, words: str) -> None:
    with pytest.raises(errors.WorkerTransportFault) as caught:
        wire.Decoder("worker").feed(line)
    assert words in caught.value.summary
    assert caught.value.hint


@pytest.mark.proves("wire-malformed-refused")
def test_a_new_type_is_ignored_from_a_worker_and_refused_from_a_client() -> None:
    line = b'{"type": "weather", "id": "1"}\n'
    assert wire.Decoder("worker").feed(line) == []
    with pytest.raises(errors.WorkerTransportFault, match="unknown type 'weather'"):
        wire.Decoder("client").feed(line)


def test_a_new_field_is_ignored_in_both_directions() -> None:
    assert wire.decode(b'{"type": "heartbeat", "id": "1", "new": 1}', sender="worker")
    assert wire.decode(b'{"type": "cancel", "id": "1", "cause": "c", "new": 1}', sender="client")


@pytest.mark.proves("wire-versions-named")
def test_a_foreign_version_is_refused_with_both_named() -> None:
    with pytest.raises(errors.ProtocolMismatch) as caught:
        wire.require_version([6, 7], they="worker", we="client")
    assert caught.value.summary == "this client speaks version 1 of the worker protocol, the worker speaks 6 and 7"
    assert caught.value.context == {"client": [1], "worker": [6, 7]}
    wire.require_version([0, 1, 2], they="worker", we="client")


def test_what_is_not_data_is_named_by_its_place() -> None:
    value = {"a": [1, {"b": print}], "c": {1, 2}, "d": float("nan"), "e": {1: 2}, "f": (None, True, 1.5, "x")}
    assert wire.find_code(value, "arguments") == [
        "arguments.a[1].b: builtin_function_or_method is not data",
        "arguments.c: set is not data",
        "arguments.d: nan is not a JSON number",
        "arguments.e: the key 1 is not a string",
    ]


@pytest.mark.proves("wire-errors-survive")
@pytest.mark.parametrize("kind", [kind for _, kind in sorted(errors.error_classes().items())])
def test_every_error_of_ours_crosses_with_type_package_cause_and_remedy(kind: type[errors.PerdureError]) -> None:
    """Case 18."""
    sent = kind("summary", hint="do this", context={"package": "facts"}, retry="later", state="rolled-back")
    middle = ValueError("middle")
    middle.__cause__ = OSError(2, "gone", "/x")
    sent.__cause__ = middle
    got = wire.decode_error(json.loads(json.dumps(wire.encode_error(sent))))
    assert type(got) is kind
    assert isinstance(got, errors.PerdureError)
    assert got.to_json() == sent.to_json()
    assert str(got.__cause__) == "ValueError: middle"
    assert got.__cause__ is not None
    assert str(got.__cause__.__cause__) == "FileNotFoundError: [Errno 2] gone: '/x'"


@pytest.mark.proves("wire-errors-survive")
@pytest.mark.parametrize("name", wire.BUILTIN_ERRORS)
def test_a_built_in_error_arrives_as_the_same_type(name: str) -> None:
    """Case 19."""
    kind = getattr(__import__("builtins"), name)
    got = wire.decode_error(json.loads(json.dumps(wire.encode_error(kind("words", 3)))))
    assert type(got) is kind
    assert got.args == ("words", 3)


@pytest.mark.proves("wire-errors-survive")
def test_a_system_error_keeps_number_and_names() -> None:
    """Case 19."""
    got = wire.decode_error(wire.encode_error(FileExistsError(17, "File exists", "/a", None, "/b")))
    assert type(got) is FileExistsError
    assert isinstance(got, FileExistsError)
    assert (got.errno, got.strerror, got.filename, got.filename2) == (17, "File exists", "/a", "/b")


@pytest.mark.proves("wire-errors-survive")
def test_a_subclass_arrives_as_the_nearest_built_in() -> None:
    got = wire.decode_error(wire.encode_error(json.JSONDecodeError("bad", "{", 1)))
    assert type(got) is ValueError
    undecodable = UnicodeDecodeError("utf-8", b"\xff", 0, 1, "why")
    assert type(wire.decode_error(json.loads(json.dumps(wire.encode_error(undecodable))))) is ValueError


@pytest.mark.parametrize("defect", [AttributeError("x"), RuntimeError("x"), AssertionError("x"), SystemExit(3)])
def test_a_defect_arrives_as_internal(defect: BaseException) -> None:
    got = wire.decode_error(wire.encode_error(defect))
    assert type(got) is errors.InternalFault
    assert type(defect).__name__ in str(got)


def test_a_chain_of_causes_that_bites_its_tail_ends() -> None:
    first, second = ValueError("1"), ValueError("2")
    first.__cause__, second.__cause__ = second, first
    assert wire.encode_error(first)["causes"] == ["ValueError: 2"]


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.OperationCancelled("x"), "cancelled"),
        (errors.LazyInstallRefused("x"), "refused"),
        (errors.OperationVetoed("x"), "refused"),
        (errors.BuildFailed("x"), "failed"),
        (ValueError("x"), "failed"),
    ],
)
def test_the_status_of_an_error(error: Exception, status: str) -> None:
    assert wire.status_of(error) == status


def test_operation_names_are_sorted_and_unique() -> None:
    assert list(wire.OPERATION_NAMES) == sorted(set(wire.OPERATION_NAMES))
