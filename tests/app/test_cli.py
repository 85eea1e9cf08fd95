"""The command line as a user meets it: whole output, exit codes, in a generation and outside one."""

import json
import os
import pty
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.app.command_line import PYTHON, envelope_of
from tests.app.conftest import IDENTITY, Generation

pytestmark = pytest.mark.platforms("linux", "darwin")

FILES = [*(f"files.{name}" for name in ("read", "list", "write", "patch", "move", "delete")), "code.run"]
"""The tools of the built-in plugin for files."""


def timeless(text: str) -> str:
    """Return the text with load times, which differ from run to run, replaced."""
    return re.sub(r"[ \d]{5}\.\d ms", "    N.N ms", text)


def outside(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "perdure", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, **environment},
    )


@pytest.mark.proves("app-start-is-lean", "app-json-envelope", "app-exit-codes")
def test_version_answers_in_every_form(generation: Generation) -> None:
    generation.boot_path.write_text("corrupt")
    for arguments in (["--version"], ["--version", "doctor"]):
        done = generation.run(*arguments)
        assert (done.returncode, done.stdout, done.stderr) == (0, "perdure 0.1.0\n", "")
    for arguments in (["--version", "--json"], ["--json", "--version"]):
        assert envelope_of(generation.run(*arguments)) == {
            "schema": 1,
            "command": "version",
            "status": "ok",
            "exit_code": 0,
            "data": {"version": "0.1.0"},
            "errors": [],
        }


@pytest.mark.proves("app-exit-codes", "app-json-envelope")
def test_no_command_shows_the_help_and_is_a_usage_error(generation: Generation) -> None:
    shown = generation.run("--help")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout.startswith("Usage: perdure [OPTIONS] [COMMAND] [ARGS]...\n")
    done = generation.run()
    assert (done.returncode, done.stdout, done.stderr) == (2, "", shown.stdout)
    (error,) = envelope_of(generation.run("--json"))["errors"]
    assert (error["code"], error["summary"]) == ("usage", "a command is missing")


@pytest.mark.proves("app-exit-codes", "app-json-envelope", "app-hints-run")
@pytest.mark.parametrize(
    ("arguments", "command", "summary", "words"),
    [
        (["nope"], "perdure", "No such command 'nope'.", ["--help"]),
        (["--nope"], "perdure", "No such option '--nope'.", ["--help"]),
        (["doctor", "--nope"], "doctor", "No such option '--nope'.", ["doctor", "--help"]),
        (["plugins", "extra"], "plugins", "Got unexpected extra argument (extra)", ["plugins", "--help"]),
        (["run"], "run", "Missing argument 'TOOL'.", ["run", "--help"]),
        (["run", "x.y", "--arg"], "run", "Option '--arg' requires an argument.", ["run", "--help"]),
    ],
)
def test_usage_errors_have_one_form_and_a_hint_that_works(
    generation: Generation, arguments: list[str], command: str, summary: str, words: list[str]
) -> None:
    done = generation.run(*arguments)
    hint = shlex.join([str(generation.python), "-m", "perdure", *words])
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"error: {summary}\n  try: {hint}\n")
    # Before and after the fault, and by the environment.
    for done in (
        generation.run("--json", *arguments),
        generation.run(*arguments, environment={"PERDURE_JSON": "1"}),
        *([generation.run(*arguments, "--json")] if arguments[-1] != "--arg" else []),
    ):
        assert done.stderr == ""
        assert envelope_of(done) == {
            "schema": 1,
            "command": command,
            "status": "failed",
            "exit_code": 2,
            "data": None,
            "errors": [{"code": "usage", "summary": summary, "context": {}, "hint": hint, "retry": "after-change"}],
        }
    assert subprocess.run(shlex.split(hint), capture_output=True, check=False, timeout=60).returncode == 0


