"""What a crash in each step of a publication leaves, as docs/explanation/crash-safety.md says, step by step."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from perdure_pm.adapters.filesystem import LocalFilesystem
from perdure_pm.ops import publish
from perdure_pm.store.generations import list_generations, list_unsealed
from perdure_pm.store.layout import Layout
from perdure_pm.store.receipts import load_all
from tests.pm.fake_host import PROFILE, Workshop
from tests.pm.faults.checking import AGAIN, Expected, check
from tests.pm.faults.faulting import STOP, Fault, FaultingFilesystem, Stopped
from tests.pm.faults.performing import TASKS, Task, Told, perform, what_runs


@dataclass(frozen=True, kw_only=True)
class Window:
    """One moment of a crash, and what it leaves."""

    steps: tuple[int, ...]
    """The steps of the publication that it lies in, or right behind."""
    stage: str = ""
    """Dies when this is told of."""
    effect: str = ""
    """Dies at the effect on the first path that matches."""
    after: bool = False
    """Dies at the next effect instead."""
    receipt: int = 1
    unsealed: int = 0
    sealed: int = 0
    """Candidates that are complete and that nothing selects."""
    pending: bool = False
    new: bool = False


WINDOWS = (
    Window(steps=(1,), effect=r"receipts/unfinished/", receipt=0),
    Window(steps=(1,), effect=r"receipts/[^/]+$", receipt=0),
    Window(steps=(1, 2, 3, 4), stage="resolve"),
    Window(steps=(5,), effect=r"cache/tmp/resolve-\w+/pyproject.toml"),
    Window(steps=(6,), effect=r"store/generations/\S+/requirements.txt", unsealed=1),
    Window(steps=(6,), effect=r"store/generations/\S+/boot.json", unsealed=1),
    Window(steps=(7,), stage="health", unsealed=1),
    Window(steps=(8,), effect=r"flush store/generations", unsealed=1),
    Window(steps=(8,), effect=r"store/generations/\S+/record.json", unsealed=1),
    Window(steps=(8,), effect=r"store/generations/\S+/record.json", after=True, sealed=1),
    Window(steps=(9,), stage="before_publish", sealed=1),
    Window(steps=(9,), effect=r"profiles/default/pending", sealed=1),
    Window(steps=(10,), effect=r"profiles/default/current", sealed=1, pending=True),
    Window(steps=(10,), effect=r"profiles/default/current", after=True, pending=True, new=True),
    Window(steps=(11,), effect=r"profiles/default/config.yaml", pending=True, new=True),
    Window(steps=(11,), effect=r"profiles/default/config.yaml", after=True, pending=True, new=True),
    Window(steps=(12,), effect=r"receipts/[^/]+$", new=True),
    Window(steps=(12,), effect=r"receipts/unfinished/", receipt=0, new=True),
)


def find_effect(clean: Expected, window: Window) -> int:
    """Return the number of the effect at which the window lies; a receipt is written first and last."""
    found = [number for number, effect in enumerate(clean.effects, 1) if re.search(window.effect, effect)]
    return (found[-1] if window.steps == (12,) else found[0]) + window.after


@pytest.mark.proves("faults-old-or-new", "faults-receipts-closed")
@pytest.mark.parametrize("window", WINDOWS, ids=lambda window: f"{window.steps[-1]}-{window.stage or 'effect'}")
def test_a_crash_in_each_step_leaves_what_the_page_says(
    window: Window, workshop: Workshop, fresh: Callable[[str], Layout], expected: Callable[[Task], Expected]
) -> None:
    task = TASKS["plugin add"]
    clean = expected(task)
    layout = fresh(task.template)
    known = {receipt.id for receipt in load_all(layout)[0]}
    sealed = len(list_generations(layout)[0])
    fault = None if window.stage else Fault(kind=STOP, at=find_effect(clean, window))
    filesystem = FaultingFilesystem(layout.home, fault)
    reporter = Told(lambda stage: filesystem.die() if stage == window.stage else None)
    with contextlib.suppress(Stopped):
        perform(workshop, layout, task, filesystem, reporter=reporter)
    assert filesystem.happened

    assert what_runs(layout) == (clean.after if window.new else clean.before)
    assert len(list_unsealed(layout)) == window.unsealed
    assert len(list_generations(layout)[0]) - sealed - window.new == window.sealed
    assert layout.pending_intent(PROFILE).exists() == window.pending
    left = [receipt for receipt in load_all(layout)[0] if receipt.id not in known and receipt.status == "started"]
    assert len(left) == window.receipt

    check(workshop, layout, task, clean, AGAIN)
    told = {receipt.id: receipt.status for receipt in load_all(layout)[0]}
    assert [told[receipt.id] for receipt in left] == ["interrupted"] * window.receipt
    # What is complete and was never selected is not built a second time.
    assert len(list_generations(layout)[0]) == sealed + 1


@pytest.mark.proves("faults-windows-named")
def test_the_page_names_every_step_with_a_test_that_exists(checkout: Path) -> None:
    page = (checkout / "docs" / "explanation" / "crash-safety.md").read_text(encoding="utf-8")
    steps = {int(number) for number in re.findall(r"^ {4}(\d+) +\S", publish.__doc__ or "", re.MULTILINE)}
    assert steps == set(range(1, 13))
    rows = {int(row[1]): row[0] for row in re.finditer(r"^\| (\d+) \|.*$", page, re.MULTILINE)}
    assert rows.keys() == steps
    for number, row in rows.items():
        assert re.search(r"`test_\w+`", row), f"step {number} names no test"
    written = "\n".join(path.read_text(encoding="utf-8") for path in sorted((checkout / "tests").rglob("test_*.py")))
    unknown = [name for name in re.findall(r"`(test_\w+)`", page) if f"def {name}(" not in written]
    assert unknown == []
    assert {step for window in WINDOWS for step in window.steps} == steps


def test_the_two_filesystems_do_the_same(tmp_path: Path) -> None:
    """The second implementation without a fault is the first."""
    for name, filesystem in (("local", LocalFilesystem()), ("faulting", FaultingFilesystem(tmp_path / "faulting"))):
        folder = tmp_path / name
        filesystem.make_directories(folder / "a" / "b")
        filesystem.write_durable(folder / "a" / "file", b"one", mode=0o640)
        filesystem.append_durable(folder / "a" / "lines", b"1\n")
        filesystem.append_durable(folder / "a" / "lines", b"2\n")
        filesystem.copy_file(folder / "a" / "file", folder / "a" / "copy")
        filesystem.link_files((folder / "a" / "file", folder / "a" / "b" / "link"))
        filesystem.rename(folder / "a" / "copy", folder / "moved")
        filesystem.remove_tree(folder / "a" / "lines")
        filesystem.remove_tree(folder / "nothing")
        filesystem.make_read_only(folder / "a")
        filesystem.flush(folder)
        assert filesystem.free_bytes(folder) > 0
    seen = {
        name: {
            path.relative_to(tmp_path / name).as_posix(): (path.stat().st_mode, path.stat().st_nlink)
            for path in (tmp_path / name).rglob("*")
        }
        for name in ("local", "faulting")
    }
    assert seen["local"] == seen["faulting"]
