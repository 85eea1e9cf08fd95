"""An application that is no checkout of ours as the host of a home: had by requirement, wheel or checkout."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure_pm.adapters.filesystem import LocalFilesystem
from perdure_pm.adapters.processes import Completed
from perdure_pm.adapters.uv import sort_failure
from perdure_pm.model.errors import (
    BuildFailed,
    BuildRefused,
    ConflictRefused,
    ConsentMissing,
    HealthCheckFailed,
    PerdureError,
    UsageFault,
)
from perdure_pm.model.network import Network
from perdure_pm.ops.context import Outcome
from perdure_pm.ops.soundness import find_damage
from tests.pm.bench import Bench
from tests.pm.fake_host import Workshop, prepare_home
from tests.pm.wheels import write_sdist, write_wheel

pytestmark = pytest.mark.platforms("linux", "darwin")

GUEST = '''"""Loads its plugins as most hosts do, and says what it runs."""
import importlib.metadata, json, os, sys

plugin = None

def main():
    if "--version" in sys.argv:
        sys.exit("unknown option --version") if @STRICT@ else print("guest")
        return
    found = {entry.name: entry.load() for entry in importlib.metadata.entry_points(group="guest")}
    said = {"plugins": found, "variable": os.environ.get("GUEST"), "version": importlib.metadata.version("guest")}
    print(json.dumps(said))

def side():
    print("side")
'''
ROUGH = "[console_scripts]\nrough = rough:main\n"
COMMANDS = "[console_scripts]\nguest = guest:main\nguest-side = guest:side\n[gui_scripts]\nguest-window = guest:side\n"


def guest(folder: Path, version: str, *, strict: bool = False, entries: str = COMMANDS) -> Path:
    """Have a wheel of the application."""
    source = GUEST.replace("@STRICT@", str(strict))
    return write_wheel(folder, "guest", version, source=source, entries=entries, requires=["sprocket"])


def extension(folder: Path, name: str, version: str, *, source: str | None = None, needs: str = "guest") -> Path:
    """Have a wheel of a plugin of it."""
    entries = f"[guest]\n{name} = {name}:plugin\n"
    return write_wheel(folder, name, version, requires=[needs, "sprocket"], source=source, entries=entries)


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    """A wheelhouse with the application, what it needs, and plugins."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    guest(folder, "1.0")
    guest(folder, "3.0a1")
    write_wheel(folder, "sprocket", "1.0", entries="")
    write_wheel(folder, "beside", "1.0", entries="")
    extension(folder, "hat", "1.0")
    extension(folder, "bad", "1.0", source="import what_nobody_required\n")
    extension(folder, "newer", "1.0", needs="guest>=3.0a1")
    return folder


@pytest.fixture
def there(workshop: Workshop, wheels: Path, tmp_path: Path) -> Iterator[Bench]:
    """A home that hosts nothing yet."""
    layout = prepare_home(workshop, LocalFilesystem(), tmp_path / "home")
    yield Bench(workshop=workshop, layout=layout, network=Network(wheelhouse=wheels))
    LocalFilesystem().remove_tree(layout.home)


def init(bench: Bench, source: str, **arguments: Any) -> Outcome:
    return bench.call("host-init", source=source, **arguments)


