"""The history of selections: what is appended is read, whatever a crash left between."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure_pm.adapters.filesystem import LocalFilesystem
from perdure_pm.store.history import Selection, append_selection, find_previous, load_history
from perdure_pm.store.layout import Layout

AT = datetime(2026, 11, 29, 12, tzinfo=UTC)
ONE, TWO, THREE = (f"{number}-{number:012x}" for number in (1, 2, 3))


def selection(generation: str, before: str | None = None, operation: str = "install") -> Selection:
    return Selection(at=AT, generation=generation, before=before, operation=operation)


def came_by(operation: str, generation: str, before: str) -> Selection:
    return replace(selection(generation, before), operation=operation)


@pytest.fixture
def layout(home: Path) -> Layout:
    found = Layout(home)
    found.profile("default").mkdir(parents=True)
    return found


def test_what_is_appended_is_read_oldest_first(layout: Layout) -> None:
    written = [selection(ONE), selection(TWO, ONE, "plugin-add"), selection(ONE, TWO, "rollback")]
    for entry in written:
        append_selection(LocalFilesystem(), layout, "default", entry)
    assert load_history(layout, "default") == written
    assert load_history(layout, "other") == []


@pytest.mark.proves("history-survives-a-cut")
@pytest.mark.parametrize("cut", [1, 20, 60])
def test_a_line_that_a_crash_cut_off_swallows_no_other(layout: Layout, cut: int) -> None:
    filesystem = LocalFilesystem()
    append_selection(filesystem, layout, "default", selection(ONE))
    append_selection(filesystem, layout, "default", selection(TWO, ONE))
    path = layout.history("default")
    path.write_bytes(path.read_bytes()[:-cut])
    append_selection(filesystem, layout, "default", selection(THREE, TWO))
    found = load_history(layout, "default")
    # Without nothing but its line feed, the line is whole.
    assert found == [selection(ONE), *([selection(TWO, ONE)] if cut == 1 else []), selection(THREE, TWO)]


@pytest.mark.proves("history-survives-a-cut")
@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b"\xff\xfe",
        b'{"at": "yesterday", "generation": "1-000000000001", "from": null}',
        b'{"at": "2026-11-29T12:00:00Z", "generation": "../../etc", "from": null}',
        b'{"at": "2026-11-29T12:00:00Z", "generation": 7, "from": null}',
        b'{"at": "2026-11-29T12:00:00Z", "generation": "1-000000000001", "from": "/"}',
        b'{"at": "2026-11-29T12:00:00Z", "from": null}',
        b"\0" * 200,
    ],
)
def test_what_is_no_selection_is_left_out(layout: Layout, line: bytes) -> None:
    good = json.dumps({"at": "2026-11-29T12:00:00Z", "generation": ONE, "from": None, "operation": "install"})
    layout.history("default").write_bytes(line + b"\n" + good.encode() + b"\n" + line + b"\n")
    assert load_history(layout, "default") == [selection(ONE)]


@pytest.mark.proves("rollback-previous", "rollback-not-to-rejected")
@pytest.mark.parametrize(
    ("history", "selected", "previous"),
    [
        ([], None, None),
        ([], ONE, None),
        ([selection(ONE)], ONE, None),
        ([selection(ONE), selection(TWO, ONE)], TWO, ONE),
        ([selection(ONE), selection(TWO, ONE), selection(ONE, TWO)], ONE, TWO),
        ([selection(ONE), selection(TWO, ONE), selection(THREE, TWO), selection(TWO, THREE)], TWO, THREE),
        # The crash after a commit, before its line: what the last line selected is what went before.
        ([selection(ONE), selection(TWO, ONE)], THREE, TWO),
        ([selection(ONE)], TWO, ONE),
        ([selection(ONE), selection(TWO, ONE)], ONE, TWO),
        # What a repair rebuilt is what it was rebuilt from.
        ([selection(ONE), selection(TWO, ONE), came_by("repair", THREE, TWO)], THREE, ONE),
        ([selection(ONE), came_by("repair", TWO, ONE)], TWO, None),
        # What a trial rejected was never kept.
        ([selection(ONE), selection(TWO, ONE), came_by("trial-failed", ONE, TWO)], ONE, None),
        (
            [selection(ONE), selection(TWO, ONE), selection(THREE, TWO), came_by("trial-failed", TWO, THREE)],
            TWO,
            ONE,
        ),
        # A person who selected it again all the same is followed.
        (
            [
                selection(ONE),
                selection(TWO, ONE),
                came_by("trial-failed", ONE, TWO),
                came_by("rollback", TWO, ONE),
                came_by("rollback", ONE, TWO),
            ],
            ONE,
            TWO,
        ),
    ],
)
def test_what_was_selected_before_is_known_also_after_a_crash(
    history: list[Selection], selected: str | None, previous: str | None
) -> None:
    assert find_previous(history, selected) == previous


@pytest.mark.proves("rollback-previous")
@given(st.lists(st.sampled_from([ONE, TWO, THREE]), min_size=1, max_size=12), st.booleans())
def test_the_previous_one_is_the_one_that_ran_before(chosen: list[str], crashed: bool) -> None:
    ran = [name for at, name in enumerate(chosen) if at == 0 or chosen[at - 1] != name]
    history = [
        Selection(
            at=AT + timedelta(seconds=at), generation=name, before=ran[at - 1] if at else None, operation="rollback"
        )
        for at, name in enumerate(ran)
    ]
    expected = ran[-2] if len(ran) > 1 else None
    assert find_previous(history[:-1] if crashed and expected else history, ran[-1]) == expected
