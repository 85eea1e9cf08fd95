"""The oracle: lines of the corpus really run in a disposable copy of their layout; what they harmed and what was said.

Only lines that stay in the copy whatever they do are run: none that names another place, changes user, or starts a
program that works elsewhere.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from perdure.domain.verdict import Ruling
from perdure.guard.corpus import Case
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
    home = tmp_path / "you"
    paths = make_layout(home)
    probe = Machine()
    roots = environment_roots(paths["executable"], paths["prefix"], paths["base"], probe)
    cwd = case.cwd.replace(HOME, str(home)) if case.cwd.startswith(HOME) else str(tmp_path)
    command = case.command.replace("//home//you", f"/{home}").replace(HOME, str(home))
    command = command.replace("a=/home b=you", f"a={tmp_path} b=you")
    assert "/home" not in command.replace(str(home), "")
    environment = {"HOME": str(home), "PATH": "/usr/bin:/bin", "VIRTUAL_ENV": paths["prefix"]}
    verdict = Guard(lambda: roots, probe, homes=(str(home),)).judge(
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
    harmed = seen(roots) != before
    if harmed:
        assert verdict.floor_ruling is not Ruling.ALLOW, (command, verdict)
        assert verdict.floor_ruling is Ruling.REFUSE or case.expected is Ruling.ASK, (command, verdict)
    elif case.expected is Ruling.ALLOW:
        assert verdict.floor_ruling is Ruling.ALLOW, (command, verdict)
