"""Real workers: private streams, one conversation, one receipt, and errors that reach the caller whole."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from perdure_pm import wire
from perdure_pm.adapters.worker_process import worker_environment
from perdure_pm.model import errors
from tests.pm.raw_worker import Raw
from tests.pm.worker_home import WorkerHome

pytestmark = pytest.mark.platforms("linux")


@pytest.mark.proves("worker-stdout-private")
def test_what_is_printed_in_any_way_goes_to_stderr_and_no_frame_breaks(worker_home: WorkerHome) -> None:
    """Case 16."""
    lines: list[str] = []
    result = worker_home.client().call("chatter", on_log=lines.append)
    assert result.data == {"said": 5}
    assert sorted(lines) == [
        "from a child",
        "from descriptor 1",
        "from print",
        "from printf",
        "from the first stdout",
    ]


@pytest.mark.proves("worker-stdout-private")
def test_an_operation_has_no_input_and_an_isolated_interpreter(worker_home: WorkerHome) -> None:
    result = worker_home.client().call("look")
    assert result.data == {"stdin": "", "isolated": 1}


@pytest.mark.proves("worker-environment-scrubbed")
def test_a_worker_gets_nothing_that_changes_how_python_or_uv_work(worker_home: WorkerHome) -> None:
    kept = {
        "PERDURE_INDEX_URL": "x",
        "HTTPS_PROXY": "p",
        "no_proxy": "n",
        "SSL_CERT_FILE": "s",
        "HOME": str(worker_home.folder),
        "PATH": os.environ["PATH"],
        "LANG": "C",
        "LC_ALL": "C.UTF-8",
        "TMPDIR": str(worker_home.folder),
    }
    hostile = {
        "PYTHONPATH": "/evil",
        "PYTHONHOME": "/evil",
        "PYTHONSTARTUP": "/evil",
        "VIRTUAL_ENV": "/evil",
        "UV_INDEX_URL": "evil",
        "UV_CONFIG_FILE": "/evil",
        "PIP_INDEX_URL": "evil",
        "LD_PRELOAD": "/evil.so",
        "CONDA_PREFIX": "/evil",
    }
    assert worker_environment({**kept, **hostile}) == kept
    result = worker_home.client(environ={**kept, **hostile}).call("echo")
    assert {name: value for name, value in result.data["environment"].items() if name != "LC_CTYPE"} == kept


def test_a_worker_leads_a_group_of_its_own(worker_home: WorkerHome) -> None:
    result = worker_home.client().call("echo")
    assert result.data["group"] == result.data["pid"]
    assert result.data["group"] != os.getpgrp()


@pytest.mark.proves("receipt-before-work")
def test_a_receipt_says_started_while_the_operation_runs_and_its_outcome_after(
    worker_home: WorkerHome, tmp_path: Path
) -> None:
    statuses: list[str] = []
    result = worker_home.client().call(
        "echo",
        {"status": "noop"},
        correlation="mine",
        on_progress=lambda *_, **__: statuses.append(worker_home.only_receipt().status),
    )
    assert statuses == ["started"]
    assert result.status == "noop"
    receipt = worker_home.only_receipt()
    assert receipt.to_json() == result.receipt
    assert (receipt.status, receipt.operation, receipt.correlation) == ("noop", "echo", "mine")
    assert receipt.pid == result.data["pid"]
    assert receipt.obligations == ("restart it",) == result.obligations


def test_an_operation_that_changes_nothing_leaves_no_receipt(worker_home: WorkerHome) -> None:
    assert worker_home.client().call("look").receipt is None
    assert worker_home.receipts() == []
    assert not worker_home.layout.home.exists()


@pytest.mark.proves("receipt-before-work")
def test_a_home_that_takes_no_receipt_gets_no_operation(worker_home: WorkerHome, tmp_path: Path) -> None:
    worker_home.layout.home.mkdir()
    worker_home.layout.receipts.write_text("in the way")
    with pytest.raises(errors.HomeUnusable):
        worker_home.client().call("download", {"target": str(tmp_path / "file")})
    assert not (tmp_path / "file").exists()


@pytest.mark.proves("receipt-damage-named")
def test_a_damaged_receipt_stops_no_operation(worker_home: WorkerHome) -> None:
    worker_home.layout.receipts.mkdir(parents=True)
    (worker_home.layout.receipts / "20260101T000000.000000Z-damaged0.json").write_text("{")
    result = worker_home.client().call("echo")
    assert json.loads((worker_home.layout.receipts / _name(result.receipt)).read_text()) == result.receipt


def _name(receipt: Any) -> str:
    return f"{receipt['started'].replace('-', '').replace(':', '')}-{receipt['id'][:8]}.json"


@pytest.mark.proves("client-unknown-refused")
def test_an_operation_that_the_worker_does_not_know_is_a_key_error_without_a_receipt(worker_home: WorkerHome) -> None:
    """Case 20: on the wire."""
    with pytest.raises(KeyError, match="unknown operation: missing"):
        worker_home.client().call("missing")
    assert worker_home.receipts() == []


@pytest.mark.proves("wire-errors-survive")
def test_our_error_reaches_the_caller_whole(worker_home: WorkerHome) -> None:
    """Case 18."""
    lines: list[str] = []
    with pytest.raises(errors.BuildFailed) as caught:
        worker_home.client().call("fail", {"kind": "ours"}, on_log=lines.append)
    assert caught.value.to_json() == {
        "code": "build-failed",
        "summary": "it could not be built",
        "context": {"package": "facts", "path": "/x"},
        "hint": "free the wire",
        "retry": "later",
        "state": "rolled-back",
    }
    assert str(caught.value.__cause__) == "ConnectionError: the wire is cut"
    assert lines == []
    receipt = worker_home.only_receipt()
    assert receipt.status == "failed"
    assert receipt.error is not None
    assert receipt.error["code"] == "build-failed"


@pytest.mark.proves("wire-errors-survive")
@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("ValueError", ["bad", 3]),
        ("KeyError", ["name"]),
        ("FileExistsError", [17, "File exists", "/a"]),
        ("TypeError", ["no"]),
        ("PermissionError", [13, "no", "/b"]),
        ("IndexError", []),
    ],
)
def test_a_built_in_error_reaches_the_caller_as_itself(worker_home: WorkerHome, kind: str, values: list[Any]) -> None:
    """Case 19."""
    expected = getattr(__import__("builtins"), kind)
    with pytest.raises(expected) as caught:
        worker_home.client().call("fail", {"kind": kind, "args": values})
    assert type(caught.value) is expected
    assert str(caught.value) == str(expected(*values))
    assert worker_home.only_receipt().status == "failed"


def test_a_defect_is_internal_and_its_traceback_is_talk(worker_home: WorkerHome) -> None:
    for kind in ("AttributeError", "SystemExit", "KeyboardInterrupt"):
        lines: list[str] = []
        with pytest.raises(errors.InternalFault, match=kind):
            worker_home.client().call("fail", {"kind": kind}, on_log=lines.append)
        assert lines[0] == "Traceback (most recent call last):"
        assert kind in lines[-1]


def test_a_refusal_by_policy_has_exactly_one_receipt_that_says_refused(worker_home: WorkerHome) -> None:
    """Case 12: the worker's part; the design's word for it is refused."""
    with pytest.raises(errors.LazyInstallRefused):
        worker_home.client().call("fail", {"kind": "lazy"})
    receipt = worker_home.only_receipt()
    assert receipt.status == "refused"
    assert receipt.error is not None
    assert receipt.error["code"] == "lazy-install-refused"


def test_an_outcome_that_is_no_data_is_a_defect(worker_home: WorkerHome) -> None:
    with pytest.raises(errors.InternalFault, match=r"data\.path: PosixPath is not data"):
        worker_home.client().call("odd")
    assert worker_home.only_receipt().status == "failed"


@pytest.mark.proves("wire-frames-bounded")
def test_a_result_over_the_bound_keeps_its_status_and_says_where_the_rest_is(worker_home: WorkerHome) -> None:
    result = worker_home.client().call("large", {"bytes": wire.MAX_FRAME_BYTES})
    receipt = worker_home.only_receipt()
    assert (result.status, result.data) == ("ok", {})
    assert receipt.name in result.obligations[0]
    assert len(receipt.data["much"]) == wire.MAX_FRAME_BYTES


# One process, one conversation


def test_a_worker_that_is_asked_nothing_ends_well(worker_home: WorkerHome) -> None:
    raw = Raw(worker_home)
    assert raw.read() == {"type": "hello", "v": 1, "versions": [1], "pid": raw.process.pid}
    raw.stdin.close()
    raw.stdin = subprocess.DEVNULL  # type: ignore[assignment]
    assert raw.process.wait(30) == 0
    assert raw.process.stderr is not None
    assert (raw.stdout.read(), raw.process.stderr.read()) == (b"", b"")
    raw.stdout.close()
    raw.process.stderr.close()
    assert not worker_home.layout.home.exists()


@pytest.mark.proves("wire-versions-named")
def test_a_request_in_another_version_is_refused_with_both_named(worker_home: WorkerHome) -> None:
    raw = Raw(worker_home)
    raw.read()
    raw.request("echo", v=2)
    result = raw.result()
    assert result["error"]["code"] == "protocol-mismatch"
    assert result["error"]["summary"] == ("this worker speaks version 1 of the worker protocol, the client speaks 2")
    assert worker_home.receipts() == []


@pytest.mark.proves("wire-malformed-refused")
@pytest.mark.parametrize("line", [b"hello\n", b'{"type": "request"}\n', b'{"type": "weather"}\n'])
def test_a_worker_answers_what_is_no_request_with_what_is_wrong(worker_home: WorkerHome, line: bytes) -> None:
    raw = Raw(worker_home)
    raw.read()
    raw.send(line)
    result = raw.result()
    assert (result["id"], result["error"]["code"]) == ("", "worker-transport")


@pytest.mark.proves("wire-malformed-refused")
@pytest.mark.parametrize(
    "line",
    [
        b"garbage\n",
        wire.encode("cancel", id="another", cause="mine"),
        b'{"type": "weather", "id": "1"}\n',
    ],
)
def test_a_client_that_breaks_the_protocol_ends_the_operation(
    worker_home: WorkerHome, tmp_path: Path, line: bytes
) -> None:
    raw = Raw(worker_home)
    raw.read()
    raw.request("download", arguments={"target": str(tmp_path / "file")})
    assert raw.read()["type"] == "progress"
    raw.send(line)
    result = raw.result()
    assert (result["status"], result["error"]["code"]) == ("failed", "worker-transport")
    assert worker_home.only_receipt().status == "failed"
    assert not (tmp_path / "file").exists()


def test_a_second_request_ends_the_first(worker_home: WorkerHome, tmp_path: Path) -> None:
    raw = Raw(worker_home)
    raw.read()
    raw.request("download", arguments={"target": str(tmp_path / "file")})
    raw.read()
    raw.request("echo", id="2")
    assert "a second request" in raw.result()["error"]["summary"]


def test_an_answer_to_an_older_callback_is_not_taken_for_this_one(worker_home: WorkerHome) -> None:
    raw = Raw(worker_home)
    raw.read()
    raw.request("publish", callbacks=["before_publish"])
    call = raw.read()
    assert (call["name"], call["call"], call["payload"]) == ("before_publish", 1, {"plan": ["one step"]})
    assert call["deadline"] == wire.CALLBACK_DEADLINE
    raw.send(wire.encode("callback_result", id="1", call=0, ok=False, reason="late"))
    raw.send(wire.encode("callback_result", id="1", call=1, ok=True, reason=None))
    assert raw.read()["type"] == "committed"
    assert raw.result()["status"] == "ok"
