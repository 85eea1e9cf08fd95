"""Whether a path can be a home: asked before anything is written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from perdure_pm.model.errors import HomeForeign, HomeUnusable
from perdure_pm.store.home import check_home, resolve_home
from perdure_pm.store.layout import Layout
from tests.unprivileged import UnprivilegedUser

pytestmark = [pytest.mark.proves("pm-home-checked-first"), pytest.mark.platforms("linux", "darwin")]


def summary(home: Path) -> str:
    with pytest.raises(HomeUnusable) as caught:
        check_home(Layout(home))
    return caught.value.summary.replace(str(home), "HOME")


def test_a_home_that_can_be_made_is_fine_and_is_not_made(home: Path) -> None:
    check_home(Layout(home / "deep" / "er"))
    assert not home.exists()


@pytest.mark.parametrize("name", ["with space", "it's", 'a "b"', "line\nbreak", "ünï", "$(x)", "-dash", "*"])
def test_any_name_that_can_stand_on_a_path_is_fine(tmp_path: Path, name: str) -> None:
    home = tmp_path / name
    home.mkdir()
    check_home(Layout(home))


def test_a_name_that_would_split_path_is_refused(tmp_path: Path) -> None:
    assert summary(tmp_path / "a:b") == "HOME holds ':', and so its commands could not be found through PATH"


def test_the_root_of_a_filesystem_is_refused() -> None:
    with pytest.raises(HomeUnusable, match="/ is the root of a filesystem"):
        check_home(Layout(Path("/")))


def test_a_name_that_uv_cannot_be_given_is_refused(tmp_path: Path) -> None:
    assert (
        summary(Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))) == "HOME is not UTF-8, and uv takes no other paths"
    )


@pytest.mark.parametrize("name", ["perdure", "perdure-pm"])
def test_a_directory_with_somebody_elses_command_does_not_become_a_home(home: Path, name: str) -> None:
    """``--home ~/.local``, where a script of that name lies in bin."""
    layout = Layout(home)
    layout.bin.mkdir(parents=True)
    (layout.bin / name).write_text("#!/bin/sh\n# mine\n", encoding="ascii")
    (layout.bin / "other").write_text("mine", encoding="ascii")
    assert summary(home).startswith(str(Path("HOME/bin") / name) + " is there already")
    (layout.bin / name).write_text("#!/bin/sh\n# Written by perdure-pm; changes are overwritten.\n", encoding="ascii")
    check_home(layout)


def test_in_a_home_a_damaged_launcher_is_pms_to_mend(home: Path) -> None:
    layout = Layout(home)
    layout.bin.mkdir(parents=True)
    layout.pm.mkdir()
    layout.runtime_pointer.write_text("0123456789ab\n", encoding="ascii")
    (layout.bin / "perdure").write_text("damaged", encoding="ascii")
    check_home(layout)


def test_a_file_in_the_place_of_the_home_or_above_it_is_refused(home: Path) -> None:
    home.write_text("mine", encoding="utf-8")
    assert summary(home) == "HOME is not a directory"
    with pytest.raises(HomeUnusable):
        check_home(Layout(home / "below"))


def test_a_link_to_a_home_is_resolved_and_a_dangling_one_refused(home: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(home)
    assert resolve_home(link) == home.resolve()
    assert summary(link) == f"HOME is a link to {home}, which does not exist"
    home.mkdir()
    check_home(Layout(link))


def test_a_relative_home_counts_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert resolve_home("h") == tmp_path.resolve() / "h"


@pytest.mark.unprivileged
def test_a_home_that_this_user_cannot_write_is_refused_by_its_path(unprivileged_user: UnprivilegedUser) -> None:
    closed = unprivileged_user.folder / "closed"
    closed.mkdir()
    unprivileged_user.own(closed)
    closed.chmod(0o555)
    with pytest.raises(HomeUnusable) as caught:
        unprivileged_user.call(check_home, Layout(closed / "home"))
    assert caught.value.summary == f"{closed} cannot be written by this user"


@pytest.mark.unprivileged
def test_root_is_refused_in_a_directory_of_another_user_before_any_write(unprivileged_user: UnprivilegedUser) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can be refused as root")
    for home in (unprivileged_user.folder, unprivileged_user.folder / ".local" / "share" / "perdure"):
        with pytest.raises(HomeForeign) as caught:
            check_home(Layout(home))
        assert caught.value.context == {"path": str(unprivileged_user.folder), "owner": unprivileged_user.uid}
    assert list(unprivileged_user.folder.iterdir()) == []
