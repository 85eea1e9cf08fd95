"""How the plugins of an application that is no checkout of ours are tried and built, and what kinds of hosts run."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from perdure_pm.model.errors import BuildFailed, HealthCheckFailed
from perdure_pm.ops import verify
from tests.pm.bench import Bench
from tests.pm.guest import extension, guest, init, says
from tests.pm.plugin_sources import write_files
from tests.pm.wheels import write_sdist, write_wheel

pytestmark = pytest.mark.platforms("linux", "darwin")


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


CALLED = {
    "ends": "import os\ndef plugin():\n    os._exit(4)\n",
    "exits": "def plugin():\n    raise SystemExit(4)\n",
    "raises": "def plugin():\n    raise ValueError('no')\n",
    "crashes": "import ctypes\ndef plugin():\n    ctypes.string_at(0)\n",
    "hangs": "import time\ndef plugin():\n    time.sleep(1000)\n",
}
"""What a plugin does when its host calls it → its source."""


def write_caller(wheels: Path) -> None:
    """Have a host in the wheelhouse that calls each of its plugins."""
    loop = "    for entry in importlib.metadata.entry_points(group='caller'):\n        entry.load()()\n"
    source = f"import importlib.metadata\ndef main():\n{loop}"
    write_wheel(wheels, "caller", "1.0", source=source, entries="[console_scripts]\ncaller = caller:main\n")


@pytest.mark.proves("plugins-culprit-named")
@pytest.mark.parametrize("how", list(CALLED))
def test_a_plugin_that_ends_its_host_when_it_is_called_is_named(
    there: Bench, wheels: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Case 104: what is called shows only when the host starts, and the exit code alone says nothing of who it was."""
    monkeypatch.setattr(verify, "HEALTH_SECONDS", 4.0 if how == "hangs" else 120.0)
    write_caller(wheels)
    write_wheel(wheels, "calm", "1.0", source="def plugin(): pass\n", entries="[caller]\ncalm = calm:plugin\n")
    write_wheel(wheels, "bad", "1.0", source=CALLED[how], entries="[caller]\nbad = bad:plugin\n")
    init(there, "caller")
    there.call("install")
    before = there.current.identity
    said = r"caller ended with -?\d+, in the code of bad \(bad/__init__.py:[23]\)"
    with pytest.raises(HealthCheckFailed, match=said) as hit:
        there.add("calm", "bad")
    assert hit.value.hint == "leave out bad, or have another version of it"
    assert there.current.identity == before


@pytest.mark.proves("plugins-culprit-named")
def test_a_plugin_that_ends_its_host_from_where_it_is_edited_is_named(
    there: Bench, wheels: Path, tmp_path: Path
) -> None:
    write_caller(wheels)
    folder = tmp_path / "bad"
    write_files(
        folder,
        {"bad.py": CALLED["exits"], "plugin.yaml": "manifest: 1\nname: bad\nentry: bad:plugin\ngroup: caller\n"},
    )
    init(there, "caller")
    there.call("install")
    with pytest.raises(HealthCheckFailed, match=f"in the code of bad \\({folder}/bad.py:2\\)"):
        there.add(str(folder), editable=True)


@pytest.mark.proves("pm-host-plugins-tried")
def test_a_plugin_without_entry_points_is_refused_where_it_needs_what_is_not_there(there: Bench, wheels: Path) -> None:
    write_wheel(wheels, "needy", "1.0", source="import what_nobody_required\n", entries="")
    write_wheel(wheels, "choosy", "1.0", source="raise RuntimeError('only in a running host')\n", entries="")
    write_wheel(wheels, "quiet", "1.0", entries="")
    init(there, "guest")
    there.call("install")
    with pytest.raises(HealthCheckFailed, match="an import failed: needy") as refused:
        there.add("needy")
    assert "what_nobody_required" in str(refused.value.context["output"])
    there.add("choosy", "quiet")
    assert {"choosy", "quiet"} <= {package["name"] for package in there.current.record["packages"]}


@pytest.mark.proves("pm-host-plugins-tried")
def test_a_plugin_without_entry_points_is_tried_after_a_host_that_ends_at_once(there: Bench, wheels: Path) -> None:
    source = "import os, sys\ndef main():\n    sys.stderr.close()\n    os._exit(0)\n"
    write_wheel(wheels, "hasty", "1.0", source=source, entries="[console_scripts]\nhasty = hasty:main\n")
    write_wheel(wheels, "needy", "1.0", source="import what_nobody_required\n", entries="")
    write_wheel(wheels, "quiet", "1.0", entries="")
    init(there, "hasty")
    there.call("install")
    with pytest.raises(HealthCheckFailed, match="an import failed: needy") as refused:
        there.add("needy")
    assert "what_nobody_required" in str(refused.value.context["output"])
    there.add("quiet")


@pytest.mark.proves("plugins-culprit-named")
def test_a_plugin_without_entry_points_that_hangs_when_it_is_imported_is_named(there: Bench, wheels: Path) -> None:
    write_wheel(wheels, "stuck", "1.0", source="while True: pass\n", entries="")
    init(there, "guest")
    there.call("install")
    there.call("config-set", key="install.import-limit", value="1")
    with pytest.raises(HealthCheckFailed, match="an import failed: stuck: it took more than 1 second") as refused:
        there.add("stuck")
    assert refused.value.hint == "leave out stuck, or have another version of it"


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


KINDS = """
import importlib.resources, json, kinds_space.part, kinds_native._json, sys, pathlib
def main():
    print(json.dumps({
        "data": importlib.resources.files("kinds_data").joinpath("table.txt").read_text(),
        "space": kinds_space.part.here,
        "compiled": kinds_native._json.__file__.endswith(".so"),
        "page": pathlib.Path(sys.prefix, "share", "kinds", "page.html").read_text(),
    }))
"""


@pytest.mark.platforms("linux")
@pytest.mark.proves("pm-host-kinds")
def test_compiled_modules_data_files_namespaces_and_commands_of_both_kinds(there: Bench, wheels: Path) -> None:
    """One host with a compiled module, data in and outside of its package, and a namespace that its plugin shares."""
    import _json  # of the standard library; any compiled module does

    compiled = Path(_json.__file__)
    more: dict[str, str | bytes] = {
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
    expected = {"data": "a table", "space": "of the host", "compiled": True, "page": "<p>"}
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
