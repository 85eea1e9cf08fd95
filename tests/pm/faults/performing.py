"""Operations on homes of the fake host, each performed as the worker performs it, and what must hold afterwards.

Owns: the list of operations with the homes they start from, performing one with its receipt around it, and looking at a
home from outside. Does not own: faults (faulting), nor which combination is tried (the tests).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from perdure_pm import ports, wire
from perdure_pm.adapters import processes
from perdure_pm.composition import OPERATIONS
from perdure_pm.model.errors import PerdureError
from perdure_pm.model.network import Network
from perdure_pm.model.settings import TRIAL_VARIABLE
from perdure_pm.ops.context import Context, Outcome
from perdure_pm.ops.doctor import examine
from perdure_pm.store import receipts
from perdure_pm.store.generations import (
    current_generation,
    list_generations,
    list_unsealed,
    load_files,
    load_generation,
)
from perdure_pm.store.history import load_history
from perdure_pm.store.labels import load_labels
from perdure_pm.store.layout import Layout
from perdure_pm.store.pointer import load_pointer
from perdure_pm.store.trial import load_trial
from tests.pm.fake_host import PROFILE, STUBS, Started, Workshop, start_host

HAND_WRITTEN = "# written by hand, and never to be lost\n"


class Told:
    """A reporter that keeps what it was told, and calls a listener at each stage."""

    def __init__(self, on_stage: Callable[[str], None] = lambda stage: None) -> None:
        self.stages: list[str] = []
        self.commits = 0
        self._on_stage = on_stage

    def progress(self, stage: str, message: str, *, done: int | None = None, total: int | None = None) -> None:
        self.stages.append(stage)
        self._on_stage(stage)

    def callback(self, name: str, payload: dict[str, Any]) -> None:
        self.stages.append(name)
        self._on_stage(name)

    def heartbeat(self) -> None:
        pass

    def committed(self) -> None:
        self.commits += 1


@dataclass(frozen=True, kw_only=True)
class Task:
    """One operation, and from which home it starts."""

    name: str
    template: str
    operation: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    again: Mapping[str, Any] | None = None
    """Other arguments for when it is performed a second time, which must be harmless."""
    newer: bool = False
    """Whether the newer index is looked at."""
    later: timedelta = timedelta(0)
    """How much later than what came before it runs: after two days nothing in a home is young."""
    prepare: Callable[[Layout], None] = lambda layout: None
    """What is done to the home first, by hand."""
    edited: bool = False
    """Whether that changes what the configuration selects."""
    rejects: bool = False
    """Whether what ran before is rejected by it: then a rollback does not select that."""


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How an operation ended, when the process lived."""

    outcome: Outcome | None
    error: PerdureError | None

    @property
    def status(self) -> str:
        return self.outcome.status if self.outcome is not None else "failed"

    def succeeded(self) -> Ended:
        """Return this where nothing was raised."""
        if self.error is not None:
            raise self.error
        return self


def arguments_of(workshop: Workshop, task: Task) -> dict[str, Any]:
    """Return the operation's arguments for homes made from `workshop`."""
    return {name: value(workshop) if callable(value) else value for name, value in task.arguments.items()}


def perform(
    workshop: Workshop,
    layout: Layout,
    task: Task,
    filesystem: ports.Filesystem,
    *,
    reporter: Told | None = None,
    wait: bool = False,
) -> Ended:
    """Perform `task` as the worker does: the dead writers' receipts closed, its own opened before and finished after.

    A death (`BaseException`) leaves the receipt as it is; its writer is one that no longer runs.
    """
    now = datetime.now(UTC) + task.later
    _pid, boot, _start = processes.identity()
    dead = receipts.Writer(2**22 + 1, boot, "0")
    try:
        receipts.close_interrupted(filesystem, layout, now=now, still_runs=processes.still_runs)
        receipt = receipts.open_receipt(
            filesystem, layout, operation=task.operation, correlation="", writer=dead, now=now
        )
    except PerdureError as refusal:
        return Ended(outcome=None, error=refusal)
    context = Context(
        layout=layout,
        filesystem=filesystem,
        reporter=reporter or Told(),
        network=Network(wheelhouse=workshop.newer_index if task.newer else workshop.index),
        clock=lambda: now,
        environ={},
        profile=PROFILE,
        correlation="",
        wait=wait,
    )
    outcome: Outcome | None = None
    error: PerdureError | None = None
    arguments = arguments_of(workshop, task)
    try:
        outcome = OPERATIONS[task.operation].function(context, arguments)
    except PerdureError as raised:
        error = raised
    with contextlib.suppress(PerdureError):  # the worker tells its caller, and the next one closes the receipt
        receipts.finish(
            filesystem,
            layout,
            receipt,
            status=wire.status_of(error) if error is not None else outcome.status if outcome is not None else "failed",
            now=now,
            data={} if outcome is None else outcome.data,
            error=None if error is None else wire.encode_error(error),
        )
    return Ended(outcome=outcome, error=error)


