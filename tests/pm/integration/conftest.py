"""Homes of the fake host and what stands beside them, for the tests in here.

Two homes are made once for each process of tests, one with one generation and one whose host locked what plugins need
too; every test works on a copy.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from perdure_pm.adapters.filesystem import LocalFilesystem
from perdure_pm.model.network import Network
from perdure_pm.ops.context import Context
from perdure_pm.store.layout import Layout
from tests.pm.bench import Bench
from tests.pm.fake_host import Workshop, copy_home, make_workshop, prepare_home
from tests.pm.guest import extension, guest
from tests.pm.locked_host import install_with_lock, write_shop
from tests.pm.package_shelf import FILES, Recorder, Shelf
from tests.pm.wheels import write_wheel
from tests.pm.worker_home import WorkerHome
from tests.system.mirror import Mirror, serve_mirror


@pytest.fixture(scope="session")
def workshop(uv: Path, checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    """The fake host's checkouts and index."""
    return make_workshop(tmp_path_factory.mktemp("workshop"), uv, checkout / "pm" / "uv.lock")


@pytest.fixture(scope="session")
def one_generation(workshop: Workshop, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Layout]:
    """A home in which the host was installed once; nobody changes it."""
    layout = prepare_home(workshop, LocalFilesystem(), tmp_path_factory.mktemp("one") / "home")
    bench = Bench(workshop=workshop, layout=layout, network=Network(wheelhouse=workshop.index))
    bench.call("install", checkout=str(workshop.checkout))
    yield layout
    LocalFilesystem().remove_tree(layout.home)


@pytest.fixture
def bench(workshop: Workshop, one_generation: Layout, tmp_path: Path) -> Iterator[Bench]:
    """A home with one generation of the fake host and a wheelhouse with its plugins."""
    layout = copy_home(one_generation, tmp_path / "home")
    yield Bench(workshop=workshop, layout=layout, network=Network(wheelhouse=workshop.index))
    LocalFilesystem().remove_tree(layout.home)


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index in a directory, in which sprocket moved on after the host locked it."""
    root = tmp_path_factory.mktemp("shop")
    write_shop(root)
    return root


@pytest.fixture
def index(shop: Path) -> Iterator[Mirror]:
    """That index, served; it notes what it is asked for."""
    served = serve_mirror(shop)
    yield served
    served.stop()


@pytest.fixture(scope="session")
def with_lock(workshop: Workshop, shop: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Layout]:
    """A home with a host that locked sprocket 1.0; nobody changes it."""
    layout = install_with_lock(workshop, shop, tmp_path_factory.mktemp("locked"))
    yield layout
    LocalFilesystem().remove_tree(layout.home)


@pytest.fixture
def locked(with_lock: Layout, workshop: Workshop, index: Mirror, tmp_path: Path) -> Iterator[Bench]:
    """A copy of that home, with the served index."""
    layout = copy_home(with_lock, tmp_path / "home")
    yield Bench(workshop=workshop, layout=layout, network=Network(index_url=index.url))
    LocalFilesystem().remove_tree(layout.home)


@pytest.fixture
def as_root() -> None:
    """Skip where the tests do not run as root."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        pytest.skip("only root may do that")


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    """A wheelhouse with the application, what it needs, and plugins."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    guest(folder, "1.0")
    guest(folder, "3.0a1")
    write_wheel(folder, "sprocket", "1.0", entries="")
    write_wheel(folder, "beside", "1.0", entries="")
    extension(folder, "hat", "1.0")
    extension(folder, "bad", "1.0", source="import what_nobody_required\n")
    extension(folder, "newer", "1.0", needs="guest>=3.0a1")
    return folder


@pytest.fixture
def there(workshop: Workshop, wheels: Path, tmp_path: Path) -> Iterator[Bench]:
    """A home that hosts nothing yet."""
    layout = prepare_home(workshop, LocalFilesystem(), tmp_path / "home")
    yield Bench(workshop=workshop, layout=layout, network=Network(wheelhouse=wheels))
    LocalFilesystem().remove_tree(layout.home)


@pytest.fixture
def worker_home(tmp_path: Path, home: Path) -> WorkerHome:
    """A home that does not exist yet, with a client."""
    return WorkerHome(tmp_path, Layout(home))


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[Shelf]:
    folder = tmp_path / "shelf"
    folder.mkdir()
    found = Shelf(folder)
    yield found
    found.close()


@pytest.fixture
def context(home: Path) -> Context:
    return Context(
        layout=Layout(home),
        filesystem=FILES,
        reporter=Recorder(),
        network=Network(),
        clock=lambda: datetime.now(UTC),
        environ=os.environ,
        profile="default",
        correlation="mine",
    )
