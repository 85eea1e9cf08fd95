"""Moves that other projects made, and plugins of theirs that used the old names: fetched, migrated, compiled, started.

The manifests in `moves/` are written from the tables that those projects published. What is migrated comes from the
index as it was released.
"""

import ast
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from perdure_compat.findings import INFO
from perdure_compat.index import Index
from perdure_compat.manifest import load_manifest
from perdure_compat.migrate import migrate_files
from perdure_compat.outcome import Migration
from perdure_compat.scan import files_below, scan
from perdure_compat.tree import Tree
from tests.compat.conftest import Tool

MOVES = Path(__file__).parent / "moves"
Figure = Callable[[str], None]


def fetch(tool: Tool, folder: Path, *requirements: str) -> Path:
    """Return a folder with released wheels unpacked in it, and nothing that they ask for."""
    tool("pip", "install", "--no-deps", "--only-binary", ":all:", "--target", str(folder), *requirements)
    return folder


def migrate(folder: Path, *names: str) -> list[Migration]:
    """Write the new names in a folder by the manifests of these moves; run again, nothing changes."""
    index = Index([load_manifest(MOVES / f"{name}.toml") for name in names])
    done, unreadable = migrate_files(files_below([folder]), index)
    assert unreadable == []
    for migration in done:
        migration.write()
    again, _ = migrate_files(files_below([folder]), index)
    assert [migration.path for migration in again if migration.changed] == []
    compiled = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "compileall", "-q", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert compiled.returncode == 0, compiled.stdout
    # What is still found is what was left with a reason; its line may be another now.
    left = {(each.path, each.written) for migration in done for each in migration.left}
    assert {(finding.path, finding.written) for finding in scan(files_below([folder]), index).findings} <= left
    return done


def say(name: str, done: list[Migration]) -> str:
    reasons = sorted({left.reason for migration in done for left in migration.left})
    moved, left = sum(each.moved for each in done), sum(len(each.left) for each in done)
    files = sum(each.changed for each in done)
    return f"{name}: {moved} names moved in {files} files, {left} left" + (
        f" ({'; '.join(reasons)})" if reasons else ""
    )


def ruffs_findings(folder: Path, rules: str = "NPY201", *options: str) -> Counter[str]:
    """Return how many old names the linter that knows NumPy's own table, or another project's, finds in each file."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "ruff", "check", "--isolated", "--preview", "--target-version", "py311"),
            *("--select", rules, "--exit-zero", "--output-format", "json", *options, str(folder)),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    return Counter(item["filename"] for item in json.loads(done.stdout))


@pytest.mark.slow
@pytest.mark.proves("compat-real-moves")
@pytest.mark.parametrize("requirement", ["tsfresh==0.15.1", "mne==0.20.0", "nilearn==0.6.2"])
def test_numpy_2_as_the_linter_that_knows_its_table(
    tool: Tool, tmp_path: Path, requirement: str, figure: Figure
) -> None:
    folder = fetch(tool, tmp_path / "wheel", requirement)
    before = ruffs_findings(folder)
    done = migrate(folder, "numpy")
    left = Counter(str(each.path) for migration in done for each in migration.left)
    after = ruffs_findings(folder)
    figure(f"{say(requirement, done)}; ruff's NPY201: {before.total()} before, {after.total()} after")
    assert before.total() > 20
    assert after <= left


@pytest.mark.slow
@pytest.mark.proves("compat-real-moves")
def test_scipys_namespaces_in_released_plugins(tool: Tool, tmp_path: Path, figure: Figure) -> None:
    for requirement, names in {
        "lifelines==0.23.9": 5,
        "mne==0.20.0": 4,
        "nilearn==0.6.2": 3,
        "peakutils==1.3.3": 1,
    }.items():
        done = migrate(fetch(tool, tmp_path / requirement, requirement), "scipy")
        figure(say(requirement, done))
        assert sum(migration.moved for migration in done) == names


def remaining(folder: Path, name: str) -> int:
    """Return how many uses of old names a scan finds that are neither guarded nor mere texts."""
    index = Index([load_manifest(MOVES / f"{name}.toml")])
    return sum(finding.reach != INFO for finding in scan(files_below([folder]), index).findings)


def compare(folder: Path, name: str, change: Callable[[Path], None]) -> str:
    """Return how many of a manifest's names another tool leaves in a copy of a folder, in words."""
    copy = folder.with_name(f"{folder.name}-other")
    shutil.copytree(folder, copy)
    before = remaining(copy, name)
    change(copy)
    return f"of {before} uses it leaves {remaining(copy, name)}"


def missing(home: Path, name: str) -> list[str]:
    """Return the new names of a manifest that are not defined in the distributions unpacked in a folder."""
    tree = Tree(home)
    listed = {
        node.value
        for source in [tree.source_of("airflow.sdk")]
        if source is not None
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Constant)
    }
    return [
        entry.new
        for entry in load_manifest(MOVES / f"{name}.toml").entries
        if entry.new
        and entry.new_name not in (listed if entry.new_module == "airflow.sdk" else ())
        and tree.definition(entry.new_module, entry.new_name) is None
        # A module with a hook or a star says at run time what it has.
        and tree.definition(entry.new_module, "__getattr__") is None
    ]


