"""`perdure exec` as it is used: guard first, what a command inherits, what is kept, and that nothing of it is left."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.domain.errors import RunRecordLost
from perdure.tools.capture import Capture
from perdure.tools.environment import scrub
from perdure.tools.run_record import RunRecord
from tests.app.command_line import envelope_of
from tests.app.conftest import Generation
from tests.unprivileged import UnprivilegedUser

pytestmark = pytest.mark.platforms("linux", "darwin")


def records(generation: Generation) -> list[dict[str, Any]]:
    """Return the lines of the run record, in the order in which they were written."""
    found = sorted((generation.home / "state" / "default").glob("runs-*.jsonl"))
    return [json.loads(line) for path in found for line in path.read_text().splitlines()]


def running(mark: str) -> list[int]:
    """Return the processes that have the mark among their arguments."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            try:
                words = Path("/proc", name, "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if mark.encode() in words:
                found.append(int(name))
    return found


@pytest.mark.proves("exec-recorded", "app-exit-codes")
def test_a_commands_streams_and_exit_code_are_passed_on_and_the_run_is_recorded(generation: Generation) -> None:
    done = generation.run("exec", "--", "echo out; echo err >&2; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, "out\n", "err\n")
    judged, executed, ended = records(generation)
    assert {line["run"] for line in (judged, executed, ended)} == {judged["run"]}
    assert [line["event"] for line in (judged, executed, ended)] == ["judged", "executed", "ended"]
    assert (judged["script"], judged["command"]) == ("echo out; echo err >&2; exit 7", None)
    assert judged["verdict"]["ruling"] == "allow"
    assert list(judged["layers"]) == ["environment", "floor", "jail", "sentinels"]
    on = {"active": True, "why_not": None, "gap": None}
    assert [judged["layers"][name] for name in ("environment", "floor", "sentinels")] == [on] * 3
    assert executed["pid"] > 0
    assert (ended["exit_code"], ended["ended"], ended["stdout_bytes"], ended["stderr_bytes"]) == (7, "exited", 4, 4)
    (path,) = (generation.home / "state" / "default").glob("*.jsonl")
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.proves("exec-recorded")
def test_words_are_started_without_a_shell_and_a_script_is_read_from_a_file(
    generation: Generation, tmp_path: Path
) -> None:
    done = generation.run("exec", "--", "printf", "%s|", "a b", "$HOME", ";")
    assert (done.returncode, done.stdout) == (0, "a b|$HOME|;|")
    assert records(generation)[0]["command"] == ["printf", "%s|", "a b", "$HOME", ";"]
    script = tmp_path / "script"
    script.write_text('for word in a b; do echo "$word"; done\n')
    assert generation.run("exec", "--script", str(script)).stdout == "a\nb\n"
    assert generation.run("exec", "--shell", "sh", "--script", str(script)).stdout == "a\nb\n"
    done = generation.run("exec", "--script", str(script), "--", "ls")
    assert (done.returncode, done.stdout) == (2, "")


@pytest.mark.proves("exec-guard-first")
def test_what_is_refused_or_asked_about_is_not_started(generation: Generation, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    done = generation.run(
        "exec", "--json", "--cwd", str(tmp_path), "--", f"touch mark; rm -rf {shlex.quote(str(generation.venv))}"
    )
    (error,) = envelope_of(done)["errors"]
    assert (done.returncode, error["code"]) == (10, "command-refused")
    assert error["context"]["verdict"]["meetings"][0]["root"] == str(generation.venv)
    done = generation.run("exec", "--json", "--cwd", str(tmp_path), "--", "touch mark; frobnicate")
    (error,) = envelope_of(done)["errors"]
    assert (done.returncode, error["code"]) == (10, "command-needs-approval")
    assert error["summary"] == (
        "the command was not run: it needs a person's approval, and nobody can be asked here: "
        "what `frobnicate` does with these arguments is not known"
    )
    assert not mark.exists()
    assert generation.venv.is_dir()
    assert [line["event"] for line in records(generation)] == ["judged", "judged"]


@pytest.mark.proves("approvals-secrets-masked")
def test_a_secret_of_a_command_is_not_in_what_is_said_of_it_in_the_record_either(
    generation: Generation, tmp_path: Path
) -> None:
    line = "deploy --token hunter2hunter2 && rm -r hunter2hunter2"
    generation.run("exec", "--json", "--cwd", str(tmp_path), "--", line)
    (judged,) = [each for each in records(generation) if each["event"] == "judged"]
    assert "hunter2hunter2" not in json.dumps(judged)
    assert "[secret-1:token]" in json.dumps(judged["decision"]["touches"])


@pytest.mark.proves("exec-recorded", "exec-guard-first")
def test_without_its_record_nothing_is_started(generation: Generation, tmp_path: Path) -> None:
    (generation.home / "state").mkdir()
    (generation.home / "state" / "default").write_text("in the way")
    done = generation.run("exec", "--json", "--cwd", str(tmp_path), "--", "touch", "mark")
    (error,) = envelope_of(done)["errors"]
    assert (done.returncode, error["code"]) == (1, "run-record-lost")
    assert not (tmp_path / "mark").exists()


@pytest.mark.proves("app-exit-codes", "exec-recorded")
def test_what_cannot_be_started_says_why(generation: Generation, tmp_path: Path) -> None:
    done = generation.run("exec", "--json", "--", "ls", "-l", environment={"PATH": str(tmp_path)})
    (error,) = envelope_of(done)["errors"]
    assert (done.returncode, error["code"]) == (127, "command-not-found")
    done = generation.run("exec", "--json", "--cwd", str(tmp_path / "gone"), "--", "ls", "-l")
    (error,) = envelope_of(done)["errors"]
    assert (done.returncode, error["code"]) == (126, "command-not-executable")
    assert [line["event"] for line in records(generation)] == ["judged", "failed-to-start"] * 2


@pytest.mark.proves("exec-environment")
def test_a_command_inherits_nothing_that_leads_to_perdure_or_runs_what_nobody_has_read(
    generation: Generation, tmp_path: Path
) -> None:
    start = tmp_path / "start"
    start.write_text("echo started\n")
    environment = {
        "VIRTUAL_ENV": str(generation.venv),
        "PYTHONPATH": "/x",
        "CONDA_PREFIX": "/x",
        "BASH_ENV": str(start),
        "ENV": str(start),
        "BASH_FUNC_ls%%": "() { echo function; }",
        "PERDURE_PROFILE": "default",
        "KEPT": "yes",
        "PATH": f"{generation.venv}/bin:{generation.home}/bin:{os.environ['PATH']}",
    }
    done = generation.run("exec", "--", "printenv", environment=environment)
    found = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    assert found["KEPT"] == "yes"
    assert found["PERDURE_RUN"] == records(generation)[0]["run"]
    assert {name for name in environment if name in found} == {"KEPT", "PATH"}
    assert str(generation.home) not in found["PATH"]
    done = generation.run("exec", "--", "type ls; ls -d .", environment=environment)
    assert (done.returncode, "function" in done.stdout, "started" in done.stdout) == (0, False, False)


@pytest.mark.proves("exec-environment")
def test_an_own_directory_comes_off_the_path_also_through_a_link(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (tmp_path / "link").symlink_to(own)
    path = os.pathsep.join([str(own), "/usr/bin", str(tmp_path / "link"), ""])
    assert scrub({"PATH": path, "HOME": "/h"}, [str(own)], "id") == {
        "PATH": f"/usr/bin{os.pathsep}",
        "HOME": "/h",
        "PERDURE_RUN": "id",
    }


@pytest.mark.proves("exec-environment")
def test_a_package_managers_variable_goes_only_where_it_leads_to_perdure(tmp_path: Path) -> None:
    own, other = tmp_path / "own", tmp_path / "own-not"
    (tmp_path / "link").symlink_to(own)
    environ = {
        "UV_PYTHON": str(own / "venv" / "bin" / "python"),
        "UV_PYTHON_INSTALL_DIR": str(tmp_path / "link" / "python"),
        "PIP_TARGET": str(own),
        "PIP_FIND_LINKS": os.pathsep.join(["/wheels", str(own / "wheels")]),
        "UV_CACHE_DIR": str(other),
        "UV_TOOL_DIR": "own",
        "EDITOR": str(own / "bin" / "edit"),
        "PATH": os.pathsep.join([str(own / "tools"), str(other)]),
    }
    assert scrub(environ, [str(own)], "id") == {
        "UV_CACHE_DIR": str(other),
        "UV_TOOL_DIR": "own",
        "EDITOR": str(own / "bin" / "edit"),
        "PATH": str(other),
        "PERDURE_RUN": "id",
    }


@pytest.mark.proves("exec-environment")
def test_uv_sync_in_another_project_leaves_the_environment_of_the_app_alone(
    generation: Generation, tmp_path: Path, uv: Path
) -> None:
    """The guard asks about a plain `uv sync`; a program hides it here, so that the environment alone protects."""
    project, leaked = tmp_path / "project", ("VIRTUAL_ENV", "UV_PROJECT_ENVIRONMENT", "CONDA_PREFIX")
    project.mkdir()
    (project / "pyproject.toml").write_text('[project]\nname = "x"\nversion = "1"\n[tool.uv]\npackage = false\n')
    hidden = tmp_path / "bin" / "ls"
    hidden.parent.mkdir()
    hidden.write_text(f'#!/bin/sh\nexec "{uv}" sync --offline --python "{os.path.realpath(sys.executable)}"\n')
    hidden.chmod(0o755)
    profile = generation.home / "profiles" / "default" / "app.yaml"
    profile.parent.mkdir(parents=True)
    profile.write_text("jail: off\n")
    environment = dict.fromkeys(leaked, str(generation.venv))
    environment["PATH"] = f"{hidden.parent}{os.pathsep}{os.environ['PATH']}"
    module, metadata = generation.site / "mine.py", generation.site / "mine-1.dist-info"
    module.write_text("")
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1\n")
    (metadata / "RECORD").write_text("mine.py,,\nmine-1.dist-info/METADATA,,\nmine-1.dist-info/RECORD,,\n")

    # What is prevented does happen without: in a copy, so that there is still something to run.
    copy = tmp_path / "copy"
    shutil.copytree(generation.venv, copy, symlinks=True)
    lost = {**os.environ, **dict.fromkeys(leaked, str(copy))}
    subprocess.run([str(hidden)], cwd=project, env=lost, check=True, capture_output=True)
    assert not (copy / module.relative_to(generation.venv)).exists()

    done = generation.run("exec", "--json", "--cwd", str(project), "--", "ls", environment=environment)
    data = envelope_of(done)["data"]
    assert (done.returncode, data["damage"]) == (0, []), data
    assert (project / ".venv" / "pyvenv.cfg").is_file()
    assert (module.exists(), (metadata / "RECORD").exists()) == (True, True)


@pytest.mark.proves("exec-output-bounded")
@settings(max_examples=200, deadline=None)
@given(chunks=st.lists(st.binary(max_size=40), max_size=20), most=st.integers(4, 64))
def test_a_capture_keeps_the_beginning_and_the_end_and_counts_the_rest(chunks: list[bytes], most: int) -> None:
    capture, whole = Capture(most), b"".join(chunks)
    for chunk in chunks:
        capture.feed(chunk)
    assert capture.seen == len(whole)
    assert capture.cut == max(0, len(whole) - most)
    if not capture.cut:
        assert capture.data() == whole
        return
    head, _, rest = capture.data().partition(f"\n[… {capture.cut} bytes left out …]\n".encode())
    assert whole.startswith(head)
    assert whole.endswith(rest)
    assert len(head) + len(rest) == most


@pytest.mark.proves("exec-output-bounded")
def test_output_without_end_is_cut_and_says_so(generation: Generation) -> None:
    script = "echo first; seq 1 500000; echo last"
    done = generation.run("exec", "--most-output", "4096", "--", script)
    assert done.returncode == 0
    assert done.stdout.startswith("first\n1\n2\n")
    assert done.stdout.endswith("500000\nlast\n")
    assert "bytes left out …]" in done.stdout
    assert len(done.stdout) < 4200


LEFT_BEHIND = "(setsid sleep {mark} &); env -i setsid sleep {mark} & setsid nohup sleep {mark} >/dev/null 2>&1 & "


@pytest.mark.platforms("linux")
@pytest.mark.proves("exec-tree-ended")
def test_what_a_command_leaves_behind_is_ended_with_it(generation: Generation) -> None:
    mark = f"30{os.getpid()}"
    began = time.monotonic()
    # Outside a jail: in one, the kernel ends all of its processes with the first.
    policy = generation.home / "profiles" / "default" / "app.yaml"
    policy.parent.mkdir(parents=True)
    policy.write_text("jail: off\n")
    done = generation.run("exec", "--json", "--", LEFT_BEHIND.format(mark=mark) + "echo done")
    data = envelope_of(done)["data"]
    assert (done.returncode, data["stdout"], data["survivors"]) == (0, "done\n", [])
    assert len(data["killed"]) >= 3
    assert running(mark) == []
    assert time.monotonic() - began < 20


@pytest.mark.platforms("linux")
@pytest.mark.proves("exec-tree-ended", "exec-recorded")
def test_when_the_time_is_over_all_of_it_is_ended(generation: Generation) -> None:
    mark = f"31{os.getpid()}"
    script = f"trap '' TERM; {LEFT_BEHIND.format(mark=mark)} echo begun; sleep {mark}"
    done = generation.run("exec", "--seconds", "1", "--", script)
    assert (done.returncode, done.stdout) == (124, "begun\n")
    assert done.stderr.endswith("the command was ended after 1 s\n")
    assert running(mark) == []
    assert (records(generation)[-1]["ended"], records(generation)[-1]["exit_code"]) == ("timed-out", 124)


@pytest.mark.platforms("linux")
@pytest.mark.proves("exec-tree-ended", "exec-recorded", "app-exit-codes")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_the_command_and_all_of_it(generation: Generation, number: signal.Signals) -> None:
    mark = f"32{os.getpid()}"
    with subprocess.Popen(
        [str(generation.python), "-I", "-m", "perdure", "exec", "--", f"setsid sleep {mark} & sleep {mark}"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        deadline = time.monotonic() + 30
        while len(running(mark)) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.02)  # the kernel gives no event for a process of another's
        process.send_signal(number)
        process.communicate(timeout=30)
    assert process.returncode == 128 + number
    assert running(mark) == []
    assert (records(generation)[-1]["ended"], records(generation)[-1]["exit_code"]) == ("interrupted", 128 + number)


@pytest.mark.proves("exec-recorded")
def test_a_record_that_a_run_has_barred_its_user_from_names_what_opens_the_way(
    unprivileged_user: UnprivilegedUser,
) -> None:
    """A jailed command may take its user the way to the home: a parent's mode is not held."""
    folder = unprivileged_user.folder / "a b" / "home" / "state"

    def bar() -> tuple[str | None, str]:
        record = RunRecord(folder, "run")
        record.write("judged", "2030-01-31T12:00:00Z")
        barred = folder.parent.parent
        barred.chmod(0)
        with pytest.raises(RunRecordLost) as raised:
            record.write("ended", "2030-01-31T12:00:00Z")
        hint = raised.value.hint
        subprocess.run(["/bin/sh", "-c", hint or "true"], check=True, timeout=60)
        record.write("ended", "2030-01-31T12:00:00Z")
        return hint, str(barred)

    hint, barred = unprivileged_user.call(bar)
    assert hint == f"chmod u+rwx {shlex.quote(barred)}"