# Looking at a home


@dataclass(frozen=True, kw_only=True)
class Selected:
    """What a profile runs, by contents: two generations of the same contents are equal."""

    host: str
    plugins: tuple[str, ...]
    packages: tuple[tuple[str, str], ...]


def what_runs(layout: Layout) -> Selected | None:
    """Return what the pointer selects, or None where nothing was committed; every file of it is read and hashed."""
    identity = load_pointer(layout, PROFILE)
    if identity is None:
        return None
    generation = load_generation(layout, identity)
    require_complete(layout, identity, selected=True)
    record = generation.record
    return Selected(
        host=record["host"]["version"],
        plugins=tuple(record["selection"]),
        packages=tuple((entry["name"], entry["version"]) for entry in record["packages"]),
    )


def require_complete(layout: Layout, identity: str, *, selected: bool) -> None:
    """Fail where a sealed generation is not, to the byte, what its files.json says, or can be written.

    Where nothing selects it, its directory itself may be: a crash can come between the record and that last step.
    """
    path = layout.generation(identity)
    inventory = load_files(layout, identity)
    assert inventory.files, f"{identity} lists no files"
    for name, entry in inventory.files.items():
        data = (path / name).read_bytes()
        assert (len(data), hashlib.sha256(data).hexdigest()) == (entry.size, entry.sha256), f"{identity}: {name}"
    for name, target in inventory.links.items():
        assert os.readlink(path / name) == target, f"{identity}: {name}"
    listed = inventory.files.keys() | inventory.links.keys() | {"record.json", "files.json"}
    for folder, folders, names in os.walk(path):
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        for name in (*names, *links):
            assert Path(folder, name).relative_to(path).as_posix() in listed, f"{identity} has {name} of its own"
        read_only = not os.stat(folder).st_mode & 0o222
        assert read_only or (folder == str(path) and not selected), f"{identity}: {folder} can be written"


def require_selectable_are_complete(layout: Layout) -> None:
    """Fail where something half-done could be selected: each sealed generation is whole."""
    sealed, broken = list_generations(layout)
    unsealed = list_unsealed(layout)
    assert [item for item in broken if item.identity not in unsealed] == []
    for generation in sealed:
        require_complete(layout, generation.identity, selected=False)


def require_starts(layout: Layout, selected: Selected | None) -> Started:
    """Fail where the launcher starts anything but what is selected; a first install may have no launcher yet."""
    # As PM starts it when it has judged a trial: a start that is looked at must not end one.
    started = start_host(layout, {TRIAL_VARIABLE: "none"})
    if selected is None or started.err == "no launcher":
        assert started.exit_code in {1, 127}, started
        return started
    generation = current_generation(layout, PROFILE)
    assert generation is not None
    assert started.exit_code == 0, started
    assert (started.generation, started.version) == (generation.identity, selected.host)
    assert sorted(started.plugins) == sorted(selected.plugins)
    return started


def require_readable(layout: Layout) -> None:
    """Fail where the history, the labels, a trial or a receipt is damaged."""
    history = layout.history(PROFILE)
    lines = [line for line in (history.read_text() if history.exists() else "").splitlines() if line]
    assert len(load_history(layout, PROFILE)) == len(lines)
    load_labels(layout)
    load_trial(layout, PROFILE)
    _, damaged = receipts.load_all(layout)
    assert damaged == []


def require_in_line(layout: Layout, *, edited: bool = False) -> None:
    """Fail where the configuration (unless a person edited it), the history or the trial does not fit the selection."""
    generation = current_generation(layout, PROFILE)
    assert generation is not None
    config = layout.profile_config(PROFILE)
    if config.exists() and not edited:
        text = config.read_text(encoding="utf-8")
        listed = [line[2:].strip(' "') for line in text.splitlines() if line.startswith("- ")]
        assert listed == list(generation.record["selection"]), text
    history = load_history(layout, PROFILE)
    assert history
    assert history[-1].generation == generation.identity
    trial = load_trial(layout, PROFILE)
    assert trial is None or trial.generation == generation.identity
    assert not layout.pending_intent(PROFILE).exists()


def require_clean(layout: Layout) -> None:
    """Fail where anything is left that a dead operation made and nothing needs: for after a `collect`."""
    assert list_unsealed(layout) == []
    assert os.listdir(layout.trash) == [] if layout.trash.exists() else True
    assert [name for name in os.listdir(layout.scratch) if not _is_uvs(name)] == [] if layout.scratch.exists() else True
    assert not layout.pending_intent(PROFILE).exists()
    found, _ = receipts.load_all(layout)
    assert [receipt.operation for receipt in found if receipt.status == "started"] == []
    # A young one among the receipts may belong to a process that is writing it: receipts take no mutex.
    temporary = [
        path for path in layout.home.rglob(".*.tmp") if {layout.cache, layout.receipts}.isdisjoint(path.parents)
    ]
    assert temporary == []
    told = examine(layout, PROFILE, deep=False)
    assert [problem for problem in told["problems"] if problem["code"] not in STUBS] == []
    assert told["leftovers"] == []


