"""What runs keeps what it runs from: real processes, their children, and those that are stopped."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure_pm.adapters.leases import find_users, is_leased
from perdure_pm.ops.obligations import find_obligations
from perdure_pm.store.config import load_home_config
from perdure_pm.store.generations import Generation
from tests.pm.bench import Bench
from tests.pm.polling import wait_until

pytestmark = pytest.mark.platforms("linux")

WAIT = "import sys; print('ready', flush=True); sys.stdin.read()"
"""Runs until its standard input is closed."""

PARENT = """
import subprocess, sys
subprocess.Popen([{python!r}, "-I", "-S", "-c", {wait!r}], close_fds={close}, cwd={cwd!r}, stdout=sys.stdout)
"""
"""Starts a child that waits, and ends at once."""


class Running:
    """A process that runs until it is told to end."""

    def __init__(self, command: list[str], *, cwd: Path | None = None) -> None:
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={"PATH": os.defpath}, cwd=cwd
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"ready\n"

    @property
    def pid(self) -> int:
        return self.process.pid

    def end(self) -> None:
        """Close its input, and wait until it, and whoever has its output, is gone."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        if not self.process.stdin.closed:
            self.process.stdin.close()
            self.process.stdout.read()
            self.process.stdout.close()
            self.process.wait(60)


@pytest.fixture
def running() -> Iterator[list[Running]]:
    """Processes to be ended with the test."""
    started: list[Running] = []
    yield started
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGCONT)
        process.end()


@pytest.fixture
def old(bench: Bench) -> Generation:
    """Generation 1, which is long neither selected nor previous nor young."""
    first = bench.current
    bench.add("gadget")
    bench.add("part-1")
    bench.pass_time(days=3)
    return first


def collect(bench: Bench) -> dict[str, list[str]]:
    """Collect all that is allowed; return what stayed, with the reasons."""
    kept: dict[str, list[str]] = bench.call("collect", keep=0).data["kept"]
    assert sorted(kept) == bench.generations
    return kept


@pytest.mark.proves("lease-keeps-generation")
def test_a_process_keeps_its_generation_until_it_ends(bench: Bench, running: list[Running]) -> None:
    """Case 47, from the publication on: the receipts tell of it too."""
    first = bench.current
    process = Running([str(first.python), "-I", "-c", WAIT])
    running.append(process)
    assert is_leased(first.path)
    assert [user.pid for user in find_users(bench.layout)[first.identity]] == [process.pid]
    told = f"1 process still runs {first.identity}: restart it ({process.pid})"
    for words in (("plugin", "add", "gadget"), ("plugin", "add", "part-1"), ("install",), ("collect", "--keep", "0")):
        assert bench.pm(*words).exit_code == 0
        assert told in bench.receipts()[-1].obligations, words
    bench.pass_time(days=3)
    assert collect(bench)[first.identity] == ["in use"]
    process.end()
    assert not is_leased(first.path)
    assert first.identity not in collect(bench)
    assert bench.pm("install").exit_code == 0
    assert bench.receipts()[-1].obligations == ()


@pytest.mark.proves("obligation-carried-forward")
def test_every_verb_carries_an_obligation_forward_until_the_process_ends(bench: Bench, running: list[Running]) -> None:
    first = bench.current
    second = bench.add("gadget")
    process = Running([str(first.python), "-I", "-c", WAIT])
    running.append(process)
    told = f"1 process still runs {first.identity}: restart it ({process.pid})"
    verbs = {
        ("label", "good"): 0,
        ("pin", second): 0,
        ("config", "set", "install.lazy", "true"): 0,
        ("config", "set", "install.lazy", "true", "--dry-run"): 0,
        ("confirm",): 0,
        ("plugin", "add", "part-1", "--confirm-within", "10m"): 0,
        ("rollback",): 0,
        ("rollback", "7"): 2,
        ("plugin", "remove", "no-such-plugin"): 2,
        ("plugin", "add", "part-1", "--dry-run"): 0,
        ("upgrade",): 0,
        ("collect",): 0,
    }
    for words, code in verbs.items():
        count = len(bench.receipts())
        ended = bench.pm(*words)
        assert (ended.exit_code, len(bench.receipts())) == (code, count + 1), (words, ended.err)
        assert told in bench.receipts()[-1].obligations, words
    process.end()
    for words in (("label", "better"), ("rollback", "7"), ("install",)):
        bench.pm(*words)
        assert bench.receipts()[-1].obligations == (), words


