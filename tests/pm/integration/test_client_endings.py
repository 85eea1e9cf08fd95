"""How the client ends a call early: cancelled, past a deadline, or with a worker that keeps to no protocol."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from perdure_pm.client import Cancellation
from perdure_pm.model import errors
from tests.pm.polling import read_when_written, wait_until
from tests.pm.worker_home import WorkerHome, is_gone

pytestmark = pytest.mark.platforms("linux")


# Cancellation


@pytest.mark.proves("worker-cancel-before-commit-only")
@pytest.mark.parametrize("where", ["progress", "thread"])
def test_cancel_during_a_download_stops_it_and_records_why(worker_home: WorkerHome, tmp_path: Path, where: str) -> None:
    """Case 21: from the progress callback and from a thread."""
    cancellation = Cancellation()
    target = tmp_path / "file"
    begun = threading.Event()

    def listen(*_: object, **__: object) -> None:
        begun.set()
        if where == "progress":
            cancellation.cancel("seen enough")

    def cancel() -> None:
        begun.wait(60)
        cancellation.cancel("seen enough")

    thread = threading.Thread(target=cancel)
    if where == "thread":
        thread.start()
    with pytest.raises(errors.OperationCancelled) as caught:
        worker_home.client().call("download", {"target": str(target)}, cancel=cancellation, on_progress=listen)
    assert caught.value.context == {"cause": "seen enough"}
    receipt = worker_home.only_receipt()
    assert receipt.status == "cancelled"
    assert receipt.error is not None
    assert receipt.error["context"] == {"cause": "seen enough"}
    assert is_gone(receipt.pid)
    assert not target.exists()
    if where == "thread":
        thread.join(60)


@pytest.mark.proves("worker-cancel-before-commit-only")
def test_one_cancellation_ends_several_calls(worker_home: WorkerHome, tmp_path: Path) -> None:
    cancellation = Cancellation()
    ended: list[BaseException] = []
    begun = [threading.Event(), threading.Event()]

    def call(number: int) -> None:
        try:
            worker_home.client().call(
                "download",
                {"target": str(tmp_path / str(number))},
                cancel=cancellation,
                on_progress=lambda *_, **__: begun[number].set(),
            )
        except errors.OperationCancelled as error:
            ended.append(error)

    threads = [threading.Thread(target=call, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    assert all(event.wait(60) for event in begun)
    cancellation.cancel()
    for thread in threads:
        thread.join(60)
    assert len(ended) == 2
    assert cancellation.cause == "the caller asked"


@pytest.mark.proves("worker-cancel-before-commit-only")
def test_cancel_past_the_commit_changes_nothing(worker_home: WorkerHome, tmp_path: Path) -> None:
    cancellation = Cancellation()
    gate = tmp_path / "gate"

    def late(stage: str, message: str, **_: object) -> None:
        cancellation.cancel("too late")
        gate.touch()

    result = worker_home.client().call("publish", {"gate": str(gate)}, cancel=cancellation, on_progress=late)
    assert result.status == "ok"


@pytest.mark.proves("worker-cancel-before-commit-only")
def test_ctrl_c_ends_the_worker_in_order_and_goes_on(worker_home: WorkerHome, tmp_path: Path) -> None:
    call = f"client.call('family', {{'folder': {str(tmp_path)!r}}})"
    parent = subprocess.Popen(worker_home.parent_script(call), stderr=subprocess.PIPE)
    members = [int(read_when_written(tmp_path / name)) for name in ("shell", "session", "orphan")]
    parent.send_signal(signal.SIGINT)
    _, err = parent.communicate(timeout=60)
    assert err.rstrip().endswith(b"KeyboardInterrupt")
    assert [is_gone(number) for number in members] == [True, True, True]
    receipt = worker_home.only_receipt()
    assert receipt.status == "cancelled"
    assert receipt.error is not None
    assert receipt.error["context"] == {"cause": "KeyboardInterrupt in the caller"}


@pytest.mark.proves("worker-cancel-before-commit-only")
def test_ctrl_c_twice_past_the_commit_leaves_the_worker_to_finish(worker_home: WorkerHome, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    parent = subprocess.Popen(
        worker_home.parent_script(f"client.call('publish', {{'gate': {str(gate)!r}}})"), stderr=subprocess.PIPE
    )
    assert read_when_written(worker_home.layout.home / "pointer") == "2\n"
    worker = worker_home.only_receipt().pid
    parent.send_signal(signal.SIGINT)
    wait_until(lambda: _sleeps(parent.pid), "the parent waits again")
    while parent.poll() is None:
        parent.send_signal(signal.SIGINT)
        wait_until(lambda: parent.poll() is not None or _sleeps(parent.pid), "the parent noticed")
    assert parent.stderr is not None
    parent.stderr.close()
    assert not is_gone(worker)
    gate.touch()
    wait_until(lambda: is_gone(worker), "the worker has ended")
    assert worker_home.only_receipt().status == "ok"


def _sleeps(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in {"S", "Z"}
    except OSError:
        return True


# Deadlines


@pytest.mark.proves("worker-cancel-before-commit-only")
def test_the_deadline_ends_the_operation(worker_home: WorkerHome, tmp_path: Path) -> None:
    with pytest.raises(errors.DeadlineExceeded, match="download did not end within 1 seconds") as caught:
        worker_home.client().call("download", {"target": str(tmp_path / "file")}, deadline=1)
    assert caught.value.state == "unchanged"
    receipt = worker_home.only_receipt()
    assert receipt.status == "cancelled"
    assert receipt.error is not None
    assert receipt.error["context"] == {"cause": "not done within 1 seconds"}
    assert not (tmp_path / "file").exists()


@pytest.mark.proves("client-idle-tree-dies")
@pytest.mark.parametrize("how", ["asleep", "deaf", "stopped"])
def test_a_hung_worker_dies_at_the_idle_deadline_with_its_whole_tree(
    worker_home: WorkerHome, tmp_path: Path, how: str
) -> None:
    """Case 29: asleep, with no thread running at all, and stopped by a signal."""
    home = worker_home.layout.home
    worker_home.client().call("publish")
    before = {path: path.read_bytes() for path in home.rglob("*") if path.is_file() and "receipts" not in path.parts}
    if how == "stopped":
        threading.Thread(target=lambda: _stop(worker_home, tmp_path)).start()
    with pytest.raises(errors.DeadlineExceeded, match="hang gave no sign of life within 2 seconds") as caught:
        worker_home.client(grace=10.0 if how == "asleep" else 1.0).call(
            "hang", {"folder": str(tmp_path), "deaf": how == "deaf"}, idle_deadline=2
        )
    assert caught.value.state == "unchanged"
    children = [int((tmp_path / name).read_text()) for name in ("one", "two")]
    assert [is_gone(number) for number in children] == [True, True]
    assert is_gone(worker_home.receipts()[-1].pid)
    after = {path: path.read_bytes() for path in home.rglob("*") if path.is_file() and "receipts" not in path.parts}
    assert after == before
    worker_home.client().call("echo")
    expected = "cancelled" if how == "asleep" else "interrupted"
    assert [entry.status for entry in worker_home.receipts()] == ["ok", expected, "ok"]


def _stop(home: WorkerHome, folder: Path) -> None:
    read_when_written(folder / "two")
    os.kill(home.receipts()[-1].pid, signal.SIGSTOP)


@pytest.mark.proves("client-idle-tree-dies")
def test_a_worker_that_never_greets_dies_with_its_tree(worker_home: WorkerHome) -> None:
    """Case 29."""
    lines: list[str] = []
    with pytest.raises(errors.DeadlineExceeded):
        worker_home.rogue("silent", grace=0.5).call("echo", idle_deadline=1, on_log=lines.append)
    assert is_gone(int(lines[0]))


@pytest.mark.proves("processes-ticks-are-progress")
def test_a_child_that_works_in_silence_outlives_the_idle_deadline(worker_home: WorkerHome) -> None:
    result = worker_home.client().call("steady", {"seconds": 4}, idle_deadline=2)
    assert result.status == "ok"


@pytest.mark.proves("client-idle-tree-dies")
def test_a_worker_that_hangs_past_its_commit_is_ended_too_and_says_so(worker_home: WorkerHome, tmp_path: Path) -> None:
    with pytest.raises(errors.DeadlineExceeded) as caught:
        worker_home.client(grace=0.5).call("publish", {"gate": str(tmp_path / "never")}, idle_deadline=1, deadline=0.5)
    assert caught.value.state == "needs-recovery"
    assert is_gone(worker_home.only_receipt().pid)


# Workers that do not keep to the protocol


@pytest.mark.proves("client-early-exit-told")
def test_a_worker_that_exits_early_is_told_with_its_last_words_and_a_remedy(worker_home: WorkerHome) -> None:
    """Case 17."""
    with pytest.raises(errors.WorkerTransportFault) as caught:
        worker_home.client().call("leave", {"code": 3}, on_log=lambda line: None)
    assert caught.value.summary == "the worker ended with exit code 3 before it gave a result: the last words"
    assert caught.value.context == {"exit_code": 3, "operation": "leave", "stderr": "the last words\n"}
    assert caught.value.hint
    assert caught.value.state == "unchanged"
    assert not (worker_home.layout.home / "pointer").exists()


@pytest.mark.proves("client-early-exit-told")
@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("early", "the worker ended with exit code 3 before it gave a result: cannot import something"),
        ("killed", "the worker was ended by signal 9 before it gave a result"),
        ("half", "the worker ended with exit code 0 before it gave a result"),
        ("garbage", "the worker sent a malformed frame: not JSON"),
        ("huge", "a line from the worker exceeds the protocol's bound"),
        ("no-hello", "the worker began with a progress frame"),
        ("unasked-callback", "the worker asked for a callback that was not offered: before_publish"),
    ],
)
def test_a_worker_that_breaks_the_protocol_is_told_and_ended(worker_home: WorkerHome, mode: str, words: str) -> None:
    """Case 17."""
    with pytest.raises(errors.WorkerTransportFault) as caught:
        worker_home.rogue(mode).call("echo", on_log=lambda line: None)
    assert caught.value.summary.startswith(words)


@pytest.mark.proves("wire-versions-named")
def test_a_worker_of_another_version_is_refused_with_both_named(worker_home: WorkerHome) -> None:
    with pytest.raises(errors.ProtocolMismatch) as caught:
        worker_home.rogue("other-version").call("echo")
    assert caught.value.summary == "this client speaks version 1 of the worker protocol, the worker speaks 6 and 7"


def test_a_newer_worker_may_say_more_than_this_client_knows(worker_home: WorkerHome) -> None:
    assert worker_home.rogue("newer").call("echo").data == {"fine": True}


def test_a_worker_that_does_not_end_after_its_result_is_ended(worker_home: WorkerHome) -> None:
    result = worker_home.rogue("lingering", grace=0.5).call("echo")
    assert is_gone(result.data["pid"])
