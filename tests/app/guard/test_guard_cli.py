"""`perdure guard …` as it is used: exit codes that are verdicts, what is shown, and that nothing is run."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.app.command_line import envelope_of
from tests.app.conftest import Generation

pytestmark = pytest.mark.platforms("linux", "darwin")


@pytest.mark.proves("guard-explain-runs-nothing", "app-exit-codes")
@pytest.mark.parametrize(
    ("line", "code", "first"),
    [
        ("ls -la", 0, "allow, risk low"),
        ("touch mark && frobnicate", 2, "ask, risk medium"),
        ('touch mark; rm -rf "$(cat list)"', 2, "ask (floor), risk high"),
        ("touch mark; rm -rf /", 3, "refuse (floor), risk high"),
    ],
)
def test_explain_answers_with_its_verdict_and_runs_nothing(
    generation: Generation, tmp_path: Path, line: str, code: int, first: str
) -> None:
    done = generation.run("guard", "explain", "--cwd", str(tmp_path), "--", line)
    assert (done.returncode, done.stderr) == (code, "")
    assert done.stdout.splitlines()[0] == first
    data = envelope_of(generation.run("guard", "explain", "--json", "--cwd", str(tmp_path), "--", line))["data"]
    assert {"command", "shell", "verdict", "readers"} == set(data)
    assert data["readers"][0]["effects"][0]["act"] == "run"
    assert not (tmp_path / "mark").exists()
    assert not (generation.home / "state").exists()


@pytest.mark.proves("guard-explain-runs-nothing")
def test_explain_shows_effects_readers_and_the_roots_that_are_met(generation: Generation, tmp_path: Path) -> None:
    venv = generation.venv
    done = generation.run("guard", "explain", "--cwd", str(venv.parent), "--", "rm -rf venv")
    assert done.returncode == 3
    assert done.stdout == (
        "refuse (floor), risk high\n"
        f"  own-feet: rm deletes {venv} (the environment of this process)\n"
        "  recursive-delete: rm deletes venv with everything below it\n"
        "\n"
        "reader fast: refuse (floor)\n"
        "  run     rm -rf venv       definite  by rm\n"
        "  delete  venv (and below)  definite  by rm\n"
        "\n"
        "reader shfmt: refuse (floor)\n"
        "  run     rm -rf venv       definite  by rm\n"
        "  delete  venv (and below)  definite  by rm\n"
        "\n"
        "roots met:\n" + "".join(sorted_meetings(generation))
    )


def sorted_meetings(generation: Generation) -> list[str]:
    venv, why = generation.venv, "this process"
    return [
        f"  {venv} is {venv}: the environment of {why}\n",
        f"  {venv} contains {venv}/pyvenv.cfg: what says which interpreter the environment of {why} was made from\n",
        f"  {venv} contains {venv}/bin/python: the interpreter of {why}\n",
        f"  {venv} lies in {generation.path}: the generation that this process runs from\n",
    ]


@pytest.mark.proves("app-exit-codes", "app-json-envelope")
def test_explain_without_a_command_is_a_usage_error_of_its_own_code(generation: Generation) -> None:
    done = generation.run("guard", "explain", "--json")
    (error,) = envelope_of(done)["errors"]
    assert (done.returncode, error["code"]) == (1, "verdict-usage")
    assert error["hint"].endswith("guard explain --help")
    assert generation.run("guard", "nope").returncode == 2


@pytest.mark.proves("app-exit-codes")
def test_a_current_directory_that_is_gone_is_a_usage_error(generation: Generation, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    for words, code in ((["exec", "--", "ls"], 2), (["guard", "explain", "--", "ls"], 1)):
        gone.mkdir()
        line = 'cd "$1"; rmdir "$1"; shift; exec "$@"'
        done = subprocess.run(
            ["sh", "-c", line, "sh", str(gone), str(generation.python), "-I", "-m", "perdure", *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert (done.returncode, done.stdout) == (code, "")
        assert done.stderr.endswith("error: the current directory is gone: name one with --cwd\n")


def test_words_get_their_quoting_back_and_one_word_is_a_text(generation: Generation) -> None:
    words = envelope_of(generation.run("guard", "explain", "--json", "--", "git", "commit", "-m", "x; rm -rf /"))[
        "data"
    ]
    assert words["command"] == "git commit -m 'x; rm -rf /'"
    assert words["verdict"]["floor"] is False
    text = envelope_of(generation.run("guard", "explain", "--json", "--", "git commit -m x; rm -rf /"))["data"]
    assert text["verdict"]["ruling"] == "refuse"


@pytest.mark.proves("guard-corpus", "app-exit-codes")
def test_a_mismatch_in_a_corpus_is_listed_and_ends_with_3(generation: Generation, tmp_path: Path) -> None:
    file = tmp_path / "corpus.yaml"
    file.write_text(
        "layouts:\n"
        "  one: {home: /h, executable: /v/bin/python, prefix: /v, base: /b}\n"
        "cases:\n"
        "- {id: right, command: rm -rf v, cwd: /, shell: bash, layout: one, expected: block}\n"
        "- {id: wrong, command: rm -rf x, cwd: /, shell: bash, layout: one, expected: block, why: for the test}\n"
    )
    done = generation.run("guard", "corpus", str(file))
    assert done.returncode == 3
    assert done.stdout == (
        "expected  floor and classification say  lines\n"
        "refuse    ask                           1\n"
        "refuse    refuse (floor)                1\n"
        "\n"
        "2 lines, 0 wrapped, 1 mismatches\n"
        "  wrong: expected refuse, got ask: 'rm -rf x' (for the test)\n"
    )
    file.write_text(file.read_text().replace("rm -rf x", "rm -rf /v"))
    done = generation.run("guard", "corpus", "--wrap", "--json", str(file))
    assert done.returncode == 0
    assert envelope_of(done)["data"]["mismatches"] == []
    file.write_text("cases: 1")
    (error,) = envelope_of(generation.run("guard", "corpus", "--json", str(file)))["errors"]
    assert error["code"] == "corpus-invalid"


@pytest.mark.proves("guard-others-free")
def test_a_scan_counts_and_lists_the_refusals(generation: Generation, tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_text("# a comment\nx\tls\n\nx\trm -rf /\nx\tfrobnicate\nx\tls -l\n")
    done = generation.run("guard", "scan", "--field", "2", "--cwd", str(tmp_path), str(file))
    assert done.returncode == 0
    assert done.stdout == (
        "verdict         lines  share\n"
        "allow           2      50.00%\n"
        "refuse (floor)  1      25.00%\n"
        "ask             1      25.00%\n"
        "4 lines\n"
        "\n"
        "asked about, by the first reason  lines  share\n"
        "ask: unknown-program              1      25.00%\n"
        "\n"
        "4: refuse (floor): rm -rf /\n"
        "    rm deletes everything: /\n"
    )


def test_roots_lists_each_with_its_reason(generation: Generation) -> None:
    listed = envelope_of(generation.run("guard", "roots", "--json"))["data"]["roots"]
    found = {root["path"]: root for root in listed}
    assert found[str(generation.venv)]["why"] == "the environment of this process"
    assert found[str(generation.home / "state")]["secret"] is True
    assert str(generation.home / "bin") in found
