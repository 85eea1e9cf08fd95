"""On a terminal, and interrupted: prompts, the bar, SIGINT and SIGTERM."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from perdure_pm.store.layout import Layout
from tests.pm.command_line import CommandLine
from tests.pm.polling import SECONDS, wait_until
from tests.pm.sample_home import make_generation, select_generation, snapshot

pytestmark = pytest.mark.platforms("linux")


class Terminal:
    """A run of perdure-pm at a terminal, or with its standard error in a file."""

    def __init__(self, pm: CommandLine, words: list[str], variables: dict[str, str] | None = None) -> None:
        self._master, slave = pty.openpty()
        environment = {**pm.environment, "TERM": "xterm", **(variables or {})}
        self.process = subprocess.Popen(
            pm.command(*words), env=environment, stdin=slave, stdout=slave, stderr=slave, start_new_session=True
        )
        os.close(slave)
        self.text = ""

    def read_until(self, wanted: str | None) -> str:
        """Return the screen so far, once it shows `wanted`, or all of it once the run ended."""
        until = time.monotonic() + SECONDS
        while wanted is None or wanted not in self.text:
            assert time.monotonic() < until, self.text
            if not select.select([self._master], [], [], 0.1)[0]:
                continue
            try:
                chunk = os.read(self._master, 65536)
            except OSError:  # EIO: the other end is closed
                break
            if not chunk:
                break
            self.text += chunk.decode()
        return self.text

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def end(self) -> int:
        """Return the exit code."""
        self.read_until(None)
        os.close(self._master)
        return self.process.wait(SECONDS)


@contextmanager
def mutex(layout: Layout) -> Iterator[None]:
    layout.home.mkdir(exist_ok=True)
    handle = os.open(layout.mutex, os.O_RDWR | os.O_CREAT)
    fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        yield
    finally:
        os.close(handle)


@pytest.mark.proves("cli-never-hangs")
@pytest.mark.parametrize(("answer", "exit_code"), [("y\n", 0), ("n\n", 10), ("\n", 10), ("\x04", 10)])
def test_a_person_at_a_terminal_is_asked_and_only_yes_is_yes(
    pm: CommandLine, layout: Layout, answer: str, exit_code: int
) -> None:
    make_generation(layout)
    select_generation(layout)
    before = snapshot(layout.home)
    terminal = Terminal(pm, ["uninstall"])
    terminal.read_until("Go on? [y/N]")
    terminal.type(answer)
    assert terminal.end() == exit_code
    if exit_code:
        assert "the answer was no; nothing was done" in terminal.text
        assert snapshot(layout.home) == before
    else:
        assert not layout.home.exists()


@pytest.mark.proves("cli-quiet-first-second")
def test_a_long_wait_draws_a_bar_on_a_terminal_and_takes_it_away(pm: CommandLine, layout: Layout) -> None:
    with mutex(layout):
        terminal = Terminal(pm, ["config", "set", "install.lazy", "false"])
        terminal.read_until("waiting for another operation")
    assert terminal.end() == 0
    assert "\x1b[" in terminal.text
    assert terminal.text.rstrip().endswith("install.lazy is false")


@pytest.mark.proves("cli-quiet-first-second")
@pytest.mark.parametrize("variables", [{"TERM": "dumb"}, {"TERM": ""}])
def test_a_dumb_terminal_gets_plain_lines(pm: CommandLine, layout: Layout, variables: dict[str, str]) -> None:
    with mutex(layout):
        terminal = Terminal(pm, ["config", "set", "install.lazy", "false"], variables)
        terminal.read_until("waiting for another operation")
    assert terminal.end() == 0
    assert "\x1b[" not in terminal.text


@pytest.mark.proves("cli-quiet-first-second")
def test_no_color_keeps_colours_out_of_the_bar(pm: CommandLine, layout: Layout) -> None:
    with mutex(layout):
        terminal = Terminal(pm, ["config", "set", "install.lazy", "false"], {"NO_COLOR": "1"})
        terminal.read_until("waiting for another operation")
    assert terminal.end() == 0
    assert not any(f"\x1b[{code}" in terminal.text for code in ("31", "32", "33", "34", "35", "36", "38"))


@pytest.mark.proves("cli-quiet-first-second")
def test_what_is_quick_shows_no_progress(pm: CommandLine) -> None:
    terminal = Terminal(pm, ["config", "set", "install.lazy", "false"])
    assert terminal.end() == 0
    assert terminal.text == "install.lazy is false\r\n"


@pytest.mark.proves("cli-interrupt")
@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("form", ["json", "events", "plain"])
def test_an_interrupt_before_the_commit_ends_with_its_code_and_changes_nothing(
    pm: CommandLine, layout: Layout, tmp_path: Path, number: int, exit_code: int, form: str
) -> None:
    talk = tmp_path / "talk"
    flags = {"json": ["--json"], "events": ["--events"], "plain": []}[form]
    with mutex(layout), talk.open("wb") as stderr:
        process = subprocess.Popen(
            pm.command("config", "set", "install.lazy", "false", *flags),
            env=pm.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
        )
        wait_until(lambda: "waiting for another operation" in talk.read_text(), "the operation waits for the mutex")
        process.send_signal(number)
        out, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == exit_code
    if form == "json":
        envelope = json.loads(out)
        assert (envelope["status"], envelope["exit_code"]) == ("failed", exit_code)
        assert (envelope["errors"][0]["code"], envelope["errors"][0]["state"]) == ("cancelled", "unchanged")
    else:
        assert out == b""
    if form == "events":
        assert {json.loads(line)["event"] for line in talk.read_text().splitlines()} == {"progress", "error"}
    assert not layout.config.exists()
    (row,) = pm("receipts", "--json").envelope["data"]["receipts"]
    assert (row["operation"], row["status"]) == ("config-set", "cancelled")


@pytest.mark.proves("cli-interrupt")
@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_at_a_question_leaves_everything(
    pm: CommandLine, layout: Layout, number: int, exit_code: int
) -> None:
    make_generation(layout)
    select_generation(layout)
    before = snapshot(layout.home)
    terminal = Terminal(pm, ["uninstall"])
    terminal.read_until("Go on? [y/N]")

    def pressed_again() -> bool:
        # Between the question and the read that waits for an answer, a signal is noticed with the next one only.
        terminal.process.send_signal(number)
        return terminal.process.poll() is not None

    wait_until(pressed_again, "the interrupt ends the run")
    # One signal more may meet an interpreter that is ending; a shell sees the same number either way.
    assert terminal.end() in {exit_code, -number}
    assert snapshot(layout.home) == before
