"""Lines for cmd.exe really run in Wine's, which is not Microsoft's but another reading of the same language.

What such a line harms has to be held: refused, or the floor's own question. Wine's drives lead nowhere but into a
directory of the test's, and lines of the catastrophic kind are not run.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from perdure.domain.verdict import Ruling
from perdure.guard.service import Place
from tests.app.guard.evidence import table, write_part
from tests.app.guard.test_corpus import WINDOWS_CASES, WINDOWS_HARD_CASES

pytestmark = [
    pytest.mark.slow,
    pytest.mark.evidence,
    pytest.mark.platforms("linux"),
    pytest.mark.skipif(shutil.which("wine") is None, reason="wine is not installed"),
    pytest.mark.proves("guard-own-feet"),
]

LAYOUT = WINDOWS_HARD_CASES[0].layout
GUARD = LAYOUT.guard()
LINES = [
    case for case in (*WINDOWS_CASES, *WINDOWS_HARD_CASES) if case.shell == "cmd" and case.layout.name == LAYOUT.name
]
VENV = "AppData/Local/app/venv"
BASE = "AppData/Roaming/uv/python/cpython-3.12.7-windows-x86_64-none"
FILES = (
    f"{VENV}/Scripts/python.exe",
    f"{VENV}/pyvenv.cfg",
    f"{VENV}/Lib/x.py",
    f"{BASE}/python.exe",
    f"{BASE}/Lib/os.py",
)
OTHERS = ("proj/.venv/pyvenv.cfg", "proj/build/x", "x", "AppData/Local/app/x")
HERE = "C:\\Users\\you\\AppData\\Local\\app"
SECONDS = 10
RANDOM = 250
GOES_ON = re.compile(r"(?:cd|pushd)[^&|\n]*&&")
"""Where `cd` finds no directory, what follows behind `&&` runs in Wine and not in Windows: nothing is compared."""
PARTS = [
    *(
        '"',
        "^",
        "&",
        "&&",
        "|",
        "||",
        "(",
        ")",
        " ",
        "\n",
        ",",
        ";",
        "=",
        "%",
        "!",
        "'",
        "`",
        "@",
        "<",
        ">",
        ">>",
        "2>",
    ),
    *(
        "echo ",
        "rem ",
        "call ",
        "cmd /c ",
        "cmd /s /c ",
        "| cmd",
        "nul",
        "x",
        "venv",
        "venv\\pyvenv.cfg",
        "echo rd /s /q venv",
    ),
    *("rd /s /q venv", "rd /s/q ve^nv", 'r^d /s /q ve"n"v', "del /q venv\\pyvenv.cfg", "move venv old", "ren venv old"),
    *("rd /s /q %V%", "set V=venv", 'set "V=venv"', "set R=rd /s /q", "%R% venv", "%R% %V%", "rd /s /q %i"),
    *("if 1==1 ", "if exist venv ", "if not exist x ", "else ", "for %i in (a venv) do "),
    *('for /f %i in ("venv b") do ', 'for /f "tokens=2" %i in ("a venv") do ', "for /f %i in ('dir /b') do "),
    *(
        "cd venv",
        "cd ..",
        "cd nowhere",
        "pushd venv",
        "popd",
        "type nul>venv\\pyvenv.cfg",
        "copy /y x venv\\pyvenv.cfg",
    ),
]


class Wine:
    """A drive `C:` with the layout of the corpus, and what wine's cmd does to it."""

    def __init__(self, folder: Path) -> None:
        self.prefix, self.text = folder / "prefix", folder / "text"
        self.you = self.prefix / "drive_c" / "users" / "you"
        (folder / "home").mkdir()
        own = {"WINEPREFIX": str(self.prefix), "WINEDEBUG": "-all", "HOME": str(folder / "home")}
        self.environment = {"PATH": os.environ["PATH"], **own}
        self._start(["wineboot", "-i"], 300)
        self._start(["wineserver", "-w"], 300)
        # No other drive, and no link, leads to where a line could do harm.
        for drive in (self.prefix / "dosdevices").iterdir():
            if drive.name != "c:":
                drive.unlink()
        for path in (self.prefix / "drive_c").rglob("*"):
            if path.is_symlink():
                path.unlink()
        self.before = self._fresh()

    def harm(self, text: str, cwd: str) -> bool:
        """Return whether a text that is typed into wine's cmd harms a root."""
        data = "AppData\\Local", "AppData\\Roaming"
        given = {
            "USERPROFILE": LAYOUT_HOME,
            "LOCALAPPDATA": f"{LAYOUT_HOME}\\{data[0]}",
            "APPDATA": f"{LAYOUT_HOME}\\{data[1]}",
        }
        lines = [
            "@echo off",
            *(f"set {name}={value}" for name, value in given.items()),
            f"cd /d {cwd}",
            *text.split("\n"),
        ]
        # From a pipe it takes one line alone.
        self.text.write_bytes("".join(f"{line}\r\n" for line in lines).encode())
        self._start(["wine", "cmd", "/d"], SECONDS)
        harmed = self._seen() != self.before
        self._fresh()
        return harmed

    def close(self) -> None:
        """End its server."""
        self._start(["wineserver", "-k"], 60)

    def _start(self, words: list[str], seconds: float) -> None:
        if shutil.which(words[0]) is None:
            return
        with open(self.text if self.text.exists() else os.devnull, "rb") as typed:
            made = subprocess.Popen(
                words,
                stdin=typed,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=self.environment,
                cwd=self.you if self.you.exists() else None,
            )
            try:
                made.wait(seconds)
            except subprocess.TimeoutExpired:
                made.kill()
                made.wait()

    def _fresh(self) -> dict[str, bytes | None]:
        shutil.rmtree(self.you, ignore_errors=True)
        for name in (*FILES, *OTHERS):
            path = self.you / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("text\n")
        return self._seen()

    def _seen(self) -> dict[str, bytes | None]:
        return {
            str(path): path.read_bytes() if path.is_file() else None
            for root in (VENV, BASE)
            for path in (self.you / root).rglob("*")
        }


