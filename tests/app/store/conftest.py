"""The stores that the contract is tried on.

Owns: the fixture `stores`, on a file and in memory. Does not own: any case. The store in memory exists here only, and
every case about persistence has to fail on it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from perdure.store.database import Database
from perdure.store.schema import Step, migrate
from perdure.store.sqlite import SqliteStore
from tests.app.store.proposals import store_in

MakeStore = Callable[[], SqliteStore]


class MemoryDatabase(Database):
    """A database that ends with its connection."""

    def _opened(self, steps: tuple[Step, ...]) -> sqlite3.Connection:
        connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        migrate(connection, steps)
        return connection


@pytest.fixture(params=["file", "memory"])
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MakeStore]:
    """Makes a store, anew on the same place at each call."""
    made: list[SqliteStore] = []

    def make() -> SqliteStore:
        if request.param == "file":
            made.append(store_in(tmp_path))
        else:
            made.append(SqliteStore(tmp_path, "default", database=MemoryDatabase(tmp_path)))
        return made[-1]

    if request.param == "memory" and request.node.get_closest_marker("persistence"):
        request.node.add_marker(pytest.mark.xfail(reason="memory keeps nothing", strict=True))
    yield make
    for each in made:
        each.close()


@pytest.fixture
def store(make_store: MakeStore) -> SqliteStore:
    """One open store."""
    return make_store()