@pytest.mark.proves("app-plugin-order")
def test_plugins_shows_what_is_loaded_in_order(generation: Generation, greeter: str) -> None:
    generation.boot(
        generation.plugin("zeta", greeter.replace("greeter.", "zeta.")), generation.plugin("greeter", greeter)
    )
    done = generation.run("plugins")
    assert (done.returncode, done.stderr) == (0, "")
    assert timeless(done.stdout) == (
        "plugin   version  from             load        tools\n"
        "runtime  0.1.0    built in             N.N ms  runtime.about\n"
        f"files    0.1.0    built in             N.N ms  {', '.join(FILES)}\n"
        "zeta     1.0      perdure-zeta         N.N ms  zeta.hello\n"
        "greeter  1.0      perdure-greeter      N.N ms  greeter.hello\n"
    )
    data = envelope_of(generation.run("plugins", "--json"))["data"]
    for plugin in data["plugins"]:
        assert plugin.pop("load_ms") > 0
    assert data == {
        "generation": IDENTITY,
        "safe_mode": False,
        "plugins": [
            {
                "name": "runtime",
                "distribution": "perdure",
                "version": "0.1.0",
                "entry": "perdure.builtin.runtime:plugin",
                "builtin": True,
                "loaded": True,
                "hooks": ["findings", "tools"],
                "tools": ["runtime.about"],
            },
            {
                "name": "files",
                "distribution": "perdure",
                "version": "0.1.0",
                "entry": "perdure.builtin.files:plugin",
                "builtin": True,
                "loaded": True,
                "hooks": ["tools"],
                "tools": FILES,
            },
            *(
                {
                    "name": name,
                    "distribution": f"perdure-{name}",
                    "version": "1.0",
                    "entry": f"{name}_plugin:plugin",
                    "builtin": False,
                    "loaded": True,
                    "hooks": ["tools"],
                    "tools": [f"{name}.hello"],
                }
                for name in ("zeta", "greeter")
            ),
        ],
        "external": [],
        "failures": [],
    }


@pytest.mark.proves("app-broken-plugin-isolated", "app-exit-codes")
def test_a_broken_plugin_is_shown_and_fails_only_a_check(generation: Generation, greeter: str) -> None:
    generation.boot(generation.plugin("dead", "raise SystemExit(9)"), generation.plugin("greeter", greeter))
    failure = f"plugin dead: import: SystemExit: 9 ({generation.site}/dead_plugin.py:1)"
    done = generation.run("plugins")
    assert (done.returncode, done.stderr) == (0, "")
    assert timeless(done.stdout) == (
        "plugin   version  from             load        tools\n"
        "runtime  0.1.0    built in             N.N ms  runtime.about\n"
        f"files    0.1.0    built in             N.N ms  {', '.join(FILES)}\n"
        "dead     1.0      perdure-dead     failed\n"
        "greeter  1.0      perdure-greeter      N.N ms  greeter.hello\n"
        "\n"
        "failures:\n"
        f"  {failure}\n"
    )
    checked = generation.run("plugins", "--check", "--json")
    assert checked.returncode == 3
    assert envelope_of(checked)["data"]["failures"] == [
        {
            "plugin": "dead",
            "stage": "import",
            "hook": None,
            "summary": "SystemExit: 9",
            "place": f"{generation.site}/dead_plugin.py:1",
            "hint": None,
        }
    ]
    ran = generation.run("run", "greeter.hello", "--arg", "name=you")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "hello you\n", f"warning: {failure}\n")


@pytest.mark.proves("app-plugin-order", "app-json-envelope")
def test_tools_lists_tools_with_their_arguments(generation: Generation, greeter: str) -> None:
    generation.boot(generation.plugin("greeter", greeter))
    done = generation.run("tools")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        "tool           arguments             summary\n"
        "runtime.about                        Tell which Perdure this is: version, interpreter, generation and home.\n"
        "files.read     path [first] [lines]  Show lines of a text file.\n"
        "files.list     [path]                List a directory.\n"
        "files.write    path text             Have a file hold exactly a text; missing directories are made.\n"
        "files.patch    changes               Replace texts in files: in all of them, or in none where one does not "
        "fit.\n"
        "files.move     source target         Call a file, link or directory something else; nothing is replaced.\n"
        "files.delete   path [below]          Delete a file, a link, or a directory; one that is not empty only with "
        "`below`.\n"
        "code.run       code [seconds]        Run Python in an interpreter of its own and show what it prints.\n"
        "greeter.hello  name [times]          Greet somebody.\n"
    )
    about, *_, hello = envelope_of(generation.run("--json", "tools"))["data"]["tools"]
    assert about["name"] == "runtime.about"
    assert hello == {
        "name": "greeter.hello",
        "plugin": "greeter",
        "summary": "Greet somebody.",
        "read_only": True,
        "parameters": {
            "type": "object",
            "properties": {"name": {"type": "string", "minLength": 2}, "times": {"type": "integer", "maximum": 3}},
            "required": ["name"],
            "additionalProperties": False,
        },
    }


