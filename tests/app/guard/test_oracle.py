"""The oracle: lines of the corpus really run in a disposable copy of their layout; what they harmed and what was said.

Only lines that stay in the copy whatever they do are run: none that names another place, changes user, or starts a
program that works elsewhere.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from perdure.domain.verdict import Ruling
from perdure.guard.corpus import WRAPPERS, Case
from perdure.guard.probe import Machine
from perdure.guard.roots import Root, environment_roots
from perdure.guard.service import Guard, Place
from tests.app.guard.test_corpus import CASES, named

pytestmark = pytest.mark.platforms("linux")

HOME = "/home/you"
ELSEWHERE = re.compile(
    r"/tmp|/backup|/usr/|sudo|ssh|docker|\bpip\b|\buv\b|\bgit\b|python -|node|brew|unshare|chroot|busybox"
)
RUN = [case for case in CASES if case.layout.name == "posix_uv" and not ELSEWHERE.search(case.command)]


def make_layout(home: Path) -> dict[str, str]:
    """Make the layout's files below `home` and return the paths that the guard has to know."""
    base = home / ".local" / "share" / "uv" / "python" / "cpython-3.12.7-linux-x86_64-gnu"
    venv = home / "app" / ".venv"
    for folder in (base / "bin", base / "lib" / "python3.12", venv / "bin", venv / "lib", home / "proj" / ".venv"):
        folder.mkdir(parents=True)
    (base / "bin" / "python3.12").write_text("an interpreter")
    (base / "lib" / "python3.12" / "os.py").write_text("a library")
    (venv / "pyvenv.cfg").write_text(f"home = {base}/bin\n")
    (venv / "bin" / "python").symlink_to(base / "bin" / "python3.12")
    for name in ("python3", "python3.12"):
        (venv / "bin" / name).symlink_to("python")
    package = venv / "lib" / "python3.12" / "site-packages" / "x"
    (package / "__pycache__").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "__pycache__" / "x.pyc").write_text("")
    (package.parent / "__pycache__").mkdir()
    (home / "app" / "build").mkdir()
    (home / "link").symlink_to(home / "app")
    return {"executable": f"{venv}/bin/python", "prefix": str(venv), "base": str(base)}


def seen(roots: tuple[Root, ...]) -> dict[str, str]:
    """Return what lies in the roots, byte code left out."""
    found: dict[str, str] = {}
    for root in roots:
        for folder, folders, names in os.walk(root.path):
            folders[:] = [name for name in folders if name != "__pycache__"]
            for name in (*names, *folders):
                path = Path(folder, name)
                if path.is_symlink():
                    found[str(path)] = f"-> {path.readlink()}"
                elif path.is_file() and path.suffix != ".pyc":
                    found[str(path)] = path.read_text()
        if os.path.islink(root.path):
            found[root.path] = os.readlink(root.path)
    return found


def test_enough_of_the_corpus_is_run() -> None:
    assert len(RUN) >= 40


@pytest.mark.proves("guard-own-feet", "guard-others-free", "guard-compare")
@pytest.mark.parametrize("case", RUN, ids=named)
def test_what_a_line_harms_was_refused_and_what_harms_nothing_was_not(case: Case, tmp_path: Path) -> None:
    harmed, ruling = run(case, case.command, tmp_path)
    if harmed:
        assert ruling is Ruling.REFUSE or (ruling is Ruling.ASK and case.expected is Ruling.ASK), case.command
    elif case.expected is Ruling.ALLOW:
        assert ruling is Ruling.ALLOW, case.command


@pytest.mark.slow
@pytest.mark.proves("guard-own-feet", "guard-wrappers")
@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_what_a_wrapped_line_harms_was_not_allowed(wrapper: str, tmp_path: Path, figure: Callable[[str], None]) -> None:
    missed, harms = [], 0
    for case in RUN:
        command = WRAPPERS[wrapper](case.command)
        harmed, ruling = run(case, command, tmp_path / case.identity)
        harms += harmed
        missed += [command] if harmed and ruling is Ruling.ALLOW else []
    figure(
        f"guard: {len(RUN)} lines wrapped in {wrapper} were run: {harms} did harm, {len(missed)} of them were allowed"
    )
    assert missed == []
    assert harms > len(RUN) // 4


def run(case: Case, text: str, root: Path) -> tuple[bool, Ruling]:
    """Run a line in a layout of its own; return whether it harmed a root, and what the floor says of it."""
    home = root / "you"
    paths = make_layout(home)
    probe = Machine()
    roots = environment_roots(paths["executable"], paths["prefix"], paths["base"], probe)
    cwd = case.cwd.replace(HOME, str(home)) if case.cwd.startswith(HOME) else str(root)
    command = text.replace("//home//you", f"/{home}").replace(HOME, str(home))
    command = command.replace("a=/home b=you", f"a={root} b=you")
    assert "/home" not in command.replace(str(home), "")
    environment = {"HOME": str(home), "PATH": "/usr/bin:/bin", "VIRTUAL_ENV": paths["prefix"]}
    # Nobody waits here, and the machine may be busy.
    verdict = Guard(lambda: roots, probe, homes=(str(home),), seconds=10).judge(
        command, shell="bash", place=Place(cwd=cwd, home=str(home), environment=environment, complete=True)
    )
    before = seen(roots)
    assert before
    subprocess.run(
        ["/bin/bash", "-c", command],
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=30,
    )
    return seen(roots) != before, verdict.floor_ruling
