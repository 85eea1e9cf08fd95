"""The worker that is on its way before the command line is read: guessed from the first words, and harmless."""

from __future__ import annotations

import os
from pathlib import Path

import click
import pytest

from perdure_pm import wire
from perdure_pm.adapters import processes
from perdure_pm.cli import ahead
from perdure_pm.cli.entry import root
from perdure_pm.client import Client
from perdure_pm.store.layout import Layout


@pytest.mark.parametrize("words", ahead.OPERATIONS)
def test_what_is_guessed_exists(words: tuple[str, ...]) -> None:
    assert ahead.OPERATIONS[words] in wire.OPERATION_NAMES
    command: click.Command | None = root
    for word in words:
        assert isinstance(command, click.Group)
        command = command.get_command(click.Context(command), word)
    assert command is not None


@pytest.mark.parametrize(
    ("words", "operation"),
    [
        (["install"], "install"),
        (["plugin", "add", "x", "--json"], "plugin-add"),
        (["plugin", "list"], ""),
        (["config", "get"], ""),
        (["status"], ""),
        (["install", "--help"], ""),
        (["install", "--home=/elsewhere"], ""),
        (["--home", "/elsewhere", "install"], ""),
        ([], ""),
    ],
)
def test_the_first_words_tell(words: list[str], operation: str) -> None:
    assert ahead.expect(words) == operation


def test_the_worker_that_was_on_its_way_serves_the_call(home: Path) -> None:
    started: list[int] = []

    def take() -> processes.Child | None:
        child = ahead.take(home)
        started.extend([] if child is None else [child.pid])
        return child

    ahead.start(["pin", "nothing"], os.environ, home)
    client = Client(Layout(home), lambda: Path("never-started"), ahead=take)
    with pytest.raises(Exception, match="generation"):
        client.call("pin", {"generation": "1"})
    assert started
    assert ahead.take(home) is None


def test_one_that_nobody_asks_ends_and_leaves_nothing(home: Path, tmp_path: Path) -> None:
    before = sorted(home.rglob("*")) if home.exists() else []
    ahead.start(["install"], os.environ, home)
    (child,) = ahead._started.values()
    assert ahead.take(tmp_path / "another") is None
    assert child.wait(30) == 0
    assert (sorted(home.rglob("*")) if home.exists() else []) == before
