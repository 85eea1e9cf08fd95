"""Plugins that run from where they are edited: edits run, contents are checked, what is gone is told."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from perdure_pm.adapters.filesystem import LocalFilesystem
from perdure_pm.model.errors import ConfigInvalid, SourceUnusable, UsageFault
from perdure_pm.ops.doctor import examine
from perdure_pm.ops.editable_wheel import write_editable_wheel
from perdure_pm.ops.wheelhouse import require_carriable
from tests.pm.bench import Bench
from tests.pm.plugin_sources import (
    project,
    says,
    snapshots,
    without_uv,
    write_files,
    write_manifest_plugin,
    write_plugin,
)
from tests.pm.wheels import write_wheel
from tests.system.machine import fingerprint

pytestmark = pytest.mark.platforms("linux", "darwin")


def add(bench: Bench, *places: Path | str) -> str:
    """Have directories added to be edited, and return the generation."""
    return bench.add(*map(str, places), editable=True)


def edit(folder: Path, what: str, *, below: str = "src/notify") -> None:
    """Have a plugin say something else, of another length: byte code is known by a source's size and its second."""
    (folder / below / "__init__.py").write_text(f'plugin = "{what}"\n', encoding="utf-8")


def problems(bench: Bench) -> list[dict[str, Any]]:
    """Return what doctor finds wrong with generations and plugins; the fake home has no runtime of PM's."""
    found = examine(bench.layout, "default", deep=True)["problems"]
    return [problem for problem in found if problem["generation"]]


@pytest.mark.proves("editable-runs-in-place")
@pytest.mark.parametrize("kind", ["project", "manifest"])
def test_what_is_edited_is_what_runs_and_nothing_is_built_for_it(bench: Bench, tmp_path: Path, kind: str) -> None:
    # A path that no path file could hold as it is, whatever the locale.
    folder, below = tmp_path / 'Grüße an\'s "Werk"', "src/notify"
    if kind == "project":
        write_plugin(folder, says="1")
    else:
        write_manifest_plugin(folder, says="1")
        below = "notify"
    before = fingerprint(folder)
    add(bench, folder)
    assert fingerprint(folder) == before
    assert says(bench) == {"fakehost-clock": "0.1.0", "notify": "1"}
    edit(folder, "edited", below=below)
    assert says(bench)["notify"] == "edited"
    (folder / below / "more.py").write_text('said = "3"\n')
    (folder / below / "__init__.py").write_text("from notify.more import said as plugin\n")
    assert says(bench)["notify"] == "3"
    without_uv(bench)
    assert bench.call("install").status == "noop"


@pytest.mark.proves("editable-runs-in-place")
def test_other_metadata_and_another_place_of_the_modules_are_a_new_generation(bench: Bench, tmp_path: Path) -> None:
    folder = write_plugin(tmp_path / "notify")
    first = add(bench, folder)
    (folder / "pyproject.toml").write_text(project(more='dependencies = ["gadget"]'))
    second = str(bench.call("install").data["generation"])
    assert second != first
    assert "gadget" in {package["name"] for package in bench.current.record["packages"]}
    (folder / "src" / "notify").rename(folder / "notify")
    (folder / "src").rmdir()
    (folder / "pyproject.toml").write_text(project() + '[tool.uv.build-backend]\nmodule-root = ""\n')
    assert bench.call("install").status == "ok"
    edit(folder, "flat", below="notify")
    assert says(bench)["notify"] == "flat"


@pytest.mark.proves("editable-marked")
def test_it_is_marked_wherever_it_is_shown_and_carried_nowhere(bench: Bench, tmp_path: Path) -> None:
    folder = write_plugin(tmp_path / "notify")
    assert bench.pm("plugin", "add", "--editable", str(folder)).exit_code == 0
    entry = f"notify @ file://{folder}#editable"
    assert f"- {entry}" in bench.config.read_text().replace('"', "")
    (source,) = bench.current.record["sources"]
    assert (source["entry"], source["editable"]) == (entry, True)
    assert "notify 1.0 (editable)" in bench.pm("status").out
    assert "runs, from where it is edited" in bench.pm("plugin", "list").out
    assert "runs, from where it is edited" in bench.pm("plugin", "info", "notify").out
    listed = json.loads(bench.pm("plugin", "list", "--json").out)["data"]["states"]
    assert {state["name"]: state["editable"] for state in listed} == {"fakehost-clock": False, "notify": True}
    with pytest.raises(SourceUnusable, match="cannot be carried: notify runs from where it is edited"):
        bench.call("stage", out=str(tmp_path / "payload"))
    assert not (tmp_path / "payload").exists()
    # Added as it is now, what is edited then does not run any more.
    bench.add(f"notify @ file://{folder}")
    require_carriable([bench.current])
    edit(folder, "later")
    assert says(bench)["notify"] == "1"
    bench.call("rollback")
    assert says(bench)["notify"] == "later"
    assert entry in bench.config.read_text()


