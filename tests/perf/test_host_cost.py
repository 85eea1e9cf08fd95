"""What one more plugin costs five well-known hosts, beside bare uv, and whether the start after it is a warm one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from perdure_pm.adapters.filesystem import LocalFilesystem
from tests.perf.test_publication_cost import SLACK, run, timed
from tests.system.machine import Installation, copy_checkout, copy_home, plain_environment

TURNS = 4


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A host, the plugin that is added, and a start that loads it."""

    requirement: str
    plugin: str
    start: tuple[str, ...]


SUBJECTS = {
    "datasette": Subject(
        requirement="datasette==0.65.*", plugin="datasette-cluster-map", start=("datasette", "plugins")
    ),
    "llm": Subject(requirement="llm", plugin="llm-echo", start=("llm", "plugins")),
    "mkdocs": Subject(requirement="mkdocs==1.6.*", plugin="mkdocs-macros-plugin", start=("mkdocs", "build", "--help")),
    "flake8": Subject(requirement="flake8==7.*", plugin="flake8-bugbear", start=("flake8", "--version")),
    "pytest": Subject(requirement="pytest==9.*", plugin="pytest-xdist", start=("pytest", "--version", "--version")),
}


@pytest.fixture(scope="module")
def empty(
    checkout: Path, tmp_path_factory: pytest.TempPathFactory, network_environment: Mapping[str, str]
) -> Iterator[Installation]:
    """A home that has PM and hosts nothing."""
    clone = copy_checkout(checkout, tmp_path_factory.mktemp("clone") / "perdure")
    home = tmp_path_factory.mktemp("home") / "home"
    made = Installation(checkout=clone, home=home, environment=plain_environment(network_environment))
    made.bootstrap("pm", "--version").succeeded()
    yield made
    LocalFilesystem().remove_tree(home)


@pytest.mark.slow
@pytest.mark.proves("perf-add", "perf-first-start")
@pytest.mark.parametrize("name", SUBJECTS)
def test_a_plugin_for_a_host(
    name: str, empty: Installation, uv: Path, tmp_path: Path, figure: Callable[[str], None]
) -> None:
    subject = SUBJECTS[name]
    home = copy_home(empty.home, tmp_path / "home")
    there = Installation(checkout=empty.checkout, home=home, environment=empty.environment)
    there.pm("host", "init", subject.requirement).succeeded()
    there.pm("install").succeeded()
    project = tmp_path / "bare"
    project.mkdir()
    wanted = json.dumps([subject.requirement, subject.plugin])
    head = '[project]\nname = "bare"\nversion = "0"\nrequires-python = ">=3.11"\n'
    text = f"{head}dependencies = {wanted}\n"
    (project / "pyproject.toml").write_text(text, encoding="utf-8")
    cache = ["--cache-dir", str(tmp_path / "cache")]
    command: list[str | Path] = [home / "bin" / subject.start[0], *subject.start[1:]]
    ours: list[float] = []
    bare: list[float] = []
    first: list[float] = []
    later: list[float] = []

    def add(turn: int) -> None:
        there.pm("plugin", "add", f"{subject.plugin}>=0.0.{turn}").succeeded()

    for turn in range(TURNS + 1):
        # Another requirement each time, so that no earlier generation answers; the versions stay the same.
        ours.append(timed(partial(add, turn)))
        first.append(timed(lambda: run(command, there.environment)))
        later.append(min(timed(lambda: run(command, there.environment)) for _ in range(4)))
        bare.append(timed(lambda: build_bare(uv, project, cache, subject.start, there.environment)))
    LocalFilesystem().remove_tree(home)
    fastest, floor, ratio = min(ours[1:]), min(bare[1:]), min(first[1:]) / min(later[1:])
    target = 1.5 * floor + 0.3
    figure(f"{name}: add a plugin {fastest:.2f} s, bare uv and a start {floor:.2f} s (target: {target:.2f} s)")
    figure(f"{name}: first start ÷ warm start of {min(later) * 1000:.0f} ms: {ratio:.2f} (target: 1.15)")
    assert fastest <= SLACK * target
    assert ratio <= 1.15 * SLACK


def build_bare(
    uv: Path, project: Path, cache: list[str], start: tuple[str, ...], environment: Mapping[str, str]
) -> None:
    LocalFilesystem().remove_tree(project / ".venv")
    (project / "uv.lock").unlink(missing_ok=True)
    run([uv, "lock", "-q", *cache, "--project", project], environment)
    run([uv, "sync", "-q", "--frozen", *cache, "--project", project], environment)
    run([project / ".venv" / "bin" / start[0], *start[1:]], environment)
