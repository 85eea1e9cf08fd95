"""The readers of cmd.exe and PowerShell: from other shells, for any text, within the budget."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.effect import Act
from perdure.domain.verdict import Ruling
from perdure.guard.corpus import read_corpus
from perdure.guard.layout import LayoutProbe
from perdure.guard.reading import FAULT, read
from perdure.guard.service import Place
from perdure.guard.session import Session
from perdure.tools.environment import shell_words
from tests.app.guard.test_corpus import WINDOWS

CASES = read_corpus(WINDOWS.read_bytes(), WINDOWS.name)
LINES = [case.command for case in CASES]
LAYOUT = CASES[0].layout
GUARD = LAYOUT.guard()
SESSION = Session(directory=LAYOUT.home, home=LAYOUT.home, environment=LAYOUT.environment, probe=LAYOUT.probe)
PLACE = Place(cwd=LAYOUT.home, home=LAYOUT.home, environment=LAYOUT.environment)
VENV = "C:\\Users\\you\\AppData\\Local\\app\\venv"


@pytest.mark.proves("guard-other-shells")
@pytest.mark.parametrize(
    "line",
    [
        f"cmd.exe /c 'rd /s /q {VENV}'",
        f"cmd //c 'rd /s /q {VENV}'",
        f"powershell.exe -NoProfile -Command 'Remove-Item -Recurse {VENV}'",
        f"pwsh -c 'rm -r {VENV}'",
        "powershell -c 'rm -r $env:LOCALAPPDATA/app'",
        f"echo 'rm -r {VENV}' | powershell -",
        f"wsl.exe rm -rf {VENV.replace(chr(92), '/').replace('C:', '/mnt/c')}",
        f"robocopy 'C:\\empty' '{VENV}' //MIR",
    ],
)
def test_bash_on_windows_starts_nothing_that_would_be_refused_alone(line: str) -> None:
    assert GUARD.judge(line, shell="bash", place=PLACE).floor_ruling is Ruling.REFUSE


@pytest.mark.proves("guard-other-shells")
@pytest.mark.parametrize(
    ("line", "shell"),
    [
        ("Remove-Item -Recurse /home/you/x", "pwsh"),
        ("cd /home/you; rm -r x", "pwsh"),
        ("rm -r \\\\wsl$\\Debian\\home\\you\\x", "powershell"),
    ],
)
def test_a_machine_without_drives_has_its_paths_below_the_root(line: str, shell: str) -> None:
    probe = LayoutProbe(directories=frozenset({"/home/you"}))
    session = Session(directory="/work", home="/home/you", probe=probe)
    deletes = [effect for effect in read(line, shell, session).effects if effect.act is Act.DELETE]
    assert [effect.operand.known for effect in deletes] == ["/home/you/x"]


@pytest.mark.proves("guard-reading-total")
@given(st.data())
def test_no_text_is_too_odd_for_a_reader(data: st.DataObject) -> None:
    one, other = data.draw(st.sampled_from(LINES)), data.draw(st.sampled_from(LINES))
    odd = data.draw(st.text("%!^\"'&|()<>{}[]$@`;,.:\\/ \n#-=~*?", max_size=4))
    text = one[: data.draw(st.integers(0, len(one)))] + odd + other[data.draw(st.integers(0, len(other))) :]
    for shell in ("cmd", "powershell"):
        reading = read(text, shell, SESSION)
        assert not [place.reason for place in reading.not_analysable if FAULT in place.reason], (shell, text)


HOSTILE = [
    ("cmd", "("),
    ("cmd", '"'),
    ("cmd", "a&"),
    ("cmd", "echo a|"),
    ("cmd", "%a%"),
    ("cmd", "cmd /c "),
    ("cmd", "if a==a "),
    ("cmd", "a>b "),
    ("powershell", "("),
    ("powershell", "{"),
    ("powershell", '"$('),
    ("powershell", "a|"),
    ("powershell", "1,"),
    ("powershell", "$a="),
    ("powershell", "$a.b"),
    ("powershell", "`"),
]


@pytest.mark.proves("guard-reading-total")
@pytest.mark.parametrize(("shell", "part"), HOSTILE)
def test_a_hostile_text_is_answered_in_time(shell: str, part: str) -> None:
    text = part * (120_000 // len(part))
    read("echo a", shell, SESSION)  # what the first text loads is not the second one's
    started = time.process_time()
    reading = read(text, shell, SESSION)
    assert time.process_time() - started < 0.25  # the budget is 0.1 s by the clock, as for bash
    assert not [place.reason for place in reading.not_analysable if FAULT in place.reason]
    # Whatever it was, it was read, or is put to a person.
    assert reading.effects or reading.not_analysable


@pytest.mark.proves("guard-reading-total")
@pytest.mark.parametrize("shell", ["cmd", "powershell"])
def test_a_text_that_is_longer_than_is_read_is_not_analysable(shell: str) -> None:
    assert read("x" * 200_000, shell, SESSION).not_analysable


@pytest.mark.proves("exec-environment")
@pytest.mark.parametrize(
    ("shell", "words"),
    [
        ("sh", ["sh", "-c", "text"]),
        ("bash", ["bash", "--noprofile", "--norc", "-c", "text"]),
        ("cmd", ["cmd", "/d", "/s", "/c", "text"]),
        ("pwsh", ["pwsh", "-NoProfile", "-NonInteractive", "-Command", "text"]),
    ],
)
def test_a_shell_runs_the_text_and_no_start_file(shell: str, words: list[str]) -> None:
    assert shell_words(shell, "text") == words