@pytest.mark.proves("obligation-carried-forward")
@pytest.mark.parametrize("stage", ["seal", "published"])
def test_an_upgrade_that_dies_is_old_or_new_and_what_still_runs_is_told_by_the_next_operation(
    bench: Bench, running: list[Running], stage: str
) -> None:
    """Who runs next finishes what the one that died owned: the configuration and what is left to a person."""
    first = bench.current
    process = Running([str(first.python), "-I", "-c", WAIT])
    running.append(process)
    newer = bench.workshop.newer_checkout

    class Death(BaseException):
        pass

    def die(told: str) -> None:
        if told == stage:
            raise Death

    with pytest.raises(Death):
        bench.call("upgrade", bench.context(on_stage=die), checkout=str(newer))
    committed = bench.current.identity != first.identity
    assert committed is (stage == "published")
    assert bench.pm("label", "after").exit_code == 0
    told = f"1 process still runs {first.identity}: restart it ({process.pid})"
    assert (told in bench.receipts()[-1].obligations) is committed
    checkout = load_home_config(bench.layout).host_checkout
    assert checkout == str(newer if committed else bench.workshop.checkout)
    assert bench.start().returncode == 0
    assert bench.call("upgrade", checkout=str(newer)).status in {"ok", "noop"}
    assert bench.current.record["host"]["version"] == "0.2.0"
    assert bench.pm("label", "last").exit_code == 0
    assert told in bench.receipts()[-1].obligations
    process.end()
    assert bench.pm("label", "end").exit_code == 0
    assert bench.receipts()[-1].obligations == ()


