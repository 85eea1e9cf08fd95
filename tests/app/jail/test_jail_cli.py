"""The jail as `perdure exec` uses it: policy, record, what it is told, and what of a run stays as it is without."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from perdure.jail.bubblewrap import DROPPED
from tests.app.command_line import envelope_of
from tests.app.conftest import Generation

BWRAP = shutil.which("bwrap")
pytestmark = [
    pytest.mark.platforms("linux"),
    pytest.mark.skipif(BWRAP is None, reason="bubblewrap is not installed"),
]


def set_policy(generation: Generation, text: str) -> Path:
    """Have the profile say this, and return its file."""
    path = generation.home / "profiles" / "default" / "app.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def records(generation: Generation) -> list[dict[str, Any]]:
    """Return the lines of the run record."""
    found = sorted((generation.home / "state" / "default").glob("runs-*.jsonl"))
    return [json.loads(line) for path in found for line in path.read_text().splitlines()]


def run_where_no_jail_is(generation: Generation, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the app where there is no bwrap."""
    assert BWRAP is not None
    hidden = [BWRAP, "--dev-bind", "/", "/", "--ro-bind", "/dev/null", os.path.realpath(BWRAP), "--"]
    return subprocess.run(
        [*hidden, str(generation.python), "-I", "-m", "perdure", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        stdin=subprocess.DEVNULL,
    )


def hide_in_ls(folder: Path, text: str, interpreter: str = "/bin/sh") -> dict[str, str]:
    """Return an environment in which a command that every reader takes for harmless does something else."""
    program = folder / "bin" / "ls"
    program.parent.mkdir()
    program.write_text(f"#!{interpreter}\n{text}\n")
    program.chmod(0o755)
    return {"PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}"}


@pytest.mark.proves("jail-holds-roots", "layers-told")
def test_what_no_reader_could_see_is_stopped_by_the_kernel(generation: Generation, tmp_path: Path) -> None:
    set_policy(generation, "jail: require\n")
    venv, state = shlex.quote(str(generation.venv)), shlex.quote(str(generation.home / "state"))
    environment = hide_in_ls(tmp_path, f'rm -rf {venv} x; echo "[$(/bin/ls -A {state})]"')
    (tmp_path / "x").write_text("")
    done = generation.run("exec", "--json", "--cwd", str(tmp_path), "--", "ls", environment=environment)
    data = envelope_of(done)["data"]
    assert data["layers"]["jail"] == {"active": True, "why_not": None, "gap": None}
    assert data["damage"] == []
    assert "Read-only file system" in data["stderr"]
    assert data["stdout"] == "[]\n"
    assert (generation.venv / "pyvenv.cfg").is_file()
    assert not (tmp_path / "x").exists()
    judged, executed, _ended = records(generation)
    assert judged["layers"]["jail"]["active"]
    assert executed["pid"] > 0


@pytest.mark.proves("guard-own-policy", "approvals-dry-run-same")
def test_a_search_of_all_above_the_state_is_asked_about_where_no_jail_keeps_the_state_from_it(
    generation: Generation, tmp_path: Path
) -> None:
    secret = generation.home / "state" / "default" / "kept"
    secret.parent.mkdir(parents=True)
    secret.write_text("needle\n")
    (tmp_path / "found").write_text("needle\n")
    line = ["--cwd", str(tmp_path), "--", "grep", "-rn", "needle", "."]
    done = generation.run("exec", *line)
    assert (done.returncode, done.stdout) == (0, "./found:1:needle\n"), done.stderr
    assert generation.run("approvals", "test", *line).returncode == 0
    assert generation.run("guard", "explain", *line).returncode == 0
    done = run_where_no_jail_is(generation, "exec", "--json", *line)
    (error,) = envelope_of(done)["errors"]
    assert (done.returncode, error["code"]) == (10, "command-needs-approval")
    assert "reads everything below" in error["summary"]
    assert run_where_no_jail_is(generation, "approvals", "test", *line).returncode == 2
    assert run_where_no_jail_is(generation, "guard", "explain", *line).returncode == 2
    # Perdure's own home is nothing that anybody searches.
    done = generation.run("exec", "--json", "--", "grep", "-rn", "needle", str(generation.home))
    assert envelope_of(done)["errors"][0]["code"] == "command-refused"


@pytest.mark.proves("jail-told", "layers-told")
def test_without_a_jail_prefer_runs_and_says_so_and_require_does_not_run(
    generation: Generation, tmp_path: Path
) -> None:
    why = "bubblewrap (bwrap) is not installed"
    done = run_where_no_jail_is(generation, "exec", "--", "echo", "done")
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert done.stderr.count("without the jail") == 1
    assert why in done.stderr
    assert records(generation)[0]["layers"]["jail"] == {"active": False, "why_not": why, "gap": None}
    mark = tmp_path / "mark"
    done = run_where_no_jail_is(generation, "exec", "--jail", "require", "--json", "--", "touch", str(mark))
    (error,) = envelope_of(done)["errors"]
    assert (done.returncode, error["code"]) == (10, "jail-unavailable")
    assert why in error["summary"]
    assert not mark.exists()
    assert [line["event"] for line in records(generation)] == ["judged", "executed", "ended", "judged"]
    assert why in run_where_no_jail_is(generation, "doctor").stdout
    assert why in run_where_no_jail_is(generation, "guard", "roots").stdout


@pytest.mark.proves("jail-never-laxer")
def test_a_caller_gets_a_stricter_jail_and_never_a_laxer_one(generation: Generation) -> None:
    set_policy(generation, "jail: off\n")
    for arguments, active in (((), False), (("--jail", "require"), True)):
        done = generation.run("exec", "--json", *arguments, "--", "true")
        assert envelope_of(done)["data"]["layers"]["jail"]["active"] is active, done.stdout
        assert done.stderr == ""
    set_policy(generation, "jail: {policy: prefer}\n")
    done = generation.run("exec", "--json", "--jail", "off", "--", "true")
    (error,) = envelope_of(done)["errors"]
    assert (done.returncode, error["code"]) == (2, "usage")
    said = dict.fromkeys(("PERDURE_JAIL", "PERDURE_EXEC_JAIL"), "off")
    done = generation.run("exec", "--json", "--", "true", environment=said)
    assert envelope_of(done)["data"]["layers"]["jail"]["active"]
    done = generation.run("exec", "--json", "--", "true", environment={"PERDURE_PROFILE": "lax"})
    assert (done.returncode, envelope_of(done)["errors"][0]["code"]) == (10, "settings-invalid")


@pytest.mark.proves("app-file-read-whole", "jail-never-laxer")
@pytest.mark.parametrize("text", ["jail: [", "jial: off\n", "jail: maybe\n", "jail: {outside: sudo}\n"])
def test_with_a_policy_that_cannot_be_evaluated_nothing_runs(generation: Generation, text: str) -> None:
    path = set_policy(generation, text)
    done = generation.run("exec", "--json", "--", "true")
    (error,) = envelope_of(done)["errors"]
    assert (done.returncode, error["code"]) == (10, "settings-invalid")
    assert str(path) in error["summary"]
    assert records(generation) == []
    found = envelope_of(generation.run("doctor", "--json"))["data"]["findings"]
    assert "settings-invalid" in [each["code"] for each in found]


@pytest.mark.proves("jail-told", "jail-never-laxer")
def test_what_the_operator_lists_runs_outside_and_is_on_record_as_that(generation: Generation) -> None:
    set_policy(generation, "jail: {policy: require, outside: ['cat /proc/1/comm']}\n")
    outside = Path("/proc/1/comm").read_text()
    done = generation.run("exec", "--json", "--", "cat", "/proc/1/comm")
    data = envelope_of(done)["data"]
    assert data["stdout"] == outside
    assert data["layers"]["jail"] == {
        "active": False,
        "why_not": "the operator has 'cat /proc/1/comm' run outside",
        "gap": None,
    }
    for command in (["cat", "/proc/1/comm", "/dev/null"], ["cat /proc/1/comm; true"]):
        data = envelope_of(generation.run("exec", "--json", "--", *command))["data"]
        assert (data["stdout"], data["layers"]["jail"]["active"]) == ("bwrap\n", True)


@pytest.mark.proves("exec-tree-ended")
def test_a_jailed_command_whose_time_is_over_may_tidy_up_and_leaves_nothing(generation: Generation) -> None:
    mark = f"41{os.getpid()}"
    script = f"trap 'echo tidied; exit 3' TERM; setsid sleep {mark} & sleep {mark} & wait"
    began = time.monotonic()
    done = generation.run("exec", "--json", "--seconds", "1", "--", script)
    data = envelope_of(done)["data"]
    assert (done.returncode, data["stdout"], data["ended"], data["survivors"]) == (124, "tidied\n", "timed-out", [])
    assert data["layers"]["jail"]["active"]
    assert time.monotonic() - began < 20
    assert processes_with(mark) == []


@pytest.mark.proves("exec-tree-ended")
def test_what_had_to_be_ended_is_of_the_command_and_not_of_its_jail(generation: Generation) -> None:
    script = "trap '' TERM; while :; do sleep 9; done"
    data = envelope_of(generation.run("exec", "--json", "--seconds", "1", "--", script))["data"]
    assert (data["ended"], data["layers"]["jail"]["active"]) == ("timed-out", True)
    assert 1 <= len(data["killed"]) <= 2  # the shell, and a sleep where there is one at that moment


@pytest.mark.proves("exec-tree-ended")
def test_a_jailed_command_does_not_outlive_an_app_that_is_killed(generation: Generation) -> None:
    mark = f"42{os.getpid()}"
    app = subprocess.Popen([str(generation.python), "-I", "-m", "perdure", "exec", "--", f"setsid sleep {mark}; true"])
    try:
        wait_until(lambda: bool(processes_with(mark)))
    finally:
        app.send_signal(signal.SIGKILL)
        app.wait()
    wait_until(lambda: not processes_with(mark))


@pytest.mark.proves("exec-recorded")
def test_a_jailed_program_that_cannot_be_started_is_never_recorded_as_executed(
    generation: Generation, tmp_path: Path
) -> None:
    environment = hide_in_ls(tmp_path, "", interpreter="/nowhere/interpreter")
    done = generation.run("exec", "--json", "--", "ls", "-l", environment=environment)
    (error,) = envelope_of(done)["errors"]
    assert (done.returncode, error["code"]) == (126, "command-not-executable")
    assert [line["event"] for line in records(generation)] == ["judged", "failed-to-start"]


@pytest.mark.proves("jail-holds-roots")
def test_a_descriptor_that_the_app_has_open_is_none_of_the_commands(generation: Generation) -> None:
    handle = os.open(generation.venv / "pyvenv.cfg", os.O_WRONLY | os.O_APPEND)
    try:
        words: Sequence[str] = ("exec", "--json", "--", f"echo x >&{handle}")
        done = subprocess.run(
            [str(generation.python), "-I", "-m", "perdure", *words],
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            pass_fds=[handle],
        )
    finally:
        os.close(handle)
    assert "Bad file descriptor" in envelope_of(done)["data"]["stderr"]
    assert "x\n" not in (generation.venv / "pyvenv.cfg").read_text().split("false")[-1]


@pytest.mark.proves("layers-told")
def test_doctor_and_roots_say_which_layers_are_on(generation: Generation) -> None:
    names = ["environment", "floor", "jail", "sentinels", "audit-hook"]
    layers = envelope_of(generation.run("doctor", "--json"))["data"]["layers"]
    assert [name for name, layer in layers.items() if layer["active"]] == names
    layers = envelope_of(generation.run("guard", "roots", "--json"))["data"]["layers"]
    assert (list(layers), layers["audit-hook"]["active"]) == (names, False)
    assert "jail         on\n" in generation.run("guard", "roots").stdout


def answer_under_protection(home: Path, command: Sequence[str]) -> str:
    """Return what the app says where its home is kept from it as `host.protect` keeps one (see test_two_jails)."""
    assert BWRAP is not None
    state = home / "state"
    words = [BWRAP, "--dev-bind", "/", "/", "--ro-bind", str(home), str(home), "--bind", str(state), str(state)]
    words += [word for name in DROPPED for word in ("--cap-drop", name)] if os.geteuid() == 0 else []
    return subprocess.run([*words, "--", *command], capture_output=True, text=True, check=False, timeout=60).stdout


@pytest.mark.proves("jail-told", "layers-told")
@pytest.mark.skipif(os.geteuid() != 0, reason="is about the rights of root")
def test_root_that_is_kept_from_its_home_has_no_jail_for_commands_and_is_told_why(generation: Generation) -> None:
    (generation.home / "state").mkdir()
    said = answer_under_protection(generation.home, [str(generation.python), "-I", "-m", "perdure", "guard", "roots"])
    assert (
        "jail         off: root may not change mounts here (CAP_SYS_ADMIN), as in a container or under host.protect; "
        "the home is read-only all the same, but for state/\n"
    ) in said


def processes_with(mark: str) -> list[int]:
    """Return the living processes that have the mark as an argument."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                words = Path("/proc", name, "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            found += [int(name)] if mark.encode() in words else []
    return found


def wait_until(true: Any) -> None:
    """Wait for something that happens within seconds."""
    deadline = time.monotonic() + 20
    while not true():
        assert time.monotonic() < deadline, sys._getframe(1).f_code.co_name
        time.sleep(0.02)
