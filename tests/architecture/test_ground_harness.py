"""The harness itself: the guard refuses, the scratch environment is in place, the user without privileges has none."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.real_home import CARRIED, Guard, Places, RealHomeTouched, enter_scratch_environment, path_without_perdure
from tests.unprivileged import UnprivilegedUser


@pytest.fixture
def guard(tmp_path: Path) -> Iterator[Guard]:
    """A second guard over made-up places, so that the refusals below do not count as real ones."""
    untouchable, unwritable = tmp_path / "data" / "perdure", tmp_path / "bin"
    untouchable.mkdir(parents=True)
    unwritable.mkdir()
    (untouchable / "config.yaml").write_text("schema: 1\n", encoding="utf-8")
    (unwritable / "tool").write_text("", encoding="utf-8")
    (tmp_path / "shared").mkdir()
    guard = Guard(Places([str(untouchable)], [str(unwritable)], str(tmp_path)), str(tmp_path / "shared"))
    guard.install()
    yield guard
    guard.active = False


@pytest.mark.proves("ground-real-home")
def test_reading_writing_listing_and_renaming_the_real_home_is_refused_and_remembered(
    guard: Guard, tmp_path: Path
) -> None:
    home = Path(guard.places.untouchable[0])
    attempts: list[Callable[[], object]] = [
        lambda: (home / "config.yaml").read_text(encoding="utf-8"),
        lambda: (home / "config.yaml").write_text("", encoding="utf-8"),
        lambda: os.open(home / "config.yaml", os.O_RDONLY),
        lambda: os.listdir(home),
        (home / "folder").mkdir,
        lambda: os.rename(tmp_path / "bin" / "tool", home / "tool"),
        lambda: os.symlink("anything", home / "link"),
        (home / "config.yaml").unlink,
        lambda: (home / "config.yaml").chmod(0o600),
        lambda: subprocess.run(["true"], env={"HOME": str(tmp_path)}, check=True),
    ]
    for attempt in attempts:
        with pytest.raises(RealHomeTouched):
            attempt()
    assert len(guard.touched) == len(attempts)
    guard.active = False
    assert (home / "config.yaml").read_text(encoding="utf-8") == "schema: 1\n"


@pytest.mark.proves("ground-real-home")
def test_the_mode_of_a_directory_that_everybody_shares_is_not_changed(guard: Guard, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "shared")
    for folder in ("shared", "link", "."):
        with pytest.raises(RealHomeTouched):
            os.chmod(tmp_path / folder, 0o755)
    (tmp_path / "shared" / "own").mkdir()
    (tmp_path / "shared" / "own").chmod(0o755)
    assert len(guard.touched) == 3


@pytest.mark.proves("ground-real-home")
@pytest.mark.platforms("linux")
def test_a_path_relative_to_a_directory_descriptor_is_seen_too(guard: Guard) -> None:
    with guard.off():
        folder = os.open(guard.places.untouchable[0], os.O_RDONLY)
    try:
        with pytest.raises(RealHomeTouched):
            os.unlink("config.yaml", dir_fd=folder)
    finally:
        os.close(folder)


@pytest.mark.proves("ground-real-home")
def test_a_place_of_other_programs_may_be_read_but_not_written(guard: Guard) -> None:
    tool = Path(guard.places.unwritable[0]) / "tool"
    assert tool.read_text(encoding="utf-8") == ""
    with pytest.raises(RealHomeTouched):
        tool.write_text("x", encoding="utf-8")


@pytest.mark.proves("ground-real-home")
def test_the_guard_of_this_run_covers_the_real_users_places(pytestconfig: pytest.Config) -> None:
    places = Places.of(os.environ)
    real = os.path.join(places.user_home, ".local", "share", "perdure")
    assert real in places.untouchable
    assert os.path.join(places.user_home, ".local", "bin") in places.unwritable
    assert os.environ["HOME"] != places.user_home
    for name in ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "PERDURE_HOME"):
        assert "perdure-tests-" in os.environ[name], name


def test_the_scratch_environment_drops_what_would_change_what_tests_see(tmp_path: Path) -> None:
    environ = {
        "HOME": "elsewhere",
        "PERDURE_OFFLINE": "1",
        "PERDURE_TEST_UV": "kept",
        "UV_INDEX_URL": "x",
        "PIP_CERT": "x",
        "VIRTUAL_ENV": "x",
        "LANG": "C",
    }
    enter_scratch_environment(environ, tmp_path)
    assert {"PERDURE_OFFLINE", "UV_INDEX_URL", "PIP_CERT", "VIRTUAL_ENV"} & set(environ) == set()
    assert environ["PERDURE_TEST_UV"] == "kept"
    assert environ["LANG"] == "C"
    assert environ["HOME"] == str(tmp_path / "home")


def test_an_installed_perdure_disappears_from_path_and_its_neighbours_stay(tmp_path: Path) -> None:
    installed = tmp_path / "usr-bin"
    installed.mkdir()
    for name in ("perdure", "perdure-pm", "git"):
        (installed / name).write_text("", encoding="utf-8")
    other = tmp_path / "other"
    other.mkdir()
    found = path_without_perdure(f"{installed}{os.pathsep}{other}", tmp_path).split(os.pathsep)
    assert found[1] == str(other)
    assert os.listdir(found[0]) == ["git"]


def test_pytest_xdist_workers_guard_the_real_users_places_not_the_scratch_ones() -> None:
    carried = Places.of({CARRIED: Places(["/a"], ["/b"], "/c").to_json(), "HOME": "/scratch"})
    assert (carried.untouchable, carried.unwritable, carried.user_home) == (["/a"], ["/b"], "/c")


@pytest.mark.unprivileged
@pytest.mark.platforms("linux", "darwin")
def test_the_unprivileged_user_cannot_write_where_it_was_not_invited(
    unprivileged_user: UnprivilegedUser, tmp_path: Path
) -> None:
    closed = unprivileged_user.folder / "closed"
    closed.mkdir(mode=0o555)
    assert unprivileged_user.call(os.geteuid) == unprivileged_user.uid != 0
    unprivileged_user.call((unprivileged_user.folder / "mine").touch)
    with pytest.raises(PermissionError):
        unprivileged_user.call((closed / "not-mine").touch)
    result = unprivileged_user.run(["/bin/sh", "-c", "id -u"])
    assert result.stdout.strip() == str(unprivileged_user.uid)
