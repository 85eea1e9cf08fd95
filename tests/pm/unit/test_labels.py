"""Pins and labels: the file that collection trusts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure_pm.adapters.filesystem import LocalFilesystem
from perdure_pm.model.errors import IntegrityFault, UsageFault
from perdure_pm.store.generations import find_generation
from perdure_pm.store.labels import Labels, load_labels, load_names, parse_label, save_labels
from perdure_pm.store.layout import Layout
from tests.pm.sample_home import make_generation

ONE, TWO = "1-0123456789ab", "12-0123456789ab"


@pytest.fixture
def layout(home: Path) -> Layout:
    return Layout(home)


def test_a_home_without_the_file_holds_nothing(layout: Layout) -> None:
    assert load_labels(layout) == Labels()
    assert Labels().held == frozenset()


def test_what_is_saved_is_read_and_all_of_it_is_held(layout: Layout) -> None:
    labels = Labels(frozenset([ONE]), {"good": TWO, "also-good": TWO})
    save_labels(LocalFilesystem(), layout, labels)
    assert load_labels(layout) == labels
    assert labels.held == {ONE, TWO}


@pytest.mark.proves("labels-damage-refused")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "[" * 100_000,
        "null",
        "7",
        "{}",
        '{"schema": 2, "pinned": [], "labels": {}}',
        '{"schema": 1, "pinned": [], "labels": []}',
        '{"schema": 1, "pinned": null, "labels": {}}',
        '{"schema": 1, "labels": {}}',
    ],
)
def test_a_damaged_file_is_told_and_never_taken_for_no_pins(layout: Layout, text: str) -> None:
    layout.store.mkdir(parents=True)
    layout.labels.write_text(text)
    with pytest.raises(IntegrityFault) as caught:
        load_labels(layout)
    assert (caught.value.context["path"], str(layout.labels) in str(caught.value.hint)) == (str(layout.labels), True)


@pytest.mark.proves("rollback-finds-what-is-meant")
def test_a_number_and_an_id_name_a_generation_while_the_file_is_damaged(layout: Layout) -> None:
    make_generation(layout, ONE)
    layout.labels.write_text("[]")
    for wanted in ("1", ONE, "1-01"):
        assert find_generation(layout, wanted, load_names(layout, wanted)).identity == ONE
    with pytest.raises(IntegrityFault, match="does not hold an object"):
        load_names(layout, "good")


@pytest.mark.proves("labels-damage-refused")
def test_a_link_in_its_place_is_refused(layout: Layout, tmp_path: Path) -> None:
    layout.store.mkdir(parents=True)
    (tmp_path / "other.json").write_text('{"schema": 1, "pinned": [], "labels": {}}')
    layout.labels.symlink_to(tmp_path / "other.json")
    with pytest.raises(IntegrityFault):
        load_labels(layout)


@pytest.mark.parametrize("name", ["good", "G", "before-the-upgrade", "v1.2_3", "a" * 64])
def test_a_label_is_a_name(name: str) -> None:
    assert parse_label(name) == name


@pytest.mark.parametrize("name", ["", "1", "1-0123456789ab", "-x", ".x", "a b", "a/b", "ä", "a" * 65, "good\n"])
def test_what_could_be_taken_for_something_else_is_no_label(name: str) -> None:
    with pytest.raises(UsageFault):
        parse_label(name)


@given(st.from_regex(r"[A-Za-z][A-Za-z0-9._-]{0,20}", fullmatch=True))
def test_no_label_reads_as_a_number_or_an_id(name: str) -> None:
    assert not parse_label(name)[0].isdigit()


@pytest.mark.proves("rollback-finds-what-is-meant")
@pytest.mark.parametrize(
    ("wanted", "found"), [("1", ONE), ("12", TWO), (ONE, ONE), ("1-", ONE), ("1-01", ONE), ("12-0", TWO), ("good", TWO)]
)
def test_a_generation_is_found_by_number_id_prefix_and_label(layout: Layout, wanted: str, found: str) -> None:
    for identity in (ONE, TWO):
        make_generation(layout, identity)
    assert find_generation(layout, wanted, {"good": TWO}).identity == found


@pytest.mark.proves("rollback-finds-what-is-meant")
@pytest.mark.parametrize(
    "wanted", ["", "2", "0", "-1", "1-9", "0123", "\N{ARABIC-INDIC DIGIT ONE}", "bad", "1-0123456789abc", "../1"]
)
def test_what_means_none_is_told(layout: Layout, wanted: str) -> None:
    make_generation(layout, ONE)
    with pytest.raises(UsageFault) as caught:
        find_generation(layout, wanted, {"good": ONE})
    assert caught.value.context["wanted"] == wanted


@pytest.mark.proves("rollback-finds-what-is-meant")
def test_a_label_of_a_generation_that_is_gone_is_told(layout: Layout) -> None:
    with pytest.raises(IntegrityFault):
        find_generation(layout, "good", {"good": ONE})


def test_the_file_is_small_and_plain(layout: Layout) -> None:
    save_labels(LocalFilesystem(), layout, Labels(frozenset([TWO, ONE]), {"b": ONE, "a": TWO}))
    assert json.loads(layout.labels.read_text()) == {
        "schema": 1,
        "pinned": [TWO, ONE] if TWO < ONE else [ONE, TWO],
        "labels": {"a": TWO, "b": ONE},
    }
