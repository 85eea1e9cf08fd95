"""The file of a trial: read with distrust, since a launcher acts on its mere presence."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from perdure_pm.adapters.filesystem import LocalFilesystem
from perdure_pm.model.errors import IntegrityFault
from perdure_pm.store.layout import Layout
from perdure_pm.store.trial import MAX_DEPTH, Trial, clear_trial, load_trial, put_on_top, save_trial

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
        "[" * 4000,
        '{"schema": 1, "generation": "2", "previous": "1", "deadline": "2026-11-29T12:30:00Z", "replaced": {}}',
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


def named(number: int) -> str:
    return f"{number}-0123456789ab"


def piled(*numbers: int) -> Trial:
    """Return trials of the generations with these numbers, each on top of the one before; 1 was confirmed."""
    found: Trial | None = None
    previous = 1
    for number in numbers:
        fresh = replace(TRIAL, generation=named(number), previous=named(previous))
        found, previous = put_on_top(fresh, found), number
    assert found is not None
    return found


def ways_back(trial: Trial) -> list[str]:
    """Return what is selected when one after the other fails."""
    found = [trial.generation, trial.previous]
    while trial.replaced is not None and trial.replaced.generation == trial.previous:
        trial = trial.replaced
        found.append(trial.previous)
    return found


@pytest.mark.proves("trial-waits-below")
@pytest.mark.parametrize(
    ("numbers", "back"),
    [
        ((2,), [2, 1]),
        ((2, 3), [3, 2, 1]),
        ((2, 3, 4), [4, 3, 2, 1]),
        ((2, 3, 2), [2, 3, 1]),
        ((2, 3, 4, 3), [3, 4, 2, 1]),
    ],
)
def test_trials_are_gone_back_through_one_by_one(numbers: tuple[int, ...], back: list[int]) -> None:
    assert ways_back(piled(*numbers)) == [named(number) for number in back]


@pytest.mark.proves("trial-waits-below")
def test_the_file_stays_small_and_the_last_confirmed_one_is_still_reached(layout: Layout) -> None:
    trial = piled(*range(2, 100))
    save_trial(LocalFilesystem(), layout, "default", trial)
    assert load_trial(layout, "default") == trial
    back = ways_back(trial)
    assert back[: MAX_DEPTH + 1] == [named(number) for number in range(99, 99 - MAX_DEPTH - 1, -1)]
    assert back[-1] == named(1)
