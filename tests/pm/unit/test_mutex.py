"""The mutex: one holder at a time, named to who waits, freed by a death, refused where the kernel does not keep it."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Self

import pytest

from perdure_pm.adapters import mutex
from perdure_pm.adapters.mutex import describe_holder, held
from perdure_pm.model.errors import Busy, HomeUnusable, NoKernelLocks
from perdure_pm.store.layout import Layout

pytestmark = pytest.mark.platforms("linux", "darwin")

HOLD = """
import sys
from pathlib import Path
from perdure_pm.adapters.mutex import held
from perdure_pm.store.layout import Layout
with held(Layout(Path(sys.argv[1])), "a build"):
    print("held", flush=True)
    sys.stdin.read()
"""


class Holder:
    """Another process that holds the mutex until it is told to end, or is killed."""

    def __init__(self, layout: Layout) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLD, str(layout.home)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "held\n"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(20)


@pytest.fixture
def layout(home: Path) -> Layout:
    return Layout(home)


@pytest.mark.proves("mutex-one-holder")
def test_the_holder_is_named_while_it_holds_and_forgotten_after(layout: Layout) -> None:
    with held(layout, "install"):
        said = json.loads(layout.mutex_holder.read_text(encoding="utf-8"))
        assert (said["pid"], said["operation"]) == (os.getpid(), "install")
        assert describe_holder(layout).startswith(f"install (process {os.getpid()}, since 2")
    assert not layout.mutex_holder.exists()
    assert describe_holder(layout) == "an operation that has not said its name yet"


@pytest.mark.proves("mutex-one-holder")
def test_who_does_not_wait_is_told_who_is_busy(layout: Layout) -> None:
    with Holder(layout) as other, pytest.raises(Busy) as caught, held(layout, "install", wait=False):
        pytest.fail("held twice")
    assert caught.value.summary.startswith(
        f"another operation is running: a build (process {other.process.pid}, since "
    )
    with held(layout, "install", wait=False):
        pass


@pytest.mark.proves("mutex-one-holder")
def test_who_waits_is_told_for_whom_and_goes_on_as_soon_as_it_is_free(layout: Layout) -> None:
    holder = Holder(layout)
    told: list[str] = []

    def free(description: str) -> None:
        told.append(description)
        if len(told) == 1:
            assert holder.process.stdin is not None
            holder.process.stdin.close()

    with held(layout, "install", on_wait=free):
        assert told[0].startswith("a build (process ")
    assert holder.process.stdout is not None
    holder.process.stdout.close()
    holder.process.wait(20)


@pytest.mark.proves("mutex-one-holder")
def test_a_wait_that_lasts_is_told_again(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits is not silent: an idle deadline must not take it for hung."""
    monkeypatch.setattr(mutex, "TELL_SECONDS", 0.01)
    monkeypatch.setattr(mutex, "POLL_SECONDS", 0.005)
    enough = threading.Event()
    told: list[str] = []
    holder = Holder(layout)

    def hear(description: str) -> None:
        told.append(description)
        if len(told) == 3:
            assert holder.process.stdin is not None
            holder.process.stdin.close()
            enough.set()

    with held(layout, "install", on_wait=hear):
        assert enough.is_set()
    assert holder.process.stdout is not None
    holder.process.stdout.close()
    holder.process.wait(20)


@pytest.mark.proves("mutex-freed-by-death")
def test_a_killed_holder_frees_it_and_its_files_block_nobody(layout: Layout) -> None:
    with Holder(layout) as other:
        other.process.kill()
        other.process.wait()
        assert layout.mutex_holder.exists(), "the name of the dead is still there"
        with held(layout, "install", wait=False):
            assert describe_holder(layout).startswith("install ")


@pytest.mark.proves("mutex-freed-by-death")
def test_an_exception_in_the_block_frees_it(layout: Layout) -> None:
    with pytest.raises(KeyError), held(layout, "install"):
        raise KeyError("x")
    with held(layout, "install", wait=False):
        pass


@pytest.mark.proves("mutex-one-holder")
def test_an_uninstall_that_takes_the_file_away_leaves_no_two_holders(layout: Layout) -> None:
    """Who waited for it holds the lock of a file that nobody else will ever open; it must take the new one."""
    with Holder(layout):
        layout.mutex.unlink()
        with held(layout, "install", wait=False), pytest.raises(Busy), held(layout, "other", wait=False):
            pytest.fail("held twice")


@pytest.mark.proves("mutex-real-locks")
@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
def test_a_filesystem_without_locks_is_refused(layout: Layout, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Case 113."""

    def refuse(handle: int, operation: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(NoKernelLocks) as caught, held(layout, "install"):
        pytest.fail("went on without a lock")
    assert os.strerror(number) in caught.value.summary
    assert str(layout.mutex) in caught.value.summary


@pytest.mark.proves("mutex-real-locks")
def test_a_filesystem_that_grants_the_same_lock_twice_is_refused(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fcntl, "flock", lambda handle, operation: None)
    with pytest.raises(NoKernelLocks, match="granted twice"), held(layout, "install"):
        pytest.fail("went on without a lock")


def test_a_home_that_cannot_be_made_is_told_with_its_path(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(HomeUnusable, match="file"), held(Layout(tmp_path / "file" / "home"), "install"):
        pytest.fail("held")


def test_a_directory_in_its_place_is_told_with_its_path(layout: Layout) -> None:
    layout.mutex.mkdir(parents=True)
    with pytest.raises(HomeUnusable, match="mutex"), held(layout, "install"):
        pytest.fail("held")
