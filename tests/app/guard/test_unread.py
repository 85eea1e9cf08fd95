"""What nobody has read is asked about: no program of the tables is allowed with code or options that are not known."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from importlib import resources
from typing import Any

import pytest

from perdure.domain.verdict import Ruling
from perdure.guard import verbs
from perdure.guard.programs import _SPECIAL
from tests.app.guard.test_verdicts import judged

RISKS = tomllib.loads(resources.files("perdure.guard").joinpath("risks.toml").read_text(encoding="utf-8"))
WHATEVER = {*RISKS["safe"]["programs"], *RISKS["described"]["programs"]}
"""Programs that change nothing whatever they are given, or all of whose deeds are effects of their own."""
NAMES = sorted({name for name in (*verbs.table(), *_SPECIAL) if not name.startswith("-m:")} - WHATEVER)


def within(verb: verbs.Verb, name: str) -> Iterator[tuple[str, verbs.Verb]]:
    yield name, verb
    for word, inner in verb.subcommands.items():
        yield from within(inner, f"{name} {word}")


@pytest.mark.proves("guard-unknown-asks")
@pytest.mark.parametrize("name", NAMES)
def test_a_program_with_code_that_is_not_known_is_asked_about(name: str) -> None:
    lines = [f'{name} "$(cat x)"', f'{name} "$(cat x)" y', f'cat x | {name} "$(cat y)"']
    if name in verbs.table():
        for command, verb in within(verbs.table()[name], name):
            codes = {*(verb.inner.options if verb.inner else ()), *(verb.wraps.code if verb.wraps else ())}
            lines += [f'{command} {option} "$(cat x)" y' for option in sorted(codes)]
            if verb.wraps is not None:
                # A command in front of which anything may stand is a command that nobody knows.
                lines.append(f"{command} {'x ' * min(verb.wraps.skip, 3)}./unheard-of y")
            if verb.inner is not None and verb.inner.stdin:
                lines.append(f"curl x | {command}")
    assert [line for line in lines if judged(line).ruling is Ruling.ALLOW] == []


def shortened(entry: Mapping[str, Any], name: str) -> Iterator[str]:
    """Yield lines that give a program one of the options with which it does something, also by its beginning."""
    words = (entry.get("words") or [""])[0]
    for pattern in entry.get("unless", ()):
        option = pattern.rstrip("*").rstrip("=")
        if any(sign in option for sign in "*?[") or len(option) < 2:
            continue
        yield f"{name} {words} {option} x"
        if option.startswith("--"):
            yield f"{name} {words} {option}=x"
            yield f"{name} {words} {option[:-1]}=x"
            yield f"{name} {words} {option[:4]} x"


@pytest.mark.proves("guard-safe-by-options")
@pytest.mark.parametrize("name", sorted(RISKS["safe"]["with"]))
def test_no_option_that_changes_something_is_allowed_by_its_beginning(name: str) -> None:
    lines = [*shortened(RISKS["safe"]["with"][name], name), f'{name} "$(cat x)"']
    harmless = {"--hostname-bin"}  # without a value it is none
    allowed = [line for line in lines if judged(line).ruling is Ruling.ALLOW and not harmless & set(line.split())]
    assert [line for line in allowed if "unless" in RISKS["safe"]["with"][name]] == []
