"""Rounds in which who waits, who answers, or both are killed at any moment.

Owns: the rounds, in a process of its own that has no threads, since it forks. Does not own: the verdict on what they
leave (test_races).
"""

from __future__ import annotations

import datetime as dt
import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import anyio

from perdure.approvals.asking import Asker
from perdure.approvals.redact import mask
from perdure.approvals.service import Approvals
from perdure.domain.errors import PerdureError
from perdure.domain.operation import Authority, Surface
from perdure.domain.outcome import Status
from perdure.domain.proposal import Answer, Entry
from perdure.jail.machine import LinuxSystem
from perdure.jail.policy import Mode, Policy
from perdure.jail.service import Jail
from perdure.store.sqlite import SqliteStore
from perdure.tools.confinement import Confinement
from perdure.tools.run_record import RunRecord
from perdure.tools.terminal import Request, Terminal
from tests.app.store.proposals import OPERATOR, OWNER, store_in
from tests.app.store.test_asking import VIEW, decision

OPEN_SECONDS = {Mode.OFF: 0.4, Mode.REQUIRE: 1.0}
"""How long a question stays open; a run in the jail takes its time to begin."""
_LATEST = {Mode.OFF: 0.25, Mode.REQUIRE: 0.6}
"""When the last kill comes, in seconds."""


class Silent:
    """Nobody at the keyboard; a file says that the question is there."""

    def __init__(self, mark: Path) -> None:
        """Know the file."""
        self._mark = mark

    async def ask(self, entry: Entry) -> Answer:
        """Wait for an answer from elsewhere."""
        self._mark.touch()
        await anyio.sleep_forever()
        raise AssertionError("it sleeps for ever")


def approvals_in(folder: Path) -> Approvals:
    """Return approvals on the clock of this machine."""
    return Approvals(open_store=lambda: store_in(folder))


def wait(folder: Path, number: int, mode: Mode) -> None:
    """Ask for one round's command, and run it when it is approved."""
    asker = Asker(
        approvals=approvals_in(folder),
        authority=Authority(session=f"s{number}", surface=Surface.CLI, requester=OWNER, answerable=True),
        profile="default",
        channel=Silent(folder / f"asked-{number}"),
        mask=mask,
        display=lambda operation, decision: f"{operation.script}",
        seconds=OPEN_SECONDS[mode],
    )
    terminal = Terminal(
        guard=SimpleNamespace(look=lambda text, shell, place: VIEW),  # type: ignore[arg-type]
        decide=lambda operation, view: decision(),
        asker=asker,
        confinement=Confinement(
            jail=Jail(roots=tuple, home=f"{folder}/home", system=LinuxSystem(os.environ)), policy=Policy(mode=mode)
        ),
        environ=os.environ,
        own_folders=(),
        record=lambda run: RunRecord(folder, run),
    )
    request = Request(script=f"echo {number} >> {folder}/effects", shell="sh", cwd=str(folder))
    anyio.run(terminal.run, request)


def answer(folder: Path, number: int, mode: Mode) -> None:
    """Approve one round's command as soon as it is asked about, and say so once that is acknowledged."""
    approvals = approvals_in(folder)
    deadline = time.monotonic() + OPEN_SECONDS[mode]
    while time.monotonic() < deadline:
        for entry in approvals.store.entries(status=Status.PENDING):
            if entry.proposal.session == f"s{number}":
                approvals.answer(entry.proposal.id, Answer(approve=True), OPERATOR)
                with open(folder / "acknowledged", "a", encoding="ascii") as file:
                    file.write(f"{entry.proposal.id}\n")
                return
        time.sleep(0.002)


def forked(act: Callable[[Path, int, Mode], None], folder: Path, number: int, mode: Mode) -> int:
    """Return the process that does it."""
    pid = os.fork()
    if pid:
        return pid
    try:
        act(folder, number, mode)
    except PerdureError:
        os._exit(10)
    except BaseException as error:  # noqa: BLE001  # noted for the test
        with open(folder / "faults", "a", encoding="utf-8") as file:
            file.write(f"{number} {type(error).__name__}: {error}\n")
        os._exit(1)
    os._exit(0)


def main(place: str, rounds: int, seed: int, jail: str) -> None:
    """Go through the rounds, in the jail or without; what they leave is in the folder."""
    folder, chance = Path(place), random.Random(seed)  # noqa: S311  # moments, no secrets
    store_in(folder).close()
    for number in range(rounds):
        pids = [forked(act, folder, number, Mode(jail)) for act in (wait, answer)]
        # At any moment; of every other round, at any moment after the question.
        deadline = time.monotonic() + 2
        while number % 2 and time.monotonic() < deadline and not (folder / f"asked-{number}").exists():
            time.sleep(0.002)
        time.sleep(chance.uniform(0, _LATEST[Mode(jail)]))
        for pid in (pids[:1], pids[1:], pids)[number % 3]:
            os.kill(pid, signal.SIGKILL)
        for pid in pids:
            os.waitpid(pid, 0)


def swept(folder: Path) -> SqliteStore:
    """Return the store after the next start, when everything of the rounds is over its time."""
    store = store_in(folder)
    store.sweep(dt.datetime.now(dt.UTC) + dt.timedelta(seconds=2 * max(OPEN_SECONDS.values())))
    return store


if __name__ == "__main__":
    main(*json.loads(sys.argv[1]))