@pytest.mark.proves("app-arguments-validated")
def test_arguments_longer_than_a_command_line_takes_come_by_standard_input(
    generation: Generation, greeter: str
) -> None:
    generation.boot(generation.plugin("greeter", greeter))
    command = [str(generation.python), "-I", "-m", "perdure", "run", "greeter.hello", "--json-args", "-"]
    for given, code, said in (
        (json.dumps({"name": "x" * 400_000}).encode(), 0, b"hello " + b"x" * 400_000 + b"\n"),
        (b"[1]", 2, b""),
        (b"", 2, b""),
        (b"\xff", 2, b""),
    ):
        done = subprocess.run(command, input=given, capture_output=True, check=False, timeout=60)
        assert (done.returncode, done.stdout) == (code, said), done.stderr
        assert b"Traceback" not in done.stderr


@pytest.mark.proves("app-arguments-validated", "app-json-envelope")
def test_run_prints_the_tools_result(generation: Generation, greeter: str) -> None:
    generation.boot(generation.plugin("greeter", greeter))
    for arguments in (["--arg", "name=5 o'clock"], ["--json-args", '{"name": "5 o\'clock"}']):
        done = generation.run("run", "greeter.hello", *arguments)
        assert (done.returncode, done.stdout, done.stderr) == (0, "hello 5 o'clock\n", "")
    done = generation.run("run", "greeter.hello", "--arg", "name=5 o'clock", "--json")
    assert envelope_of(done) == {
        "schema": 1,
        "command": "run",
        "status": "ok",
        "exit_code": 0,
        "data": {
            "tool": "greeter.hello",
            "plugin": "greeter",
            "text": "hello 5 o'clock",
            "data": {"greeted": "5 o'clock"},
        },
        "errors": [],
    }


@pytest.mark.proves("app-arguments-validated", "app-tool-defects-attributed", "app-exit-codes", "app-json-envelope")
def test_run_fails_with_the_reason_the_place_and_the_way_out(generation: Generation, greeter: str) -> None:
    generation.boot(generation.plugin("greeter", greeter + "\ngreet.__defaults__ = None\n"))
    tools = shlex.join([str(generation.python), "-m", "perdure", "tools"])
    cases: list[tuple[list[str], int, dict[str, object]]] = [
        (
            ["greeter.hello", "--json-args", '{"name": "x", "times": 9}'],
            2,
            {
                "code": "arguments-invalid",
                "summary": ("tool greeter.hello: name: 'x' is too short; times: 9 is greater than the maximum of 3"),
                "context": {
                    "tool": "greeter.hello",
                    "faults": ["name: 'x' is too short", "times: 9 is greater than the maximum of 3"],
                },
                "hint": None,
                "retry": "after-change",
            },
        ),
        (
            ["greeter.hello", "--arg", "name=nobody"],
            1,
            {
                "code": "tool-failed",
                "summary": "nobody is not there",
                "context": {"name": "nobody"},
                "hint": "greet somebody",
                "retry": "after-change",
            },
        ),
        (
            ["greeter.bye"],
            2,
            {
                "code": "tool-unknown",
                "summary": "no loaded plugin offers a tool 'greeter.bye'",
                "context": {"tool": "greeter.bye"},
                "hint": tools,
                "retry": "after-change",
            },
        ),
    ]
    for arguments, exit_code, error in cases:
        done = generation.run("run", *arguments, "--json")
        assert done.stderr == ""
        assert envelope_of(done) == {
            "schema": 1,
            "command": "run",
            "status": "failed",
            "exit_code": exit_code,
            "data": None,
            "errors": [error],
        }
        told = generation.run("run", *arguments)
        hint = "" if error["hint"] is None else f"  try: {error['hint']}\n"
        assert (told.returncode, told.stdout, told.stderr) == (exit_code, "", f"error: {error['summary']}\n{hint}")


