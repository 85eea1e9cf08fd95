"""Asking PM and handing over to it, with launchers that are small shell scripts."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from perdure.installation import Installation, find_installation
from perdure.pm_link import PmAnswer, ask_pm, clean_environment, confirm_trial
from tests.app.conftest import IDENTITY, Generation

pytestmark = pytest.mark.platforms("linux", "darwin")


def installed(generation: Generation) -> Installation:
    return find_installation(str(generation.venv), str(generation.python), {})


def envelope(data: object, exit_code: int = 0, errors: object = ()) -> str:
    text = json.dumps({"schema": 1, "command": "status", "exit_code": exit_code, "data": data, "errors": errors})
    return f"cat <<'END'\n{text}\nEND\nexit {exit_code}\n"


@pytest.mark.proves("app-pm-asked-cleanly")
def test_what_would_steer_pm_is_kept_from_it() -> None:
    kept = {"PATH": "/bin", "HOME": "/h", "LANG": "C", "PERDURE_PROFILE": "work", "HTTPS_PROXY": "http://p"}
    dropped = {
        "PYTHONPATH": "/x",
        "PYTHONHOME": "/x",
        "VIRTUAL_ENV": "/x",
        "VIRTUAL_ENV_PROMPT": "x",
        "UV_INDEX_URL": "x",
        "PIP_INDEX_URL": "x",
        "CONDA_PREFIX": "/x",
        "POETRY_ACTIVE": "1",
        "PIPENV_ACTIVE": "1",
        "PERDURE_HOME": "/elsewhere",
        "PERDURE_JSON": "0",
        "PERDURE_EVENTS": "1",
        "PERDURE_NO_LAZY": "0",
    }
    assert clean_environment({**kept, **dropped}, "/home") == {**kept, "PERDURE_HOME": "/home", "PERDURE_NO_LAZY": "1"}


@pytest.mark.proves("app-pm-asked-cleanly")
def test_pm_is_asked_for_its_status_and_its_line_is_shown(generation: Generation) -> None:
    seen = generation.home / "seen"
    generation.launcher(
        "perdure-pm",
        f'printf "%s " "$@" "$PERDURE_HOME" >{shlex.quote(str(seen))}\n' + envelope({"summary": "all is well", "n": 1}),
    )
    assert ask_pm(installed(generation), os.environ, 30) == PmAnswer(
        status="ok", line="all is well", data={"summary": "all is well", "n": 1}
    )
    assert seen.read_text() == f"status --json {generation.home} "


@pytest.mark.proves("app-pm-asked-cleanly", "app-doctor-always-answers")
@pytest.mark.parametrize(
    ("source", "status", "line"),
    [
        (envelope({"other": 1}), "ok", "answers"),
        (envelope(None), "ok", "answers"),
        (envelope(None, 8, [{"summary": "the pointer is corrupt"}]), "failed", "the pointer is corrupt (exit code 8)"),
        (envelope(None, 1, [3]), "failed", "no reason given (exit code 1)"),
        ("exit 70\n", "failed", "{launcher} status ended with exit code 70 and no JSON"),
        ("echo talk\n", "failed", "{launcher} status ended with exit code 0 and no JSON"),
        ("echo '[1]'\n", "failed", "{launcher} status ended with exit code 0 and no JSON"),
        ("printf '\\377'\n", "failed", "{launcher} status ended with exit code 0 and no JSON"),
        ("kill -9 $$\n", "failed", "{launcher} status ended with exit code -9 and no JSON"),
    ],
)
def test_whatever_pm_says_is_one_line(generation: Generation, source: str, status: str, line: str) -> None:
    launcher = generation.launcher("perdure-pm", source)
    answer = ask_pm(installed(generation), os.environ, 30)
    assert (answer.status, answer.line) == (status, line.format(launcher=launcher))


@pytest.mark.proves("app-pm-asked-cleanly", "app-doctor-always-answers")
def test_a_pm_that_is_missing_or_cannot_start_is_told(generation: Generation) -> None:
    launcher = generation.home / "bin" / "perdure-pm"
    assert ask_pm(installed(generation), os.environ, 30) == PmAnswer(status="absent", line=f"there is no {launcher}")
    generation.launcher("perdure-pm", "exit 0\n").write_text("#!/nowhere/sh\n")
    assert ask_pm(installed(generation), os.environ, 30) == PmAnswer(
        status="failed", line=f"{launcher} cannot be started: No such file or directory"
    )


@pytest.mark.proves("app-pm-asked-cleanly")
def test_a_pm_that_does_not_answer_is_ended_with_what_it_started(generation: Generation, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    # Both hold the pipe's writing end open for as long as they live.
    launcher = generation.launcher(
        "perdure-pm", f"exec 3>{shlex.quote(str(pipe))}\ntail -f /dev/null &\nexec tail -f /dev/null\n"
    )
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    answer = ask_pm(installed(generation), os.environ, 0.5)
    assert answer == PmAnswer(status="silent", line=f"{launcher} status did not answer within 0.5 s")
    os.set_blocking(reading, True)
    # The end of the file comes when the last writer is gone; a survivor would block this for ever.
    assert os.read(reading, 1) == b""
    os.close(reading)


@pytest.mark.proves("app-pm-handed-over")
def test_perdure_pm_becomes_pm_with_the_same_arguments_and_streams(generation: Generation) -> None:
    generation.launcher("perdure-pm", 'echo "$$"\nprintf "<%s>" "$@"\necho talk >&2\nexit 7\n')
    words = ["plugin", "--help", "--json", "", "a b", "-x", "--", "--version"]
    process = subprocess.Popen(
        [str(generation.python), "-I", "-m", "perdure", "pm", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    output, talk = process.communicate(timeout=60)
    assert (output, talk, process.returncode) == (
        f"{process.pid}\n" + "".join(f"<{word}>" for word in words),
        "talk\n",
        7,
    )


@pytest.mark.proves("app-pm-handed-over")
def test_json_asked_of_the_app_is_asked_of_pm(generation: Generation) -> None:
    generation.launcher("perdure-pm", 'echo "$PERDURE_JSON $*"\n')
    done = generation.run("--json", "pm", "status")
    assert (done.returncode, done.stdout, done.stderr) == (0, "1 status\n", "")


@pytest.mark.proves("app-pm-handed-over", "app-hints-run", "app-exit-codes")
def test_without_a_pm_the_error_says_how_to_get_one(generation: Generation) -> None:
    done = generation.run("pm", "status")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"error: there is no PM in {generation.home}: {generation.home}/bin/perdure-pm is missing\n"
        f"  try: python3 pm/bootstrap.py --home {shlex.quote(str(generation.home))} up   (in a checkout of Perdure)\n"
    )


@pytest.mark.proves("app-pm-handed-over", "app-outside-a-generation")
def test_outside_a_generation_pm_is_that_of_the_chosen_home(generation: Generation) -> None:
    generation.launcher("perdure-pm", "echo here\n")
    done = subprocess.run(
        [sys.executable, "-m", "perdure", "pm", "status"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "PERDURE_HOME": str(generation.home)},
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "here\n", "")


# A trial ends with the first healthy start.


@pytest.mark.proves("app-healthy-start-confirms", "app-pm-asked-cleanly")
def test_a_healthy_start_confirms_its_generation_after_its_answer(generation: Generation, greeter: str) -> None:
    generation.boot(generation.plugin("greeter", greeter))
    seen = generation.home / "seen"
    generation.launcher("perdure-pm", f'echo "$*" "$PERDURE_HOME" "$PERDURE_TRIAL" >>{shlex.quote(str(seen))}\n')
    for words in (["plugins"], ["tools"], ["run", "greeter.hello", "--arg", "name=you"]):
        done = generation.run(*words, environment={"PERDURE_TRIAL": IDENTITY, "PERDURE_HOME": "/elsewhere"})
        assert (done.returncode, done.stderr) == (0, "")
        assert seen.read_text() == f"confirm {IDENTITY} --json {generation.home} \n"
        seen.unlink()


@pytest.mark.proves("app-healthy-start-confirms")
@pytest.mark.parametrize(
    ("words", "trial", "exit_code"),
    [
        (["--version"], IDENTITY, 0),
        (["--help"], IDENTITY, 0),
        (["plugins"], "", 0),
        (["plugins"], "none", 0),
        (["plugins"], "2-0123456789ab", 0),
        (["run", "greeter.hello", "--arg", "name=nobody"], IDENTITY, 1),
        (["nonsense"], IDENTITY, 2),
    ],
)
def test_a_start_that_shows_nothing_or_fails_confirms_nothing(
    generation: Generation, greeter: str, words: list[str], trial: str, exit_code: int
) -> None:
    generation.boot(generation.plugin("greeter", greeter))
    seen = generation.home / "seen"
    generation.launcher("perdure-pm", f"touch {shlex.quote(str(seen))}\n")
    done = generation.run(*words, environment={"PERDURE_TRIAL": trial})
    assert (done.returncode, seen.exists()) == (exit_code, False)


@pytest.mark.proves("app-healthy-start-confirms")
def test_a_start_whose_plugin_failed_confirms_nothing(generation: Generation) -> None:
    generation.boot(generation.plugin("broken", "raise RuntimeError('no')\n"))
    seen = generation.home / "seen"
    generation.launcher("perdure-pm", f"touch {shlex.quote(str(seen))}\n")
    done = generation.run("plugins", environment={"PERDURE_TRIAL": IDENTITY})
    assert (done.returncode, seen.exists()) == (0, False)


@pytest.mark.proves("app-healthy-start-confirms")
@pytest.mark.parametrize("source", [None, "exit 70\n", "echo talk; echo talk >&2; kill -9 $$\n"])
def test_a_pm_that_cannot_confirm_changes_nothing_of_the_command(generation: Generation, source: str | None) -> None:
    expected = generation.run("tools")
    if source is not None:
        generation.launcher("perdure-pm", source)
    done = generation.run("tools", environment={"PERDURE_TRIAL": IDENTITY})
    assert (done.returncode, done.stdout, done.stderr) == (0, expected.stdout, "")


@pytest.mark.proves("app-healthy-start-confirms")
def test_a_pm_that_does_not_answer_is_not_waited_for_without_end(generation: Generation) -> None:
    launcher = generation.launcher("perdure-pm", "exec tail -f /dev/null\n")
    answer = confirm_trial(installed(generation), IDENTITY, os.environ, 0.5)
    assert answer == PmAnswer(status="silent", line=f"{launcher} confirm did not answer within 0.5 s")