@pytest.mark.proves("editable-gone-named")
def test_a_directory_that_is_gone_is_named_by_everything_and_keeps_nothing_from_being_taken_out(
    bench: Bench, tmp_path: Path
) -> None:
    folder = write_plugin(tmp_path / "notify")
    bench.add("gadget")
    held = add(bench, folder)
    moved = folder.rename(tmp_path / "elsewhere")
    with pytest.raises(SourceUnusable, match=f"the plugin notify runs from {folder}, which is gone"):
        bench.call("plugin-disable", names=["gadget"])
    (problem,) = problems(bench)
    assert (problem["code"], problem["summary"]) == (
        "editable-gone",
        f"the plugin notify runs from {folder}, which is gone",
    )
    assert problem["summary"] in bench.pm("doctor").out
    assert bench.pm("plugin", "remove", "notify").exit_code == 0
    assert problems(bench) == []
    outcome = bench.call("rollback", to=held)
    assert outcome.obligations == (f"the plugin notify runs from {folder}, which is gone",)
    moved.rename(folder)
    assert says(bench)["notify"] == "1"
    assert problems(bench) == []


@pytest.mark.proves("editable-runs-in-place")
def test_what_lies_in_the_generation_is_checked_and_mended(bench: Bench, tmp_path: Path) -> None:
    folder = write_plugin(tmp_path / "notify")
    add(bench, folder)
    (link,) = bench.current.environment.rglob("__editable__.notify.pth")
    LocalFilesystem().remove_tree(link)
    (problem,) = problems(bench)
    assert problem["files"][0]["distribution"].startswith("notify")
    (folder / "pyproject.toml").write_text("[")  # a repair follows the record and looks at no metadata
    edit(folder, "edited")
    bench.call("repair")
    assert says(bench)["notify"] == "edited"


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("{there}/notify-1.0-py3-none-any.whl", "only a directory can run from where it is edited"),
        ("notify", "only a directory can run from where it is edited"),
        ("git+file://{there}/notify", "only a directory can run from where it is edited"),
        ("{there}/nowhere", "there is no "),
        ("{there}/bridge", "runs from its directory in any case"),
    ],
)
def test_what_cannot_be_edited_in_place_is_refused(bench: Bench, tmp_path: Path, word: str, said: str) -> None:
    write_wheel(tmp_path, "notify", "1.0")
    manifest = "manifest: 1\nname: bridge\nruntime: external\nexternal: {command: [sh]}\n"
    write_files(tmp_path / "bridge", {"plugin.yaml": manifest})
    before = bench.config.read_text()
    with pytest.raises((UsageFault, SourceUnusable), match=said):
        add(bench, word.format(there=tmp_path))
    assert bench.config.read_text() == before
    assert snapshots(bench) == []


def test_a_mark_behind_what_is_no_directory_is_a_fault_of_the_file(bench: Bench) -> None:
    bench.config.write_text('schema: 1\nplugins: ["notify @ file:///srv/notify-1.0.tar.gz#editable"]\n')
    with pytest.raises(ConfigInvalid, match="only a directory can be edited"):
        bench.call("install")


@pytest.mark.proves("editable-runs-in-place")
def test_a_module_that_only_the_build_makes_refuses_it_by_name(tmp_path: Path) -> None:
    folder = tmp_path / "notify"
    write_files(folder, {"notify/__init__.py": "", "src/other/__init__.py": ""})
    more = {"notify/_version.py": "", "notify/data.json": "{}", "notify-1.0.data/scripts/notify": "#!python\n"}
    built = write_wheel(tmp_path, "notify", "1.0", more=more, tag="cp311-cp311-linux_x86_64")
    with pytest.raises(SourceUnusable, match=f"notify/_version.py, which is neither in {folder}/src nor in {folder}"):
        write_editable_wheel(built, folder, "notify")
    write_files(folder, {"notify/_version.py": ""})
    made = write_editable_wheel(built, folder, "notify")
    assert made.name == "notify-1.0-py3-none-any.whl"
    with zipfile.ZipFile(made) as archive:
        assert sorted(archive.namelist()) == [
            "__editable__.notify.pth",
            "notify-1.0.data/scripts/notify",
            *(f"notify-1.0.dist-info/{name}" for name in ("METADATA", "RECORD", "WHEEL", "entry_points.txt")),
            "notify-1.0.dist-info/top_level.txt",
        ]
