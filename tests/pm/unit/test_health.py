"""Which command shows that a host works, and which of its commands is asked."""

from __future__ import annotations

from perdure_pm.ops.health import DEFAULT, KNOWN, choose_checks, choose_main


def test_the_configured_arguments_stand_for_every_other_check() -> None:
    (check,) = choose_checks("pytest", "--co 'a b'")
    assert check.arguments == ("--co", "a b")
    assert check.accepted == (0,)


def test_a_known_host_has_its_own_check_and_any_other_is_asked_what_nearly_all_answer() -> None:
    assert choose_checks("datasette", None) == (KNOWN["datasette"],)
    assert choose_checks("something", None) == DEFAULT
    assert [check.arguments for check in DEFAULT] == [("--version",), ("--help",)]


def test_the_command_that_is_started_is_the_first_configured_the_namesake_or_the_first() -> None:
    assert choose_main(["a", "b"], "b", []) == "b"
    assert choose_main(["a", "b"], "c", []) == "a"
    assert choose_main(["b", "a"], "a", ["b", "a"]) == "b"
