"""Real workers ended: from outside before the commit and never after, by the death of who called, or killed."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from perdure_pm import wire
from perdure_pm.model import errors
from tests.pm.polling import read_when_written, wait_until
from tests.pm.raw_worker import Raw
from tests.pm.worker_home import WorkerHome, is_gone, recorder

pytestmark = pytest.mark.platforms("linux")


# Ended from outside


@pytest.mark.proves("worker-cancel-before-commit-only", "worker-leaves-no-process")
def test_cancel_ends_children_in_every_session_and_orphans(worker_home: WorkerHome, tmp_path: Path) -> None:
    raw = Raw(worker_home)
    raw.read()
    raw.request("family", arguments={"folder": str(tmp_path)})
    members = [int(read_when_written(tmp_path / name)) for name in ("shell", "session", "orphan")]
    raw.send(wire.encode("cancel", id="1", cause="enough"))
    result = raw.result()
    assert (result["status"], result["error"]["code"]) == ("cancelled", "cancelled")
    assert result["error"]["context"] == {"cause": "enough"}
    assert [is_gone(number) for number in members] == [True, True, True]
    receipt = worker_home.only_receipt()
    assert receipt.status == "cancelled"
    assert receipt.to_json() == result["receipt"]


@pytest.mark.proves("worker-leaves-no-process")
def test_what_an_operation_leaves_behind_ends_with_it(worker_home: WorkerHome) -> None:
    result = worker_home.client().call("leave-child")
    assert is_gone(result.data["pid"])


@pytest.mark.proves("worker-cancel-before-commit-only")
def test_an_operation_that_swallows_exceptions_is_ended_all_the_same(worker_home: WorkerHome) -> None:
    raw = Raw(worker_home)
    raw.read()
    raw.request("stubborn")
    raw.read()
    raw.send(wire.encode("cancel", id="1", cause="enough"))
    assert raw.result()["status"] == "cancelled"


@pytest.mark.proves("worker-cancel-before-commit-only")
def test_a_main_thread_that_does_not_come_back_is_abandoned_with_a_finished_receipt(
    worker_home: WorkerHome, tmp_path: Path
) -> None:
    raw = Raw(worker_home)
    raw.read()
    raw.request("hang", arguments={"folder": str(tmp_path), "native": True})
    children = [int(read_when_written(tmp_path / name)) for name in ("one", "two")]
    # It waits with the signal blocked: the kernel says so, and nothing in the process will.
    status = Path(f"/proc/{raw.process.pid}/status")
    wait_until(lambda: int(status.read_text().partition("SigBlk:")[2].split()[0], 16) & 1 << 9, "the signal is blocked")
    raw.send(wire.encode("cancel", id="1", cause="enough"))
    result = raw.result()
    assert result["status"] == "cancelled"
    assert raw.process.returncode == errors.EXIT_INTERNAL
    assert worker_home.only_receipt().status == "cancelled"
    assert [is_gone(number) for number in children] == [True, True]


@pytest.mark.proves("worker-cancel-before-commit-only")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_the_worker_ends_the_operation(
    worker_home: WorkerHome, tmp_path: Path, number: signal.Signals
) -> None:
    raw = Raw(worker_home)
    raw.read()
    raw.request("download", arguments={"target": str(tmp_path / "file")})
    raw.read()
    raw.process.send_signal(number)
    result = raw.result()
    assert (result["status"], result["error"]["context"]) == ("cancelled", {"cause": number.name})
    assert not (tmp_path / "file").exists()


@pytest.mark.proves("worker-cancel-before-commit-only")
def test_the_worker_ends_itself_where_the_client_forgets_the_deadline(
    worker_home: WorkerHome, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    raw = Raw(worker_home)
    raw.read()
    raw.request("download", arguments={"target": str(tmp_path / "file")}, deadline=0.1)
    result = raw.result()
    assert (result["status"], result["error"]["code"]) == ("cancelled", "deadline-exceeded")
    assert not (tmp_path / "file").exists()


@pytest.mark.proves("worker-cancel-before-commit-only")
@pytest.mark.parametrize("way", ["cancel", "SIGTERM", "SIGINT", "garbage"])
def test_nothing_ends_an_operation_past_its_commit(worker_home: WorkerHome, tmp_path: Path, way: str) -> None:
    raw = Raw(worker_home)
    raw.read()
    raw.request("publish", arguments={"gate": str(tmp_path / "gate")})
    assert raw.read()["type"] == "committed"
    assert raw.read()["type"] == "progress"
    if way == "cancel":
        raw.send(wire.encode("cancel", id="1", cause="too late"))
    elif way == "garbage":
        raw.send(b"garbage\n")
    else:
        raw.process.send_signal(getattr(signal, way))
    (tmp_path / "gate").touch()
    assert raw.result()["status"] == "ok"
    assert worker_home.only_receipt().status == "ok"


# The death of the caller


@pytest.mark.proves("worker-dies-with-caller", "worker-leaves-no-process")
def test_the_death_of_the_caller_ends_the_operation_and_its_tree(worker_home: WorkerHome, tmp_path: Path) -> None:
    parent = subprocess.Popen(worker_home.parent_script(f"client.call('family', {{'folder': {str(tmp_path)!r}}})"))
    members = [int(read_when_written(tmp_path / name)) for name in ("shell", "session", "orphan")]
    worker = worker_home.only_receipt().pid
    parent.kill()
    parent.wait()
    wait_until(lambda: is_gone(worker), "the worker has ended")
    assert [is_gone(number) for number in members] == [True, True, True]
    receipt = worker_home.only_receipt()
    assert receipt.status == "cancelled"
    assert receipt.error is not None
    assert receipt.error["context"] == {"cause": "the caller's process ended"}


@pytest.mark.proves("worker-dies-with-caller")
def test_a_fork_that_keeps_the_callers_pipes_does_not_hide_its_death(worker_home: WorkerHome, tmp_path: Path) -> None:
    call = (
        "import os, time\n"
        "def fork(*_, **__):\n"
        f"    if os.path.exists({str(tmp_path / 'fork')!r}): return\n"
        "    number = os.fork()\n"
        "    if number == 0:\n"
        "        os.setsid(); time.sleep(300); os._exit(0)\n"
        f"    open({str(tmp_path / 'fork')!r}, 'w').write(f'{{number}}\\n')\n"
        f"client.call('download', {{'target': {str(tmp_path / 'file')!r}}}, on_progress=fork)"
    )
    parent = subprocess.Popen(worker_home.parent_script(call))
    fork = int(read_when_written(tmp_path / "fork"))
    try:
        worker = worker_home.only_receipt().pid
        parent.kill()
        parent.wait()
        # The fork reads nothing, so the worker's pipe fills and the main thread waits in a write: ended all the same.
        wait_until(lambda: is_gone(worker), "the worker has ended")
        assert worker_home.only_receipt().status == "cancelled"
        assert not (tmp_path / "file").exists()
    finally:
        os.kill(fork, signal.SIGKILL)


@pytest.mark.proves("worker-dies-with-caller")
def test_an_operation_past_its_commit_finishes_without_its_caller(worker_home: WorkerHome, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    call = f"client.call('publish', {{'gate': {str(gate)!r}}}, callbacks={{'published': print}})"
    parent = subprocess.Popen(worker_home.parent_script(call))
    pointer = worker_home.layout.home / "pointer"
    assert read_when_written(pointer) == "2\n"
    worker = worker_home.only_receipt().pid
    parent.kill()
    parent.wait()
    gate.touch()
    wait_until(lambda: is_gone(worker), "the worker has ended")
    receipt = worker_home.only_receipt()
    assert (receipt.status, receipt.data) == ("ok", {"pointer": "2"})


@pytest.mark.proves("receipt-dead-writer-closed")
def test_the_next_operation_closes_the_receipt_of_a_killed_worker(worker_home: WorkerHome, tmp_path: Path) -> None:
    told, listen = recorder()
    killed: list[int] = []

    def kill(*_: object, **__: object) -> None:
        if not killed:
            killed.append(worker_home.only_receipt().pid)
            os.kill(killed[0], signal.SIGKILL)

    with pytest.raises(errors.WorkerTransportFault, match="was ended by signal 9"):
        worker_home.client().call("download", {"target": str(tmp_path / "file")}, on_progress=kill)
    assert worker_home.only_receipt().status == "started"
    lines: list[str] = []
    worker_home.client().call("echo", on_log=lines.append, on_progress=listen)
    assert [receipt.status for receipt in worker_home.receipts()] == ["interrupted", "ok"]
    assert lines == [f"download of process {killed[0]} was interrupted; its receipt says so now"]
    assert told == [("echo", "")]
