"""A small disk that really fills, at every stage of a publication and with less and less left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perdure_pm.model.errors import EXIT_NO_SPACE
from perdure_pm.store.layout import Layout
from tests.pm.fake_host import Workshop

STAGES = ("resolve", "build", "health", "seal", "before_publish")
LEFT = (0, 16384, 131072, 524288)
"""Bytes that are left: nothing, enough for a few files, for most of them, and for all but the last."""

_CODE = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); from tests.pm.faults.full_disk import main; main(sys.argv[1:])"
)

pytestmark = [
    pytest.mark.platforms("linux"),
    pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root may mount a disk"),
]


@pytest.mark.proves("faults-no-space")
def test_a_disk_without_inodes_is_told_as_such(
    workshop: Workshop, templates: dict[str, Layout], checkout: Path
) -> None:
    told = attempts(workshop, templates, checkout, [f"{stage}:-1" for stage in ("before", "resolve", "build", "seal")])
    for case in told:
        assert (case["filled"], case["unchanged"], case["exit_code"]) == (True, True, EXIT_NO_SPACE), case
        assert "no inodes left" in case["summary"], case
        assert case["hint"].startswith("delete files on the filesystem of "), case
        assert (case["next"]["exit_code"], case["added"]) == (0, True), case


@pytest.mark.proves("faults-no-space")
def test_what_makes_room_works_without_any(workshop: Workshop, templates: dict[str, Layout], checkout: Path) -> None:
    """The command that frees space must not ask for some first; its receipt is whole once it has."""
    for case in attempts(workshop, templates, checkout, ["collect:0", "collect:4096"]):
        assert (case["exit_code"], case["gone"]) == (0, True), case
        assert (case["receipts"], case["unfinished"]) == (["ok"], []), case


@pytest.mark.proves("faults-no-space")
def test_a_repair_on_a_full_disk_leaves_what_runs_and_the_next_one_mends_it(
    workshop: Workshop, templates: dict[str, Layout], checkout: Path
) -> None:
    cases = [f"repair-{stage}:{left}" for stage in ("check", "build", "health", "seal") for left in (0, 131072)]
    told = attempts(workshop, templates, checkout, cases)
    assert any(case["exit_code"] for case in told)
    for case in told:
        assert (case["filled"], case["starts"]) == (True, 0), case
        if case["exit_code"]:
            assert (case["exit_code"], case["unchanged"], case["unsealed"]) == (EXIT_NO_SPACE, True, []), case
            assert str(case["context"]["path"]).startswith(case["home"]), case
        assert (case["next"]["exit_code"], case["wrong"]) == (0, []), case


def attempts(
    workshop: Workshop, templates: dict[str, Layout], checkout: Path, cases: list[str]
) -> list[dict[str, Any]]:
    """Return what each case told."""
    places = (checkout, workshop.folder, workshop.uv, workshop.lock, templates["two"].home)
    ended = subprocess.run(
        ["unshare", "-m", sys.executable, "-I", "-c", _CODE, *map(str, places), *cases],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert ended.returncode == 0, ended.stderr[-4000:]
    return [json.loads(line) for line in ended.stdout.splitlines()]


@pytest.mark.proves("faults-no-space")
@pytest.mark.parametrize("stage", ["before", *STAGES])
def test_a_disk_that_fills_keeps_the_old_generation_and_the_next_attempt_works(
    stage: str, workshop: Workshop, templates: dict[str, Layout], checkout: Path, figure: Callable[[str], None]
) -> None:
    cases = [f"{stage}:{left}" for left in (LEFT if stage != "before" else (0, 1 << 20))]
    told = attempts(workshop, templates, checkout, cases)
    assert len(told) == len(cases)
    for case in told:
        assert case["filled"], case
        assert case["next"]["exit_code"] == 0, case
        assert case["added"], case
        if case["exit_code"] == 0:  # what was left was enough
            assert not case["unchanged"]
            continue
        assert case["exit_code"] == EXIT_NO_SPACE, case
        assert case["unchanged"], case
        assert case["unsealed"] == [], case
        assert case["context"]["path"].startswith(case["home"]), case
        assert case["context"]["path"] in case["summary"], case
        if case["context"]["needed"] is None:  # no space even for the receipt: nothing was begun
            assert "/receipts/" in case["context"]["path"], case
        else:
            assert str(case["context"]["needed"]) in case["summary"], case
    if stage != "before_publish":
        assert any(case["exit_code"] for case in told), told
    figure(f"disk full at {stage}: {[(case['left'], case['exit_code']) for case in told]} (bytes left, exit code)")
