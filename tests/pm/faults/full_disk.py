"""Operations on a small disk of their own, which fills at a chosen stage: run under ``unshare -m``, as root.

Owns: mounting the disk, filling it, and telling what happened as one line of JSON for each attempt. Does not own: the
verdict (test_full_disk).
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from perdure_pm.adapters.filesystem import LocalFilesystem
from perdure_pm.ops.doctor import examine
from perdure_pm.store.generations import list_unsealed, load_current
from perdure_pm.store.layout import Layout
from perdure_pm.store.receipts import list_markers, load_all
from tests.pm.bench import Launched
from tests.pm.fake_host import PROFILE, STUBS, Workshop, copy_home, start_host
from tests.pm.faults.performing import (
    TASKS,
    Ended,
    Task,
    Told,
    perform,
    require_in_line,
    require_readable,
    require_selectable_are_complete,
    require_starts,
    texts,
    what_runs,
)

MEGABYTES = 260
"""More than what PM wants to see free before it begins, so that it fills only on the way."""


INODES = 20_000
"""More than any home of these tests has files."""


def fill(filler: Path, left: int) -> None:
    """Have all but `left` bytes of the disk taken."""
    with filler.open("ab", buffering=0) as file:
        for block in (1 << 20, 4096):
            try:
                while True:
                    file.write(b"\1" * block)
            except OSError:
                continue
        file.truncate(max(0, file.seek(0, os.SEEK_END) - left))


def fill_names(filler: Path) -> None:
    """Have no inode left: as many empty files as the disk takes."""
    filler.mkdir()
    with contextlib.suppress(OSError):
        for number in itertools.count():
            (filler / str(number)).touch()


def attempt(workshop: Workshop, template: Layout, disk: Path, stage: str, left: int) -> dict[str, Any]:
    """Return what `plugin add` told and left on a disk that fills at `stage`, and what the next attempt did."""
    filler = disk / "filler"
    layout = copy_home(template, disk / "home")
    task = TASKS["plugin add"]
    before = what_runs(layout), texts(layout)

    def take_all() -> None:
        if left < 0:
            fill_names(filler)
        else:
            fill(filler, left)

    if stage == "before":
        take_all()

    def on_stage(now: str) -> None:
        if now == stage and not filler.exists():
            take_all()

    full = perform(workshop, layout, task, LocalFilesystem(), reporter=Told(on_stage))
    found = what_runs(layout)
    require_selectable_are_complete(layout)
    require_starts(layout, found)  # on the full disk
    told = _tell(full)
    told |= {
        "stage": stage,
        "left": left,
        "filled": filler.exists(),
        "unchanged": (found, texts(layout)) == before,
        "home": str(layout.home),
        "unsealed": list_unsealed(layout),
    }
    LocalFilesystem().remove_tree(filler)
    told["next"] = _tell(perform(workshop, layout, task, LocalFilesystem()))
    require_readable(layout)
    require_in_line(layout)
    told["added"] = "part-0" in require_starts(layout, what_runs(layout)).plugins
    LocalFilesystem().remove_tree(layout.home)
    return told


def repair(workshop: Workshop, template: Layout, disk: Path, stage: str, left: int) -> dict[str, Any]:
    """Return what `repair` told and left on a disk that fills at `stage`, and what the next one did."""
    layout = copy_home(template, disk / "home")
    generation = load_current(layout, PROFILE)
    (damaged,) = generation.path.glob("venv/lib/python3*/site-packages/gadget-*.dist-info/METADATA")
    for path in (damaged.parent, damaged):
        path.chmod(0o755)
    damaged.write_bytes(damaged.read_bytes()[:-1])
    task = Task(name="", template="", operation="repair")

    def on_stage(now: str) -> None:
        if now == stage and not (disk / "filler").exists():
            fill(disk / "filler", left)

    told = _tell(perform(workshop, layout, task, LocalFilesystem(), reporter=Told(on_stage)))
    told |= {
        "filled": (disk / "filler").exists(),
        "unchanged": load_current(layout, PROFILE).identity == generation.identity,
        "home": str(layout.home),
        "unsealed": list_unsealed(layout),
    }
    told["starts"] = start_host(layout).exit_code  # on the full disk
    LocalFilesystem().remove_tree(disk / "filler")
    told["next"] = _tell(perform(workshop, layout, task, LocalFilesystem()))
    problems = examine(layout, PROFILE, deep=True)["problems"]
    told["wrong"] = [problem["code"] for problem in problems if problem["code"] not in STUBS]
    LocalFilesystem().remove_tree(layout.home)
    return told


def collect(template: Layout, disk: Path, left: int) -> dict[str, Any]:
    """Return what `collect` told and left on a disk with nothing free, where half a generation takes room."""
    layout = copy_home(template, disk / "home")
    half = layout.generation("99-abcdefabcdef")
    half.mkdir()
    (half / "large").write_bytes(b"\1" * (8 << 20))
    fill(disk / "filler", left)
    ended = Launched(layout.home)("collect", "--json")
    found = {
        "exit_code": ended.exit_code,
        "err": ended.err,
        "gone": not half.exists(),
        "receipts": [receipt.status for receipt in load_all(layout)[0] if receipt.operation == "collect"],
        "unfinished": list_markers(layout),
    }
    LocalFilesystem().remove_tree(disk / "filler")
    require_starts(layout, what_runs(layout))
    LocalFilesystem().remove_tree(layout.home)
    return found


def _tell(ended: Ended) -> dict[str, Any]:
    error = ended.error
    if error is None:
        return {"status": ended.status, "exit_code": 0}
    return {
        "status": ended.status,
        "exit_code": error.exit_code,
        "summary": error.summary,
        "hint": error.hint,
        "context": {name: error.context.get(name) for name in ("path", "needed", "free")},
    }


def main(words: list[str]) -> None:
    """Try every stage and every rest that is named: FOLDER UV LOCK TEMPLATE STAGE:LEFT and so on; -1 takes inodes.

    The stage `collect` is a collection on a disk that is full already; `repair-STAGE` a repair.
    """
    folder, uv, lock, template, *cases = words
    workshop = Workshop(folder=Path(folder), uv=Path(uv), lock=Path(lock))
    disk = Path(folder) / "disk"
    disk.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={MEGABYTES}m,nr_inodes={INODES}", "tmpfs", disk], check=True)
    for case in cases:
        stage, _, left = case.partition(":")
        if stage == "collect":
            told = collect(Layout(Path(template)), disk, int(left))
        elif stage.startswith("repair-"):
            stage = stage.removeprefix("repair-")
            told = repair(workshop, Layout(Path(template)), disk, stage, int(left))
        else:
            told = attempt(workshop, Layout(Path(template)), disk, stage, int(left))
        sys.stdout.write(json.dumps(told) + "\n")
