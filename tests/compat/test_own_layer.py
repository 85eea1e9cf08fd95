"""The layer of our own plugin API: it is linted in CI, every entry answers, and one command takes it away."""

import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from perdure_compat.manifest import has_reached, load_manifest

ROOT = Path(__file__).parent.parent.parent
MANIFEST = ROOT / "compat" / "manifest.toml"
PLACES = ("app", "compat", "plugins/facts")


def run(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run Python on the sources in a folder, whichever of them this environment sees."""
    program = f"import sys, runpy; sys.path[:0] = {[str(folder / place) for place in PLACES]}; "
    if arguments[0] == "-m":
        program += f"sys.argv = {list(arguments[1:])!r}; runpy.run_module({arguments[1]!r}, run_name='__main__')"
    else:
        program += arguments[0]
    return subprocess.run(
        [sys.executable, "-Wdefault", "-c", program],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Return a copy of what the layer is in and of what is linted for it."""
    for name in ("app", "compat", "docs", "plugins", "pm", "tests"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", ".*_cache"))
    for name in ("README.md", "pyproject.toml", "ARCHITECTURE.md", "CHANGELOG.md"):
        shutil.copyfile(ROOT / name, tmp_path / name)
    return tmp_path


@pytest.mark.proves("compat-own-lint")
def test_ci_lints_the_trees_use_of_moved_names() -> None:
    lint = runpy.run_path(str(ROOT / ".ci" / "lint.py"))
    checks = lint["checks"](Path("app-python"), Path("pm-python"), Path("uv"), fix=False)
    commands = {check.name: check.command for check in checks}
    assert commands["moved names"] == ["app-python", "-m", "perdure_compat", "lint", "--resolve"]
    assert re.search(r"^step \"lint\" python3 pm/bootstrap.py lint$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)


@pytest.mark.proves("compat-own-lint")
def test_the_lint_finds_a_use_in_a_copy_of_the_tree_and_nothing_in_the_tree(copy: Path) -> None:
    done = run(copy, "-m", "perdure_compat", "lint", "--resolve")
    assert (done.returncode, done.stdout) == (0, "")
    use = copy / "plugins" / "facts" / "perdure_facts" / "more.py"
    use.write_text("from perdure.api import Tool\n")
    done = run(copy, "-m", "perdure_compat", "lint")
    assert (done.returncode, done.stdout) == (
        1,
        "plugins/facts/perdure_facts/more.py:1: uses perdure.api.Tool, which is now perdure.api.tools.Tool\n",
    )


def test_no_entry_outlives_its_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    late = [entry.old for entry in load_manifest(MANIFEST).entries if has_reached(version, entry.removed_in)]
    assert late == []


COMMANDS = [
    "perdure.cli --version",
    "perdure.cli plugins --json",
    "perdure.cli tools --json",
    "perdure.cli doctor --json",
    "perdure.cli guard explain -- ls",
    "perdure.cli exec -- true",
    "perdure_compat.command_line --version",
    "perdure_compat.command_line scan app",
]


@pytest.mark.proves("compat-own-lint")
@pytest.mark.parametrize("words", COMMANDS)
def test_our_commands_use_no_moved_name_of_ours(words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plugin that fails to load is told of and left out, so it is the record of uses that says whether one did."""
    monkeypatch.setenv("HOME", str(tmp_path))
    module, *arguments = words.split()
    program = (
        "import warnings, perdure_compat; warnings.simplefilter('error', perdure_compat.PerdureCompatWarning); "
        f"import sys; sys.argv = {['it', *arguments]!r}; from {module} import main\n"
        "try:\n    code = main()\nexcept SystemExit as stopped:\n    code = stopped.code\n"
        "used = [(use.old, use.file, use.line) for use in perdure_compat.uses()]\n"
        "print('\\nCODE', code, 'USED', used)"
    )
    done = run(ROOT, program)
    told = done.stdout + done.stderr
    assert re.search(r"^CODE (0|None) USED \[\]$", told, re.MULTILINE), told


@pytest.mark.proves("compat-own-removal")
def test_the_layer_is_taken_away_by_one_command_and_the_rest_imports(copy: Path) -> None:
    """Case 40."""
    last = load_manifest(MANIFEST).entries[-1].removed_in
    done = run(copy, "-m", "perdure_compat", "remove", "--up-to", last)
    assert done.returncode == 0, done.stderr
    assert run(copy, "-m", "perdure_compat", "lint", "--current", last).stdout == ""
    assert "perdure_compat" not in (copy / "app/perdure/api/__init__.py").read_text()
    imported = run(
        copy,
        "import importlib, pkgutil, perdure, perdure_facts\n"
        "for package in (perdure, perdure_facts):\n"
        "    for each in pkgutil.walk_packages(package.__path__, package.__name__ + '.'):\n"
        "        each.name.endswith('__main__') or importlib.import_module(each.name)\n",
    )
    assert (imported.returncode, imported.stderr) == (0, "")
    # What a plugin of the past sees then, and what helps it.
    seen = run(copy, "from perdure.api import Tool")
    assert re.search(r"ImportError: cannot import name 'Tool' from 'perdure\.api' \(", seen.stderr)
    plugin = copy / "plugin.py"
    plugin.write_text("from perdure.api import Tool, hookimpl\n")
    archive = ["--manifest", "compat/manifest-archive.toml"]
    scanned = run(copy, "-m", "perdure_compat", "scan", "plugin.py", *archive, "--host-version", last)
    assert (scanned.returncode, f"gone since {last}" in scanned.stdout) == (3, True)
    assert run(copy, "-m", "perdure_compat", "migrate", "plugin.py", "--write", *archive).returncode == 0
    assert plugin.read_text() == "from perdure.api.tools import Tool\nfrom perdure.api.hooks import hookimpl\n"


@pytest.mark.slow
@pytest.mark.proves("compat-own-removal")
def test_the_suite_passes_without_the_layer(copy: Path) -> None:
    assert run(copy, "-m", "perdure_compat", "remove", "--up-to", "99").returncode == 0
    done = run(copy, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/app", "tests/plugins")
    assert done.returncode == 0, done.stdout[-4000:]
