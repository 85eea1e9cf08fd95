"""The file of a trial: read with distrust, since a launcher acts on its mere presence."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from perdure_pm.adapters.filesystem import LocalFilesystem
from perdure_pm.model.errors import IntegrityFault
from perdure_pm.store.layout import Layout
from perdure_pm.store.trial import Trial, clear_trial, load_trial, save_trial

TRIAL = Trial(
    generation="2-0123456789ab",
    previous="1-0123456789ab",
    deadline=datetime(2026, 11, 29, 12, 30, tzinfo=UTC),
    starts=1,
)


@pytest.fixture
def layout(home: Path) -> Layout:
    return Layout(home)


def test_what_is_saved_is_read_and_can_be_cleared_twice(layout: Layout) -> None:
    assert load_trial(layout, "default") is None
    save_trial(LocalFilesystem(), layout, "default", TRIAL)
    assert load_trial(layout, "default") == TRIAL
    assert load_trial(layout, "other") is None
    for _ in range(2):
        clear_trial(LocalFilesystem(), layout, "default")
    assert load_trial(layout, "default") is None


@pytest.mark.proves("trial-broken-file-dropped")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        '"text"',
        "{}",
        '{"schema": 2}',
        '{"schema": 1, "generation": "2-0123456789ab"}',
        '{"schema": 1, "generation": "2-0123456789ab", "previous": "1-0123456789ab", "deadline": "soon", "starts": 0}',
        '{"schema": 1, "generation": "2-0123456789ab", "previous": "1-0123456789ab", "deadline": 7, "starts": 0}',
        '{"schema": 1, "generation": "2", "previous": "1", "deadline": "2026-11-29T12:30:00Z", "starts": ""}',
        "x" * 5000,
    ],
)
def test_what_is_no_trial_is_told(layout: Layout, text: str) -> None:
    layout.profile("default").mkdir(parents=True)
    layout.trial("default").write_text(text)
    with pytest.raises(IntegrityFault) as caught:
        load_trial(layout, "default")
    assert str(layout.trial("default")) in caught.value.summary


@pytest.mark.proves("trial-broken-file-dropped")
def test_a_directory_in_its_place_is_told_and_cleared(layout: Layout) -> None:
    layout.trial("default").mkdir(parents=True)
    with pytest.raises(IntegrityFault):
        load_trial(layout, "default")
    clear_trial(LocalFilesystem(), layout, "default")
    assert not layout.trial("default").exists()
