"""The contract of every command: one object, exit codes, options anywhere, streams, help that touches nothing."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from perdure_pm.cli.render import spell_program
from perdure_pm.model.errors import EXIT_CODES, error_classes
from perdure_pm.store.layout import Layout
from tests.pm.command_line import CommandLine
from tests.pm.sample_home import make_generation, select_generation

FIELDS = ["schema", "command", "status", "exit_code", "data", "errors"]
ERROR_FIELDS = ["code", "summary", "context", "hint", "retry", "state"]

ANSWERS = [
    (["--version"], "", "ok", 0),
    (["--help"], "", "ok", 0),
    (["status", "--help"], "status", "ok", 0),
    (["help", "config", "set"], "help", "ok", 0),
    (["version"], "version", "ok", 0),
    (["status"], "status", "ok", 0),
    (["path"], "path", "ok", 0),
    (["receipts"], "receipts", "ok", 0),
    (["config", "get"], "config get", "ok", 0),
    (["config", "get", "install.lazy"], "config get", "ok", 0),
    (["self", "status"], "self status", "ok", 0),
    (["python", "list"], "python list", "ok", 0),
    (["completions", "bash"], "completions", "ok", 0),
    (["uninstall"], "uninstall", "noop", 0),
]

FAILURES = [
    ([], "", "usage", 2),
    (["nope"], "", "usage", 2),
    (["--nope"], "", "usage", 2),
    (["status", "--nope"], "status", "usage", 2),
    (["status", "extra"], "status", "usage", 2),
    (["status", "--dry-run"], "status", "usage", 2),
    (["config"], "config", "usage", 2),
    (["config", "set", "install.lazy"], "config set", "usage", 2),
    (["config", "set", "install.lazy", "no"], "config set", "usage", 2),
    (["config", "set", "nope", "1"], "config set", "usage", 2),
    (["help", "nope"], "help", "usage", 2),
    (["receipts", "abc"], "receipts", "usage", 2),
    (["receipts", "--limit", "0"], "receipts", "usage", 2),
    (["completions", "csh"], "completions", "usage", 2),
    (["status", "--profile", "../x"], "status", "usage", 2),
    (["run"], "run", "usage", 2),
    (["run", "--", "true"], "run", "nothing-installed", 1),
    (["env"], "env", "nothing-installed", 1),
    (["install", "--checkout", "/nowhere"], "install", "usage", 2),
    (["python", "install"], "python install", "usage", 2),
    (["python", "list", "--dry-run"], "python list", "usage", 2),
]


@pytest.mark.proves("cli-one-object")
@pytest.mark.parametrize(("words", "command", "status", "exit_code"), ANSWERS)
def test_an_answer_is_one_object(pm: CommandLine, words: list[str], command: str, status: str, exit_code: int) -> None:
    ended = pm(*words, "--json") if words[0] not in {"--version", "--help"} else pm("--json", *words)
    assert ended.err == ""
    envelope = ended.envelope
    assert list(envelope) == FIELDS
    assert (envelope["command"], envelope["status"], envelope["exit_code"], ended.exit_code, envelope["errors"]) == (
        command,
        status,
        exit_code,
        exit_code,
        [],
    )
    assert not pm.home.exists()


@pytest.mark.proves("cli-one-object", "cli-exit-codes")
@pytest.mark.parametrize(("words", "command", "code", "exit_code"), FAILURES)
@pytest.mark.parametrize("by", ["flag", "variable"])
def test_a_failure_is_one_object_too(
    pm: CommandLine, words: list[str], command: str, code: str, exit_code: int, by: str
) -> None:
    ended = pm("--json", *words) if by == "flag" else pm(*words, variables={"PERDURE_JSON": "1"})
    assert ended.err == ""
    envelope = ended.envelope
    assert list(envelope) == FIELDS
    (error,) = envelope["errors"]
    assert list(error) == ERROR_FIELDS
    assert (envelope["command"], envelope["status"], envelope["exit_code"], ended.exit_code, error["code"]) == (
        command,
        "failed",
        exit_code,
        exit_code,
        code,
    )
    assert error["state"] == "unchanged"
    assert not pm.home.exists()


@pytest.mark.proves("cli-exit-codes")
def test_every_class_of_error_ends_with_a_code_of_the_table() -> None:
    assert {kind.exit_code for kind in error_classes().values()} <= set(EXIT_CODES)


def test_an_error_for_people_says_what_and_in_which_state_and_what_to_do(pm: CommandLine) -> None:
    ended = pm("stauts")
    assert (ended.exit_code, ended.out, ended.err) == (
        2,
        "",
        "error: No such command 'stauts'. Did you mean 'status'?\n  state: unchanged\n  try: perdure-pm --help\n",
    )


def test_every_fault_of_a_config_is_a_line(pm: CommandLine, layout: Layout) -> None:
    pm.home.mkdir()
    layout.config.write_text("schema: 2\ninstall: {lazy: no}\n", encoding="utf-8")
    ended = pm("config", "get")
    assert (ended.exit_code, ended.out, ended.err) == (
        2,
        "",
        (
            "error: config.yaml has 2 faults\n"
            "  config.yaml:1:9 schema: must be 1, is the number 2; another form needs another version of PM\n"
            "  config.yaml:2:17 install.lazy: must be true or false, is the text 'no'\n"
            "  state: unchanged\n"
            "  try: correct config.yaml in the home, then run the same command again\n"
        ),
    )


@pytest.mark.proves("cli-settings-one-table")
def test_a_shared_option_counts_before_and_after_the_verb_and_the_last_one_wins(
    pm: CommandLine, tmp_path: Path
) -> None:
    for words in (
        ["--profile", "a", "status"],
        ["status", "--profile", "a"],
        ["--profile", "b", "status", "--profile", "a"],
    ):
        assert pm("--json", *words).envelope["data"]["profile"] == "a"
    assert pm("config", "--profile", "a", "get", "--json").envelope["exit_code"] == 0
    variables = {"PERDURE_PROFILE": "v"}
    assert pm("status", "--json", variables=variables).envelope["data"]["profile"] == "v"
    assert pm("status", "--json", "--profile", "a", variables=variables).envelope["data"]["profile"] == "a"
    assert pm("status", "--json", "--home", str(tmp_path)).envelope["data"]["home"] == str(tmp_path)


@pytest.mark.proves("cli-settings-one-table")
def test_an_unclear_boolean_variable_is_refused_by_name(pm: CommandLine) -> None:
    ended = pm("status", variables={"PERDURE_YES": "maybe"})
    assert (ended.exit_code, ended.err) == (
        2,
        (
            "error: PERDURE_YES must be 1, true, yes or on, or 0, false, no or off; it is 'maybe'\n  state: unchanged\n"
            "  try: unset PERDURE_YES, or give it one of these words\n"
        ),
    )


@pytest.mark.parametrize("words", [["--version"], ["--help"], ["help"], ["install", "--help"], ["version"]])
def test_version_and_help_never_touch_the_home(pm: CommandLine, words: list[str]) -> None:
    pm.home.write_text("not a directory at all", encoding="utf-8")
    ended = pm(*words, variables={"PERDURE_PROFILE": "../x", "PERDURE_OFFLINE": "perhaps"})
    assert (ended.exit_code, ended.err) == (0, "")
    assert ended.out.startswith(("perdure-pm 0.1.0\n", "Usage: perdure-pm "))


def test_help_names_every_verb_with_a_whole_sentence(pm: CommandLine) -> None:
    commands = pm("--help").out.partition("Commands:\n")[2]
    assert commands == (
        "  collect      Remove the generations that nothing needs any more.\n"
        "  completions  Print the completion script of a shell.\n"
        "  config       Read or change config.yaml, or a profile's.\n"
        "  confirm      End the trial of the selected generation: it stays.\n"
        "  diff         Show how generations differ.\n"
        "  doctor       Show everything that is wrong, and what mends it.\n"
        "  env          Print lines that put the host's commands on a shell's PATH.\n"
        "  help         Show what a verb does and which options it takes.\n"
        "  history      Show what this profile ran, and which generations there are.\n"
        "  host         Say what this home hosts, or look at it.\n"
        "  install      Have the host and its plugins installed, and up to date.\n"
        "  label        Name a generation, which also keeps it.\n"
        "  path         Print the line that puts the launchers on PATH.\n"
        "  pin          Keep a generation whatever collect would do.\n"
        "  plan         Show what install would change.\n"
        "  plugin       Add, remove, switch and look at the plugins of a profile.\n"
        "  python       Add, remove and look at the Pythons that the home keeps.\n"
        "  receipts     List the outcomes of operations, or show one in full.\n"
        "  repair       Rebuild what is damaged from its own record.\n"
        "  rollback     Select an earlier generation again.\n"
        "  run          Run a command beside the host.\n"
        "  self         Look at PM's own runtime, update it, go back, or rebuild it.\n"
        "  stage        Make a sealed copy of this installation for another place.\n"
        "  status       Show what is installed and what happened last.\n"
        "  uninstall    Remove what PM made in the home, and nothing else.\n"
        "  upgrade      Take the newest host and plugins that fit.\n"
        "  verify       Read every byte of generations, by default of all.\n"
        "  version      Show the version of PM.\n"
        "  wheelhouse   Make a directory of wheels for a machine without a network.\n"
    )


def test_the_help_of_a_verb_explains_its_own_options_and_names_the_shared_ones(pm: CommandLine) -> None:
    assert pm("uninstall", "-h").out == (
        "Usage: perdure-pm uninstall [OPTIONS]\n"
        "\n"
        "  Remove what PM made in the home, and nothing else.\n"
        "\n"
        "Options:\n"
        "  --keep-state  Spare state/ and the configuration files.\n"
        "  --force       Also while processes run from the home.\n"
        "  -h, --help    Show this message and exit.\n"
        "\n"
        "Shared options (perdure-pm --help explains them):\n"
        "  --home  --profile  --json  --events  --yes  --no-wait  --dry-run  --no-lazy\n"
    )


@pytest.mark.proves("cli-streams-survive")
@pytest.mark.platforms("linux")
@pytest.mark.parametrize(
    ("suffix", "exit_code", "said"),
    [
        (">&-", 0, ""),
        ("2>&- <&-", 0, ""),
        ("| true", 0, ""),
        ("2>/dev/full", 0, ""),
        (">/dev/full", 1, "error: standard output cannot be written: No space left on device\n  state: unchanged\n"),
        (">/dev/full 2>/dev/full", 1, ""),
    ],
)
def test_a_stream_that_is_closed_full_or_gone_is_survived(
    pm: CommandLine, suffix: str, exit_code: int, said: str
) -> None:
    ended = pm("status", shell_suffix=suffix)
    assert (ended.exit_code, ended.err) == (exit_code, said)


@pytest.mark.proves("cli-true-hints")
def test_a_hint_spells_the_launcher_so_that_it_works_from_here(pm: CommandLine, layout: Layout) -> None:
    make_generation(layout)
    select_generation(layout)
    layout.bin.mkdir()
    launcher = layout.bin / "perdure-pm"
    launcher.write_text("#!/bin/sh\n", encoding="utf-8")
    launcher.chmod(0o755)
    assert pm("run", "nope").err.splitlines()[-1].startswith("  try: HOME/bin/perdure-pm env ")
    on_path = {"PATH": f"{layout.bin}:/usr/bin"}
    assert pm("run", "nope", variables=on_path).err.splitlines()[-1].startswith("  try: perdure-pm env ")


@pytest.mark.proves("cli-true-hints")
def test_a_hint_for_a_home_without_a_launcher_names_the_one_that_was_used(
    layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`A/bin/perdure-pm --home B status`, where B is empty."""
    used = tmp_path / "used home"
    (used / "bin").mkdir(parents=True)
    monkeypatch.setattr("sys.prefix", str(used / "pm" / "runtimes" / "0123456789ab" / "venv"))
    assert spell_program(layout, {}) == "perdure-pm"
    (used / "bin" / "perdure-pm").write_text("", encoding="ascii")
    assert shlex.split(spell_program(layout, {})) == [f"{used}/bin/perdure-pm", "--home", str(layout.home)]


