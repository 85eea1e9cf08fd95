"""The programs of external plugins: there while a tool runs, and gone afterwards with everything they started."""

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.app.conftest import Generation

pytestmark = [
    pytest.mark.platforms("linux"),
    pytest.mark.proves("app-external-ends-with-it"),
]

ASKS = """
import pathlib, sys, time
from perdure.api.hooks import hookimpl
from perdure.api.tools import Tool, ToolResult
plugin = sys.modules[__name__]

def ask(call):
    place = pathlib.Path({place!r})
    while not place.exists():
        time.sleep(0.01)
    {then}
    return ToolResult(text=place.read_text())

@hookimpl
def tools():
    return [Tool(name="asks.ask", summary="Ask.", parameters={{"type": "object"}}, run=ask)]
"""

SERVER = """\
#!/bin/sh
echo to standard output
trap '' TERM
setsid sleep 300 &
far=$!
sleep 301 &
echo "$PWD $1 $$ $far $! $VIRTUAL_ENV$PYTHONPATH$PERDURE_X" >{place}.new
mv {place}.new {place}
wait
sleep 302
"""


class Served:
    """A generation with an external plugin `bridge`, and a tool that waits for what it says."""

    def __init__(self, generation: Generation, checkout: Path, folder: Path, server: str, then: str = "pass") -> None:
        self.generation = generation
        self.folder = folder
        self.place = folder / "said"
        folder.mkdir()
        (folder / "server").write_text(server.format(place=f"'{self.place}'"))
        (folder / "server").chmod(0o755)
        # The file that every generation holds; the app shares no code with it.
        shutil.copy(checkout / "pm" / "perdure_pm" / "launcher" / "external.py", generation.path)
        asks = generation.plugin("asks", ASKS.format(place=str(self.place), then=then))
        program = {"name": "bridge", "command": ["./server", "serve"], "directory": str(folder)}
        generation.boot(asks, external=[program])

    def start(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return self.generation.run(*words, environment={"VIRTUAL_ENV": "/x", "PERDURE_X": "1", "PYTHONPATH": "/x"})

    @property
    def pids(self) -> list[int]:
        """Return the server, what it started elsewhere, and what it started beside itself."""
        return [int(word) for word in self.place.read_text().split()[-3:]]


def is_there(pid: int) -> bool:
    """Return whether a process runs; one that only waits to be noticed does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until_gone(pids: list[int]) -> None:
    deadline = time.monotonic() + 20
    while any(map(is_there, pids)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert [pid for pid in pids if is_there(pid)] == []


def test_it_runs_while_a_tool_does_and_ends_with_all_it_started(
    generation: Generation, checkout: Path, tmp_path: Path
) -> None:
    served = Served(generation, checkout, tmp_path / "my bridge", SERVER)
    ended = served.start("run", "asks.ask", "--json")
    assert ended.returncode == 0, ended.stderr
    answer = json.loads(ended.stdout)  # what the program printed is no part of it
    assert "to standard output" in ended.stderr
    place, _, said = answer["data"]["text"].partition(" serve ")
    assert place == str(served.folder)
    assert len(said.split()) == 3  # and nothing of the variables
    wait_until_gone(served.pids)
    for words in (["tools"], ["plugins"], ["doctor"], ["--version"], ["run", "nothing"], ["--safe-mode", "tools"]):
        served.place.unlink(missing_ok=True)
        served.start(*words)
        assert not served.place.exists()
    shown = json.loads(served.start("plugins", "--json").stdout)["data"]
    assert shown["external"] == ["bridge"]
    assert "a program of its own" in served.start("plugins").stdout


@pytest.mark.proves("layers-told")
def test_doctor_says_that_the_audit_hook_does_not_see_it(
    generation: Generation, checkout: Path, tmp_path: Path
) -> None:
    served = Served(generation, checkout, tmp_path / "bridge", SERVER)
    layer = json.loads(served.start("doctor", "--json").stdout)["data"]["layers"]["audit-hook"]
    gap = "the programs of external plugins are processes of their own: bridge"
    assert layer == {"active": True, "why_not": None, "gap": gap}
    assert f"not whole   audit-hook: {gap}\n" in served.start("doctor").stdout


def test_it_ends_when_the_app_is_killed(generation: Generation, checkout: Path, tmp_path: Path) -> None:
    server = SERVER.replace("trap '' TERM\n", "").replace("setsid sleep", "sleep")
    served = Served(generation, checkout, tmp_path / "bridge", server, then="time.sleep(300)")
    process = subprocess.Popen(
        [str(generation.python), "-I", "-m", "perdure", "run", "asks.ask"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    with process:
        deadline = time.monotonic() + 20
        while not served.place.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        server_pid, *beside = served.pids
        process.kill()
    wait_until_gone([server_pid])
    for pid in beside:  # what it started is its own to end; it was asked to
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(
    ("server", "said"),
    [
        ("#!/bin/sh\necho no port >&2\ntouch {place}\nexit 7\n", "its program: it ended with 7 by itself"),
        ("#!/nowhere/sh\n", "its program: it ended with 1 by itself"),
    ],
)
def test_one_that_fails_is_told_and_keeps_no_tool_from_its_answer(
    generation: Generation, checkout: Path, tmp_path: Path, server: str, said: str
) -> None:
    served = Served(generation, checkout, tmp_path / "bridge", server, then="time.sleep(0.5)")
    if "nowhere" in server:
        served.place.touch()
    ended = served.start("run", "asks.ask")
    assert ended.returncode == 0
    assert f"plugin bridge: {said}" in ended.stderr


def test_a_list_that_is_none_is_that_plugins_failure(generation: Generation) -> None:
    generation.boot(external=[{"name": 7}, "x"])
    ended = generation.run("plugins", "--check", "--json")
    assert ended.returncode == 3
    assert [failure["plugin"] for failure in json.loads(ended.stdout)["data"]["failures"]] == [
        "$.external[0]",
        "$.external[1]",
    ]
