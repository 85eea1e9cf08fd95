"""A home with a client whose workers run the engine of `tests/pm/worker_engine.py`, or a rogue."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import perdure_compat
import perdure_pm
from perdure_pm.adapters import processes
from perdure_pm.client import Client
from perdure_pm.store.layout import Layout
from perdure_pm.store.receipts import Receipt, load_all
from tests.pm import rogue_worker

ROOT = Path(__file__).resolve().parent.parent.parent
# A worker runs isolated, so PYTHONPATH does not reach it; the entry script finds the same code as this process.
PLACES = [str(Path(module.__file__ or "").parent.parent) for module in (perdure_pm, perdure_compat)]

OPERATIONS = (
    "chatter",
    "download",
    "echo",
    "fail",
    "family",
    "hang",
    "large",
    "leave",
    "leave-child",
    "look",
    "missing",
    "odd",
    "packages",
    "publish",
    "steady",
    "stubborn",
)
"""`missing` is not in the engine's table: the client knows it and the worker does not."""


@dataclass
class WorkerHome:
    """One home, and how to call its engine."""

    folder: Path
    layout: Layout
    acquired: int = 0

    def acquire(self) -> Path:
        self.acquired += 1
        return Path(sys.executable)

    def client(self, *, grace: float = 10.0, environ: Mapping[str, str] | None = None) -> Client:
        return Client(
            self.layout,
            self.acquire,
            environ=environ,
            entry=["-I", str(self.entry())],
            operations=OPERATIONS,
            grace=grace,
        )

    def rogue(self, mode: str, *, grace: float = 10.0) -> Client:
        script = Path(rogue_worker.__file__ or "")
        return Client(self.layout, self.acquire, entry=["-I", str(script), mode], operations=OPERATIONS, grace=grace)

    def entry(self) -> Path:
        """Return the script that starts the engine's worker."""
        path = self.folder / "entry.py"
        if not path.exists():
            path.write_text(
                f"import sys\nsys.path[:0] = {[*PLACES, str(ROOT)]!r}\n"
                "from tests.pm.worker_engine import main\nsys.exit(main())\n"
            )
        return path

    def parent_script(self, call: str) -> list[str]:
        """Return the command of a separate parent process that makes one `call` on a client named `client`."""
        path = self.folder / "parent.py"
        path.write_text(
            f"import sys\nsys.path[:0] = {[*PLACES, str(ROOT)]!r}\n"
            "from pathlib import Path\nfrom perdure_pm.store.layout import Layout\n"
            "from tests.pm.worker_home import WorkerHome\n"
            f"home = WorkerHome(Path({str(self.folder)!r}), Layout(Path({str(self.layout.home)!r})))\n"
            f"client = home.client()\n{call}\n"
        )
        return [sys.executable, str(path)]

    def receipts(self) -> list[Receipt]:
        """Return every receipt, oldest first; none may be damaged."""
        found, damaged = load_all(self.layout)
        assert damaged == []
        return found[::-1]

    def only_receipt(self) -> Receipt:
        found = self.receipts()
        assert len(found) == 1, found
        return found[0]


def is_gone(pid: int) -> bool:
    """Whether no process of that number runs (one that nobody has waited for yet does not)."""
    return processes.process_start(pid) is None


def recorder() -> tuple[list[tuple[str, str]], Callable[..., None]]:
    """Return a list and a progress listener that fills it with (stage, message)."""
    told: list[tuple[str, str]] = []

    def listen(stage: str, message: str, **numbers: Any) -> None:
        told.append((stage, message))

    return told, listen


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))
