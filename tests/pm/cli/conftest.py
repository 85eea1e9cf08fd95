"""perdure-pm on a home of its own, for every test here."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure_pm.store.layout import Layout
from tests.pm.command_line import CommandLine


@pytest.fixture
def pm(home: Path) -> CommandLine:
    """perdure-pm on a home that does not exist yet."""
    return CommandLine(home)


@pytest.fixture
def layout(home: Path) -> Layout:
    """The paths of that home."""
    return Layout(home)