def says(bench: Bench, command: str = "guest") -> dict[str, object]:
    ended = subprocess.run(
        [bench.layout.bin / command], env={"PATH": os.defpath}, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    said: dict[str, object] = json.loads(ended.stdout)
    return said


@pytest.mark.proves("pm-host-sources")
def test_a_requirement_is_locked_once_and_its_commands_get_launchers(there: Bench) -> None:
    assert init(there, "guest>=1").status == "ok"
    assert init(there, "guest>=1").status == "noop"
    there.call("install")
    assert says(there)["version"] == "1.0", "the pre-release was named by nobody"
    assert sorted(path.name for path in there.layout.bin.iterdir()) == [
        "guest",
        "guest-side",
        "guest-window",
        "perdure-pm",
    ]
    there.add("hat")
    assert says(there)["plugins"] == {"hat": "1.0"}
    assert there.call("install").status == "noop"


@pytest.mark.proves("pm-host-sources")
def test_a_wheel_and_a_checkout_are_hosts_too(there: Bench, wheels: Path, tmp_path: Path) -> None:
    aside = tmp_path / "aside"
    aside.mkdir()
    init(there, str(guest(aside, "1.5")))
    there.call("install")
    there.add("hat")
    assert says(there) == {"plugins": {"hat": "1.0"}, "variable": None, "version": "1.5"}
    assert there.call("install").status == "noop"
    there.call("plugin-remove", names=["hat"])
    with pytest.raises(ConsentMissing):
        init(there, str(there.workshop.checkout))
    init(there, str(there.workshop.checkout), replace=True)
    there.call("install")
    assert there.start().returncode == 0


@pytest.mark.proves("pm-host-locked")
def test_what_an_index_has_later_moves_the_host_only_in_an_upgrade(there: Bench, wheels: Path) -> None:
    init(there, "guest>=1")
    there.call("install")
    guest(wheels, "2.0")
    assert there.call("install").status == "noop"
    there.add("hat")
    assert says(there)["version"] == "1.0"
    there.call("upgrade")
    assert says(there) == {"plugins": {"hat": "1.0"}, "variable": None, "version": "2.0"}
    there.call("rollback")
    assert says(there)["version"] == "1.0"


@pytest.mark.proves("pm-host-locked")
def test_a_pre_release_is_taken_where_it_is_named(there: Bench) -> None:
    init(there, "guest==3.0a1")
    there.call("install")
    assert says(there)["version"] == "3.0a1"


@pytest.mark.proves("pm-host-locked")
def test_a_plugin_that_needs_another_host_is_refused_with_the_chain(there: Bench) -> None:
    init(there, "guest")
    there.call("install")
    before = there.current.identity
    with pytest.raises(ConflictRefused) as refused:
        there.add("newer")
    assert refused.value.exit_code == 4
    assert str(refused.value) == (
        "newer cannot be installed with guest 1.0: newer 1.0 needs guest>=3.0a1, and the host is guest 1.0"
    )
    assert there.current.identity == before
    assert says(there)["version"] == "1.0"


@pytest.mark.proves("plugins-conflict-explained")
def test_a_host_that_would_fit_is_found_within_its_requirement_and_beyond(there: Bench, wheels: Path) -> None:
    init(there, "guest<3")
    there.call("install")
    extension(wheels, "picky", "1.0", needs="guest>=2,<3")
    guest(wheels, "2.5")
    assert ways(there, "picky") == [("guest 2.5", "perdure-pm upgrade"), ("leaving out picky", None)]
    # What a command of the message did, another does not undo; and then it fits.
    there.call("upgrade")
    there.add("picky")
    assert says(there)["version"] == "2.5"
    assert ways(there, "newer") == [("leaving out newer", None)], "picky keeps the host below 3"
    there.call("plugin-remove", names=["picky"])
    command = "perdure-pm host init 'guest==3.0a1' --yes"
    assert ways(there, "newer") == [("leaving out newer", None), ("guest 3.0a1", command)]
    assert there.pm(*shlex.split(command)[1:]).exit_code == 0
    there.add("newer")
    assert says(there)["version"] == "3.0a1"


def ways(bench: Bench, plugin: str) -> list[tuple[str, str | None]]:
    """Return the ways out that fit, of a refused addition."""
    with pytest.raises(ConflictRefused) as refused:
        bench.add(plugin)
    clash = refused.value.context["clash"]
    assert isinstance(clash, dict)
    return [(way["what"], way["command"]) for way in clash["ways_out"] if way["fits"]]


def test_a_plugin_that_cannot_be_imported_is_not_selected(there: Bench) -> None:
    init(there, "guest")
    there.call("install")
    before = there.current.identity
    with pytest.raises(HealthCheckFailed) as refused:
        there.add("bad")
    assert refused.value.exit_code == 5
    assert "what_nobody_required" in str(refused.value.context["output"])
    assert there.current.identity == before
    assert says(there)["plugins"] == {}


@pytest.mark.proves("pm-host-plugins-tried")
def test_an_entry_for_a_host_that_is_not_here_is_left_alone(there: Bench, wheels: Path) -> None:
    entries = "[guest]\nboth = both:plugin\n[visitor11]\nother = both_for_visitor:plugin\n"
    write_wheel(wheels, "both", "1.0", entries=entries)
    init(there, "guest")
    there.call("install")
    there.add("both")
    assert says(there)["plugins"] == {"both": "1.0"}


@pytest.mark.proves("pm-host-plugins-tried")
def test_an_entry_for_this_host_or_for_one_that_is_here_too_is_imported(there: Bench, wheels: Path) -> None:
    for name, group in (("mine", "the-guest-plugins"), ("beside", "sprocket.parts")):
        write_wheel(wheels, name, "2.0", requires=["sprocket"], entries=f"[{group}]\nx = absent_{name}:plugin\n")
    init(there, "guest")
    there.call("install")
    for name in ("mine", "beside"):
        with pytest.raises(HealthCheckFailed) as refused:
            there.add(f"{name}==2.0")
        assert f"absent_{name}" in str(refused.value.context["output"])


@pytest.mark.proves("pm-host-plugins-tried")
def test_only_the_groups_that_a_person_named_count(there: Bench, wheels: Path) -> None:
    entries = "[guest]\nboth = both:plugin\n[guest.old]\nother = both_as_it_was:plugin\n"
    write_wheel(wheels, "both", "1.0", entries=entries)
    init(there, "guest")
    there.call("install")
    with pytest.raises(HealthCheckFailed):
        there.add("both")
    assert there.pm("host", "init", "guest", "--plugin-group", "guest").exit_code == 0
    there.add("both")
    assert [plugin["name"] for plugin in there.current.record["plugins"]] == ["both"]
    assert there.pm("host", "show", "--json").envelope["data"]["plugin-groups"] == ["guest"]


@pytest.mark.proves("pm-host-plugins-tried")
def test_a_plugin_is_imported_after_its_host_as_the_host_does_it(there: Bench, wheels: Path) -> None:
    """Such a plugin imports a host whose import loads every plugin: imported first it would meet itself half done."""
    load = "import importlib.metadata\n[e.load() for e in importlib.metadata.entry_points(group='eager')]\n"
    entries = "[console_scripts]\neager = eager:main\n"
    write_wheel(wheels, "eager", "1.0", source=f"def main(): pass\n{load}", entries=entries)
    source = "import eager\nplugin = eager.main\n"
    write_wheel(wheels, "loop", "1.0", requires=["eager"], source=source, entries="[eager]\nloop = loop:plugin\n")
    init(there, "eager")
    there.call("install")
    there.add("loop")


@pytest.mark.proves("pm-host-plugins-tried")
def test_a_plugin_without_entry_points_is_refused_where_it_needs_what_is_not_there(there: Bench, wheels: Path) -> None:
    write_wheel(wheels, "needy", "1.0", source="import what_nobody_required\n", entries="")
    write_wheel(wheels, "choosy", "1.0", source="raise RuntimeError('only in a running host')\n", entries="")
    write_wheel(wheels, "quiet", "1.0", entries="")
    init(there, "guest")
    there.call("install")
    with pytest.raises(HealthCheckFailed) as refused:
        there.add("needy")
    assert "what_nobody_required" in str(refused.value.context["output"])
    there.add("choosy", "quiet")
    assert {"choosy", "quiet"} <= {package["name"] for package in there.current.record["packages"]}


@pytest.mark.proves("pm-host-plugins-tried")
def test_a_host_that_reads_its_command_line_when_it_is_imported_reads_its_own(there: Bench, wheels: Path) -> None:
    source = "import sys\nwords = sys.argv\ndef main(said=words[1:]): sys.exit(said != ['--version'] and 4)\n"
    write_wheel(wheels, "early", "1.0", source=source, entries="[console_scripts]\nearly = early:main\n")
    init(there, "early")
    there.call("install")


@pytest.mark.proves("pm-host-in-builds")
def test_a_plugin_whose_build_imports_the_host_is_built_beside_it(there: Bench, wheels: Path) -> None:
    """What OctoPrint's plugins do: their build runs code of the host, which must be the very host that is installed."""
    same = "import importlib.metadata, guest, sprocket\nassert importlib.metadata.version('guest') == '1.0'\n"
    write_sdist(wheels, extension(wheels, "grown", "1.0"), backend=same)
    write_sdist(wheels, extension(wheels, "plain", "1.0"), backend="")
    guest(wheels, "2.0")
    init(there, "guest==1.0")
    there.call("install")
    before = there.current.identity

    asked = []
    for _ in range(3):
        with pytest.raises(BuildFailed) as refused:
            there.add("plain", "grown")
        command = str(refused.value.hint).partition("perdure-pm ")[2]
        asked.append(command)
        assert there.pm(*shlex.split(command)).exit_code == 0
    assert "install.build-with-host grown" in " ".join(asked)
    assert there.current.identity == before
    there.add("plain", "grown")
    assert says(there)["plugins"] == {"grown": "1.0", "plain": "1.0"}
    assert says(there)["version"] == "1.0"


@pytest.mark.proves("pm-host-sources")
def test_a_host_that_needs_what_has_no_wheel_is_locked_once_that_may_be_built(there: Bench, wheels: Path) -> None:
    write_wheel(wheels, "rough", "1.0", source="def main(): pass\n", requires=["raw"], entries=ROUGH)
    write_sdist(wheels, write_wheel(wheels, "raw", "1.0", entries=""), backend="")
    init(there, "rough")
    with pytest.raises(BuildRefused) as refused:
        there.call("install")
    assert str(refused.value.hint).endswith("config set install.build raw")
    there.call("config-set", key="install.build", value="raw")
    there.call("install")
    assert "raw" in {package["name"] for package in there.current.record["packages"]}


KINDS = """
import importlib.resources, json, kinds_space.part, kinds_native._json, sys, pathlib
def main():
    print(json.dumps([
        importlib.resources.files("kinds_data").joinpath("table.txt").read_text(),
        kinds_space.part.here,
        kinds_native._json.__file__.endswith(".so"),
        pathlib.Path(sys.prefix, "share", "kinds", "page.html").read_text(),
    ]))
"""


@pytest.mark.platforms("linux")
@pytest.mark.proves("pm-host-kinds")
def test_compiled_modules_data_files_namespaces_and_commands_of_both_kinds(there: Bench, wheels: Path) -> None:
    """One host with a compiled module, data in and outside of its package, and a namespace that its plugin shares."""
    import _json  # of the standard library; any compiled module does

    compiled = Path(_json.__file__)
    more = {
        "kinds_data/__init__.py": "",
        "kinds_data/table.txt": "a table",
        "kinds_space/part.py": "here = 'of the host'\n",
        f"kinds_native/{compiled.name}": compiled.read_bytes(),
        "kinds-1.0.data/data/share/kinds/page.html": "<p>",
    }
    entries = "[console_scripts]\nkinds = kinds:main\n[gui_scripts]\nkinds-window = kinds:main\n"
    tag = f"cp{sys.version_info[0]}{sys.version_info[1]}-cp{sys.version_info[0]}{sys.version_info[1]}-linux_x86_64"
    write_wheel(wheels, "kinds", "1.0", source=KINDS, entries=entries, more=more, tag=tag)
    space = {"kinds_space/added.py": "import kinds_space.part\nplugin = kinds_space.part.here\n"}
    write_wheel(wheels, "kinds-added", "1.0", source="", entries="", more=space)
    init(there, "kinds")
    there.call("install")
    expected = ["a table", "of the host", True, "<p>"]
    assert says(there, "kinds") == expected
    assert says(there, "kinds-window") == expected
    there.add("kinds-added")
    assert says(there, "kinds") == expected
    python = there.current.environment / "bin" / "python"
    ended = subprocess.run(
        [python, "-I", "-c", "import kinds_space.added as a; print(a.plugin)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout == "of the host\n"
    there.call("rollback")
    assert says(there, "kinds") == expected


@pytest.mark.proves("pm-host-writes-beside-itself")
def test_a_host_that_writes_into_its_own_package_is_told_of_and_fails_in_words_of_its_own(
    there: Bench, wheels: Path
) -> None:
    source = (
        "import os, pathlib\n"
        "def main():\n"
        "    place = pathlib.Path(os.environ.get('PLACE') or pathlib.Path(__file__).parent)\n"
        "    place.joinpath('cache.db').write_text('x')\n    print('{}')\n"
    )
    write_wheel(wheels, "scribe", "1.0", source=source, entries="[console_scripts]\nscribe = scribe:main\n")
    init(there, "scribe")
    outcome = there.call("install")
    (said,) = [text for text in outcome.obligations if "scribe wrote" in text]
    assert "cache.db" in said
    assert "--env" in said
    assert list(there.current.environment.rglob("cache.db")) == []

    command = [str(there.layout.bin / "scribe")]
    if os.geteuid() != 0:
        ended = subprocess.run(command, capture_output=True, text=True, check=False, env={"PATH": os.defpath})
        assert ended.returncode != 0
        assert "Permission denied" in ended.stderr
    state = there.layout.home / "state"
    state.mkdir()
    init(there, "scribe", environment={"PLACE": str(state)})
    assert there.call("install").status == "noop"
    assert says(there, "scribe") == {}
    assert (state / "cache.db").is_file()


def test_a_host_that_changes_its_own_files_is_not_selected(there: Bench, wheels: Path) -> None:
    source = "import pathlib\ndef main(): pathlib.Path(__file__).with_name('data.txt').write_text('more')\n"
    entries = "[console_scripts]\nmolt = molt:main\n"
    write_wheel(wheels, "molt", "1.0", source=source, entries=entries, more={"molt/data.txt": "x"})
    init(there, "molt")
    with pytest.raises(HealthCheckFailed, match=r"data\.txt"):
        there.call("install")
    assert not (there.layout.bin / "molt").exists()


@pytest.mark.proves("pm-host-check-apart")
def test_a_check_opens_nothing_of_the_person_and_leaves_nothing(there: Bench, wheels: Path) -> None:
    source = (
        "import os, pathlib, sys\n"
        "def main():\n"
        "    if 'DIARY' in os.environ or not os.environ['HOME'].startswith(os.environ['EXPECTED']): sys.exit(3)\n"
        "    pathlib.Path.home().joinpath('.diary').write_text('x'); pathlib.Path('here').write_text('x')\n"
    ).replace("os.environ['EXPECTED']", repr(str(there.layout.home)))
    write_wheel(wheels, "diary", "1.0", source=source, entries="[console_scripts]\ndiary = diary:main\n")
    init(there, "diary", environment={"DIARY": "mine"})
    there.call("install")
    assert [path for path in there.layout.home.rglob("*") if path.name in {".diary", "here"}] == []


@pytest.mark.parametrize("value", ["plain", "a b", "it's", '"$HOME"', "`x`", "\\", "*", "ä", "", "new\nline"])
def test_a_variable_reaches_the_host_as_it_was_given(there: Bench, value: str) -> None:
    init(there, "guest", environment={"GUEST": value}, commands=["guest"])
    there.call("install")
    assert says(there)["variable"] == value
    assert sorted(path.name for path in there.layout.bin.iterdir()) == ["guest", "perdure-pm"]


@pytest.mark.proves("pm-host-variables")
def test_a_variable_of_the_host_outlives_every_operation(there: Bench) -> None:
    init(there, "guest", environment={"GUEST": "kept"}, commands=["guest"])
    there.call("install")
    first = there.current.identity

    def stays(operation: str, **arguments: object) -> None:
        with contextlib.suppress(PerdureError):
            there.call(operation, there.context(on_stage=lambda stage: read.append(launcher.read_bytes())), **arguments)
        assert set(read) == {as_written}, operation
        assert says(there)["variable"] == "kept", operation

    launcher = there.layout.bin / "guest"
    as_written = launcher.read_bytes()
    read = [as_written]
    stays("plugin-add", requirements=["hat"])
    stays("plugin-add", requirements=["bad"])
    stays("rollback", to=first)
    stays("rollback")
    stays("plugin-remove", names=["hat"])
    stays("collect")
    there.layout.config.write_text("host: [\n", encoding="utf-8")
    stays("rollback")
    stays("install")


def test_what_is_installed_beside_the_host_is_there_and_is_no_plugin(there: Bench) -> None:
    init(there, "guest", **{"with": ["beside"]})
    there.call("install")
    assert "beside" in {package["name"] for package in there.current.record["packages"]}
    assert there.current.record["plugins"] == []
    there.add("hat")
    assert "beside" in {package["name"] for package in there.current.record["packages"]}


def test_a_command_without_a_version_call_is_asked_for_help(there: Bench, wheels: Path) -> None:
    guest(wheels, "1.0", strict=True)
    init(there, "guest")
    there.call("install")
    assert says(there)["version"] == "1.0"


def test_the_configured_health_check_decides(there: Bench) -> None:
    init(there, "guest", health="--version")
    there.call("install")
    assert there.call("config-set", key="host.health", value="--version --more").status == "ok"


@pytest.mark.parametrize(
    ("source", "arguments"),
    [
        ("", {}),
        ("not a requirement", {}),
        ("missing-1.0-py3-none-any.whl", {}),
        ("guest", {"environment": {"1A": "x"}}),
        ("guest", {"commands": ["../x"]}),
        ("guest", {"with": ["a b"]}),
    ],
)
def test_what_cannot_be_a_host_is_refused_and_nothing_is_written(
    there: Bench, source: str, arguments: dict[str, object]
) -> None:
    with pytest.raises(PerdureError) as refused:
        init(there, source, **arguments)
    assert refused.value.exit_code != 70
    if isinstance(refused.value, UsageFault):
        assert not there.layout.config.exists() or "guest" not in there.layout.config.read_text(encoding="utf-8")


def test_a_host_with_no_command_of_that_name_is_refused(there: Bench) -> None:
    init(there, "guest", commands=["absent"])
    with pytest.raises(HealthCheckFailed, match="absent"):
        there.call("install")


def test_host_show_says_what_is_hosted_and_what_is_installed(there: Bench) -> None:
    init(there, "guest>=1", environment={"GUEST": "x"})
    said = there.pm("host", "show", "--json").envelope["data"]
    assert (said["name"], said["source"], said["version"]) == ("guest", "guest>=1", None)
    there.call("install")
    said = there.pm("host", "show", "--json").envelope["data"]
    assert (said["version"], said["environment"]) == ("1.0", {"GUEST": "x"})


def test_pip_is_answered_in_the_generation(there: Bench) -> None:
    init(there, "guest")
    there.call("install")
    python = there.current.environment / "bin" / "python"
    ended = subprocess.run([python, "-I", "-m", "pip", "install", "hat"], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert f"{there.layout.bin / 'perdure-pm'} plugin add hat" in ended.stderr


@pytest.mark.proves("pm-host-stranger-seen")
def test_what_an_installer_added_to_a_generation_is_seen_and_gone_after_the_next_install(there: Bench) -> None:
    """As root the file modes do not hold, and `PIP_CONFIG_FILE=/dev/null` gets past the refusal of pip."""
    init(there, "guest")
    there.call("install")
    before = there.current.identity
    package = next(there.current.environment.glob("lib/python*/site-packages"))
    package.chmod(0o755)
    (package / "hat").mkdir()
    (package / "hat" / "__init__.py").write_text("plugin = 'added'\n", encoding="utf-8")
    (package / "hat-1.0.dist-info").mkdir()
    (package / "hat-1.0.dist-info" / "entry_points.txt").write_text("[guest]\nhat = hat:plugin\n", encoding="utf-8")
    assert find_damage(there.layout, there.current).endswith("is no part of this generation")
    assert there.call("install").status == "ok"
    assert there.current.identity != before
    assert find_damage(there.layout, there.current) == ""
    assert says(there)["plugins"] == {}


def test_a_source_without_a_wheel_is_named_with_what_allows_a_build() -> None:
    said = "error: No solution found:\n  cause: Because thing{os_name == 'posix'}==1.0 has no usable wheels and you do"
    failure = sort_failure(Completed(returncode=1, stdout="", stderr=said), "installing packages", Network())
    assert isinstance(failure, BuildRefused)
    assert failure.context["package"] == "thing"
    assert failure.hint == "where you trust it: perdure-pm config set install.build thing"
