"""The pointer: whatever its bytes, it names a generation of this home or nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure_pm.adapters.filesystem import LocalFilesystem
from perdure_pm.model.errors import IntegrityFault, UsageFault
from perdure_pm.model.identity import parse_generation_number, parse_profile
from perdure_pm.store.layout import Layout
from perdure_pm.store.pointer import list_profiles, load_pointer, save_pointer
from tests.pm.sample_home import IDENTITY, select_generation, snapshot

pytestmark = pytest.mark.proves("pm-pointer-inside-home")


@pytest.fixture
def layout(home: Path) -> Layout:
    return Layout(home)


def test_what_is_saved_is_loaded(layout: Layout) -> None:
    assert load_pointer(layout, "default") is None
    save_pointer(LocalFilesystem(), layout, "default", IDENTITY)
    assert load_pointer(layout, "default") == IDENTITY
    assert layout.pointer("default").read_bytes() == f"{IDENTITY}\n".encode()
    assert list_profiles(layout) == ["default"]


@pytest.mark.platforms("linux", "darwin")
def test_a_link_to_itself_among_the_profiles_hides_no_other(layout: Layout) -> None:
    layout.profile("work").mkdir(parents=True)
    layout.profile("default").symlink_to("default")
    assert list_profiles(layout) == ["work"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "../../etc",
        "/etc/passwd",
        "0-0123456789ab",
        "1-0123456789AB",
        "1-0123456789abc",
        "01-0123456789ab",
        "1-0123456789ab/../x",
        "1-0123456789ab\n2-0123456789ab",
        "1-0123456789ab\0",
        "\uff11-0123456789ab",
        "x" * 100,
    ],
)
def test_other_bytes_are_damage_and_not_a_path(layout: Layout, text: str) -> None:
    select_generation(layout, text)
    with pytest.raises(IntegrityFault) as caught:
        load_pointer(layout, "default")
    assert caught.value.state == "needs-recovery"


@given(st.text())
def test_no_text_but_an_id_is_an_id(text: str) -> None:
    if parse_generation_number(text) is not None:
        assert "/" not in text
        assert "." not in text


@pytest.mark.parametrize("where", ["pointer", "profile", "profiles"])
def test_a_link_on_the_way_is_refused_and_nothing_behind_it_is_touched(
    layout: Layout, tmp_path: Path, where: str
) -> None:
    outside = Layout(tmp_path / "outside")
    select_generation(outside)
    pointer = layout.pointer("default")
    link, target = {
        "pointer": (pointer, outside.pointer("default")),
        "profile": (pointer.parent, outside.profile("default")),
        "profiles": (pointer.parent.parent, outside.profile("default").parent),
    }[where]
    link.parent.mkdir(parents=True)
    link.symlink_to(target)
    before = snapshot(outside.home)
    with pytest.raises(IntegrityFault) as caught:
        load_pointer(layout, "default")
    assert str(caught.value.hint).startswith(f"remove the link {link}"), "an install would refuse it too"
    with pytest.raises(IntegrityFault):
        save_pointer(LocalFilesystem(), layout, "default", "2-0123456789ab")
    assert snapshot(outside.home) == before


@pytest.mark.platforms("linux", "darwin")
def test_a_pointer_that_is_no_file_is_refused_and_not_waited_for(layout: Layout) -> None:
    pointer = layout.pointer("default")
    pointer.parent.mkdir(parents=True)
    os.mkfifo(pointer)
    with pytest.raises(IntegrityFault):
        load_pointer(layout, "default")


def test_no_other_text_is_ever_written(layout: Layout) -> None:
    with pytest.raises(IntegrityFault):
        save_pointer(LocalFilesystem(), layout, "default", "../x")
    assert not layout.home.exists()


@pytest.mark.parametrize("name", ["..", ".", "a/b", "", "a\0b", "-a"])
def test_a_profile_that_would_be_another_path_is_refused(layout: Layout, name: str) -> None:
    with pytest.raises(UsageFault):
        load_pointer(layout, name)
    with pytest.raises(UsageFault):
        parse_profile(name)
