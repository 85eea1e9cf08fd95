"""Doctor in any state that a home can be in: it answers, and what it names helps."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from perdure_pm.adapters.filesystem import LocalFilesystem
from perdure_pm.ops.doctor import examine
from perdure_pm.store.layout import Layout
from tests.pm.bench import Bench
from tests.pm.fake_host import STUBS, copy_home
from tests.unprivileged import UnprivilegedUser

pytestmark = pytest.mark.platforms("linux", "darwin")


def looked_at(home: Path) -> dict[str, Any]:
    return examine(Layout(home), "default", deep=True)


def give(home: Path, owner: int) -> None:
    """Have everything of a home belong to a user."""
    for folder, _, names in os.walk(home):
        for name in (folder, *(os.path.join(folder, name) for name in names)):
            os.chown(name, owner, -1, follow_symlinks=False)


@pytest.mark.proves("doctor-answers-always", "cli-true-hints")
@pytest.mark.unprivileged
@pytest.mark.parametrize("where", ["store/trash"])
def test_what_this_user_may_not_read_is_named_and_what_helps_does(
    bench: Bench, unprivileged_user: UnprivilegedUser, where: str
) -> None:
    layout = copy_home(bench.layout, unprivileged_user.folder / "home")
    closed = layout.home / where
    closed.mkdir(exist_ok=True)
    give(layout.home, unprivileged_user.uid)
    closed.chmod(0)
    found = unprivileged_user.call(looked_at, layout.home)
    (problem,) = [entry for entry in found["problems"] if closed.name in entry["summary"]]
    assert problem["code"] == "unreadable"
    assert problem["hint"].startswith("give this user the right to read it, or remove it; then perdure-pm repair")
    LocalFilesystem().remove_tree(closed)
    give(layout.home, os.geteuid())
    bench.layout = layout
    bench.call("repair")
    assert {entry["code"] for entry in looked_at(layout.home)["problems"]} <= STUBS
