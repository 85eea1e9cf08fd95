"""Two to twenty command lines at once on one home: each succeeds in its turn, or says who holds it."""

from __future__ import annotations

import json
import os
import random
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from perdure_pm.adapters.filesystem import LocalFilesystem
from perdure_pm.model.errors import EXIT_BUSY, EXIT_DONE, EXIT_FAILED, EXIT_USAGE
from perdure_pm.store.generations import load_generation
from perdure_pm.store.history import Selection, load_history
from perdure_pm.store.layout import Layout
from tests.pm.fake_host import PROFILE, Workshop
from tests.pm.faults.performing import (
    COLLECT,
    perform,
    require_clean,
    require_in_line,
    require_readable,
    require_selectable_are_complete,
    require_starts,
    what_runs,
)

pytestmark = pytest.mark.platforms("linux", "darwin")

HOLDERS = ("plugin-add", "plugin-remove", "rollback", "collect", "install")
KINDS = ("add", "add", "add", "remove", "rollback", "collect", "install")


@dataclass(frozen=True, kw_only=True)
class Writer:
    """One command line and how it ended."""

    words: tuple[str, ...]
    exit_code: int
    envelope: dict[str, Any]

    @property
    def verb(self) -> str:
        return " ".join(self.words[:2]) if self.words[0] == "plugin" else self.words[0]


def choose_words(chance: random.Random, number: int) -> tuple[str, ...]:
    """Return the words of a writer: every `plugin add` names another plugin."""
    words = {
        "add": ("plugin", "add", f"part-{number}"),
        "remove": ("plugin", "remove", "gadget"),
        "rollback": ("rollback",),
        "collect": ("collect",),
        "install": ("install",),
    }[chance.choice(KINDS)]
    return (*words, "--no-wait") if chance.random() < 0.3 else words


def run_at_once(workshop: Workshop, layout: Layout, commands: list[tuple[str, ...]]) -> list[Writer]:
    """Start every command at the same moment and return how each ended."""
    environment = {
        "PATH": os.defpath,
        "HOME": str(layout.home.parent),
        "PERDURE_WHEELHOUSE": str(workshop.index),
        "PERDURE_JSON": "1",
    }
    started = [
        subprocess.Popen(
            [layout.bin / "perdure-pm", *words],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for words in commands
    ]
    ended = []
    for words, process in zip(commands, started, strict=True):
        out, err = process.communicate(timeout=240)
        assert out, err
        ended.append(Writer(words=words, exit_code=process.returncode, envelope=json.loads(out)))
    return ended


@pytest.mark.proves("faults-serial")
@pytest.mark.parametrize("writers", [2, 6, 20])
def test_writers_at_once_leave_what_one_after_the_other_would(
    writers: int, workshop: Workshop, fresh: Callable[[str], Layout], figure: Callable[[str], None]
) -> None:
    seed = int(os.environ.get("PERDURE_TEST_SEED", "0")) or random.SystemRandom().randrange(1, 2**32)
    chance = random.Random(f"{seed} {writers}")  # noqa: S311 - a mix of verbs, not a secret
    layout = fresh("two")
    before = load_history(layout, PROFILE)
    commands = [choose_words(chance, number) for number in range(writers)]
    ended = run_at_once(workshop, layout, commands)
    try:
        for writer in ended:
            check_answer(writer)
        check_serial(layout, load_history(layout, PROFILE)[len(before) :], before[-1].generation, ended)
        require_selectable_are_complete(layout)
        require_readable(layout)
        require_in_line(layout)
        require_starts(layout, what_runs(layout))
        perform(workshop, layout, COLLECT, LocalFilesystem()).succeeded()
        require_clean(layout)
    except AssertionError as fault:
        raise AssertionError(f"seed {seed}: {[(w.words, w.exit_code) for w in ended]}: {fault}") from fault
    codes = sorted(writer.exit_code for writer in ended)
    figure(f"{writers} writers, seed {seed}: exit codes {codes}")


def check_answer(writer: Writer) -> None:
    """Fail where a writer ended otherwise than well, busy with the holder's name, or refused for what was before it."""
    errors = writer.envelope["errors"]
    if writer.exit_code == EXIT_BUSY:
        assert "--no-wait" in writer.words
        holder = errors[0]["context"]["holder"]
        assert holder.startswith((*HOLDERS, "an operation that has not said its name yet")), holder
        return
    if writer.verb == "plugin remove" and writer.exit_code == EXIT_USAGE:
        assert "gadget" in errors[0]["summary"]  # an earlier writer removed it, or went back to before it
        return
    if writer.verb == "rollback" and writer.exit_code == EXIT_FAILED:
        assert errors[0]["code"] == "nothing-installed"  # there is nothing before the first
        return
    assert writer.exit_code == EXIT_DONE, writer


def check_serial(layout: Layout, lines: list[Selection], first: str, ended: list[Writer]) -> None:
    """Fail where the history is not one change after the other, each a writer's own on what was there before it."""
    done = [writer for writer in ended if writer.exit_code == EXIT_DONE and writer.envelope["status"] == "ok"]
    changed = [writer for writer in done if writer.verb in {"plugin add", "plugin remove", "rollback", "install"}]
    at = first
    for line in lines:
        assert line.before == at, line
        had, has = plugins_of(layout, at), plugins_of(layout, line.generation)
        made = (line.operation, line.generation)
        writer = next(w for w in changed if (w.verb.replace(" ", "-"), w.envelope["data"]["generation"]) == made)
        changed.remove(writer)
        if writer.verb == "plugin add":
            assert has == [*had, writer.words[2]]
        if writer.verb == "plugin remove":
            assert has == [name for name in had if name != "gadget"]
        at = line.generation
    assert changed == []


def plugins_of(layout: Layout, identity: str) -> list[str]:
    """Return what a generation selects."""
    return list(load_generation(layout, identity).record["selection"])
