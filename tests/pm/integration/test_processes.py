"""Real processes: run to the end, bounded, ticking, and dying as trees."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from perdure_pm.adapters import processes
from perdure_pm.model.errors import DeadlineExceeded
from tests.pm.polling import read_when_written, wait_until
from tests.pm.worker_home import is_gone, open_descriptors

pytestmark = pytest.mark.platforms("linux")

SHELL = ("/bin/sh", "-c")


def run(
    *command: str,
    timeout: float | None = 60,
    directory: Path | None = None,
    on_line: Callable[[str], None] | None = None,
    on_tick: Callable[[], None] | None = None,
) -> processes.Completed:
    return processes.run(
        command,
        environment={"PATH": os.environ["PATH"]},
        directory=directory,
        timeout=timeout,
        on_line=on_line,
        on_tick=on_tick,
    )


@pytest.fixture
def family(tmp_path: Path) -> Iterator[tuple[str, Callable[[], list[int]]]]:
    """A script that starts a child in another session and an orphan in a third, and a way to learn their numbers."""
    script = (
        f"cd {tmp_path}; echo $$ > shell; "
        "setsid sh -c 'echo $$ > session; exec sleep 300' & "
        "sh -c 'setsid sh -c \"echo \\$\\$ > deeper; exec sleep 300\" & wait' & "
        "sleep 300"
    )

    def members() -> list[int]:
        return [int(read_when_written(tmp_path / name)) for name in ("shell", "session", "deeper")]

    yield script, members
    for name in ("shell", "session", "deeper"):
        if (tmp_path / name).exists():
            number = int((tmp_path / name).read_text() or 0)
            if number and not is_gone(number):
                os.kill(number, signal.SIGKILL)


def test_a_process_has_its_exit_code_output_and_lines() -> None:
    lines: list[str] = []
    done = run(*SHELL, "printf 'out\\n'; printf 'one\\r\\ntwo' >&2; exit 3", on_line=lines.append)
    assert done == processes.Completed(3, "out\n", "one\r\ntwo")
    assert lines == ["one", "two"]


def test_a_process_gets_no_input_a_session_of_its_own_and_only_the_given_environment(tmp_path: Path) -> None:
    code = "import os, sys; print(os.getpid() == os.getsid(0), repr(sys.stdin.read()), os.getcwd(), sorted(os.environ))"
    done = processes.run(
        [sys.executable, "-I", "-c", code], environment={"ONLY": "1", "LC_ALL": "C.UTF-8"}, directory=tmp_path
    )
    assert done.stdout == f"True '' {tmp_path} ['LC_ALL', 'ONLY']\n"


def test_what_ends_by_a_signal_has_a_negative_code() -> None:
    assert run(*SHELL, "kill -9 $$").returncode == -9


def test_a_program_that_is_not_there_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        run(str(tmp_path / "none"))


@pytest.mark.proves("processes-output-bounded")
def test_output_beyond_the_bound_keeps_its_start_and_its_end() -> None:
    size = processes.HEAD_BYTES + 5 * processes.TAIL_BYTES
    done = run(sys.executable, "-c", f"import sys; sys.stdout.write('start' + 'x' * {size} + 'end')")
    assert done.stdout.startswith("startxxx")
    assert done.stdout.endswith("xxxend")
    assert "bytes left out]" in done.stdout
    assert len(done.stdout) < processes.HEAD_BYTES + processes.TAIL_BYTES + 100


@pytest.mark.proves("processes-output-bounded")
def test_a_line_that_the_end_no_longer_holds_was_seen_and_a_split_one_is_whole() -> None:
    """Case 82: the marker is split across reads, and evicted from the tail."""
    code = (
        "import sys, time\n"
        "err = sys.stderr.buffer\n"
        "err.write('caf\\u00e9 No solu'.encode()[:4]); err.flush(); time.sleep(0.2)\n"
        "err.write('caf\\u00e9 No solu'.encode()[4:]); err.flush(); time.sleep(0.2)\n"
        "err.write(b'tion found\\n'); err.flush()\n"
        f"err.write(b'noise\\n' * {(processes.HEAD_BYTES + 3 * processes.TAIL_BYTES) // 6})\n"
    )
    seen: set[str] = set()
    done = run(sys.executable, "-c", code, on_line=seen.add)
    assert seen == {"café No solution found", "noise"}
    assert "bytes left out" in done.stderr


def test_bytes_that_are_no_text_are_replaced() -> None:
    assert run(*SHELL, "printf '\\377x'").stdout == "\ufffdx"


@pytest.mark.proves("processes-no-hang-on-open-pipe")
def test_a_child_that_leaves_its_output_open_delays_nobody() -> None:
    """Case 83."""
    threads, descriptors = threading.active_count(), open_descriptors()
    started = time.monotonic()
    done = run(*SHELL, "setsid sleep 300 & echo $!; echo said; exit 4", timeout=30)
    taken = time.monotonic() - started
    number = int(done.stdout.split()[0])
    try:
        assert (done.returncode, done.stdout.split()[1:]) == (4, ["said"])
        assert taken < 20
        assert (threading.active_count(), open_descriptors()) == (threads, descriptors)
        assert not is_gone(number), "it was the open pipe that was tested"
    finally:
        os.kill(number, signal.SIGKILL)


@pytest.mark.proves("processes-tree-dies")
def test_a_deadline_ends_the_whole_tree(family: tuple[str, Callable[[], list[int]]], tmp_path: Path) -> None:
    script, members = family
    # The deadline is short enough to wait for and long enough for the family to be complete.
    with pytest.raises(DeadlineExceeded, match="did not end within 3 seconds") as caught:
        run(*SHELL, "echo here >&2; " + script, timeout=3)
    assert caught.value.context["stderr"] == "here\n"
    assert [is_gone(number) for number in members()] == [True, True, True]


@pytest.mark.proves("processes-tree-dies")
def test_an_exception_in_a_callback_ends_the_whole_tree_and_goes_on(
    family: tuple[str, Callable[[], list[int]]],
) -> None:
    script, members = family

    class Enough(BaseException):
        pass

    def stop(line: str) -> None:
        members()
        raise Enough

    with pytest.raises(Enough):
        run(*SHELL, "echo go >&2; " + script, on_line=stop)
    assert [is_gone(number) for number in members()] == [True, True, True]


@pytest.mark.proves("processes-tree-dies")
def test_a_tree_that_grows_while_it_is_ended_leaves_nothing(tmp_path: Path) -> None:
    """Each member starts others, in sessions of their own, as fast as it can."""
    code = (
        "import os, sys, time\n"
        "for depth in range(6):\n"
        "    if os.fork() == 0:\n"
        "        os.setsid()\n"
        f"open({str(tmp_path)!r} + '/' + str(os.getpid()), 'w').close()\n"
        "time.sleep(300)\n"
    )
    process = processes.start([sys.executable, "-c", code], environment=dict(os.environ), directory=tmp_path)
    wait_until(lambda: len(list(tmp_path.iterdir())) >= 20, "the tree has grown")
    processes.kill_tree(process.pid)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert [path.name for path in tmp_path.iterdir() if not is_gone(int(path.name))] == []


def test_pid_one_and_groups_are_never_ended() -> None:
    for number in (1, 0, -1):
        with pytest.raises(ValueError, match="never"):
            processes.kill_tree(number)


def test_ending_the_own_tree_leaves_the_caller() -> None:
    code = (
        "import os, subprocess, sys\n"
        "from perdure_pm.adapters import processes\n"
        "child = subprocess.Popen(['sleep', '300'], start_new_session=True)\n"
        "assert processes.descendants(os.getpid()) == [child.pid]\n"
        "processes.kill_tree(os.getpid())\n"
        "print(child.wait())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("-9\n", "")


@pytest.mark.proves("processes-tree-dies")
def test_a_child_dies_with_the_process_that_runs_it(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from perdure_pm.adapters import processes\n"
        f"script = 'echo $$ > {tmp_path}/child; exec sleep 300'\n"
        "processes.run(['/bin/sh', '-c', script], environment={}, directory=None)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code])
    child = int(read_when_written(tmp_path / "child"))
    parent.kill()
    parent.wait()
    wait_until(lambda: is_gone(child), "the child is dead")


@pytest.mark.proves("processes-ticks-are-progress")
def test_a_child_that_works_ticks_and_one_that_sleeps_does_not() -> None:
    ticks: list[float] = []
    work = "import time\nend = time.monotonic() + 2.5\nwhile time.monotonic() < end: pass"
    run(sys.executable, "-c", work, on_tick=lambda: ticks.append(time.monotonic()))
    assert len(ticks) >= 2
    # Looks are TICK_SECONDS apart; a busy machine may delay one call more than the next.
    assert all(later - earlier > processes.TICK_SECONDS / 2 for earlier, later in itertools.pairwise(ticks))
    quiet: list[float] = []
    run(*SHELL, "exec sleep 3", on_tick=lambda: quiet.append(time.monotonic()))
    assert len(quiet) <= 1, "only the first look counts, which has nothing to compare with"


@pytest.mark.proves("processes-ticks-are-progress")
def test_work_of_a_grandchild_ticks() -> None:
    ticks: list[int] = []
    work = "import time\nend = time.monotonic() + 2.5\nwhile time.monotonic() < end: pass"
    run(*SHELL, f"setsid {sys.executable} -c '{work}' & wait", on_tick=lambda: ticks.append(1))
    assert len(ticks) >= 2


@pytest.mark.proves("processes-identity")
def test_a_number_given_out_anew_is_another_process() -> None:
    own, boot, start = processes.identity()
    assert own == os.getpid()
    assert processes.still_runs(own, boot, start)
    assert not processes.still_runs(own, boot, "1")
    assert not processes.still_runs(own, "another boot", start)
    child = subprocess.Popen(["sleep", "300"])
    born = processes.process_start(child.pid)
    assert born is not None
    assert processes.is_alive(child.pid, born)
    child.kill()
    wait_until(lambda: not processes.is_alive(child.pid, born), "a dead child that nobody waited for counts as dead")
    child.wait()
    assert not processes.is_alive(child.pid, born)
    assert not processes.is_alive(0, None)


def test_a_name_with_spaces_and_brackets_does_not_confuse_the_identity(tmp_path: Path) -> None:
    odd = tmp_path / "a) R 1 (b"
    odd.symlink_to("/bin/sleep")
    child = subprocess.Popen([odd, "300"])
    try:
        assert processes.is_alive(child.pid, processes.process_start(child.pid))
        assert child.pid in processes.descendants(os.getpid())
    finally:
        child.kill()
        child.wait()


def test_replacing_the_process_keeps_its_number_and_its_environment(tmp_path: Path) -> None:
    code = (
        "import os\n"
        "from perdure_pm.adapters import processes\n"
        "print(os.getpid())\n"
        "processes.replace_process(['/bin/sh', '-c', 'echo $$ $ONLY $PATH; exit 5'], {'ONLY': 'this'})\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    first, second = done.stdout.splitlines()
    assert second.split()[:2] == [first, "this"]
    assert done.returncode == 5


def test_the_threads_that_stand_for_pipes_on_windows_read_the_same() -> None:
    process = subprocess.Popen([*SHELL, "echo out; echo err >&2"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    pipes = processes.ThreadedPipes([process.stdout, process.stderr])
    found = {0: b"", 1: b""}
    until = time.monotonic() + 30
    while pipes.is_open and time.monotonic() < until:
        for index, chunk in pipes.read(0.1):
            found[index] += chunk
    pipes.close()
    process.wait()
    assert found == {0: b"out\n", 1: b"err\n"}


def test_writing_to_a_reader_that_takes_nothing_ends() -> None:
    process = processes.start(["sleep", "300"], environment=dict(os.environ), directory=None)
    assert process.stdin is not None
    try:
        with pytest.raises(TimeoutError):
            processes.write_all(process.stdin, b"x" * 4_000_000, 0.2)
    finally:
        processes.kill_tree(process.pid)
        process.communicate()
