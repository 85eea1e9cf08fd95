"""Effects on files: all or nothing, read-only trees, removal that stays inside, errors told with their path."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from perdure_pm.adapters.filesystem import LocalFilesystem, explain, explained
from perdure_pm.model.errors import HomeUnusable, NoSpace
from tests.unprivileged import UnprivilegedUser

FILESYSTEM = LocalFilesystem()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.proves("files-all-or-nothing")
def test_a_write_replaces_the_whole_file_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "file"
    FILESYSTEM.write_durable(path, b"first")
    FILESYSTEM.write_durable(path, b"second", mode=0o600)
    assert path.read_bytes() == b"second"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert names(tmp_path) == ["file"]


@pytest.mark.proves("files-all-or-nothing")
def test_a_write_that_fails_leaves_the_old_file_and_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case 31."""
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(NoSpace, match="no space left while writing"):
        FILESYSTEM.write_durable(path, b"new")
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


@pytest.mark.proves("files-no-link-followed")
def test_a_link_is_replaced_and_what_it_leads_to_keeps_its_bytes(tmp_path: Path) -> None:
    """As root, a pm/policy that was linked to a device once replaced the device."""
    target, link = tmp_path / "mine", tmp_path / "policy"
    target.write_bytes(b"old")
    link.symlink_to(target)
    FILESYSTEM.write_durable(link, b"new")
    assert not link.is_symlink()
    assert (link.read_bytes(), target.read_bytes()) == (b"new", b"old")


@pytest.mark.proves("files-no-link-followed")
def test_nothing_is_appended_through_a_link(tmp_path: Path) -> None:
    target, link = tmp_path / "mine", tmp_path / "history"
    target.write_bytes(b"old")
    link.symlink_to(target)
    with pytest.raises(HomeUnusable):
        FILESYSTEM.append_durable(link, b"new")
    assert target.read_bytes() == b"old"


def test_an_append_adds_one_line(tmp_path: Path) -> None:
    path = tmp_path / "history"
    FILESYSTEM.append_durable(path, b"one\n")
    FILESYSTEM.append_durable(path, b"two\n")
    assert path.read_bytes() == b"one\ntwo\n"


@pytest.mark.proves("files-removal-inside")
def test_removal_takes_read_only_trees_and_follows_no_link(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (outside / "deep").mkdir(parents=True)
    (outside / "deep" / "file").write_text("mine", encoding="utf-8")
    tree = tmp_path / "tree"
    (tree / "inner").mkdir(parents=True)
    (tree / "inner" / "file").write_text("x", encoding="utf-8")
    (tree / "inner" / "to file").symlink_to(outside / "deep" / "file")
    (tree / "to folder").symlink_to(outside)
    FILESYSTEM.make_read_only(tree)
    FILESYSTEM.remove_tree(tree)
    assert not tree.exists()
    assert (outside / "deep" / "file").read_text(encoding="utf-8") == "mine"
    link = tmp_path / "link"
    link.symlink_to(outside)
    FILESYSTEM.remove_tree(link)
    assert names(tmp_path) == ["outside"]
    FILESYSTEM.remove_tree(link)  # what is not there is removed already


def remove_as_somebody(tree: str) -> list[str]:
    LocalFilesystem().make_read_only(Path(tree))
    LocalFilesystem().remove_tree(Path(tree))
    return os.listdir(os.path.dirname(tree))


@pytest.mark.proves("files-removal-inside")
@pytest.mark.unprivileged
def test_a_read_only_tree_is_removed_by_a_user_whom_modes_bind(unprivileged_user: UnprivilegedUser) -> None:
    tree = unprivileged_user.folder / "tree"
    for path in (tree, tree / "inner"):
        path.mkdir()
        (path / "file").write_text("x", encoding="utf-8")
        unprivileged_user.own(path)
        unprivileged_user.own(path / "file")
    assert unprivileged_user.call(remove_as_somebody, str(tree)) == []


def test_a_read_only_tree_has_no_write_bit_and_what_links_lead_to_keeps_its_own(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("mine", encoding="utf-8")
    tree = tmp_path / "tree"
    (tree / "inner").mkdir(parents=True)
    (tree / "inner" / "script").write_text("x", encoding="utf-8")
    (tree / "inner" / "script").chmod(0o777)
    (tree / "link").symlink_to(outside)
    FILESYSTEM.make_read_only(tree)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tree, tree / "inner", tree / "inner" / "script")}
    assert modes == {"tree": 0o555, "inner": 0o555, "script": 0o555}
    assert outside.stat().st_mode & stat.S_IWUSR


