"""plugin new: the names that a plugin may have, and all files or none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from perdure_pm.model.errors import HomeUnusable, UsageFault
from perdure_pm.ops.skeleton import write_plugin
from perdure_pm.store.layout import Layout
from tests.pm.sample_home import make_generation, sample_record, select_generation


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "home")


@pytest.mark.proves("skeleton-whole-or-none")
def test_every_file_is_written_with_the_names_filled_in(layout: Layout, tmp_path: Path) -> None:
    data = write_plugin(layout, "default", str(tmp_path / "My.Plugin"), dry_run=False)
    folder = tmp_path / "My.Plugin"
    assert (data["name"], data["path"]) == ("my-plugin", str(folder))
    files = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    assert files == data["files"]
    assert "src/my_plugin/__init__.py" in files
    for path in files:
        assert not {"@NAME@", "@MODULE@", "@TOOL@"} & set((folder / path).read_text().split())
        assert "@NAME@" not in (folder / path).read_text()
    assert os.listdir(tmp_path) == ["My.Plugin"]


@pytest.mark.proves("skeleton-whole-or-none")
def test_what_cannot_be_written_leaves_nothing(layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_source: Path, target: Path) -> None:
        raise OSError(5, "broken", str(target))

    monkeypatch.setattr(os, "rename", fail)
    with pytest.raises(HomeUnusable):
        write_plugin(layout, "default", str(tmp_path / "mine"), dry_run=False)
    assert os.listdir(tmp_path) == []


def test_a_dry_run_writes_nothing(layout: Layout, tmp_path: Path) -> None:
    assert "plugin.yaml" in str(write_plugin(layout, "default", str(tmp_path / "mine"), dry_run=True)["files"])
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("json", "a module of Python itself"),
        ("class", "cannot be imported"),
        ("1st", "cannot be imported"),
        ("a b", "is no distribution's name"),
        ("-a", "is no distribution's name"),
        ("perdure", "the host"),
        ("perdure-mine", "ships with the application"),
        ("Click", "has a distribution of that name"),
        ("a" * 51, "too long"),
    ],
)
def test_names_that_cannot_be(layout: Layout, tmp_path: Path, name: str, said: str) -> None:
    make_generation(layout)
    select_generation(layout)
    with pytest.raises(UsageFault) as caught:
        write_plugin(layout, "default", str(tmp_path / name), dry_run=False)
    assert said in caught.value.summary
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize("place", ["", "  "])
def test_an_empty_name_is_told_as_that(layout: Layout, place: str) -> None:
    with pytest.raises(UsageFault, match="is empty"):
        write_plugin(layout, "default", place, dry_run=False)


@pytest.mark.parametrize("there", ["directory", "file", "link"])
def test_what_is_there_stays(layout: Layout, tmp_path: Path, there: str) -> None:
    path = tmp_path / "mine"
    if there == "directory":
        path.mkdir()
    elif there == "file":
        path.write_text("mine")
    else:
        path.symlink_to(tmp_path / "nowhere")
    with pytest.raises(UsageFault, match="is there already"):
        write_plugin(layout, "default", str(path), dry_run=False)


def test_another_application_is_told(layout: Layout, tmp_path: Path) -> None:
    make_generation(layout, host={**sample_record()["host"], "name": "datasette"})
    select_generation(layout)
    with pytest.raises(UsageFault, match="hosts datasette"):
        write_plugin(layout, "default", str(tmp_path / "mine"), dry_run=False)
