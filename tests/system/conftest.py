"""What the system tests share: one home, installed once from a clean copy of the checkout, and copies of it.

The session's home is only looked at; whatever changes a home works on a copy. Each process of pytest-xdist has its own.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from perdure_pm.adapters.filesystem import LocalFilesystem
from tests.system.local_python_index import MACHINES, write_downloads
from tests.system.machine import (
    Installation,
    copy_checkout,
    copy_home,
    differences,
    fingerprint,
    interpreters,
    plain_environment,
    seed_caches,
)
from tests.system.mirror import Mirror, collect_wheels, serve_mirror, write_index

MAY_CHANGE = ("cache", "profiles/default/crashes")
"""What looking at a home, or a start of its application, may write."""

IS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0


@pytest.fixture(scope="session")
def clone(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clean copy of the checkout; nobody changes it."""
    return copy_checkout(checkout, tmp_path_factory.mktemp("clone") / "perdure")


@pytest.fixture(scope="session")
def installed(
    clone: Path, tmp_path_factory: pytest.TempPathFactory, network_environment: Mapping[str, str]
) -> Iterator[Installation]:
    """A home in which ``up`` has run once, with whatever network this machine has; nobody changes it.

    The user for whom it ran has a directory beside it, and nothing in that.
    """
    home = tmp_path_factory.mktemp("installed") / "home"
    user = home.with_name("user")
    user.mkdir()
    places = {f"XDG_{name}_HOME": str(user / name.lower()) for name in ("DATA", "CONFIG", "CACHE", "STATE", "BIN")}
    environment = plain_environment({**network_environment, **places, "HOME": str(user)})
    installation = Installation(checkout=clone, home=home, environment=environment)
    answer = installation.up().succeeded()
    assert answer.json["data"]["answer"].startswith("perdure ")
    before = fingerprint(home, without=MAY_CHANGE)
    yield replace(installation, environment=plain_environment())
    after = fingerprint(home, without=MAY_CHANGE)
    changed = {path: (before.get(path), after.get(path)) for path in differences(before, after)}
    LocalFilesystem().remove_tree(home)
    assert changed == {}, "a test changed the home that all of them share; it should have worked on a copy"


@pytest.fixture
def own(installed: Installation, tmp_path: Path) -> Iterator[Installation]:
    """A copy of the installed home, to be changed at will."""
    home = copy_home(installed.home, tmp_path / "home")
    yield replace(installed, home=home)
    LocalFilesystem().remove_tree(home)


@pytest.fixture
def own_checkout(clone: Path, tmp_path: Path) -> Path:
    """A copy of the checkout, to be changed at will."""
    return Path(shutil.copytree(clone, tmp_path / "checkout"))


@pytest.fixture
def new_home(tmp_path: Path) -> Iterator[Path]:
    """A path for a home that does not exist yet; it is removed afterwards."""
    yield tmp_path / "new"
    LocalFilesystem().remove_tree(tmp_path / "new")


@pytest.fixture
def warm_home(installed: Installation, tmp_path: Path) -> Iterator[Path]:
    """A home that holds nothing but filled caches."""
    home = seed_caches(installed.home, tmp_path / "warm")
    yield home
    LocalFilesystem().remove_tree(home)


@pytest.fixture(scope="session")
def wheels(
    clone: Path,
    uv: Path,
    tmp_path_factory: pytest.TempPathFactory,
    network_environment: Mapping[str, str],
) -> Path:
    """A directory with every wheel that an installation on this machine needs, fetched once as the locks say."""
    folder = tmp_path_factory.mktemp("wheels") / "wheels"
    collect_wheels(clone, folder, uv=uv, environment=network_environment)
    return folder


@pytest.fixture(scope="session")
def index(wheels: Path) -> Path:
    """The same wheels as a simple index in a directory."""
    return write_index(wheels, wheels.parent / "simple")


@pytest.fixture
def mirror(index: Path) -> Iterator[Callable[..., Mirror]]:
    """Start mirrors of the index on this machine: ``mirror(json=…, tampered=…, context=…)``."""
    started: list[Mirror] = []

    def start(**options: object) -> Mirror:
        started.append(serve_mirror(index.parent, **options))  # type: ignore[arg-type]  # passed on as they are
        return started[-1]

    yield start
    for served in started:
        served.stop()


@pytest.fixture
def without_network() -> tuple[str, ...]:
    """What a command is started through to have no network interface at all."""
    if not IS_ROOT:
        pytest.skip("only root may make a network namespace")
    return ("unshare", "-n")


@pytest.fixture(scope="session")
def empty(
    clone: Path, tmp_path_factory: pytest.TempPathFactory, network_environment: Mapping[str, str]
) -> Iterator[Installation]:
    """A home that has PM and hosts nothing; nobody changes it."""
    home = tmp_path_factory.mktemp("empty") / "home"
    made = Installation(checkout=clone, home=home, environment=plain_environment(network_environment))
    made.bootstrap("pm", "--version").succeeded()
    yield made
    LocalFilesystem().remove_tree(home)


@pytest.fixture(scope="session")
def downloads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A list of interpreters in uv's format that offers a CPython 3.13 of this machine."""
    if not sys.platform.startswith("linux") or platform.machine() not in MACHINES or platform.libc_ver()[0] != "glibc":
        pytest.skip("interpreters are packed on Linux with glibc only")
    if shutil.which("readelf") is None:
        pytest.skip("no readelf to pack an interpreter with")
    for path in interpreters((3, 13), (3, 13)):
        prefix = path.parent.parent
        if (prefix / "lib" / "python3.13").is_dir():
            try:
                return write_downloads(tmp_path_factory.mktemp("pythons") / "index", prefix)
            except ValueError:
                continue
    pytest.skip("no CPython 3.13 on this machine that can be packed")


@pytest.fixture
def scratch_user(tmp_path: Path) -> Iterator[dict[str, str]]:
    """An environment whose user has nothing yet; it is checked that this stays so."""
    user = tmp_path / "user"
    user.mkdir()
    yield plain_environment({"HOME": str(user), "XDG_DATA_HOME": str(user / "data"), "XDG_BIN_HOME": str(user / "bin")})
    assert list(user.rglob("*")) == []


@pytest.fixture
def without_python() -> tuple[str, ...]:
    """What to start a command through so that no Python of the machine can be started from it."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("only root may hide the machine's interpreters")
    known = ("/usr/bin/python3", "/usr/local/bin/python3", sys.executable)
    places = sorted({os.path.realpath(path) for path in known if os.path.exists(path)})
    hide = "".join(f"mount --bind /dev/null {path} && " for path in places)
    return ("unshare", "-m", "sh", "-c", f'{hide}exec "$@"', "sh")
