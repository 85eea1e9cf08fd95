"""Generations on the disk: read with distrust."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from perdure_pm.model.errors import IntegrityFault, NothingInstalled
from perdure_pm.store.generations import (
    current_generation,
    list_generations,
    load_boot,
    load_current,
    load_generation,
    next_number,
)
from perdure_pm.store.layout import Layout
from tests.pm.sample_home import IDENTITY, make_generation, sample_record, select_generation


@pytest.fixture
def layout(home: Path) -> Layout:
    return Layout(home)


def test_a_selected_sealed_generation_is_loaded_with_its_record(layout: Layout) -> None:
    path = make_generation(layout)
    select_generation(layout)
    generation = load_current(layout, "default")
    assert (generation.identity, generation.number, generation.path) == (IDENTITY, 1, path)
    assert generation.record == sample_record()
    assert generation.python.exists()
    assert load_boot(layout, IDENTITY)["generation"] == IDENTITY


def test_an_empty_home_has_nothing_installed_and_nothing_is_made(layout: Layout) -> None:
    with pytest.raises(NothingInstalled) as caught:
        load_current(layout, "default")
    assert caught.value.hint == "perdure-pm install --checkout DIR"
    assert current_generation(layout, "default") is None
    assert list_generations(layout) == ([], [])
    assert next_number(layout) == 1
    assert not layout.home.exists()


@pytest.mark.proves("pm-pointer-inside-home")
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"schema": 2}, "its schema is 2, and this version of PM reads 1"),
        ({"id": "2-0123456789ab"}, "it is the record of 2-0123456789ab"),
        ({"number": 2}, "it is the record of 1-0123456789ab"),
        ({"host": []}, "its host is missing or not dict"),
        ({"plugins": [{"name": "x"}]}, "its plugins lack one of name, distribution, version, entry"),
        ({"host": {**sample_record()["host"], "commands": ["../x"]}}, "its host's commands are not a list of names"),
        *(
            (
                {"wheels": [{"file": "a", "sha256": "", "path": path}]},
                f"it names {path!r}, which is outside the home",
            )
            for path in ("/etc/passwd", "../x", "store/../../x", "C:\\x", "store\\..\\x")
        ),
    ],
)
def test_a_record_that_is_not_of_the_form_is_refused_with_the_reason(
    layout: Layout, changes: dict[str, object], reason: str
) -> None:
    path = make_generation(layout)
    (path / "record.json").write_text(json.dumps({**sample_record(), **changes}), encoding="utf-8")
    select_generation(layout)
    with pytest.raises(IntegrityFault) as caught:
        load_current(layout, "default")
    assert caught.value.context["reason"] == reason
    assert current_generation(layout, "default") is None
    assert [(found.identity, found.reason) for found in list_generations(layout)[1]] == [(IDENTITY, reason)]


@pytest.mark.parametrize("text", ["", "[]", "null", "{", "[" * 100_000, "\xff"])
def test_a_record_that_is_not_json_is_damage(layout: Layout, text: str) -> None:
    path = make_generation(layout)
    (path / "record.json").write_text(text, encoding="latin-1")
    with pytest.raises(IntegrityFault):
        load_generation(layout, IDENTITY)


@pytest.mark.proves("pm-pointer-inside-home")
@pytest.mark.parametrize("where", ["record.json", "", "..", "../.."])
def test_a_link_in_the_place_of_a_part_is_refused(layout: Layout, tmp_path: Path, where: str) -> None:
    path = make_generation(layout)
    place = Path(str(path / where)).resolve() if where else path
    moved = tmp_path / "moved"
    shutil.move(place, moved)
    place.symlink_to(moved)
    with pytest.raises(IntegrityFault):
        load_generation(layout, IDENTITY)
    assert list_generations(layout)[0] == []


def test_candidates_without_a_record_are_neither_sealed_nor_damaged(layout: Layout) -> None:
    path = make_generation(layout)
    (path / "record.json").unlink()
    (layout.generations / "notes.txt").write_text("mine", encoding="utf-8")
    assert list_generations(layout) == ([], [])
    assert next_number(layout) == 2


def test_sealed_generations_are_listed_newest_first_by_number(layout: Layout) -> None:
    for identity in ("2-0123456789ab", "10-0123456789ab", "9-0123456789ab"):
        make_generation(layout, identity)
    (layout.trash / "12-0123456789ab").mkdir(parents=True)
    assert [found.number for found in list_generations(layout)[0]] == [10, 9, 2]
    assert next_number(layout) == 13