def texts(layout: Layout) -> dict[str, str]:
    """Return the text of both configuration files; an absent one is empty."""
    paths = (layout.config, layout.profile_config(PROFILE))
    return {path.name + str(number): path.read_text() if path.exists() else "" for number, path in enumerate(paths)}


def fingerprint(folder: Path) -> str:
    """Return one digest over names, modes and bytes below a directory, times left out."""
    digest = hashlib.sha256()
    for here, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = Path(here, name)
            mode = path.lstat().st_mode
            data = os.readlink(path).encode() if stat.S_ISLNK(mode) else path.read_bytes()
            digest.update(f"{path.relative_to(folder)}\0{mode:o}\0".encode() + hashlib.sha256(data).digest())
    return digest.hexdigest()


def _is_uvs(name: str) -> bool:
    """Return whether a name in the scratch directory is one that uv makes in what it takes for a user's home."""
    return name in {".local", ".cache", ".config"}


# The operations


def _write_old_garbage(layout: Layout) -> None:
    half = layout.generation("9-00000000dead")
    (half / "venv").mkdir(parents=True)
    (half / "venv" / "left.py").write_text("left = 1\n")
    layout.trash.mkdir(exist_ok=True)
    (layout.trash / "1-0.0").mkdir()
    release = layout.release("0" * 12)
    release.mkdir()
    (release / "old.whl").write_text("old")


def _edit_plugins(layout: Layout) -> None:
    path = layout.profile_config(PROFILE)
    path.write_text(path.read_text().replace('- "gadget"\n', "").replace("- gadget\n", ""), encoding="utf-8")


TASKS = {
    task.name: task
    for task in (
        Task(
            name="first install",
            template="empty",
            operation="install",
            arguments={"checkout": lambda workshop: str(workshop.checkout)},
        ),
        Task(name="plugin add", template="two", operation="plugin-add", arguments={"requirements": ["part-0"]}),
        Task(name="plugin remove", template="two", operation="plugin-remove", arguments={"names": ["gadget"]}),
        Task(name="rollback", template="two", operation="rollback", again={"to": "1"}),
        Task(
            name="upgrade",
            template="two",
            operation="upgrade",
            arguments={"checkout": lambda workshop: str(workshop.newer_checkout)},
            newer=True,
        ),
        Task(
            name="install with trial",
            template="two",
            operation="install",
            arguments={"confirm_within": 600},
            prepare=_edit_plugins,
            edited=True,
        ),
        Task(
            name="second trial",
            template="on trial",
            operation="install",
            arguments={"confirm_within": 600},
            prepare=_edit_plugins,
            edited=True,
        ),
        Task(name="failed trial", template="on trial", operation="trial-judge", rejects=True),
        Task(name="confirm", template="on trial", operation="confirm"),
        Task(
            name="collect",
            template="three",
            operation="collect",
            arguments={"keep": 0},
            later=timedelta(days=2),
            prepare=_write_old_garbage,
        ),
        Task(name="label", template="two", operation="label", arguments={"name": "good"}),
        Task(
            name="config-set",
            template="two",
            operation="config-set",
            arguments={"key": "install.lazy", "value": "false"},
        ),
    )
}
COLLECT = Task(name="collect", template="", operation="collect")
ROLLBACK = Task(name="rollback", template="", operation="rollback")


def make_templates(workshop: Workshop, folder: Path, empty: Layout) -> dict[str, Layout]:
    """Have the homes that operations start from: nothing, one generation, two, three, and one on trial."""
    from perdure_pm.adapters.filesystem import LocalFilesystem
    from tests.pm.fake_host import copy_home

    filesystem = LocalFilesystem()
    found = {"empty": empty}

    def derive(name: str, base: str, *tasks: Task) -> Layout:
        layout = copy_home(found[base], folder / name)
        for task in tasks:
            perform(workshop, layout, task, filesystem).succeeded()
        found[name] = layout
        return layout

    one = derive("one", "empty", TASKS["first install"])
    one.config.write_text(HAND_WRITTEN + one.config.read_text(), encoding="utf-8")
    two = derive("two", "one", replace(TASKS["plugin add"], arguments={"requirements": ["gadget"]}))
    path = two.profile_config(PROFILE)
    path.write_text(HAND_WRITTEN + path.read_text(), encoding="utf-8")
    perform(workshop, two, Task(name="", template="", operation="pin", arguments={"generation": "1"}), filesystem)
    derive(
        "three",
        "two",
        Task(name="", template="", operation="pin", arguments={"generation": "1", "remove": True}),
        replace(TASKS["plugin add"], arguments={"requirements": ["part-1"]}),
    )
    trial = Task(
        name="", template="", operation="plugin-add", arguments={"requirements": ["part-2"], "confirm_within": 600}
    )
    derive("on trial", "two", trial, Task(name="", template="", operation="trial-judge"))
    return found
