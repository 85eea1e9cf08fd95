"""The words of bootstrap's own command line."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator

import pytest

from perdure_pm import bootstrap_options, bootstrapping


@pytest.fixture(autouse=True)
def _own_signals() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize(
    ("arguments", "own", "rest"),
    [
        (["up"], ["up"], []),
        (["--home", "x", "up", "--json"], ["--home", "x", "up", "--json"], []),
        (["--home", "x", "pm", "--help"], ["--home", "x", "pm"], ["--help"]),
        (["--home", "rescue", "rescue", "run", "--", "-x"], ["--home", "rescue", "rescue"], ["run", "--", "-x"]),
        (["--home=x", "--json", "pm", "pm"], ["--home=x", "--json", "pm"], ["pm"]),
        (["--version"], ["--version"], []),
        ([], [], []),
        (["test", "--only", "pm", "--", "-k", "x"], ["test", "--only", "pm", "--", "-k", "x"], []),
    ],
)
def test_what_follows_pm_or_rescue_is_pms_own(arguments: list[str], own: list[str], rest: list[str]) -> None:
    assert bootstrap_options.split_words(arguments) == (own, rest)


@pytest.mark.parametrize(
    ("arguments", "verb"),
    [
        (["--home", "up", "upp", "--json"], "upp"),
        (["--json", "--home", "x"], ""),
        (["up", "--nonsense", "--json"], "up"),
    ],
)
def test_the_envelope_of_a_usage_fault_names_the_verb(
    arguments: list[str], verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bootstrapping.main(arguments) == 2
    answer = json.loads(capsys.readouterr().out)
    assert (answer["command"], answer["status"], answer["exit_code"]) == (verb, "failed", 2)
    assert answer["errors"][0]["code"] == "usage"


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        (["pm/bootstrap.py", "up", "--nonsense"], "python3 pm/bootstrap.py --help"),
        (["/a clone/pm/bootstrap.py", "upp"], "python3 '/a clone/pm/bootstrap.py' --help"),
        (["/x/bootstrap.py", "activate", "/a payload", "--nonsense"], "'/a payload'/activate --help"),
    ],
)
def test_the_hint_of_a_usage_fault_is_a_command_that_works_from_where_it_was_typed(
    typed: list[str], hint: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", typed)
    assert bootstrapping.main(["--json", *typed[1:]]) == 2
    assert json.loads(capsys.readouterr().out)["errors"][0]["hint"] == hint


@pytest.mark.parametrize(
    ("rest", "home", "offline"),
    [
        (["--home", "x", "status"], "x", None),
        (["plugin", "add", "--nonsense", "y", "--offline", "--home=x"], "x", True),
        (["run", "tool", "--home", "x"], None, None),
        (["--home", "y", "run", "tool", "--home", "x"], "y", None),
        (["run", "--home", "y", "--", "--home", "x", "--offline"], "y", None),
        (["status", "--home"], None, None),
        (["install", "--python", "z", "--hom", "x"], None, None),
    ],
)
def test_settings_among_pms_words_count_for_the_runtime_that_reads_them(
    rest: list[str], home: str | None, offline: bool | None
) -> None:
    """Else `pm --home X status` built a runtime in the default home, and left it there."""
    options = bootstrap_options.make_parser().parse_args(["pm"])
    bootstrap_options.heed(rest, options)
    found = [getattr(options, f"setting_{name}", None) for name in ("home", "offline", "python")]
    assert found == [home, offline, None]


def test_a_setting_before_pm_gives_way_to_the_same_one_after_it() -> None:
    options = bootstrap_options.make_parser().parse_args(["--home", "before", "--json", "pm"])
    bootstrap_options.heed(["--home", "after", "status"], options)
    assert (options.setting_home, options.setting_json) == ("after", True)
