"""What one more plugin costs well-known hosts and a large one, beside bare uv, and whether the next start is warm."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from perdure_pm.adapters.filesystem import LocalFilesystem
from tests.perf.test_publication_cost import SLACK, run, timed
from tests.pm.wheels import write_wheel
from tests.system.machine import Installation, copy_checkout, copy_home, plain_environment
from tests.system.mirror import serve_mirror, write_index

TURNS = 4
PIECES = 150
"""How many packages the large host consists of, itself not counted."""
MODULES = 30
"""How many modules each of them has."""


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
    measure_addition(name, SUBJECTS[name], empty, uv, tmp_path, figure)


@pytest.mark.slow
@pytest.mark.proves("perf-add", "perf-first-start")
def test_a_plugin_for_a_host_of_150_packages(
    empty: Installation, uv: Path, tmp_path: Path, figure: Callable[[str], None]
) -> None:
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    write_large(wheels)
    write_index(wheels, tmp_path / "simple")
    times = {path.name: "2026-01-01T00:00:00Z" for path in wheels.iterdir()}
    mirror = serve_mirror(tmp_path, as_json=True, uploaded=times)
    environment = {**empty.environment, "PERDURE_INDEX_URL": mirror.url, "UV_DEFAULT_INDEX": mirror.url}
    there = Installation(checkout=empty.checkout, home=empty.home, environment=environment)
    subject = Subject(requirement="large", plugin="little", start=("large", "plugins"))
    try:
        measure_addition(f"{PIECES} packages", subject, there, uv, tmp_path, figure)
    finally:
        mirror.stop()


def write_large(wheels: Path) -> None:
    """Have the wheels of the large host, in which each package needs two others, and of its plugin."""
    body = "".join(f"def function_{number}(value):\n    return value + {number}\n\n" for number in range(40))
    for number in range(PIECES):
        needs = [f"piece-{other}" for other in (2 * number + 1, 2 * number + 2) if other < PIECES]
        more = {f"piece_{number}/part_{at}.py": body for at in range(MODULES)}
        write_wheel(wheels, f"piece-{number}", "1.0", requires=needs, entries="", more=more)
    host = "import importlib, importlib.metadata\ndef main():\n"
    host += f"    for number in range({PIECES}):\n        importlib.import_module(f'piece_{{number}}.part_0')\n"
    host += "    print([entry.load() for entry in importlib.metadata.entry_points(group='large')])\n"
    commands = "[console_scripts]\nlarge = large:main\n"
    write_wheel(wheels, "large", "1.0", source=host, requires=["piece-0"], entries=commands)
    write_wheel(wheels, "beside", "1.0", entries="")
    write_wheel(
        wheels, "little", "1.0", requires=["large", "piece-3", "beside"], entries="[large]\na = little:plugin\n"
    )


def measure_addition(
    name: str, subject: Subject, empty: Installation, uv: Path, tmp_path: Path, figure: Callable[[str], None]
) -> None:
    """Print what adding the plugin costs, and fail where that is far from its target."""
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
