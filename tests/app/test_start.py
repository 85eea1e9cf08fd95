"""What a start reads and loads: boot.json and the plugins it names, and nothing that a command does not need."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import perdure
from tests.app.conftest import Generation

pytestmark = pytest.mark.platforms("linux", "darwin")

# Runs `perdure` with these arguments, then writes what was opened, listed and imported to the path in $SEEN.
WATCHED = """
import os, sys
opened, listed = [], []
def watch(event, arguments):
    if event == "open" and isinstance(arguments[0], (str, bytes)):
        opened.append(os.fsdecode(arguments[0]))
    elif event in ("os.listdir", "os.scandir") and isinstance(arguments[0], (str, bytes)):
        listed.append(os.fsdecode(arguments[0]))
before = set(sys.modules)
sys.addaudithook(watch)
from perdure.cli import main
try:
    main(sys.argv[1:])
finally:
    seen = {"opened": [*opened], "listed": [*listed], "modules": sorted(set(sys.modules) - before)}
    import json
    with open(os.environ["SEEN"], "w") as file:
        json.dump(seen, file)
"""


def watched(generation: Generation, *arguments: str) -> dict[str, list[str]]:
    """Return what running these arguments opened, listed and imported."""
    seen = generation.home / "seen.json"
    subprocess.run(
        [str(generation.python), "-I", "-B", "-c", WATCHED, *arguments],
        capture_output=True,
        check=True,
        timeout=60,
        env={**os.environ, "SEEN": str(seen)},
    )
    found: dict[str, list[str]] = json.loads(seen.read_text())
    return found


@pytest.mark.proves("app-boot-reads-only-boot-json")
@pytest.mark.parametrize("command", [["plugins"], ["tools"], ["run", "greeter.hello", "--arg", "name=you"]])
def test_plugins_are_found_by_reading_boot_json_and_scanning_nothing(
    generation: Generation, greeter: str, command: list[str]
) -> None:
    generation.boot(generation.plugin("greeter", greeter))
    generation.plugin("unlisted", "raise SystemExit('imported although boot.json does not name it')")
    # What a scan would find.
    decoy = generation.site / "decoy-1.0.dist-info"
    decoy.mkdir()
    (decoy / "METADATA").write_text("Metadata-Version: 2.1\nName: decoy\nVersion: 1.0\n")
    (decoy / "entry_points.txt").write_text("[perdure]\nunlisted = unlisted_plugin:plugin\n")
    seen = watched(generation, *command)
    home = str(generation.home)
    assert [path for path in seen["opened"] if path.startswith(home) and not path.endswith((".py", ".pyc"))] == [
        str(generation.boot_path),
        f"{home}/profiles/default/current",  # whether this generation is one that keeps notes of crashes
    ]
    assert [path for path in seen["opened"] + seen["listed"] if ".dist-info" in path or "entry_points" in path] == []
    assert {"importlib.metadata", "importlib_metadata", "pkg_resources"}.isdisjoint(seen["modules"])
    assert "greeter_plugin" in seen["modules"]
    # The import system lists the directories that modules are looked for in; nothing else is listed.
    assert [path for path in seen["listed"] if path.startswith(home) and path != str(generation.site)] == []


def top_level(modules: list[str]) -> set[str]:
    return {name.partition(".")[0] for name in modules}


@pytest.mark.proves("app-start-is-lean")
def test_version_loads_two_modules(generation: Generation, greeter: str) -> None:
    generation.boot(generation.plugin("greeter", greeter))
    seen = watched(generation, "--version")
    assert seen["modules"] == ["perdure", "perdure.cli"]
    assert str(generation.boot_path) not in seen["opened"]


@pytest.mark.proves("app-start-is-lean")
@pytest.mark.parametrize("command", [["--help"], ["run", "--help"], ["--version", "--json"]])
def test_help_loads_no_plugin_and_reads_no_boot_json(generation: Generation, greeter: str, command: list[str]) -> None:
    generation.boot(generation.plugin("greeter", greeter))
    seen = watched(generation, *command)
    assert top_level(seen["modules"]).isdisjoint({"greeter_plugin", "jsonschema", "referencing", "psutil"})
    assert "perdure.builtin.runtime" not in seen["modules"]
    assert str(generation.boot_path) not in seen["opened"]


@pytest.mark.proves("app-start-is-lean")
@pytest.mark.parametrize(
    ("command", "unneeded"),
    [
        (["plugins"], {"jsonschema", "referencing", "rpds", "subprocess"}),
        (["tools"], {"jsonschema", "referencing", "rpds", "subprocess"}),
        (["doctor"], {"jsonschema", "referencing", "rpds"}),
        (["run", "greeter.hello", "--arg", "name=you"], {"subprocess"}),
    ],
)
def test_a_command_loads_what_it_needs(
    generation: Generation, greeter: str, command: list[str], unneeded: set[str]
) -> None:
    generation.boot(generation.plugin("greeter", greeter))
    assert top_level(watched(generation, *command)["modules"]) & unneeded == set()


@pytest.mark.proves("app-start-is-lean")
def test_the_version_is_the_projects(checkout: Path) -> None:
    project = tomllib.loads((checkout / "pyproject.toml").read_text())["project"]
    assert (perdure.__version__, project["scripts"]["perdure"]) == (project["version"], "perdure.cli:main")


@pytest.mark.proves("app-start-is-lean")
def test_the_module_and_the_script_are_one_program() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import sys; from perdure.cli import main; sys.exit(main())", "--version"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "perdure 0.1.0\n", "")
