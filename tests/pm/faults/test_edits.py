"""A person edits the configuration between a death and the next operation: the edit stays, and is reported."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest

from perdure_pm.adapters.filesystem import LocalFilesystem
from perdure_pm.store.layout import Layout
from tests.pm.fake_host import PROFILE, Workshop
from tests.pm.faults.checking import Expected
from tests.pm.faults.faulting import STOP, Fault, FaultingFilesystem, Stopped
from tests.pm.faults.performing import COLLECT, TASKS, Task, perform, require_clean, require_starts, texts, what_runs

EDIT = "# edited after the crash\n"
INSTALL = Task(name="install", template="", operation="install")


@pytest.mark.proves("faults-edit-survives")
@pytest.mark.parametrize("name", ["plugin add", "plugin remove", "rollback"], ids=lambda name: name.replace(" ", "-"))
def test_an_edit_after_a_death_at_any_effect_stays_and_is_published_next(
    name: str, workshop: Workshop, fresh: Callable[[str], Layout], expected: Callable[[Task], Expected]
) -> None:
    """Case 34: the edited file wins over what the dead operation wanted to write; the home still starts."""
    task = TASKS[name]
    clean = expected(task)
    # Before the pending text is written, a death leaves nothing that could meet an edit.
    first = next(at for at, effect in enumerate(clean.effects, 1) if effect.endswith("/pending"))
    for at in range(first, len(clean.effects) + 1):
        layout = fresh(task.template)
        with contextlib.suppress(Stopped):
            perform(workshop, layout, task, FaultingFilesystem(layout.home, Fault(kind=STOP, at=at)))
        config = layout.profile_config(PROFILE)
        met = layout.pending_intent(PROFILE).exists() and what_runs(layout) == clean.after
        edited = config.read_text() + EDIT
        config.write_text(edited)
        found = what_runs(layout)

        ended = perform(workshop, layout, COLLECT, LocalFilesystem()).succeeded()
        assert ended.outcome is not None
        place = f"stop at effect {at} of {name} ({clean.effects[at - 1]})"
        assert texts(layout)["config.yaml1"] == edited, place
        assert any("your edit stays" in notice for notice in ended.outcome.obligations) == met, place
        assert what_runs(layout) == found, place
        require_starts(layout, found)
        require_clean(layout)

        perform(workshop, layout, INSTALL, LocalFilesystem()).succeeded()
        assert texts(layout)["config.yaml1"] == edited, place
        selected = what_runs(layout)
        assert selected is not None
        assert list(selected.plugins) == [line[2:].strip('"') for line in edited.splitlines() if line.startswith("- ")]
