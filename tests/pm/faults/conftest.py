"""Workshop and template homes, made once for each process of tests; every test works on copies."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.register_assert_rewrite("tests.pm.faults.checking", "tests.pm.faults.performing")

from perdure_pm.adapters.filesystem import LocalFilesystem  # noqa: E402 - registered first, so that what they assert is told
from perdure_pm.store.layout import Layout  # noqa: E402 - as above
from tests.pm.fake_host import Workshop, copy_home, make_workshop, prepare_home  # noqa: E402 - as above
from tests.pm.faults.checking import Expected, expect  # noqa: E402 - as above
from tests.pm.faults.performing import Task, make_templates  # noqa: E402 - as above


@pytest.fixture(scope="session")
def workshop(uv: Path, checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    """The fake host's checkouts and index."""
    return make_workshop(tmp_path_factory.mktemp("workshop"), uv, checkout / "pm" / "uv.lock")


@pytest.fixture(scope="session")
def templates(workshop: Workshop, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Layout]]:
    """The homes that operations start from, by name; nobody changes them."""
    folder = tmp_path_factory.mktemp("templates")
    filesystem = LocalFilesystem()
    yield make_templates(workshop, folder, prepare_home(workshop, filesystem, folder / "empty"))
    filesystem.remove_tree(folder)


@pytest.fixture(scope="session")
def expected(
    workshop: Workshop, templates: dict[str, Layout], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Task], Expected]:
    """Say what a task does when nothing goes wrong."""
    known: dict[str, Expected] = {}

    def find(task: Task) -> Expected:
        if task.name not in known:
            known[task.name] = expect(workshop, templates[task.template], task, tmp_path_factory.mktemp("clean"))
        return known[task.name]

    return find


@pytest.fixture
def fresh(templates: dict[str, Layout], tmp_path: Path) -> Iterator[Callable[[str], Layout]]:
    """Make a copy of a template, by its name; the one before is removed."""
    filesystem = LocalFilesystem()
    numbers = itertools.count()
    made: list[Path] = []

    def make(name: str) -> Layout:
        while made:
            filesystem.remove_tree(made.pop())
        made.append(tmp_path / f"home-{next(numbers)}")
        return copy_home(templates[name], made[-1])

    yield make
    for path in made:
        filesystem.remove_tree(path)