NOISY = """
import atexit, os, subprocess, sys
print("import")
os.write(1, b"native import\\n")
atexit.register(print, "exit")
from perdure.api.hooks import hookimpl
from perdure.api.tools import Tool, ToolResult
plugin = sys.modules[__name__]
def run(call):
    print("tool")
    subprocess.run(["echo", "child"], check=True)
    return ToolResult(text="the \\x1b[31mresult\\x1b[0m é \\udc80")
@hookimpl
def tools():
    print("hook")
    return [Tool(name="noisy.tool", summary="Noise.", parameters={"type": "object"}, run=run)]
"""


@pytest.mark.proves("app-stdout-is-data")
def test_what_plugins_and_their_children_print_never_reaches_stdout(generation: Generation) -> None:
    generation.boot(generation.plugin("noisy", NOISY))
    done = generation.run("run", "noisy.tool", "--json", environment={"LC_ALL": "C", "PYTHONUTF8": "0"}, options=())
    assert sorted(done.stderr.splitlines()) == ["child", "exit", "hook", "import", "native import", "tool"]
    assert envelope_of(done)["data"]["text"] == "the \x1b[31mresult\x1b[0m é \udc80"
    # A file gets the text as the tool made it, as far as its encoding can say it.
    plain = generation.run("run", "noisy.tool", environment={"LC_ALL": "C.UTF-8", "PYTHONUTF8": "1"}, options=())
    assert plain.stdout == "the \x1b[31mresult\x1b[0m é \\udc80\n"


