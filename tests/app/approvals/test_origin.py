"""Where a process comes from: what is not the kernel's word is not believed, and what cannot be seen is told."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from perdure.approvals.ancestry import namespace_here
from perdure.approvals.kernel_processes import FIRST_NAMESPACE
from perdure.approvals.running import elsewhere, going_on
from tests.app.command_line import envelope_of
from tests.app.conftest import Generation

pytestmark = pytest.mark.platforms("linux")

LOOK = """
import json, pathlib, sys
from perdure.approvals.ancestry import origin_of_process
found = origin_of_process({}, pathlib.Path(sys.argv[1]))
print(json.dumps([found.run, found.doubt]))
"""
MAY = ["unshare", "--map-root-user"] if os.geteuid() else ["unshare"]


def require_namespaces(*kinds: str) -> list[str]:
    """Return the words that make namespaces; the test is left out where this machine lets nobody make any."""
    words = [*MAY, *kinds]
    if shutil.which("unshare") is None:
        pytest.skip("there is no unshare")
    done = subprocess.run([*words, "true"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"no namespaces can be made here: {done.stderr.strip()}")
    return words


def seen(front: list[str], state: Path) -> tuple[str | None, str | None]:
    """Return the run and the doubt that a process behind some words finds."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PERDURE_")}
    done = subprocess.run(
        [*front, sys.executable, "-c", LOOK, str(state)], capture_output=True, text=True, check=True, env=environment
    )
    run, doubt = json.loads(done.stdout)
    return run, doubt


@pytest.mark.proves("approvals-not-from-inside")
@pytest.mark.parametrize(
    ("mounted", "doubt"),
    [
        ("true", None),
        ("mount -t tmpfs none /proc", "/proc is not what the kernel shows"),
        ("mount -t tmpfs none /proc/$$", "process"),
        ("mount --bind /proc/1 /proc/$$", "process"),
        ("mount --bind /proc/self/cmdline /proc/$$/cmdline", "process"),
        ("mount --bind /proc/self/environ /proc/$$/environ", "process"),
    ],
)
def test_what_is_mounted_over_the_kernels_files_is_not_believed(
    mounted: str, doubt: str | None, tmp_path: Path
) -> None:
    front = require_namespaces("--mount")
    # The shell stays above: it is the process that is hidden.
    _, told = seen([*front, "sh", "-c", f'{mounted} && "$@"; exit', "sh"], tmp_path)
    assert (told is None) == (doubt is None)
    assert told is None or told.startswith(str(doubt))


@pytest.mark.proves("approvals-not-from-inside")
def test_a_namespace_whose_processes_are_others_than_those_shown_is_in_doubt(tmp_path: Path) -> None:
    _, doubt = seen(require_namespaces("--pid", "--fork"), tmp_path)
    assert doubt == "/proc shows the processes of another place"


@pytest.mark.proves("approvals-not-from-inside")
def test_beside_a_run_another_namespace_is_in_doubt_and_the_same_one_is_not(tmp_path: Path) -> None:
    front, folder = require_namespaces("--pid", "--fork", "--mount-proc"), tmp_path / "default"
    here = namespace_here()
    assert here is not None
    assert seen(front, tmp_path) == (None, None)
    with going_on(folder, here), going_on(folder, here):
        assert seen(front, tmp_path)[1] == "a run goes on outside of the namespace of processes that this one is in"
        assert seen([], tmp_path)[1] is None
        assert not elsewhere(tmp_path, here)
    # Nothing is left of a run but an empty file, and whoever looks tidies it up.
    assert seen(front, tmp_path) == (None, None)
    assert list(folder.iterdir()) == []
    # The first namespace of all has none around it: whatever goes on elsewhere is inside.
    with going_on(folder, here + 1):
        assert (seen([], tmp_path)[1] is None) == (here == FIRST_NAMESPACE)


@pytest.mark.proves("approvals-not-from-inside")
def test_a_run_that_hides_where_it_comes_from_grants_itself_nothing(generation: Generation, tmp_path: Path) -> None:
    profile = generation.home / "profiles" / "default"
    profile.mkdir(parents=True)
    (profile / "app.yaml").write_text("approvals: {mode: off}\njail: off\n")
    front = require_namespaces("--pid", "--fork", "--mount-proc")
    # A program that nobody has read, and that mode `off` lets through.
    hidden = tmp_path / "hidden"
    command = [*front, "env", "-i", str(generation.python), "-I", "-m", "perdure", "--json"]
    hidden.write_text(f"import os, sys; os.execvp('unshare', {command!r} + sys.argv[1:])\n")
    for words in (["allow", "add", "frobnicate"], ["exec", "--yolo", "--", "frobnicate"]):
        done = generation.run("exec", "--json", "--", "python3", str(hidden), *words)
        inner = json.loads(envelope_of(done)["data"]["stdout"])
        assert (inner["exit_code"], inner["errors"][0]["code"]) == (10, "origin-unproven")
    assert (profile / "app.yaml").read_text() == "approvals: {mode: off}\njail: off\n"
