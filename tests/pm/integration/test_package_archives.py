"""Archives of packages: nothing of them lands outside, what is damaged is refused, links inside are kept."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from perdure_pm.adapters import archives
from perdure_pm.model import errors
from perdure_pm.ops.context import Context
from tests.pm.package_shelf import (
    Member,
    Shelf,
    install,
    packages_of,
    registration,
    script,
    tar,
    zip_file,
)

pytestmark = pytest.mark.platforms("linux")


@pytest.mark.proves("archive-stays-inside")
@pytest.mark.parametrize(
    ("members", "words"),
    [
        ([("/abs", b"x")], "an absolute name"),
        ([("../up", b"x")], "a name that climbs out"),
        ([("a/../../up", b"x")], "a name that climbs out"),
        ([("a\\..\\..\\up", b"x")], "an absolute name"),
        ([("C:/up", b"x")], "an absolute name"),
        ([("dev", {"type": tarfile.CHRTYPE})], "a device"),
        ([("dev", {"type": tarfile.BLKTYPE})], "a device"),
        ([("pipe", {"type": tarfile.FIFOTYPE})], "a device, a pipe"),
        ([("out", {"type": tarfile.SYMTYPE, "linkname": "/etc"})], "a link that leads out"),
        ([("out", {"type": tarfile.SYMTYPE, "linkname": "../.."})], "a link that leads out"),
        ([("a/out", {"type": tarfile.SYMTYPE, "linkname": "../../x"})], "a link that leads out"),
        (
            [
                ("deep/er/link", {"type": tarfile.SYMTYPE, "linkname": "../../top"}),
                ("top/x", b"x"),
                ("deep/er/out", {"type": tarfile.SYMTYPE, "linkname": "link/../.."}),
            ],
            "a link that leads out",
        ),
        ([("in", {"type": tarfile.SYMTYPE, "linkname": "."}), ("in/x", b"x")], "a member behind a link"),
        ([("hard", {"type": tarfile.LNKTYPE, "linkname": "/etc/passwd"})], "an absolute name"),
        ([("hard", {"type": tarfile.LNKTYPE, "linkname": "../x"})], "a name that climbs out"),
        ([("hard", {"type": tarfile.LNKTYPE, "linkname": "none"})], "a hard link to something that is no file"),
        (
            [
                ("soft", {"type": tarfile.SYMTYPE, "linkname": "x"}),
                ("hard", {"type": tarfile.LNKTYPE, "linkname": "soft"}),
            ],
            "a hard link to something that is no file",
        ),
        ([("twice", b"1"), ("twice", b"2")], "a second member of that name"),
        ([("twice", b"1"), ("./twice", b"2")], "a second member of that name"),
    ],
)
def test_an_archive_that_wants_out_is_refused_by_its_member(
    context: Context, shelf: Shelf, tmp_path: Path, members: list[Member], words: str
) -> None:
    """Case 81."""
    around = sorted(path.name for path in tmp_path.iterdir())
    data = tar(("hello-1.0/hello", script("hello")), *members)
    with pytest.raises(errors.IntegrityFault) as caught:
        install(context, registration(shelf.url("bad.tar"), shelf.put("bad.tar", data)))
    assert words in caught.value.summary
    assert caught.value.context["member"]
    assert packages_of(context) == []
    assert sorted({path.name for path in tmp_path.iterdir()} - {"home"}) == around


@pytest.mark.proves("archive-stays-inside")
@pytest.mark.parametrize(
    ("member", "words"),
    [
        (("/abs", b"x"), "an absolute name"),
        (("../up", b"x"), "a name that climbs out"),
        (("a\\up", b"x"), "an absolute name"),
        (("out", (0o120777, b"/etc")), "a link that leads out"),
        (("out", (0o120777, b"../out")), "a link that leads out"),
        (("dev", (0o020666, b"")), "a device"),
    ],
)
def test_a_zip_file_that_wants_out_is_refused_by_its_member(tmp_path: Path, member: Member, words: str) -> None:
    """Case 81."""
    (tmp_path / "bad.zip").write_bytes(zip_file(member))
    with pytest.raises(errors.IntegrityFault, match=words):
        archives.unpack(tmp_path / "bad.zip", tmp_path / "out")
    assert not (tmp_path / "up").exists()


def test_links_that_stay_inside_and_hard_links_are_kept(tmp_path: Path) -> None:
    data = tar(
        ("lib/real", b"bytes"),
        ("lib/soft", {"type": tarfile.SYMTYPE, "linkname": "real"}),
        ("bin/across", {"type": tarfile.SYMTYPE, "linkname": "../lib/soft"}),
        ("lib/hard", {"type": tarfile.LNKTYPE, "linkname": "lib/real"}),
        ("empty", {"type": tarfile.DIRTYPE}),
    )
    (tmp_path / "good.tar").write_bytes(data)
    archives.unpack(tmp_path / "good.tar", tmp_path / "out")
    assert (tmp_path / "out/bin/across").read_bytes() == b"bytes"
    assert (tmp_path / "out/lib/hard").read_bytes() == b"bytes"
    assert (tmp_path / "out/lib/hard").stat().st_ino != (tmp_path / "out/lib/real").stat().st_ino
    assert (tmp_path / "out/empty").is_dir()
    assert (tmp_path / "out/lib/real").stat().st_mode & 0o7777 == 0o755


def test_a_tar_file_that_holds_a_zip_file_is_none(tmp_path: Path) -> None:
    """A repository with a wheel in it: a zip file is known by its end."""
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for name, data in (("pyproject.toml", b"[project]"), ("x.whl", zip_file(("inside", b"x")))):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    archives.unpack(tmp_path / "a.tar", tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["pyproject.toml", "x.whl"]


@pytest.mark.proves("archive-stays-inside")
def test_special_modes_are_dropped(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(tar(("x", {"mode": 0o6777}), ("y", {"mode": 0o600})))
    archives.unpack(tmp_path / "a.tar", tmp_path / "out")
    assert [(tmp_path / "out" / name).stat().st_mode & 0o7777 for name in "xy"] == [0o755, 0o644]


@pytest.mark.parametrize("damage", ["truncated", "text", "empty"])
def test_a_damaged_archive_is_refused(tmp_path: Path, damage: str) -> None:
    whole = tar(("x", os.urandom(100_000)))
    data = {"truncated": whole[: len(whole) // 2], "text": b"hello", "empty": b""}[damage]
    (tmp_path / "a.tar.gz").write_bytes(data)
    with pytest.raises(errors.IntegrityFault):
        archives.unpack(tmp_path / "a.tar.gz", tmp_path / "out")
