"""The client against real workers and rogues: deadlines, cancellation, callbacks, receipts, early ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perdure_pm.client import Cancellation, Result
from perdure_pm.model import errors
from tests.pm.polling import read_when_written, wait_until
from tests.pm.worker_home import PLACES, WorkerHome, is_gone, open_descriptors, recorder

pytestmark = pytest.mark.platforms("linux")


# What is refused before anything starts


@pytest.mark.proves("client-unknown-refused")
def test_an_unknown_operation_is_a_key_error_and_no_runtime_is_acquired(worker_home: WorkerHome) -> None:
    """Case 20: on the client."""
    with pytest.raises(KeyError, match="unknown operation 'instal'; there are chatter, download"):
        worker_home.client().call("instal")
    assert worker_home.acquired == 0
    assert not worker_home.layout.home.exists()


def test_an_unknown_callback_is_a_key_error(worker_home: WorkerHome) -> None:
    with pytest.raises(KeyError, match="unknown callback 'before_publsh'"):
        worker_home.client().call("publish", callbacks={"before_publsh": print})
    assert worker_home.acquired == 0


@pytest.mark.proves("registration-is-data")
def test_code_is_refused_by_its_place_before_a_runtime_is_acquired(worker_home: WorkerHome) -> None:
    """Case 27: and unrelated operations still work."""
    client = worker_home.client()
    packages: Any = [{"name": "x", "install": print}, {"name": lambda: 1}]
    with pytest.raises(errors.RegistrationInvalid) as caught:
        client.call("packages", packages=packages)
    assert caught.value.context["faults"] == [
        "packages[0].install: builtin_function_or_method is not data",
        "packages[1].name: function is not data",
    ]
    with pytest.raises(TypeError, match=r"arguments\.x: object is not data"):
        client.call("echo", {"x": object()})
    assert worker_home.acquired == 0
    assert client.call("echo").status == "ok"


@pytest.mark.proves("registration-faults-named")
def test_a_refused_registration_leaves_a_receipt_and_other_operations_work(worker_home: WorkerHome) -> None:
    """Case 27: what the worker refuses."""
    client = worker_home.client()
    with pytest.raises(errors.RegistrationInvalid, match=r"packages\[0\]\.kind: 'script' is none of"):
        client.call("packages", packages=[{"name": "x", "version": "1", "kind": "script", "executables": ["x"]}])
    assert worker_home.only_receipt().status == "failed"
    assert client.call("packages").data == {"names": []}


def test_a_request_over_the_bound_is_refused_before_a_worker_starts(worker_home: WorkerHome) -> None:
    with pytest.raises(errors.WorkerTransportFault, match=r"a request frame of .* exceeds the protocol's bound"):
        worker_home.client().call("echo", {"much": "x" * 5_000_000})
    assert not worker_home.layout.home.exists()


def test_a_request_that_fills_its_pipe_many_times_arrives(worker_home: WorkerHome) -> None:
    much = "x" * 3_000_000
    result = worker_home.client().call("look", {"much": much})
    assert result.status == "ok"


def test_what_was_cancelled_before_does_not_start(worker_home: WorkerHome) -> None:
    cancellation = Cancellation()
    cancellation.cancel("changed my mind")
    with pytest.raises(errors.OperationCancelled, match="changed my mind"):
        worker_home.client().call("echo", cancel=cancellation)
    assert worker_home.acquired == 0


# The course of a call


def test_progress_is_relayed_and_nothing_is_left_open(worker_home: WorkerHome) -> None:
    told, listen = recorder()
    as_callback: list[dict[str, Any]] = []
    client = worker_home.client()
    client.call("look")
    descriptors, threads = open_descriptors(), threading.active_count()
    result = client.call(
        "echo", {"message": "é\n"}, on_progress=listen, callbacks={"progress": as_callback.append}, correlation="mine"
    )
    assert told == [("echo", "é\n")]
    assert as_callback == [{"stage": "echo", "message": "é\n", "done": 1, "total": 2}]
    assert result.status == "ok"
    assert result.obligations == ("restart it",)
    assert (open_descriptors(), threading.active_count()) == (descriptors, threads)


def test_the_log_goes_to_stderr_where_nobody_takes_it(
    worker_home: WorkerHome, capsys: pytest.CaptureFixture[str]
) -> None:
    worker_home.client().call("chatter")
    out, err = capsys.readouterr()
    assert out == ""
    assert "from printf\n" in err


@pytest.mark.proves("client-own-receipt")
def test_callbacks_are_called_in_order_around_the_commit(worker_home: WorkerHome) -> None:
    calls: list[tuple[str, Any, bool]] = []
    pointer = worker_home.layout.home / "pointer"

    def note(name: str) -> Callable[[dict[str, Any]], None]:
        return lambda payload: calls.append((name, payload, pointer.exists()))

    result = worker_home.client().call(
        "publish", callbacks={name: note(name) for name in ("before_publish", "published")}
    )
    assert calls == [
        ("before_publish", {"plan": ["one step"]}, False),
        ("published", {"pointer": "2"}, True),
    ]
    assert result.data == {"pointer": "2"}


@pytest.mark.proves("client-own-exception")
def test_a_callback_that_raises_refuses_the_operation_and_its_own_exception_comes_back(
    worker_home: WorkerHome,
) -> None:
    """Case 22."""

    class Mine(Exception):
        def __bool__(self) -> bool:
            return False

    mine = Mine("no")

    def refuse(payload: dict[str, Any]) -> None:
        raise mine

    with pytest.raises(Mine) as caught:
        worker_home.client().call("publish", callbacks={"before_publish": refuse})
    assert caught.value is mine
    assert not (worker_home.layout.home / "pointer").exists()
    receipt = worker_home.only_receipt()
    assert receipt.status == "refused"
    assert receipt.error is not None
    assert receipt.error["code"] == "operation-vetoed"
    assert receipt.error["context"] == {"callback": "before_publish", "reason": "Mine: no"}


@pytest.mark.proves("client-own-exception")
def test_a_callback_that_raises_past_the_commit_undoes_nothing(worker_home: WorkerHome) -> None:
    mine = errors.BuildFailed("of the caller's own making")

    def fail(payload: dict[str, Any]) -> None:
        raise mine

    with pytest.raises(errors.BuildFailed) as caught:
        worker_home.client().call("publish", callbacks={"published": fail})
    assert caught.value is mine
    assert caught.value.__notes__ == ["publish had been committed before this was raised"]
    assert (worker_home.layout.home / "pointer").exists()
    assert worker_home.only_receipt().status == "ok"


@pytest.mark.proves("client-own-exception")
@pytest.mark.parametrize("mine", [ValueError("mine"), KeyboardInterrupt(), errors.Busy("mine")])
def test_a_progress_listener_that_raises_ends_the_operation_and_its_exception_goes_on(
    worker_home: WorkerHome, tmp_path: Path, mine: BaseException
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise mine

    with pytest.raises(type(mine)) as caught:
        worker_home.client().call("download", {"target": str(tmp_path / "file")}, on_progress=fail)
    assert caught.value is mine
    receipt = worker_home.only_receipt()
    assert receipt.status == "cancelled"
    assert is_gone(receipt.pid)
    assert not (tmp_path / "file").exists()


# Receipts


@pytest.mark.proves("client-own-receipt")
@pytest.mark.parametrize("mode", ["other-id", "other-progress", "other-correlation", "other-operation"])
def test_what_belongs_to_another_call_is_rejected(worker_home: WorkerHome, mode: str) -> None:
    """Case 23."""
    with pytest.raises(errors.ReceiptMismatch):
        worker_home.rogue(mode).call("echo", correlation="mine")


@pytest.mark.proves("client-own-receipt")
def test_a_receipt_that_another_process_writes_meanwhile_is_not_taken_for_ours(worker_home: WorkerHome) -> None:
    """Case 24."""
    later: list[Result] = []

    def overwrite(payload: dict[str, Any]) -> None:
        later.append(worker_home.client().call("echo", correlation="theirs"))

    ours = worker_home.client().call("publish", correlation="ours", callbacks={"published": overwrite})
    assert ours.receipt is not None
    assert (ours.receipt["correlation"], ours.receipt["operation"]) == ("ours", "publish")
    assert worker_home.receipts()[-1].correlation == "theirs"


@pytest.mark.proves("client-own-receipt")
def test_nested_calls_get_their_own_receipts_and_a_standalone_one_is_nobodys(worker_home: WorkerHome) -> None:
    """Case 25."""
    inner: list[Result] = []

    def nest(payload: dict[str, Any]) -> None:
        inner.append(worker_home.client().call("echo", correlation="same"))
        worker_home.client().call("echo", correlation="alone")

    outer = worker_home.client().call("publish", correlation="same", callbacks={"before_publish": nest})
    assert outer.receipt is not None
    assert inner[0].receipt is not None
    assert outer.receipt["operation"] == "publish"
    assert inner[0].receipt["operation"] == "echo"
    assert outer.receipt["id"] != inner[0].receipt["id"]
    assert sorted((entry.operation, entry.correlation) for entry in worker_home.receipts()) == [
        ("echo", "alone"),
        ("echo", "same"),
        ("publish", "same"),
    ]


@pytest.mark.proves("client-own-receipt")
def test_calls_in_threads_do_not_mix(worker_home: WorkerHome) -> None:
    found: dict[str, Result] = {}

    def call(name: str) -> None:
        found[name] = worker_home.client().call("echo", {"message": name}, correlation=name)

    threads = [threading.Thread(target=call, args=(str(number),)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert {name: (result.receipt or {})["correlation"] for name, result in found.items()} == {
        str(number): str(number) for number in range(6)
    }
    assert all(result.data["arguments"] == {"message": name} for name, result in found.items())


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


# Foreign parents


@pytest.mark.proves("client-two-commands")
def test_the_client_needs_no_distribution(worker_home: WorkerHome) -> None:
    """A parent without site-packages imports and uses it: nothing but the standard library is there."""
    call = "result = client.call('echo', correlation='mine')\nprint(result.receipt['correlation'])"
    script = worker_home.parent_script(call)
    # The harness module brings perdure_compat only to hand its place to workers; the client itself is imported alone.
    alone = (
        f"import sys; sys.path.insert(0, {PLACES[0]!r}); import perdure_pm.client; "
        "print(sorted(name for name in ('ruamel', 'packaging', 'click', 'rich', 'yaml') if name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", alone], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")
    done = subprocess.run(script, capture_output=True, text=True, check=True)
    assert done.stdout == "mine\n"


@pytest.mark.proves("client-two-commands")
def test_the_client_runs_on_python_3_9(worker_home: WorkerHome) -> None:
    """The closure test imports it there; this one makes a call."""
    old = _find_python_3_9()
    if old is None:
        pytest.skip("no Python 3.9 on this machine")
    code = (
        f"import sys; sys.path.insert(0, {PLACES[0]!r})\n"
        "from pathlib import Path\n"
        "from perdure_pm.client import Client\n"
        "from perdure_pm.store.layout import Layout\n"
        f"client = Client(Layout(Path({str(worker_home.layout.home)!r})), lambda: Path({sys.executable!r}),"
        f" entry=['-I', {str(worker_home.entry())!r}], operations=['publish'])\n"
        "def refuse(plan): raise ValueError('mine')\n"
        "try: client.call('publish', callbacks={'before_publish': refuse})\n"
        "except ValueError as error: print(error)\n"
        "print(client.call('publish').status)\n"
    )
    done = subprocess.run([old, "-I", "-S", "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("mine\nok\n", "")


def _find_python_3_9() -> str | None:
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        candidate = os.path.join(folder, "python3.9")
        if os.access(candidate, os.X_OK):
            probe = subprocess.run([candidate, "-c", ""], capture_output=True, check=False)
            if probe.returncode == 0:
                return candidate
    return None
