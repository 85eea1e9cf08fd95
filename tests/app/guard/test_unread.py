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


LIMITED = [
    (name, rule)
    for names, entry in RISKS["safe"]["with"].items()
    for name in names.split()
    for rule in (entry if isinstance(entry, list) else [entry])
]


def changing(name: str, rule: Mapping[str, Any]) -> Iterator[str]:
    """Yield lines that give a program one of the options with which it does something, also by its beginning."""
    words = (rule.get("words") or [""])[0].replace("*", "x")
    if "only" in rule:
        yield from (f"{name} {words} {option} x" for option in ("--unheard-of", "--unheard=of", "-%"))
    for pattern in rule.get("unless", ()):
        option = pattern.rstrip("*").rstrip("=")
        if any(sign in option for sign in "*?[") or len(option) < 2:
            continue
        yield f"{name} {words} {option} x"
        if option.startswith("--"):
            yield f"{name} {words} {option}=x"
            yield f"{name} {words} {option[:-1]}=x"
            yield f"{name} {words} {option[:4]} x"


@pytest.mark.proves("guard-safe-by-options")
@pytest.mark.parametrize(("name", "rule"), LIMITED)
def test_no_option_that_changes_something_is_allowed_by_its_beginning(name: str, rule: Mapping[str, Any]) -> None:
    harmless = {"--hostname-bin"}  # without a value it is none
    words = (rule.get("words") or [""])[0].replace("*", "x")
    lines = [*changing(name, rule), f"{name} {words} $(cat x)", f"{name} --unheard-of {words}" if words else ""]
    allowed = [line for line in lines if line and judged(line).ruling is Ruling.ALLOW]
    assert [line for line in allowed if not harmless & set(line.split()) and "language" not in rule] == []