@pytest.mark.slow
@pytest.mark.proves("compat-real-moves")
def test_airflow_3_as_the_linter_that_knows_its_table(tool: Tool, tmp_path: Path, figure: Figure) -> None:
    home = fetch(tool, tmp_path / "home", "apache-airflow-task-sdk", "apache-airflow-providers-standard")
    assert missing(home, "airflow") == []
    for requirement, names in {
        "astronomer-cosmos==1.9.0": 51,
        "airflow-provider-great-expectations==0.2.7": 8,
        "airflow-clickhouse-plugin==0.5.6": 2,
        "apache-airflow-providers-http==2.0.0": 4,
    }.items():
        folder = fetch(tool, tmp_path / requirement, requirement)
        before = ruffs_findings(folder, "AIR3")
        other = compare(
            folder, "airflow", lambda copy: (ruffs_findings(copy, "AIR3", "--fix", "--unsafe-fixes"), None)[1]
        )
        done = migrate(folder, "airflow")
        after = ruffs_findings(folder, "AIR3")
        figure(
            f"{say(requirement, done)}; ruff's AIR3: {before.total()} before, {after.total()} after; "
            f"ruff's own fixes: {other}"
        )
        assert sum(migration.moved for migration in done) == names
        assert after.total() < before.total()


@pytest.mark.slow
@pytest.mark.proves("compat-real-moves")
def test_pydantic_2_beside_the_tool_that_its_project_offers(tool: Tool, tmp_path: Path, figure: Figure) -> None:
    host = tmp_path / "host" / "bin"
    tool("venv", "--python", sys.executable, str(host.parent))
    tool(
        "pip",
        "install",
        "--python",
        str(host / "python"),
        "pydantic>=2,<3",
        "pydantic-settings",
        "overrides",
        "bump-pydantic",
    )

    def bump(folder: Path) -> None:
        command = [str(host / "bump-pydantic"), "."]
        subprocess.run(command, cwd=folder, check=False, capture_output=True, stdin=subprocess.DEVNULL, timeout=300)

    for requirement, names, compared in (
        ("fastapi-mail==1.2.8", 1, True),
        ("opyrator==0.0.12", 2, True),
        # The other tool takes some seconds for each file.
        ("starlite==1.51.0", 12, False),
        ("chromadb==0.3.26", 1, False),
    ):
        folder = fetch(tool, tmp_path / requirement, requirement)
        other = f"; bump-pydantic: {compare(folder, 'pydantic', bump)}" if compared else ""
        done = migrate(folder, "pydantic")
        figure(f"{say(requirement, done)}{other}")
        assert sum(migration.moved for migration in done) == names
    start = "import sys; sys.path.insert(0, sys.argv[1]); import chromadb.config"
    folder = fetch(tool, tmp_path / "old", "chromadb==0.3.26")
    # What it loads beside its settings is much. The file is one of the cache's as well, which must stay as it is.
    (folder / "chromadb" / "__init__.py").unlink()
    (folder / "chromadb" / "__init__.py").touch()
    for place, says in ((folder, "`BaseSettings` has been moved"), (None, "")):
        if place is None:
            migrate(folder, "pydantic")
        ended = subprocess.run(
            [host / "python", "-W", "ignore", "-c", start, str(folder)], capture_output=True, text=True, check=False
        )
        assert (ended.returncode == 0, says in ended.stderr) == (place is None, True), ended.stderr


START = """
import importlib, sys
from django.conf import settings
settings.configure(
    INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth", sys.argv[1]],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    DEFAULT_AUTO_FIELD="django.db.models.AutoField",
    USE_TZ=True,
)
import django
django.setup()
for name in sys.argv[2:]:
    importlib.import_module(f"{sys.argv[1]}.{name}")
print("started")
"""


def start(python: Path, folder: Path, words: tuple[str, ...]) -> "subprocess.CompletedProcess[str]":
    """Start a host with an application of it that lies in a folder, and import these of its modules."""
    return subprocess.run(
        [python, "-W", "ignore", "-c", START, *words],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(folder)},
    )


@pytest.mark.slow
@pytest.mark.proves("compat-real-moves")
def test_djangos_plugins_that_stopped_to_work_work_again(tool: Tool, tmp_path: Path, figure: Figure) -> None:
    tool("venv", "--python", sys.executable, str(tmp_path / "host"))
    python = tmp_path / "host" / "bin" / "python"
    tool("pip", "install", "--python", str(python), "django>=4.2,<5")
    tool("pip", "install", "--python", str(python), "django-upgrade")

    def upgrade(folder: Path) -> None:
        files = [str(path) for path in files_below([folder])]
        subprocess.run(
            [python.with_name("django-upgrade"), "--target-version", "4.0", *files], check=False, capture_output=True
        )

    apps = {
        "django-filter==2.1.0": ("django_filters", "filters", "filterset", "views", "widgets"),
        "django-guardian==2.1.0": ("guardian", "models", "shortcuts", "forms", "utils", "admin"),
    }
    for requirement, words in apps.items():
        folder = fetch(tool, tmp_path / words[0], requirement)
        assert "cannot import name 'ugettext" in start(python, folder, words).stderr
        other = compare(folder, "django", upgrade)
        done = migrate(folder, "django")
        figure(f"{say(requirement, done)}; django-upgrade: {other}")
        assert start(python, folder, words).stdout == "started\n"
        shutil.rmtree(folder)
