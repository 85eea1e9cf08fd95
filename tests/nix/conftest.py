"""Nix, with a copy of the tree: one for all tests, or one that a test may change."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.nix.machine import Nix, copy_tree, find_nix


@pytest.fixture(scope="session")
def nix(tmp_path_factory: pytest.TempPathFactory, checkout: Path, network_environment: Mapping[str, str]) -> Nix:
    """A copy of the tree that nobody changes."""
    scratch = tmp_path_factory.mktemp("nix")
    environment = find_nix(scratch, network_environment)
    return Nix(tree=copy_tree(checkout, scratch / "tree"), environment=environment)


@pytest.fixture
def own_nix(nix: Nix, checkout: Path, tmp_path: Path) -> Nix:
    """A copy of the tree that this test changes."""
    return Nix(tree=copy_tree(checkout, tmp_path / "tree"), environment=nix.environment)
