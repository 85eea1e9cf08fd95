"""The entry point in this process: the catch-all, and what can be seen before parsing."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from perdure_pm.cli.entry import run_command_line, wants_json
from perdure_pm.cli.session import own_home
from perdure_pm.ops import status


@pytest.fixture(autouse=True)
def _at_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_HOME", str(home))

    def fall(*_arguments: object, **_more: object) -> None:
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr(status, "read_status", fall)


@pytest.mark.proves("cli-exit-codes")
def test_a_defect_is_an_internal_error_without_a_traceback(capfd: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["status"]) == 70
    assert capfd.readouterr() == (
        "",
        (
            "error: internal error: ZeroDivisionError: a defect\n"
            "  state: unchanged\n"
            "  try: run the same command with PERDURE_DEBUG=1 to see where\n"
        ),
    )


@pytest.mark.proves("cli-one-object")
def test_a_defect_is_one_object_too(capfd: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["status", "--json"]) == 70
    (error,) = json.loads(capfd.readouterr().out)["errors"]
    assert (error["code"], error["summary"]) == ("internal", "internal error: ZeroDivisionError: a defect")


def test_the_traceback_comes_on_demand(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_DEBUG", "1")
    assert run_command_line(["status"]) == 70
    assert "in fall" in capfd.readouterr().err


def test_the_callers_signal_handler_is_put_back(capfd: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(signal.SIGTERM)
    run_command_line(["status"])
    assert signal.getsignal(signal.SIGTERM) == before
    capfd.readouterr()


@pytest.mark.proves("cli-one-object")
@pytest.mark.parametrize(
    ("words", "variable", "expected"),
    [
        (["status", "--json"], "", True),
        (["--json", "status"], "", True),
        (["run", "--json", "--", "x"], "", True),
        (["run", "--", "x", "--json"], "", False),
        (["run", "x", "--json"], "", False),
        (["status"], "YES", True),
        (["status"], "0", False),
    ],
)
def test_json_is_seen_before_parsing(words: list[str], variable: str, expected: bool) -> None:
    assert wants_json(words, {"PERDURE_JSON": variable}) is expected


def test_a_runtime_knows_the_home_it_lies_in() -> None:
    assert own_home("/h o/me/pm/runtimes/0123456789ab/venv") == Path("/h o/me")
    assert own_home("/usr") is None
    assert own_home("/x/pm/other/y/venv") is None
