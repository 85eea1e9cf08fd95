"""Asking and answering as people do it: `exec` in one terminal, `approvals` in another."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.app.command_line import envelope_of
from tests.app.conftest import Generation

pytestmark = pytest.mark.platforms("linux", "darwin")
SECONDS = 30.0


def until(found: Callable[[], Any]) -> Any:
    """Return what is found as soon as there is anything."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        value = found()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError("it did not come")


class Desk:
    """One home, with a directory to work in and whatever is started there."""

    def __init__(self, generation: Generation, work: Path) -> None:
        self.generation = generation
        self.work = work
        self.started: list[subprocess.Popen[str]] = []

    def ask(self, *command: str, options: tuple[str, ...] = (), words: tuple[str, ...] = ()) -> subprocess.Popen[str]:
        """Start a command that waits for its answer, through `exec` or with other words."""
        words = words or ("exec", "--no-prompt", *options, "--cwd", str(self.work), "--json", "--")
        process = subprocess.Popen(
            [str(self.generation.python), "-I", "-m", "perdure", *words, *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.started.append(process)
        return process

    def kept(self) -> list[dict[str, Any]]:
        """Return every proposal."""
        listed: list[dict[str, Any]] = envelope_of(self.run("list", "--all"))["data"]["proposals"]
        return listed

    def open(self) -> str:
        """Return the id of the one that is open."""
        first: dict[str, Any] = until(lambda: [each for each in self.kept() if each["status"] == "pending"])[0]
        return str(first["id"])

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run one of the commands about approvals."""
        return self.generation.run("approvals", arguments[0], "--json", *arguments[1:])

    def end(self, process: subprocess.Popen[str]) -> dict[str, Any]:
        """Return what came of a command."""
        out, _ = process.communicate(timeout=SECONDS)
        envelope: dict[str, Any] = json.loads(out)
        return envelope


@pytest.fixture
def desk(generation: Generation, tmp_path: Path) -> Iterator[Desk]:
    """A home in which a build can be deleted."""
    work = tmp_path / "work"
    (work / "build").mkdir(parents=True)
    made = Desk(generation, work)
    yield made
    for process in made.started:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.mark.proves("ask-order", "answer-by-id-only")
def test_an_approval_from_another_terminal_runs_it_once(desk: Desk) -> None:
    waiting = desk.ask("rm -r build && echo gone")
    identity = desk.open()
    for words in (("approve",), ("decline",), ("approve", "all"), ("approve", "oldest"), ("approve", identity[:-1])):
        assert desk.run(*words).returncode == 2
    assert waiting.poll() is None
    said = envelope_of(desk.run("approve", identity))["data"]
    assert (said["status"], said["scope"], said["execution"]) == ("approved", "once", "not-started")
    done = desk.end(waiting)
    assert (done["exit_code"], done["data"]["stdout"]) == (0, "gone\n")
    (kept,) = desk.kept()
    assert (kept["execution"], kept["run"]) == ("executed", done["data"]["run"])
    late = desk.run("decline", identity)
    assert (late.returncode, envelope_of(late)["errors"][0]["code"]) == (1, "proposal-settled")
    # Once is once.
    (desk.work / "build").mkdir()
    again = desk.ask("rm -r build && echo gone")
    assert desk.open() != identity
    again.kill()
    assert (desk.work / "build").exists()


@pytest.mark.proves("ask-fails-closed")
def test_a_no_reaches_who_asked_with_its_reason(desk: Desk) -> None:
    waiting = desk.ask("rm -r build")
    desk.run("decline", desk.open(), "not", "on a Friday")
    (error,) = desk.end(waiting)["errors"]
    assert (error["code"], error["context"]["reason"]) == ("command-declined", "not on a Friday")
    assert "not on a Friday" in error["summary"]
    assert (desk.work / "build").exists()


@pytest.mark.proves("ask-fails-closed", "store-expiry-enforced")
def test_silence_is_not_consent(desk: Desk) -> None:
    (error,) = desk.end(desk.ask("rm -r build", options=("--answer-within", "0.5")))["errors"]
    assert error["code"] == "approval-expired"
    assert "silence is not consent" in error["summary"]
    (kept,) = desk.kept()
    assert (kept["status"], kept["execution"]) == ("expired", "not-started")
    late = envelope_of(desk.run("approve", kept["id"]))
    assert "resolves nothing" in late["errors"][0]["summary"]
    assert (desk.work / "build").exists()


@pytest.mark.proves("ask-fails-closed")
@pytest.mark.parametrize(
    ("number", "cause"),
    [
        (signal.SIGINT, "turn-interrupted"),
        (signal.SIGTERM, "session-ended"),
        (signal.SIGHUP, "surface-closed"),
    ],
)
def test_whoever_asked_and_is_told_to_end_cancels_with_the_cause(desk: Desk, number: int, cause: str) -> None:
    waiting = desk.ask("rm -r build")
    identity = desk.open()
    waiting.send_signal(number)
    (error,) = desk.end(waiting)["errors"]
    assert (error["code"], error["context"]["cause"]) == ("approval-cancelled", cause)
    assert "declined" not in error["summary"]
    (kept,) = desk.kept()
    assert (kept["status"], kept["cause"]) == ("cancelled", cause)
    assert desk.run("approve", identity).returncode == 1


@pytest.mark.proves("approval-orphan-not-run")
def test_an_approval_of_what_nobody_waits_for_is_recorded_and_not_run(desk: Desk) -> None:
    waiting = desk.ask("rm -r build")
    identity = desk.open()
    waiting.kill()
    waiting.wait()
    done = desk.generation.run("approvals", "approve", identity)
    assert done.returncode == 3
    assert "this was recorded, the command was NOT run; ask again" in done.stdout
    (kept,) = desk.kept()
    assert (kept["status"], kept["execution"], kept["execution_reason"]) == ("approved", "blocked", "orphan")
    assert (desk.work / "build").exists()


@pytest.mark.proves("recheck-stricter-blocks", "operands-digested")
@pytest.mark.parametrize("what", ["script", "directory", "gone"])
def test_what_is_not_any_more_what_was_shown_is_blocked(desk: Desk, what: str) -> None:
    script = desk.work / "clean.sh"
    script.write_text("rm -r build\n")
    waiting = desk.ask("bash", "clean.sh")
    identity = desk.open()
    shown = next(each for each in desk.kept() if each["id"] == identity)["operation"]
    assert str(script) in shown["digests"]
    assert shown["executable"].endswith("bash")
    if what == "script":
        script.write_text("rm -r build ../precious\n")
    elif what == "gone":
        script.unlink()
    else:
        desk.work.rename(desk.work.parent / "moved")
        desk.work.mkdir()
        (desk.work / "clean.sh").write_text("rm -r build\n")
    desk.run("approve", identity)
    (error,) = desk.end(waiting)["errors"]
    (kept,) = desk.kept()
    assert error["code"] == "command-blocked"
    assert (kept["status"], kept["execution"]) == ("approved", "blocked")
    assert kept["execution_reason"]


@pytest.mark.proves("recheck-stricter-blocks", "recheck-policy-anew")
@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("approvals:\n  deny: ['rm *']\n", "a rule of the operator denies it"),
        ("approvals:\n  ask: ['rm *']\n", "a rule of the operator wants a person asked"),
        ("approvals: [\n", "the policy could not be evaluated"),
    ],
)
def test_a_rule_that_is_written_while_a_question_waits_counts(desk: Desk, written: str, why: str) -> None:
    waiting = desk.ask("rm -r build")
    identity = desk.open()
    path = desk.generation.home / "profiles" / "default" / "app.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(written)
    # For the session: what is granted by that is no way around the rule.
    desk.run("approve", identity, "session")
    (error,) = desk.end(waiting)["errors"]
    assert (error["code"], why in error["summary"]) == ("command-blocked", True), error
    (kept,) = desk.kept()
    assert (kept["status"], kept["execution"]) == ("approved", "blocked")
    assert (desk.work / "build").exists()


@pytest.mark.proves("recheck-uses-no-grant")
def test_a_run_by_a_persons_yes_uses_up_no_grant(desk: Desk) -> None:
    waiting = desk.ask("frobnicate")
    identity = desk.open()
    assert desk.generation.run("allow", "add", "frobnicate", "--uses", "1").returncode == 0
    desk.run("approve", identity)
    assert desk.end(waiting)["exit_code"] == 127
    # By the grant, which is used up with that; then it is asked about again.
    assert desk.end(desk.ask("frobnicate"))["exit_code"] == 127
    asked = desk.ask("frobnicate")
    assert desk.open() != identity
    asked.kill()


@pytest.mark.proves("answer-scope-clamped")
def test_a_session_is_granted_and_what_takes_much_away_never_for_always(desk: Desk) -> None:
    waiting = desk.ask("rm -r build", options=("--session", "one"))
    said = desk.generation.run("approvals", "approve", desk.open(), "always")
    assert "session (always is not possible)" in said.stdout
    assert desk.end(waiting)["exit_code"] == 0
    (desk.work / "build").mkdir()
    assert desk.end(desk.ask("rm -r build", options=("--session", "one")))["exit_code"] == 0
    (desk.work / "build").mkdir()
    other = desk.ask("rm -r build", options=("--session", "two"))
    desk.open()
    other.kill()


@pytest.mark.proves("ask-store-first", "store-no-fallback")
def test_without_a_store_what_needs_an_approval_is_refused_and_the_rest_works(desk: Desk) -> None:
    database = desk.generation.home / "state" / "default" / "approvals.db"
    database.mkdir(parents=True)
    (error,) = desk.end(desk.ask("rm -r build"))["errors"]
    assert error["code"] == "approval-store-damaged"
    assert str(database) in error["summary"]
    database.rmdir()
    database.write_bytes(b"no database\n" * 1000)
    assert desk.end(desk.ask("rm -r build"))["errors"][0]["code"] == "approval-store-damaged"
    assert envelope_of(desk.run("list"))["errors"][0]["code"] == "approval-store-damaged"
    assert (desk.work / "build").exists()


class Typing:
    """A person at a terminal in which `exec` runs, or other words."""

    def __init__(self, desk: Desk, *command: str, words: Sequence[str] = ()) -> None:
        self.pid, self.master = pty.fork()
        if self.pid == 0:  # pragma: no cover  # another process
            os.environ.pop("PERDURE_JSON", None)
            words = words or ["exec", "--cwd", str(desk.work), "--", *command]
            os.chdir(desk.work)
            os.execv(desk.generation.python, [str(desk.generation.python), "-I", "-m", "perdure", *words])
        self.read = b""

    def wait_for(self, text: bytes) -> None:
        """Read until the text stands there."""
        while text not in self.read:
            self.more()

    def more(self) -> bool:
        """Read on; False at the end."""
        try:
            data = os.read(self.master, 4096)
        except OSError:  # what Linux says at the end of a terminal
            data = b""
        self.read += data
        return bool(data)

    def type(self, text: str) -> None:
        """Type."""
        os.write(self.master, text.encode())

    def end(self) -> tuple[int, str]:
        """Return the exit code, and everything that stood there."""
        while self.more():
            pass
        _, status = os.waitpid(self.pid, 0)
        os.close(self.master)
        return os.waitstatus_to_exitcode(status), self.read.decode()


@pytest.mark.proves("prompt-never-declines-for-you", "ask-fails-closed")
@pytest.mark.parametrize(
    ("typed", "code", "says", "status", "cause"),
    [
        ("once\n", 0, "ran", "approved", None),
        ("\nyes\ny\nok\nsession please\no\n", 0, "ran", "approved", None),
        ("a\n", 0, "ran", "approved", None),
        ("d\n", 10, "a person declined it", "declined", None),
        ("decline not now\n", 10, "a person declined it: not now", "declined", None),
        ("\x03", 10, "prompt-interrupted", "cancelled", "prompt-interrupted"),
        ("\x04", 10, "surface-closed", "cancelled", "surface-closed"),
    ],
)
def test_only_words_at_the_prompt_answer(
    desk: Desk, typed: str, code: int, says: str, status: str, cause: str | None
) -> None:
    person = Typing(desk, "rm -r build && echo ran")
    person.wait_for(b"decline [reason]")
    person.type(typed)
    ended, shown = person.end()
    assert (ended, says in shown) == (code, True), shown
    assert "Type once or session to approve, or decline [reason]; without an answer it is not run:" in shown
    (kept,) = desk.kept()
    assert (kept["status"], kept["cause"]) == (status, cause)
    assert (desk.work / "build").exists() == (status != "approved")


@pytest.mark.proves("ask-order")
def test_a_question_at_the_prompt_is_withdrawn_when_it_is_answered_elsewhere(desk: Desk) -> None:
    person = Typing(desk, "rm -r build && echo ran")
    person.wait_for(b"decline [reason]")
    desk.run("approve", desk.open())
    ended, shown = person.end()
    assert (ended, "ran" in shown) == (0, True)


@pytest.mark.proves("prompt-never-declines-for-you")
def test_what_is_no_answer_is_told_for_what_it_is_and_what_can_be_typed_stands_there_again(desk: Desk) -> None:
    person = Typing(desk, "rm -r build && echo ran")
    person.wait_for(b"decline [reason]")
    for said in ("n", "no", "wat \x1b[31m"):
        person.read = b""
        person.type(f"{said}\n")
        person.wait_for(b"is no answer, and nothing is decided. Type once")
        person.wait_for(b"decline [reason]")
    person.type("decline not now\n")
    ended, shown = person.end()
    assert ended != 0
    assert "\x1b[31m` is" not in shown
    (kept,) = desk.kept()
    assert (kept["status"], kept["reason"]) == ("declined", "not now")


@pytest.mark.proves("approvals-not-from-inside")
def test_what_a_run_has_started_answers_nothing(desk: Desk, tmp_path: Path) -> None:
    waiting = desk.ask("rm -r build")
    identity = desk.open()
    python = desk.generation.python
    # A program that the guard has nothing against, and that answers all the same.
    agent = tmp_path / "agent.py"
    agent.write_text(
        "import os, subprocess, sys\n"
        "clean = {name: value for name, value in os.environ.items() if not name.startswith('PERDURE')}\n"
        f"command = [{str(python)!r}, '-I', '-m', 'perdure', 'approvals', 'approve', {identity!r}]\n"
        "for environment in (dict(os.environ), clean, {}):\n"
        "    for new in (False, True):\n"
        "        done = subprocess.run(command, env=environment, start_new_session=new, stdin=subprocess.DEVNULL)\n"
        "        print('code', done.returncode)\n"
    )
    (desk.work / "run.py").write_text(agent.read_text())
    runner = desk.ask("python3", "run.py", options=("--session", "agent"))
    other = until(lambda: [each["id"] for each in desk.kept() if each["session"] == "agent"])[0]
    desk.run("approve", other)
    done = desk.end(runner)
    assert done["data"]["stdout"].split() == ["code", "10"] * 6, done
    assert next(each for each in desk.kept() if each["id"] == identity)["status"] == "pending"
    assert waiting.poll() is None


def test_watching_for_programs_answers_with_the_next_change(desk: Desk) -> None:
    desk.end(desk.ask("rm -r build", options=("--answer-within", "0.3")))
    watching = subprocess.Popen(
        [str(desk.generation.python), "-I", "-m", "perdure", "approvals", "watch", "--json"],
        stdout=subprocess.PIPE,
        text=True,
    )
    desk.started.append(watching)
    time.sleep(0.5)
    waiting = desk.ask("rm -r build")
    out, _ = watching.communicate(timeout=SECONDS)
    (seen,) = json.loads(out)["data"]["proposals"]
    assert seen["id"] == desk.open()
    waiting.kill()


@pytest.mark.proves("audit-chained")
def test_the_trail_is_verified_from_the_command_line(desk: Desk) -> None:
    assert envelope_of(desk.run("audit", "--verify"))["data"]["lines"] == []
    desk.end(desk.ask("rm -r build", options=("--answer-within", "0.3")))
    data = envelope_of(desk.run("audit", "--verify"))["data"]
    assert [line["event"] for line in data["lines"]] == ["proposed", "expired"]
    assert (data["faults"], len(data["last"])) == ([], 64)
    (session,) = envelope_of(desk.generation.run("sessions", "--json"))["data"]["sessions"]
    assert (session["proposals"], session["pending"], session["waiting"]) == (1, 0, 0)
    with contextlib.suppress(ProcessLookupError):
        os.kill(desk.started[0].pid, 0)


@pytest.mark.proves("audit-standing-told", "approvals-dry-run-same")
def test_the_trail_explains_every_standing_approval_of_the_operators_file(desk: Desk) -> None:
    path = desk.generation.home / "profiles" / "default" / "app.yaml"
    path.parent.mkdir(parents=True)

    def told() -> list[tuple[str, str, str, bool]]:
        lines = [line for line in envelope_of(desk.run("audit"))["data"]["lines"] if line["event"].startswith("line-")]
        return [(line["event"], line["about"], line["said"]["line"], "seen" in line["said"]["by"]) for line in lines]

    path.write_text("command_allowlist: [frobnicate *]\napprovals: {mode: 'off'}\n")
    assert desk.run("test", "--", "frobnicate", "-x").returncode == 0
    assert not (desk.generation.home / "state" / "default").exists()
    assert desk.end(desk.ask("frobnicate", "-x"))["exit_code"] == 127
    added = [("line-added", "approvals.mode", "off", True), ("line-added", "command_allowlist", "frobnicate *", True)]
    assert told() == added
    # Between two looks at the trail only what a decision saw is there; now the file is looked at for it.
    path.write_text("command_allowlist: ['deploy --password hunter2hunter2 *']\n")
    gone = [(event.replace("added", "removed"), *rest) for event, *rest in added]
    now = told()
    assert [each[:3] for each in now] == [
        *(each[:3] for each in added),
        *((event, place, line) for event, place, line, _ in gone),
        ("line-added", "command_allowlist", "deploy --password [secret-1:password] *"),
    ]
    assert desk.generation.run("allow", "add", "make *").returncode == 0
    assert desk.generation.run("allow", "revoke", "make *").returncode == 0
    assert told()[-2:] == [
        ("line-added", "command_allowlist", "make *", False),
        ("line-removed", "command_allowlist", "make *", False),
    ]
    assert envelope_of(desk.run("audit", "--verify"))["data"]["faults"] == []


@pytest.mark.proves("answer-by-id-only", "approval-single-use")
def test_of_two_that_are_open_the_one_that_is_named_runs(desk: Desk) -> None:
    first, second = desk.ask("rm -r build"), desk.ask("rm -r build && echo second")
    until(lambda: len(desk.kept()) == 2)
    (named,) = (each for each in desk.kept() if each["operation"]["script"].endswith("second"))
    desk.run("approve", named["id"])
    assert desk.end(second)["data"]["stdout"] == "second\n"
    assert first.poll() is None
    assert {each["id"]: each["status"] for each in desk.kept()}.pop(named["id"]) == "approved"
    assert sum(each["status"] == "pending" for each in desk.kept()) == 1


@pytest.mark.proves("approval-single-use", "waiters-leave-alone")
@pytest.mark.parametrize("scope", ["once", "session"])
def test_identical_asks_share_a_question_and_once_is_for_one_of_them(desk: Desk, scope: str) -> None:
    both = [desk.ask("rm -rf build", options=("--session", "one")) for _ in range(2)]
    (asked,) = until(lambda: [each for each in desk.kept() if each["waiting"] == 2])
    desk.run("approve", asked["id"], scope)
    if scope == "session":
        # What the answer granted covers the other: nobody is asked again.
        assert [desk.end(each)["exit_code"] for each in both] == [0, 0]
        assert len(desk.kept()) == 1
        return
    (again,) = until(lambda: [each for each in desk.kept() if each["status"] == "pending"])
    assert again["id"] != asked["id"]
    desk.run("decline", again["id"])
    assert sorted(desk.end(each)["exit_code"] for each in both) == [0, 10]


@pytest.mark.proves("approval-single-use", "store-terminal-final")
def test_a_yes_to_what_cannot_be_started_is_never_said_to_have_run(desk: Desk) -> None:
    waiting = desk.ask("frobnicate", "-x")
    desk.run("approve", desk.open())
    assert desk.end(waiting)["errors"][0]["code"] == "command-not-found"
    (kept,) = desk.kept()
    assert (kept["status"], kept["execution"]) == ("approved", "failed-to-start")
    assert kept["execution_reason"]