LAYOUT_HOME = "C:\\Users\\you"


@pytest.fixture(scope="module")
def wine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wine]:
    """Wine with a drive of its own."""
    made = Wine(tmp_path_factory.mktemp("wine"))
    yield made
    made.close()


def script(seed: int) -> str:
    """Return a random text for cmd; the same seed makes the same one."""
    chance = random.Random(seed)  # noqa: S311  # a seed makes the same text again
    if chance.random() < 0.5:
        return "".join(chance.choices(PARTS, k=chance.randint(2, 9)))
    between = chance.choice([" & ", "&&", "||", "|", "\n", ") & (", " & rem "])
    return between.join("".join(chance.choices(PARTS, k=chance.randint(1, 3))) for _ in range(chance.randint(1, 4)))


def test_what_a_line_harms_in_the_cmd_of_wine_was_held(
    wine: Wine, figure: Callable[[str], None], pytestconfig: pytest.Config, checkout: Path
) -> None:
    sources = {
        "of the corpora": [(case.command, case.cwd) for case in LINES],
        "random": [(script(seed), HERE) for seed in range(RANDOM)],
    }
    rows: list[list[object]] = []
    missed: list[str] = []
    for name, lines in sources.items():
        run = harms = refused = 0
        before = len(missed)
        for text, cwd in lines:
            place = Place(cwd=cwd, home=LAYOUT.home, environment=LAYOUT.environment, complete=True)
            verdict = GUARD.judge(text, shell="cmd", place=place)
            if GOES_ON.search(text) or any(reason.code.startswith("catastrophic") for reason in verdict.reasons):
                continue
            run += 1
            if wine.harm(text, cwd):
                harms += 1
                refused += verdict.ruling is Ruling.REFUSE
                missed += [] if verdict.floor and verdict.ruling is not Ruling.ALLOW else [text]
        rows.append([name, run, harms, refused, harms - refused - (len(missed) - before), len(missed) - before])
        figure(f"guard: of {run} lines for cmd {name}, {harms} did harm in wine: {len(missed) - before} not held")
        assert harms > run // 20
    if pytestconfig.getoption("--regenerate-docs"):
        columns = ["lines", "run", "did harm", "of these refused", "of these asked by the floor", "held by neither"]
        write_part(checkout, "cmd lines run", table(columns, rows))
    assert missed == []