@pytest.mark.proves("lease-keeps-generation")
def test_the_host_started_by_its_launcher_holds_its_generation(
    bench: Bench, old: Generation, running: list[Running]
) -> None:
    environment = {"PERDURE_PROFILE": "old", "PATH": os.defpath}
    bench.layout.profile("old").mkdir()
    bench.layout.pointer("old").write_text(old.identity + "\n")
    code = f"import os; os.environ.clear(); exec({WAIT!r})"
    sample = next((old.path / "venv").glob("lib/python3*/site-packages")) / "fakehost" / "__init__.py"
    sample.parent.chmod(0o755)
    text = sample.read_text()
    sample.unlink()
    sample.write_text(text.replace("    print(json.dumps(said))", f"    exec({code!r})"))
    process = subprocess.Popen(
        [bench.layout.bin / "fakehost"], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdin is not None
    assert process.stdout.readline() == b"ready\n"
    shutil.rmtree(bench.layout.profile("old"))
    assert is_leased(old.path)
    assert collect(bench)[old.identity] == ["in use"]
    process.stdin.close()
    process.wait(60)
    process.stdout.close()
    assert old.identity not in collect(bench)


@pytest.mark.proves("lease-keeps-generation")
@pytest.mark.parametrize(
    ("close", "inside"),
    [(False, False), (True, True)],
    ids=["that keeps the descriptor and runs another Python", "that keeps nothing but runs from the generation"],
)
def test_a_child_keeps_its_parents_generation(
    bench: Bench, old: Generation, running: list[Running], tmp_path: Path, close: bool, inside: bool
) -> None:
    python = str(old.python) if inside else os.path.realpath(sys.executable)
    source = PARENT.format(python=python, wait=WAIT, close=close, cwd=str(tmp_path))
    parent = Running([str(old.python), "-I", "-c", source])
    running.append(parent)
    parent.process.wait(60)
    assert is_leased(old.path) is not close
    assert collect(bench)[old.identity] == ["in use"]
    parent.end()
    assert old.identity not in collect(bench)


@pytest.mark.proves("lease-keeps-generation")
def test_a_process_that_only_works_in_a_generation_keeps_it(
    bench: Bench, old: Generation, running: list[Running]
) -> None:
    process = Running([os.path.realpath(sys.executable), "-I", "-S", "-c", WAIT], cwd=old.path / "venv")
    running.append(process)
    assert not is_leased(old.path)
    assert collect(bench)[old.identity] == ["in use"]
    process.end()
    assert old.identity not in collect(bench)


@pytest.mark.proves("lease-keeps-generation")
def test_a_process_that_only_maps_a_file_of_a_generation_keeps_it(
    bench: Bench, old: Generation, running: list[Running]
) -> None:
    mapped = next(old.path.glob("venv/lib/python3*/site-packages/fakehost/__init__.py"))
    opened = f"file = open({str(mapped)!r}); kept = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ); file.close()"
    source = f"import mmap; {opened}; {WAIT}"
    process = Running([os.path.realpath(sys.executable), "-I", "-S", "-c", source])
    running.append(process)
    assert collect(bench)[old.identity] == ["in use"]
    process.end()
    assert old.identity not in collect(bench)


@pytest.mark.proves("lease-keeps-generation")
def test_a_stopped_process_keeps_its_generation(bench: Bench, old: Generation, running: list[Running]) -> None:
    process = Running([str(old.python), "-I", "-c", WAIT])
    running.append(process)
    os.kill(process.pid, signal.SIGSTOP)
    wait_until(lambda: _state(process.pid) == "T", "the process is stopped")
    assert collect(bench)[old.identity] == ["in use"]
    os.kill(process.pid, signal.SIGCONT)
    assert collect(bench)[old.identity] == ["in use"]
    process.end()
    assert old.identity not in collect(bench)


@pytest.mark.proves("lease-dead-blocks-nothing")
def test_a_killed_process_keeps_nothing(bench: Bench, old: Generation, running: list[Running]) -> None:
    """Case 48: the lease file stays, and blocks nobody."""
    process = Running([str(old.python), "-I", "-c", WAIT])
    running.append(process)
    os.kill(process.pid, signal.SIGKILL)
    # Not even waited for: a zombie runs nothing.
    wait_until(lambda: _state(process.pid) == "Z", "the process is dead")
    assert (old.path / "lease").exists()
    assert old.identity not in collect(bench)


@pytest.mark.proves("lease-keeps-generation")
def test_a_home_behind_a_link_is_looked_for_under_both_names(
    bench: Bench, old: Generation, running: list[Running], tmp_path: Path
) -> None:
    link = tmp_path / "link"
    link.symlink_to(bench.layout.home)
    python = link / old.python.relative_to(bench.layout.home)
    process = Running([str(python), "-I", "-S", "-c", WAIT])  # without site there is no lease: /proc has to tell
    running.append(process)
    assert not is_leased(old.path)
    assert collect(bench)[old.identity] == ["in use"]


@pytest.mark.proves("lease-stops-no-start")
@pytest.mark.parametrize("lease", ["absent", "a directory", "locked by somebody else"])
def test_no_lease_keeps_a_process_from_starting(bench: Bench, lease: str) -> None:
    import fcntl

    path = bench.current.path / "lease"
    bench.current.path.chmod(0o755)
    handle = os.open(path, os.O_RDONLY)
    if lease == "locked by somebody else":
        fcntl.flock(handle, fcntl.LOCK_EX)
    else:
        path.unlink()
        if lease == "a directory":
            path.mkdir()
    assert bench.start().returncode == 0
    os.close(handle)


@pytest.mark.proves("lease-keeps-generation")
def test_a_collection_that_tries_the_lock_takes_no_lease_from_who_starts_meanwhile(bench: Bench) -> None:
    import fcntl

    first = bench.current
    handle = os.open(first.path / "lease", os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    code = (
        "import os, sys; sys.stdout.write('ready\\n'); sys.stdout.flush(); "
        "import perdure_lease; sys.stdin.readline(); print('done', flush=True); sys.stdin.read()"
    )
    # Without site the module is imported where the test wants it: after it has said that it runs.
    site, prefix = str(next(first.path.glob("venv/lib/python3*/site-packages"))), str(first.path / "venv")
    process = subprocess.Popen(
        [first.python, "-I", "-S", "-c", f"import sys; sys.path.append({site!r}); sys.prefix = {prefix!r}; {code}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"PATH": os.defpath},
    )
    assert process.stdout is not None
    assert process.stdin is not None
    assert process.stdout.readline() == b"ready\n"
    os.close(handle)
    process.stdin.write(b"\n")
    process.stdin.flush()
    assert process.stdout.readline() == b"done\n"
    assert is_leased(first.path)
    process.stdin.close()
    process.wait(60)
    process.stdout.close()


@pytest.mark.proves("lease-keeps-generation")
def test_a_process_that_cannot_be_seen_is_told_of_by_its_lease(bench: Bench, old: Generation) -> None:
    """As one in another container on the same home: this process holds the lease and runs from elsewhere."""
    import fcntl

    handle = os.open(old.path / "lease", os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_SH)
    assert find_users(bench.layout) == {}
    told = (f"a process that does not show here still runs {old.identity}: restart it",)
    assert find_obligations(bench.layout) == told
    assert collect(bench)[old.identity] == ["in use"]
    os.close(handle)
    assert find_obligations(bench.layout) == ()
    assert old.identity not in collect(bench)


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.proves("lease-stops-no-start")
@pytest.mark.parametrize("closed", ["<&-", ">&-", "<&- >&-"])
def test_a_closed_stream_is_not_where_the_lease_is_held(old: Generation, tmp_path: Path, closed: str) -> None:
    """Else what the host prints would go to the lease, and it would read it as its input."""
    told = tmp_path / "told"
    code = (
        "import os, pathlib, sys; found = [n for n in range(9) if os.path.exists(f'/dev/fd/{n}')"
        " and os.path.basename(os.path.realpath(f'/dev/fd/{n}')) == 'lease'];"
        " pathlib.Path(sys.argv[1]).write_text(repr(found))"
    )
    command = shlex.join([str(old.python), "-I", "-c", code, str(told)])
    subprocess.run(["/bin/sh", "-c", f"{command} {closed}"], check=True, timeout=60)
    (number,) = json.loads(told.read_text())
    assert number > 2
