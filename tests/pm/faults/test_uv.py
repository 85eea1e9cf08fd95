"""uv that is killed, refuses, lies, or dies in the middle, at its first call, its second, and so on.

What stands in the home for uv is a script: it counts its calls, and at the chosen one does not do what it should.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from perdure_pm.model.errors import ConflictRefused, PerdureError
from perdure_pm.store.generations import list_unsealed
from perdure_pm.store.layout import Layout
from tests.pm.fake_host import Workshop, replace_uv
from tests.pm.faults.checking import Expected, check, choose_following
from tests.pm.faults.faulting import FaultingFilesystem
from tests.pm.faults.performing import TASKS, Task, perform

MISDEEDS = {
    "killed": "kill -9 $$",
    "refuses": "echo 'error: the tests say no' >&2; exit 2",
    "lies": "echo 'done: \\\\ == --hash [garbage]'; exit 0",
    "dies midway": '"@UV@" "$@" & child=$!; sleep 0.02; kill -9 $child; wait; kill -9 $$',
}
"""What uv does in the place of its work."""

_SCRIPT = """calls=$(($(cat "@COUNT@") + 1))
echo $calls >"@COUNT@"
if [ $calls = @AT@ ]; then
    @MISDEED@
fi
exec "@UV@" "$@"
"""

pytestmark = pytest.mark.platforms("linux", "darwin")


@pytest.mark.proves("faults-uv")
@pytest.mark.parametrize("misdeed", MISDEEDS)
@pytest.mark.parametrize("name", ["first install", "plugin add", "upgrade"], ids=lambda name: name.replace(" ", "-"))
def test_whatever_uv_does_at_any_call_the_old_generation_stays_or_the_new_one_is_right(
    name: str,
    misdeed: str,
    workshop: Workshop,
    fresh: Callable[[str], Layout],
    expected: Callable[[Task], Expected],
    tmp_path: Path,
    figure: Callable[[str], None],
) -> None:
    task = TASKS[name]
    clean = expected(task)
    count = tmp_path / "count"
    for at in itertools.count(1):
        count.write_text("0")
        layout = fresh(task.template)
        script = _SCRIPT.replace("@MISDEED@", MISDEEDS[misdeed]).replace("@AT@", str(at))
        replace_uv(workshop, layout, script.replace("@COUNT@", str(count)).replace("@UV@", str(workshop.uv)))
        ended = perform(workshop, layout, task, FaultingFilesystem(layout.home))
        if int(count.read_text()) < at:
            ended.succeeded()
            figure(f"{name}, uv {misdeed}: {at - 1} calls")
            return
        # What a killed process says of itself is nothing; least of all that two packages do not fit together.
        assert not isinstance(ended.error, ConflictRefused)
        assert list_unsealed(layout) == []
        replace_uv(workshop, layout, f'exec "{workshop.uv}" "$@"\n')
        try:
            check(workshop, layout, task, clean, choose_following(clean, at), ended)
        except (AssertionError, PerdureError) as fault:
            raise AssertionError(f"uv {misdeed} at call {at} of {name}: {fault}") from fault
