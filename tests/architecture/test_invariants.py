"""Promises and tests name each other: neither an unproved promise nor a proof of nothing."""

from __future__ import annotations

import ast
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT, files_of_tests, relative, tree

MANIFESTS = sorted((ROOT / "tests").rglob("invariants*.toml"))


def promised() -> Counter[str]:
    found: Counter[str] = Counter()
    for manifest in MANIFESTS:
        found.update(tomllib.loads(manifest.read_text(encoding="utf-8")).keys())
    return found


def proved(path: Path) -> Iterator[tuple[str, int]]:
    """Yield the ids in every ``proves(…)`` mark of a test file: on functions, on classes, in pytestmark, in params."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "proves":
            for argument in node.args:
                assert isinstance(argument, ast.Constant), f"{relative(path)}:{node.lineno}: an id must be written out"
                yield str(argument.value), node.lineno


@pytest.mark.proves("ground-invariants-proved")
def test_every_promise_is_written_once_and_as_one_sentence() -> None:
    assert MANIFESTS
    assert [name for name, count in promised().items() if count > 1] == []
    for manifest in MANIFESTS:
        for name, table in tomllib.loads(manifest.read_text(encoding="utf-8")).items():
            place = f"{relative(manifest)}: {name}"
            assert set(table) in ({"must"}, {"should"}), place
            (sentence,) = table.values()
            assert sentence.strip().endswith("."), place


@pytest.mark.proves("ground-invariants-proved")
def test_every_promise_is_proved_by_a_test() -> None:
    carried = {name for path in files_of_tests() for name, _ in proved(path)}
    assert sorted(set(promised()) - carried) == []


@pytest.mark.proves("ground-invariants-proved")
def test_every_proof_is_of_a_promise() -> None:
    known = promised()
    unknown = [
        f"{relative(path)}:{line}: {name}"
        for path in files_of_tests()
        for name, line in proved(path)
        if name not in known
    ]
    assert unknown == []
