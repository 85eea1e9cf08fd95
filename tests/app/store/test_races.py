"""Many processes on one proposal, and processes that die at any moment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from perdure.domain.outcome import Execution, Status
from perdure.jail.machine import LinuxSystem
from perdure.jail.service import Jail
from perdure.store.living import this_process
from tests.app.store.killing import swept
from tests.app.store.proposals import proposal, store_in

pytestmark = pytest.mark.platforms("linux")
RACERS = 8


def python(module: str, argument: str, checkout: Path, **how: object) -> subprocess.Popen[str]:
    source = (
        "import runpy, sys\n"
        f"sys.path.insert(0, {str(checkout)!r})\n"
        f"runpy.run_module({module!r}, run_name='__main__', alter_sys=False)\n"
    )
    return subprocess.Popen([sys.executable, "-c", source, argument], text=True, **how)  # type: ignore[call-overload,no-any-return]


def race(folder: Path, rounds: int, checkout: Path) -> None:
    store = store_in(folder)
    ids = []
    for number in range(rounds):
        made = proposal(f"rm -r {number}")
        store.submit(made, f"{made.id} 0")
        ids.append(made.id)
    own = this_process()
    with store._database.writing() as connection:
        connection.executemany(
            "INSERT INTO waiters (id, proposal, pid, born, joined) VALUES (?, ?, ?, ?, 0)",
            [(f"{identity} {racer}", identity, own.pid, own.born) for identity in ids for racer in range(1, RACERS)],
        )
    racers = []
    for racer in range(RACERS):
        told = folder / f"racer-{racer}.json"
        told.write_text(json.dumps([str(folder), racer, ids]), encoding="utf-8")
        racers.append(
            python("tests.app.store.racing", str(told), checkout, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        )
    won: Counter[tuple[str, str]] = Counter()
    for process in racers:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in racers:
        out, _ = process.communicate()
        assert process.returncode == 0
        won.update((what, identity) for what, identity in json.loads(out))
    entries = {entry.proposal.id: entry.life for entry in store.entries()}
    approved = [identity for identity in ids if entries[identity].status is Status.APPROVED]
    assert won == Counter([("answered", each) for each in ids] + [("claimed", each) for each in approved])
    assert {entries[each].execution for each in approved} <= {Execution.DISPATCHING}
    assert store.audit_faults() == []
    store.close()


@pytest.mark.proves("store-one-winner", "approval-single-use", "audit-chained")
def test_eight_processes_on_each_proposal_have_one_winner(tmp_path: Path, checkout: Path) -> None:
    race(tmp_path, 300, checkout)


@pytest.mark.slow
@pytest.mark.proves("store-one-winner")
def test_eight_processes_on_each_of_ten_thousand_proposals_have_one_winner(tmp_path: Path, checkout: Path) -> None:
    race(tmp_path, 10_000, checkout)


def effects_in(folder: Path) -> Counter[str]:
    path = folder / "effects"
    return Counter(path.read_text().split()) if path.exists() else Counter()


def kill(folder: Path, rounds: int, seed: int, checkout: Path, jail: str = "off") -> Counter[str]:
    assert python("tests.app.store.killing", json.dumps([str(folder), rounds, seed, jail]), checkout).wait() == 0
    assert not (folder / "faults").exists(), (folder / "faults").read_text()
    # A process that was started just before its runner died ends by itself.
    effects, deadline = effects_in(folder), time.monotonic() + 20
    while time.monotonic() < deadline:
        time.sleep(0.5)
        before, effects = effects, effects_in(folder)
        if effects == before:
            break
    acknowledged = (folder / "acknowledged").read_text().split() if (folder / "acknowledged").exists() else []
    store = swept(folder)
    entries = {entry.proposal.id: entry for entry in store.entries()}
    for entry in entries.values():
        number, life = entry.proposal.session.removeprefix("s"), entry.life
        assert effects[number] <= 1
        assert life.status is not Status.PENDING
        if life.status is Status.APPROVED:
            assert life.execution not in (Execution.NOT_STARTED, Execution.DISPATCHING), life
        if life.execution is Execution.EXECUTED:
            assert effects[number] == 1
        if effects[number]:
            assert life.status is Status.APPROVED
            assert life.execution in (Execution.EXECUTED, Execution.UNKNOWN_AFTER_CRASH)
    # One process asks once: whatever ran had its row.
    assert set(effects) <= {entry.proposal.session.removeprefix("s") for entry in entries.values()}
    for identity in acknowledged:
        assert entries[identity].life.status is Status.APPROVED
    assert store.audit_faults() == []
    seen = Counter(f"{entry.life.status.value} {entry.life.execution.value}" for entry in entries.values())
    store.close()
    return seen


@pytest.mark.proves("store-boot-true", "approval-single-use", "approval-orphan-not-run", "interrupt-overrides-nothing")
def test_killing_who_waits_and_who_answers_runs_nothing_twice_and_loses_no_answer(
    tmp_path: Path, checkout: Path
) -> None:
    assert len(kill(tmp_path, 30, 1, checkout)) > 1


@pytest.mark.slow
@pytest.mark.proves("store-boot-true", "approval-single-use", "approval-orphan-not-run")
@pytest.mark.parametrize("jail", ["off", "require"])
def test_five_hundred_kills_run_nothing_twice_and_lose_no_answer(
    tmp_path: Path, checkout: Path, jail: str, figure: Callable[[str], None]
) -> None:
    if jail == "require" and (why := Jail(roots=tuple, home="/", system=LinuxSystem(os.environ)).why_not()):
        pytest.skip(why)
    seen = kill(tmp_path, 500, 2, checkout, jail)
    figure(f"500 kills, jail {jail}: {', '.join(f'{count} {what}' for what, count in seen.most_common())}")
    assert len(seen) > 3
    # Also in the jail some got as far as running.
    assert any("executed" in what for what in seen)
