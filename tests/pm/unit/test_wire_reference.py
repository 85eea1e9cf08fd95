"""docs/reference/worker-protocol.md against the code, in both directions."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from perdure_pm import wire
from perdure_pm.model.registration import Registration
from perdure_pm.store import receipts


@pytest.fixture(scope="session")
def page(checkout: Path) -> str:
    return (checkout / "docs" / "reference" / "worker-protocol.md").read_text(encoding="utf-8")


def rows(text: str) -> list[list[str]]:
    """Return the cells of every table row in `text`, without heads and rulers."""
    table = [line for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in table]
    return [row for row in cells if not set("".join(row)) <= set("- ")]


@pytest.mark.proves("wire-reference")
def test_frames_fields_and_kinds_are_the_same(page: str) -> None:
    part = page.partition("\n## Frames\n")[2].partition("\n## ")[0]
    described = {}
    for section in part.split("\n### ")[1:]:
        head = re.match(r"`(\w+)` \((\w+)\)", section)
        assert head is not None, section
        described[head[1]] = (head[2], {row[0]: row[1] for row in rows(section) if row[0] != "field"})
    assert described == {name: (frame.sender, dict(frame.fields)) for name, frame in wire.FRAMES.items()}


@pytest.mark.proves("wire-reference")
def test_values_and_bounds_are_the_same(page: str) -> None:
    part = page.partition("\n## Values\n")[2].partition("\n## ")[0]
    table = {row[0]: row[1] for row in rows(part)}
    lists = {
        "statuses": wire.STATUSES,
        "operations": wire.OPERATION_NAMES,
        "callbacks": wire.CALLBACK_NAMES,
    }
    assert {name: tuple(re.findall(r"[\w-]+", table[name])) for name in lists} == lists
    constants = ("VERSION", "MAX_FRAME_BYTES", "CALLBACK_DEADLINE", "IDLE_DEADLINE", "GRACE_SECONDS")
    assert {name: float(table[name]) for name in constants} == {name: getattr(wire, name) for name in constants}
    assert set(table) == {*lists, *constants, "what", "constant"}


@pytest.mark.proves("wire-reference")
def test_fields_of_errors_receipts_and_registrations_are_the_same(page: str) -> None:
    errors = page.partition("\n## Errors\n")[2].partition("\n## ")[0]
    assert [row[0] for row in rows(errors)][1:] == list(wire.encode_error(ValueError("x")))
    listed = page.partition("A receipt has ")[2]
    names = set(re.findall(r"`(\w+)`", listed.partition(". Its")[0]))
    assert names == {"schema", *(field.name for field in dataclasses.fields(receipts.Receipt))}
    assert tuple(re.findall(r"`(\w+)`", listed.partition("is one of ")[2].partition(".")[0])) == receipts.STATUSES
    packages = page.partition("\n## Custom packages\n")[2]
    described = {row[0] for row in rows(packages)} - {"field"}
    assert described | {"hashes"} == {field.name for field in dataclasses.fields(Registration)}