def test_a_copy_keeps_contents_and_mode(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(b"x")
    source.chmod(0o750)
    FILESYSTEM.copy_file(source, target)
    assert (target.read_bytes(), stat.S_IMODE(target.stat().st_mode)) == (b"x", 0o750)
    assert source.stat().st_ino != target.stat().st_ino


def test_flushing_and_free_space_work_on_a_path_that_does_not_exist_yet(tmp_path: Path) -> None:
    FILESYSTEM.flush(tmp_path)
    assert FILESYSTEM.free_bytes(tmp_path / "a" / "b") > 0


@pytest.mark.proves("files-errors-named")
@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.ENOSPC, NoSpace),
        (errno.EDQUOT, NoSpace),
        (errno.EACCES, HomeUnusable),
        (errno.EROFS, HomeUnusable),
        (errno.ENOTDIR, HomeUnusable),
    ],
)
def test_a_system_error_is_told_with_its_path(number: int, kind: type[Exception]) -> None:
    """Case 54: the path that the system named, not the one that was asked for."""
    error = explain(OSError(number, os.strerror(number), "/the/place"), Path("/asked"))
    assert type(error) is kind
    assert "/the/place" in error.summary
    assert error.hint


@pytest.mark.proves("files-errors-named")
def test_what_lies_in_the_way_is_named_and_not_what_could_never_lie_there(tmp_path: Path) -> None:
    above = tmp_path / "file"
    above.write_text("mine", encoding="utf-8")
    error = NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(above / "a" / "b"))
    told = explain(error, above / "a" / "b")
    assert told.hint == f"move what lies at {above} away: PM keeps something else there"
    assert str(above / "a" / "b") in told.summary


@pytest.mark.proves("files-errors-named")
@pytest.mark.parametrize(
    ("number", "hint"),
    [
        (errno.EACCES, "give this user write permission there, or choose another home with --home DIR"),
        (errno.EISDIR, "move what lies at /the/place away: PM keeps something else there"),
        (errno.ENAMETOOLONG, "choose a home with a shorter path with --home DIR"),
        (errno.EIO, "correct that, or choose another home with --home DIR"),
    ],
)
def test_the_way_out_fits_what_went_wrong(number: int, hint: str) -> None:
    """Of a rename, the place is where the file was to go."""
    error = OSError(number, os.strerror(number), "/the/.place.tmp", None, "/the/place")
    assert explain(error, Path("/asked")).hint == hint


@pytest.mark.proves("files-errors-named")
def test_an_error_without_a_path_names_the_one_that_was_asked_for(tmp_path: Path) -> None:
    with pytest.raises(HomeUnusable, match=str(tmp_path)), explained(tmp_path):
        raise OSError(errno.EACCES, "no")


def write_as_somebody(path: str) -> str:
    try:
        LocalFilesystem().write_durable(Path(path), b"x")
    except HomeUnusable as refusal:
        return refusal.summary
    return "written"


@pytest.mark.proves("files-errors-named")
@pytest.mark.unprivileged
def test_a_directory_that_may_not_be_written_is_named(unprivileged_user: UnprivilegedUser) -> None:
    closed = unprivileged_user.folder / "closed"
    closed.mkdir()
    unprivileged_user.own(closed)
    closed.chmod(0o555)
    said = unprivileged_user.call(write_as_somebody, str(closed / "file"))
    assert said.startswith(f"cannot write {closed}/")
    assert "Permission denied" in said
