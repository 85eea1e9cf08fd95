"""Plugins looked up anew: the ones that are named move, and what needs another Python is refused or sits out."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from perdure_pm.model.errors import PluginUnfit, UsageFault
from tests.pm.bench import Bench
from tests.pm.plugin_sources import write_plugin
from tests.pm.plugin_states import states
from tests.pm.wheels import write_wheel

pytestmark = pytest.mark.platforms("linux", "darwin")


@pytest.fixture
def moving(bench: Bench, tmp_path: Path) -> Bench:
    """A home with gadget and gizmo 1.0, and an index that has 2.0 of both and of what gadget needs since."""
    folder = tmp_path / "moving"
    shutil.copytree(bench.workshop.index, folder)
    write_wheel(folder, "gizmo", "1.0", requires=["sprocket"])
    bench.network = replace(bench.network, wheelhouse=folder)
    bench.call("plugin-add", requirements=["gadget", "gizmo", "part-1==1.0"])
    for name in ("gadget", "gizmo", "sprocket", "part-1"):
        write_wheel(folder, name, "2.0", requires=["sprocket"] if name in {"gadget", "gizmo"} else [])
    return bench


def versions(bench: Bench) -> dict[str, str]:
    return {package["name"]: package["version"] for package in bench.current.record["packages"]}


# An update


@pytest.mark.proves("plugins-update-named")
def test_an_update_moves_the_named_plugin_and_nothing_else(moving: Bench) -> None:
    before, text = versions(moving), moving.config.read_bytes()
    assert moving.call("install").status == "noop"
    planned = moving.call("plugin-update", moving.context(dry_run=True), names=["Gadget"])
    assert planned.data["plan"]["packages"] == [{"name": "gadget", "from": "1.0", "to": "2.0"}]
    assert moving.call("plugin-update", names=["Gadget"]).status == "ok"
    assert versions(moving) == {**before, "gadget": "2.0"}
    assert moving.call("plugin-update", names=["gadget"]).status == "noop"
    assert moving.pm("plugin", "update", "--json").envelope["status"] == "ok"
    assert versions(moving) == {**before, "gadget": "2.0", "gizmo": "2.0"}  # part-1 is pinned, sprocket no plugin
    assert moving.config.read_bytes() == text
    assert moving.call("rollback").status == "ok"
    assert versions(moving) == {**before, "gadget": "2.0"}
    with pytest.raises(UsageFault):
        moving.call("plugin-update", names=["nothing"])


@pytest.mark.proves("plugins-update-named")
def test_the_update_of_a_disabled_plugin_builds_nothing(moving: Bench) -> None:
    """Case 68, for a plugin from an index: it has no snapshot to move."""
    moving.call("plugin-disable", names=["gadget"])
    before = moving.generations
    stages: list[str] = []
    outcome = moving.call("plugin-update", moving.context(on_stage=stages.append), names=["gadget"])
    assert (outcome.status, moving.generations, "build" in stages) == ("noop", before, False)
    moving.call("plugin-enable", names=["gadget"])
    assert versions(moving)["gizmo"] == "1.0"


@pytest.mark.proves("plugins-update-named")
def test_the_update_of_a_disabled_plugin_from_a_directory_moves_its_copy_and_builds_no_environment(
    bench: Bench, tmp_path: Path
) -> None:
    """Case 68."""
    source = write_plugin(tmp_path / "notify", says="1")
    bench.add(str(source))
    bench.call("plugin-disable", names=["notify"])
    (source / "src" / "notify" / "__init__.py").write_text('plugin = "2"\n')
    before, generations, text = copies(bench), bench.generations, bench.config.read_bytes()
    stages: list[str] = []
    outcome = bench.call("plugin-update", bench.context(on_stage=stages.append), names=["Notify"])
    assert (outcome.status, outcome.data["copied"]) == ("ok", ["notify"])
    assert ("build" in stages, bench.generations, bench.config.read_bytes()) == (False, generations, text)
    assert len(copies(bench) - before) == 1
    assert bench.call("plugin-update").status == "noop"
    moved = copies(bench)
    bench.call("plugin-enable", names=["notify"])
    assert json.loads(bench.start().stdout)["plugins"]["notify"] == "2"
    assert copies(bench) == moved  # the one that was made then


def copies(bench: Bench) -> set[str]:
    """Return the names of the plugins that the store holds copies of."""
    return {path.name for path in (bench.layout.store / "plugins").iterdir()}


# What needs another Python


@pytest.mark.proves("plugins-sit-out")
@pytest.mark.parametrize("needing", ["gadget", "sprocket"])
def test_a_plugin_that_needs_another_python_is_refused_when_new_and_sits_out_when_not(
    moving: Bench, needing: str
) -> None:
    """Case 63; also where it is what the plugin needs that needs the other Python."""
    wheelhouse = moving.network.wheelhouse
    assert wheelhouse is not None
    for version in ("1.0", "2.0"):
        requires = ["sprocket"] if needing == "gadget" else []
        write_wheel(wheelhouse, needing, version, requires=requires, metadata=["Requires-Python: >=3.99"])
    write_wheel(wheelhouse, "gizmo", "2.0")
    before, text = versions(moving), moving.config.read_bytes()
    assert moving.call("install").status == "noop"  # what runs is not asked again
    outcome = moving.call("upgrade")
    (said,) = [line for line in outcome.obligations if "sits out" in line]
    who = "it" if needing == "gadget" else "sprocket"
    assert said.startswith(f"gadget sits out: {who}")
    assert "needs Python >=3.99, and this is 3." in said
    assert versions(moving) == {
        **{name: version for name, version in before.items() if name not in {"gadget", "sprocket"}},
        "gizmo": "2.0",
    }
    assert (states(moving)["gadget"], moving.config.read_bytes()) == ("sits-out", text)
    assert moving.call("install").status == "noop"  # known, and not resolved again
    # A person who asks for it now is told, and nothing changes.
    moving.call("plugin-remove", names=["gadget"])
    here = moving.current.identity
    ended = moving.pm("plugin", "add", "gadget", "--json")
    (error,) = ended.envelope["errors"]
    assert (ended.exit_code, error["code"], error["state"]) == (4, "plugin-unfit", "unchanged")
    assert "needs Python >=3.99" in error["summary"]
    assert moving.current.identity == here
    # It returns by itself once a version fits.
    moving.config.write_bytes(text)
    moving.call("upgrade")
    assert states(moving)["gadget"] == "sits-out"
    write_wheel(wheelhouse, needing, "3.0", requires=["sprocket"] if needing == "gadget" else [])
    moving.call("upgrade", consent=True)  # to what it needs, which went when it did
    assert states(moving)["gadget"] == "runs"


@pytest.mark.proves("plugins-sit-out")
def test_a_plugin_for_older_pythons_only_is_refused_when_new_and_sits_out_when_not(moving: Bench) -> None:
    """Case 63: a resolver heeds only the oldest Python that is said, so it is looked at once it is there."""
    wheelhouse = moving.network.wheelhouse
    assert wheelhouse is not None
    text, here = moving.config.read_bytes(), moving.current.identity
    write_wheel(wheelhouse, "part-5", "1.0", metadata=["Requires-Python: >=3.8,<3.10"])
    with pytest.raises(PluginUnfit) as caught:
        moving.call("plugin-add", requirements=["part-4", "part-5"])
    assert "part-5 cannot run here: it needs Python <3.10,>=3.8" in caught.value.summary
    assert (moving.current.identity, moving.config.read_bytes(), len(moving.generations)) == (here, text, 2)
    write_wheel(wheelhouse, "gadget", "3.0", metadata=["Requires-Python: <3.10"])
    outcome = moving.call("upgrade")
    assert any("gadget sits out: it needs Python <3.10" in said for said in outcome.obligations)
    assert (states(moving)["gadget"], "gadget" in versions(moving)) == ("sits-out", False)
    assert versions(moving)["gizmo"] == "2.0"
    assert moving.call("install").status == "noop"
    write_wheel(wheelhouse, "gadget", "4.0", requires=["sprocket"])
    assert moving.call("plugin-update", names=["gadget"]).status == "ok"
    assert (states(moving)["gadget"], versions(moving)["gadget"]) == ("runs", "4.0")
