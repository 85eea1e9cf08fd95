"""The client against real workers and rogues: deadlines, cancellation, callbacks, receipts, early ends."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perdure_pm.client import Cancellation, Result
from perdure_pm.model import errors
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
