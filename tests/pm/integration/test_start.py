"""Starts that cannot work: one clear line each, with a command that helps, and nothing else of the home is drawn in."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from perdure_pm.adapters.interpreter import running_interpreter
from perdure_pm.launcher import start as start_file
from perdure_pm.store.generations import Generation, load_current
from perdure_pm.store.layout import Layout
from tests.pm.bench import Bench

pytestmark = pytest.mark.platforms("linux")


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """An interpreter that can be broken: a copy of the one that runs the tests, with links to its standard library."""
    python, library = running_interpreter().path, Path(os.__file__).parent
    folder = tmp_path / "base"
    (folder / "bin").mkdir(parents=True)
    shutil.copy2(python, folder / "bin" / python.name)
    (folder / "lib" / library.name).mkdir(parents=True)
    for entry in library.iterdir():
        (folder / "lib" / library.name / entry.name).symlink_to(entry)
    copy = folder / "bin" / python.name
    if subprocess.run([copy, "-I", "-c", "import json"], check=False, capture_output=True).returncode != 0:
        pytest.skip("this interpreter cannot be copied")
    return copy


@pytest.fixture
def on_base(bench: Bench, base: Path) -> Generation:
    """What the default profile runs, on that interpreter; the profile `other` runs on the usual one."""
    bench.call("install", bench.context(profile="other"))
    bench.call("install", replace(bench.context(), python=str(base)))
    generation = bench.current
    assert generation.record["interpreter"]["path"] == str(base)
    assert bench.start().returncode == 0
    return generation


def writable(folder: Path) -> Path:
    for path in (folder, *folder.parents[:3]):
        path.chmod(0o755)
    return folder


def require_told_and_mended(bench: Bench, generation: Generation, why: str) -> None:
    """Fail unless one line says why, the command in it helps, and another profile never noticed."""
    ended = bench.start("--version")
    pm = bench.layout.bin / "perdure-pm"
    first, *ways = ended.stderr.splitlines()
    assert (ended.returncode, ended.stdout) == (1, ""), ended
    assert first.startswith(f"error: generation {generation.identity} cannot start: {why}"), first
    assert ways[0] == f'  try: "{pm}" install'
    assert "Traceback" not in ended.stderr
    assert bench.start(variables={"PERDURE_PROFILE": "other"}).returncode == 0
    assert bench.pm("install").exit_code == 0
    assert bench.start().returncode == 0
    assert bench.current.identity != generation.identity


@pytest.mark.proves("start-says-why")
def test_a_base_interpreter_that_is_gone(bench: Bench, on_base: Generation, base: Path) -> None:
    shutil.rmtree(base.parent.parent)
    require_told_and_mended(bench, on_base, "its interpreter is gone")


@pytest.mark.proves("start-says-why")
def test_a_base_interpreter_without_its_standard_library(bench: Bench, on_base: Generation, base: Path) -> None:
    shutil.rmtree(base.parent.parent / "lib")
    require_told_and_mended(bench, on_base, "the standard library of its interpreter is gone (")


@pytest.mark.proves("start-says-why")
def test_a_base_interpreter_that_became_another_minor_version(bench: Bench, on_base: Generation) -> None:
    """Case 50: what such a one looks for is in a folder of another name."""
    library = writable(next((on_base.environment / "lib").glob("python3.*")))
    library.rename(library.with_name("python3.2"))
    require_told_and_mended(bench, on_base, "it was built for Python 3.")


@pytest.mark.proves("start-says-why")
def test_a_part_of_the_standard_library_that_is_gone(bench: Bench, on_base: Generation, base: Path) -> None:
    for path in (base.parent.parent / "lib").glob("*/json"):
        path.unlink()
    require_told_and_mended(
        bench, on_base, "ModuleNotFoundError: No module named 'json'   (PERDURE_DEBUG=1 shows where)"
    )


@pytest.mark.proves("start-says-why")
@pytest.mark.parametrize("text", ["", "def broken(:\n"])
def test_a_damaged_module_is_one_line_and_a_traceback_only_on_demand(bench: Bench, text: str) -> None:
    bench.call("install", bench.context(profile="other"))
    bench.add("gadget")
    generation = bench.current
    (module,) = (generation.environment / "lib").glob("python*/site-packages/fakehost/__init__.py")
    writable(module.parent)
    module.unlink()  # its inode is the cache's too
    module.write_text(text)
    debugged = bench.start(variables={"PERDURE_DEBUG": "1"})
    assert "Traceback (most recent call last)" in debugged.stderr
    require_told_and_mended(bench, generation, "SyntaxError in " if text else "ImportError: ")


@pytest.mark.proves("start-says-why")
def test_damage_of_the_same_size_is_mended_by_the_second_command(bench: Bench) -> None:
    generation = bench.current
    (module,) = (generation.environment / "lib").glob("python*/site-packages/fakehost/__init__.py")
    writable(module.parent)
    text = module.read_text()
    module.unlink()
    module.write_text("(" + text[1:])
    shutil.rmtree(module.parent / "__pycache__")
    ways = bench.start().stderr.splitlines()[1:]
    pm = bench.layout.bin / "perdure-pm"
    assert ways == [f'  try: "{pm}" install', f'  where that finds nothing to do: "{pm}" repair']
    assert bench.pm("install").exit_code == 0
    assert bench.start().returncode == 0 or bench.pm("repair").exit_code == 0
    assert bench.start().returncode == 0


@pytest.mark.proves("start-says-why")
def test_a_script_runs_as_it_would_by_itself(tmp_path: Path) -> None:
    script = tmp_path / "command"
    script.write_text(
        "'''words'''\nimport sys, multiprocessing\n"
        "def seen(): return [__name__, __file__, __doc__, sys.argv, sys.path[:1]]\n"
        "if __name__ == '__main__':\n    print(seen())\n    raise SystemExit(7)\n"
    )
    file = Path(str(start_file.__file__))
    alone, started = (
        subprocess.run([sys.executable, "-I", *words, script, "a b", ""], capture_output=True, text=True, check=False)
        for words in ([], [file])
    )
    assert (alone.returncode, started.returncode) == (7, 7)
    assert started.stdout == alone.stdout
    script.write_text("import json\nraise ValueError('of the command itself')\n")
    failed = subprocess.run([sys.executable, "-I", file, script], capture_output=True, text=True, check=False)
    assert failed.stderr.endswith("ValueError: of the command itself\n")
    assert failed.stderr.startswith("Traceback")


# PM's own launcher


def seed_speaks(layout: Layout) -> None:
    (bootstrap,) = layout.seeds.glob("*/pm/bootstrap.py")
    bootstrap.write_text("import os, sys\nprint(sys.argv[1:], os.environ.get('PERDURE_RUNTIME_SKIPPED'))\n")


@pytest.mark.proves("launcher-rescues")
@pytest.mark.parametrize("lost", ["all of it", "json"])
def test_pm_on_an_interpreter_without_its_standard_library_is_left_to_the_seed(
    bench: Bench, base: Path, lost: str
) -> None:
    layout = bench.layout
    (runtime,) = layout.runtimes.iterdir()
    library = next((base.parent.parent / "lib").iterdir())
    (runtime / "venv").unlink()
    (runtime / "venv" / "bin").mkdir(parents=True)
    (runtime / "venv" / "pyvenv.cfg").write_text(f"home = {base.parent}\n")
    (runtime / "venv" / "bin" / "python").symlink_to(base)
    (runtime / "library").write_text(f"{library}\n")
    seed_speaks(layout)
    if lost == "json":
        (library / "json").unlink()
    else:
        shutil.rmtree(library)
    ended = bench.pm("status", "a b")
    assert (ended.exit_code, ended.err) == (0, "")
    assert ended.out == "['--home', 'HOME', 'rescue', 'status', 'a b'] None\n"


def test_a_runtime_and_a_generation_name_the_standard_library(bench: Bench) -> None:
    text = (load_current(bench.layout, "default").path / "library").read_text().rstrip("\n")
    assert Path(text) == Path(os.__file__).parent


@pytest.mark.proves("start-without-network")
def test_a_hosts_start_and_a_look_at_its_home_make_no_network_call(bench: Bench, tmp_path: Path) -> None:
    """Case 107, for any host: with plugins, through its launcher, and for what only looks."""
    bench.add("gadget")
    trace = tmp_path / "trace"
    tracer = ("strace", "-f", "-qq", "-e", "trace=network", "-e", "signal=none", "-o", str(trace))
    tried = shutil.which("strace") and subprocess.run([*tracer, "true"], capture_output=True, check=False).returncode
    if tried != 0:
        pytest.skip("strace is not installed, or nothing may be traced here")
    assert replace(bench, prefix=tracer).start().returncode == 0
    assert trace.read_text() == ""
    for words in (["status"], ["plugin", "list"], ["doctor", "--deep"]):
        command = [*tracer, *bench.command_line.command(*words)]
        looked = subprocess.run(command, env=bench.command_line.environment, capture_output=True, check=False)
        assert looked.returncode in {0, 3}, looked
        assert trace.read_text() == "", words
