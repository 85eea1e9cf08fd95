"""The corpus: every block refused, no false block, asks as labelled, and no wrapper weakens a verdict."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from perdure.domain.errors import CorpusInvalid
from perdure.domain.verdict import Ruling
from perdure.guard.corpus import CMD_WRAPPERS, POWERSHELL_WRAPPERS, WRAPPERS, Case, check, read_corpus
from perdure.guard.service import Place

CORPUS = Path(__file__).parent / "corpus" / "guard-corpus.yaml"
HARD = CORPUS.with_name("hard.yaml")
COMMANDS = CORPUS.with_name("commands.tsv")

CASES = [case for case in read_corpus(CORPUS.read_bytes(), CORPUS.name) if case.shell == "bash"]
HARD_CASES = read_corpus(HARD.read_bytes(), HARD.name)
WINDOWS = CORPUS.with_name("hard-windows.yaml")
WINDOWS_CASES = [case for case in read_corpus(CORPUS.read_bytes(), CORPUS.name) if case.shell != "bash"]
WINDOWS_HARD_CASES = read_corpus(WINDOWS.read_bytes(), WINDOWS.name)


def named(case: Case) -> str:
    return case.identity


@pytest.mark.proves("guard-corpus")
@pytest.mark.parametrize("case", [*CASES, *HARD_CASES, *WINDOWS_CASES, *WINDOWS_HARD_CASES], ids=named)
def test_a_line_of_the_corpus_comes_out_as_it_is_labelled(case: Case) -> None:
    (result,) = check([case], wrap=False)
    assert result.fits, (case.command, case.why, result.verdict)


@pytest.mark.proves("guard-wrappers")
def test_no_wrapper_weakens_a_verdict() -> None:
    results = list(check(CASES, wrap=True))
    assert len(results) == len(CASES) * (len(WRAPPERS) + 1)
    assert [(result.case.identity, result.wrapper) for result in results if not result.fits] == []


@pytest.mark.proves("guard-wrappers")
@pytest.mark.parametrize(("shell", "wrappers"), [("cmd", CMD_WRAPPERS), ("powershell", POWERSHELL_WRAPPERS)])
def test_no_wrapper_of_a_windows_shell_weakens_a_verdict(shell: str, wrappers: object) -> None:
    cases = [
        case
        for case in (*WINDOWS_CASES, *WINDOWS_HARD_CASES)
        if case.shell == shell and case.expected is not Ruling.ALLOW
    ]
    results = list(check(cases, wrap=True))
    assert len(results) == len(cases) * (len(CMD_WRAPPERS if wrappers is CMD_WRAPPERS else POWERSHELL_WRAPPERS) + 1)
    assert [(result.case.command, result.wrapper) for result in results if not result.fits] == []


@pytest.mark.proves("guard-explained")
def test_an_explanation_says_what_a_run_gets(tmp_path: Path) -> None:
    for case in CASES:
        guard = case.layout.guard()
        place = Place(cwd=case.cwd, home=case.layout.home, environment=case.layout.environment)
        explained = guard.explain(case.command, shell="bash", place=place)
        assert explained.verdict == guard.judge(case.command, shell="bash", place=place), case.identity
        assert explained.views[0].verdict == explained.verdict


@pytest.mark.proves("guard-others-free", "guard-catastrophic-true")
def test_of_real_example_commands_only_what_shuts_down_or_wipes_is_refused() -> None:
    layout = CASES[0].layout
    guard, place = layout.guard(), Place(cwd="/srv/work", home=layout.home, environment=layout.environment)
    lines = [line.split("\t")[2] for line in COMMANDS.read_text().splitlines() if not line.startswith("#")]
    verdicts = {line: guard.judge(line, shell="bash", place=place) for line in lines}
    refused = sorted(line for line, verdict in verdicts.items() if verdict.ruling is Ruling.REFUSE)
    assert refused == REFUSED
    asked = [line for line, verdict in verdicts.items() if verdict.ruling is Ruling.ASK and verdict.floor]
    assert len(asked) / len(verdicts) <= 0.01, asked


REFUSED = ["halt --reboot", "kexec -e", "reboot -f", "reboot -p", "systemctl reboot", "systemctl soft-reboot -f"]


@pytest.mark.proves("guard-corpus")
def test_a_corpus_may_be_compressed_and_one_that_is_none_is_refused_with_every_fault() -> None:
    cases = read_corpus(gzip.compress(CORPUS.read_bytes()), "x")
    assert {case.identity for case in cases} == {case.identity for case in (*CASES, *WINDOWS_CASES)}
    broken = b"""
layouts:
  one: {home: /h, executable: /v/bin/python, prefix: /v}
cases:
- {id: a, command: rm x, cwd: /, shell: bash, layout: two, expected: maybe}
- {id: a, cwd: /}
"""
    with pytest.raises(CorpusInvalid) as caught:
        read_corpus(broken, "x")
    assert caught.value.context["faults"] == [
        "layouts.one.base must be text that is not empty",
        "case a: there is no layout two",
        "case a: expected is maybe, not block, ask or allow",
        "case a: command must be text that is not empty",
        "case a: shell must be text that is not empty",
        "case a: layout must be text that is not empty",
        "case a: expected must be text that is not empty",
    ]
    for data in (b"a: [", b"\xff", b"- 1"):
        with pytest.raises(CorpusInvalid):
            read_corpus(data, "x")