def test_no_colour_and_no_escape_reaches_a_pipe(pm: CommandLine, layout: Layout) -> None:
    make_generation(layout)
    select_generation(layout)
    for words in (["status"], ["--help"], ["config", "get"], ["nope"]):
        ended = pm(*words, variables={"TERM": "xterm-256color", "COLORTERM": "truecolor"})
        assert not re.search("\x1b", ended.out + ended.err)


def test_events_turn_errors_into_json_lines_on_standard_error(pm: CommandLine) -> None:
    ended = pm("env", "--events")
    assert (ended.exit_code, ended.out) == (1, "")
    (line,) = ended.err.splitlines()
    assert (json.loads(line)["event"], json.loads(line)["code"]) == ("error", "nothing-installed")


@pytest.mark.proves("cli-one-object")
@pytest.mark.platforms("linux", "darwin")
@pytest.mark.parametrize(
    "words", [["plugin", "add", "./x"], ["--home", "x", "status"], ["install", "--wheelhouse", "x"], ["config", "get"]]
)
def test_a_path_that_counts_from_a_directory_that_is_gone_is_told(pm: CommandLine, words: list[str]) -> None:
    gone = pm.home.parent / "gone"
    for extra, stream in (["--json"], "stdout"), ([], "stderr"):
        gone.mkdir()
        script = 'cd "$0" && rmdir "$0" && exec "$@"'
        ended = subprocess.run(
            ["/bin/sh", "-c", script, str(gone), *pm.command(*words, *extra)],
            env=pm.environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        told = "the directory that this was called in is gone" in getattr(ended, stream)
        assert (ended.returncode, told) == ((0, False) if words[0] == "config" else (2, True)), ended
