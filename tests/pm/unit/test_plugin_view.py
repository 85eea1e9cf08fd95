"""plugin list and info: every state, in every state of the files, and what a look at a hundred plugins imports."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from perdure_pm.adapters.filesystem import LocalFilesystem
from perdure_pm.model.choice import Choice, SitOut
from perdure_pm.model.errors import ConfigInvalid, UsageFault
from perdure_pm.ops.plugin_view import read_plugin, read_plugins
from perdure_pm.store.layout import Layout
from perdure_pm.store.published import load_published, load_sit_outs, save_published
from tests.pm.sample_home import make_generation, select_generation, snapshot

ENTRIES = ("Runs>=1", "resting", "sits; python_version<'3'", "crashed", "new", "beside @ file:///srv/beside")
TEXT = f"schema: 1\nplugins: {json.dumps(list(ENTRIES))}\ndisabled: [Resting, 'gone>=1']\n"
SIT_OUT = SitOut(entry=ENTRIES[2], reason="it does not fit", because={"python": "3.12.1"})


@pytest.fixture
def layout(home: Path) -> Layout:
    """A home with one plugin in each state."""
    layout = Layout(home)
    names = ("runs", "crashed", "left")
    plugins = [{"name": f"own-{name}", "distribution": name, "version": "1.0", "entry": "m:p"} for name in names]
    packages = [{"name": name, "version": "1.0"} for name in names]
    selection = ["Runs>=1", "crashed", "left", ENTRIES[5]]
    make_generation(layout, packages=packages, plugins=plugins, selection=selection)
    select_generation(layout)
    layout.profile_config("default").write_text(TEXT)
    crashes = layout.crashes("default")
    crashes.mkdir()
    for name, version in (("crashed", "1.0"), ("runs", "0.9"), ("other", "1.0")):
        note = {"distribution": name, "version": version, "during": "importing it", "at": "now"}
        (crashes / f"{name}.json").write_text(json.dumps(note))
    (crashes / "broken.json").write_text("{")
    publish(layout, TEXT)
    return layout


def publish(layout: Layout, text: str) -> None:
    """Have it noted what was published, as a publication does."""
    choice = Choice(plugins=ENTRIES, disabled=("Resting", "gone>=1"))
    save_published(LocalFilesystem(), layout, "default", text, choice, [SIT_OUT])


def states(data: dict[str, Any]) -> dict[str, str]:
    return {state["name"]: state["state"] for state in data["states"]}


@pytest.mark.proves("plugins-list-is-cheap")
@pytest.mark.parametrize("kept", ["kept", "stale", "gone", "damaged"])
def test_every_state_is_told_whether_the_note_of_the_publication_is_there_or_not(layout: Layout, kept: str) -> None:
    if kept == "stale":
        layout.profile_config("default").write_text(f"{TEXT}# more\n")
    elif kept == "gone":
        layout.published("default").unlink()
    elif kept == "damaged":
        layout.published("default").write_text('{"schema": 1, "config": 7, "plugins": [[1]]}')
    before = snapshot(layout.home)
    data = read_plugins(layout, "default")
    assert states(data) == {
        "runs": "runs",
        "resting": "disabled",
        "sits": "sits-out" if kept in {"kept", "stale"} else "not-installed-yet",
        "crashed": "skipped",
        "new": "not-installed-yet",
        "beside": "external",
        "left": "still-runs",
    }
    assert (data["wanted"], data["disabled"], data["in_line"]) == (list(ENTRIES), ["resting"], False)
    assert snapshot(layout.home) == before


def test_what_was_noted_is_read_back_and_written_once(layout: Layout) -> None:
    assert load_sit_outs(layout, "default") == (SIT_OUT,)
    inode = layout.published("default").stat().st_ino
    publish(layout, TEXT)
    assert layout.published("default").stat().st_ino == inode
    publish(layout, "# other\n")
    published = load_published(layout, "default")
    assert published is not None
    assert published.disabled == {"resting", "gone"}
    assert layout.published("default").stat().st_ino != inode


@pytest.mark.parametrize("text", [None, "", "schema: 1\n", "schema: 1\ndisabled: [left]\n"])
def test_a_configuration_without_a_list_stands_for_what_runs(layout: Layout, text: str | None) -> None:
    path = layout.profile_config("default")
    if text is None:
        path.unlink()
    else:
        path.write_text(text)
    data = read_plugins(layout, "default")
    off = text is not None and "left" in text
    expected = {"runs": "runs", "crashed": "skipped", "left": "still-runs" if off else "runs", "beside": "external"}
    assert states(data) == expected
    assert (data["wanted"], data["in_line"]) == ([], not off)


def test_faults_of_the_configuration_are_told(layout: Layout) -> None:
    layout.profile_config("default").write_text("plugins: 7\ndisabled: {}\n")
    with pytest.raises(ConfigInvalid) as caught:
        read_plugins(layout, "default")
    assert len(caught.value.context["faults"]) == 2  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["Runs", "runs>=1", "own-runs", "OWN_RUNS"])
def test_a_plugin_is_meant_by_any_of_its_names(layout: Layout, name: str) -> None:
    found = read_plugin(layout, "default", name)
    assert (found["name"], found["state"], found["version"], found["since"]) == (
        "runs",
        "runs",
        "1.0",
        "1-0123456789ab",
    )
    assert found["entries"] == [{"name": "own-runs", "entry": "m:p"}]


def test_a_plugin_that_is_not_there_is_told(layout: Layout) -> None:
    with pytest.raises(UsageFault):
        read_plugin(layout, "default", "nothing")
    assert read_plugin(layout, "default", "sits")["why"] == "it does not fit"
    assert read_plugin(layout, "default", "beside")["source"] == "file:///srv/beside"


LOOK = """
import json, sys
from pathlib import Path
from perdure_pm.ops.plugin_view import read_plugins
from perdure_pm.store.layout import Layout
count = len(read_plugins(Layout(Path(sys.argv[1])), "default")["states"])
print(json.dumps([count, sorted({name.partition(".")[0] for name in sys.modules}), sorted(sys.modules)]))
"""


@pytest.mark.proves("plugins-list-is-cheap")
def test_a_look_at_a_hundred_plugins_reads_neither_yaml_nor_a_requirement(home: Path) -> None:
    layout = Layout(home)
    names = [f"plugin-{number}" for number in range(100)]
    packages = [{"name": name, "version": "1.0"} for name in names]
    make_generation(layout, packages=packages, selection=names)
    select_generation(layout)
    text = "schema: 1\nplugins:\n" + "".join(f"- {name}\n" for name in names)
    layout.profile_config("default").write_text(text)
    save_published(LocalFilesystem(), layout, "default", text, Choice(plugins=tuple(names)), [])
    said = subprocess.run([sys.executable, "-I", "-c", LOOK, home], capture_output=True, text=True, check=True).stdout
    count, packages_seen, modules = json.loads(said)
    assert count == 100
    assert {"ruamel", "packaging", "subprocess", "importlib.metadata"}.isdisjoint(packages_seen + modules)
    assert not any(name.startswith(("perdure_pm.ops.publish", "perdure_pm.worker")) for name in modules)