def on_a_terminal(generation: Generation, *arguments: str, **environment: str) -> str:
    """Return what a terminal would get as stdout."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [str(generation.python), "-m", "perdure", *arguments],
        stdout=theirs,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "TERM": "xterm", "LC_ALL": "C.UTF-8", **environment},
    )
    os.close(theirs)
    seen = b""
    while True:
        try:
            piece = os.read(ours, 4096)
        except OSError:  # Linux: the other end is closed
            break
        if not piece:
            break
        seen += piece
    os.close(ours)
    process.wait(60)
    return seen.decode().replace("\r\n", "\n")


@pytest.mark.proves("app-stdout-is-data")
def test_a_terminal_gets_colour_of_ours_and_no_control_characters_of_others(generation: Generation) -> None:
    generation.boot(generation.plugin("noisy", NOISY))
    assert on_a_terminal(generation, "run", "noisy.tool") == "the \\x1b[31mresult\\x1b[0m é \\udc80\n"
    generation.boot(generation.plugin("odd", "raise ValueError('\\x1b[2J')"))
    assert "\x1b[1;33mfound:\x1b[0m plugin odd: import: ValueError: \\x1b[2J" in on_a_terminal(generation, "doctor")
    for quiet in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert "\x1b" not in on_a_terminal(generation, "doctor", **quiet)
    assert "\x1b[1;33m" in on_a_terminal(generation, "doctor", NO_COLOR="")


@pytest.mark.proves("app-stdout-is-data", "app-exit-codes")
def test_a_reader_that_has_enough_is_no_defect(generation: Generation) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [str(generation.python), "-I", "-m", "perdure", "tools"],
        stdout=writing,
        stderr=subprocess.PIPE,
        check=False,
        timeout=60,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.proves("app-stdout-is-data", "app-exit-codes")
@pytest.mark.platforms("linux")
@pytest.mark.parametrize("more", [[], ["--json"]])
def test_data_that_a_full_disk_takes_not_is_a_failure_and_no_defect(generation: Generation, more: list[str]) -> None:
    command = shlex.join([str(generation.python), "-I", "-m", "perdure", "tools", *more])
    done = subprocess.run(
        ["/bin/sh", "-c", f"{command} >/dev/full"], capture_output=True, text=True, check=False, timeout=60
    )
    said = "error: standard output cannot be written: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, said)


@pytest.mark.proves("app-stdout-is-data")
@pytest.mark.parametrize("words", ["tools --json", "exec --json -- true"])
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_no_defect(generation: Generation, closed: str, words: str) -> None:
    """Otherwise the next file that is opened becomes stdout, and gets what belongs on stderr."""
    command = shlex.join([str(generation.python), "-I", "-m", "perdure", *words.split()])
    done = subprocess.run(
        ["/bin/sh", "-c", f"{command} {closed}"], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert bool(done.stdout) is (">&-" not in closed.replace("2>&-", ""))


@pytest.mark.proves("app-exit-codes", "app-json-envelope")
def test_an_interrupt_ends_with_its_own_code(generation: Generation) -> None:
    stopped = NOISY.replace('print("tool")', "import signal; os.kill(os.getpid(), signal.SIGINT)")
    generation.boot(generation.plugin("noisy", stopped))
    done = generation.run("run", "noisy.tool", "--json")
    assert done.returncode == 130
    assert envelope_of(done)["errors"] == [
        {"code": "interrupted", "summary": "interrupted", "context": {}, "hint": None, "retry": "later"}
    ]
    assert "Traceback" not in done.stderr
    assert generation.run("run", "noisy.tool").returncode == 130


@pytest.mark.proves("app-exit-codes", "app-json-envelope")
def test_a_defect_of_ours_is_an_internal_error_with_a_traceback_on_stderr(generation: Generation) -> None:
    # Our own code, damaged from outside: the app has no known defect to show.
    damage = "import perdure.cli.commands as c\nc.columns = None\nimport sys\nplugin = sys.modules[__name__]\n"
    generation.boot(generation.plugin("damage", damage))
    done = generation.run("tools", "--json")
    assert done.returncode == 70
    assert envelope_of(done)["errors"] == [
        {
            "code": "internal",
            "summary": "a defect in Perdure: TypeError: 'NoneType' object is not callable",
            "context": {},
            "hint": None,
            "retry": "never",
        }
    ]
    assert done.stderr.startswith("Traceback (most recent call last):\n")
    assert done.stderr.endswith("TypeError: 'NoneType' object is not callable\n")


@pytest.mark.proves("app-exit-codes", "app-json-envelope")
def test_a_module_that_cannot_be_imported_is_told_without_a_traceback_that_nobody_asked_for(
    generation: Generation,
) -> None:
    damage = "import perdure.cli.commands as c\ndef columns(*_): import perdure.gone\nc.columns = columns\n"
    generation.boot(generation.plugin("damage", damage + "import sys\nplugin = sys.modules[__name__]\n"))
    done = generation.run("tools", "--json")
    (error,) = envelope_of(done)["errors"]
    assert (done.returncode, done.stderr, error["code"]) == (1, "", "installation-damaged")
    assert "No module named 'perdure.gone'" in error["summary"]
    debugged = generation.run("tools", "--json", environment={"PERDURE_DEBUG": "1"})
    assert debugged.stderr.startswith("Traceback (most recent call last):\n")


@pytest.mark.proves("app-outside-a-generation", "app-doctor-always-answers")
def test_outside_a_generation_the_app_says_so_and_works(tmp_path: Path) -> None:
    home = str(tmp_path / "home")
    done = outside("doctor", PERDURE_HOME=home)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines(keepends=True)
    layers = [line for line in lines if line.startswith(("layers", "not on"))]  # a jail is there or not
    assert layers[0].startswith("layers      environment, floor")
    assert "".join(line for line in lines if line not in layers) == (
        "perdure     0.1.0\n"
        f"python      {PYTHON} ({sys.executable})\n"
        "generation  none: this process was not started from a generation\n"
        "home        none\n"
        "boot.json   none\n"
        "plugins     2 loaded (runtime, files), 0 failures\n"
        "findings    none\n"
        f"pm: there is no {home}/bin/perdure-pm\n"
    )
    done = outside("plugins", PERDURE_HOME=home)
    assert done.stderr == "This process was not started from a generation: only built-in plugins are loaded.\n"
    done = outside("run", "runtime.about", PERDURE_HOME=home)
    assert (done.returncode, done.stdout, done.stderr) == (
        0,
        f"version: 0.1.0\npython: {PYTHON}\nexecutable: {sys.executable}\ngeneration: none\nhome: none\n",
        "",
    )
    assert not (tmp_path / "home").exists()
