"""Reading what lies in the place of a file: a regular file is read up to a size, anything else refused at once."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from perdure_pm.adapters.filesystem import LocalFilesystem
from perdure_pm.adapters.mutex import held
from perdure_pm.model.errors import IntegrityFault, PerdureError
from perdure_pm.ops.runtime import load_runtime
from perdure_pm.ops.seed import seed_source
from perdure_pm.store.config import load_home_config
from perdure_pm.store.history import Selection, append_selection, load_history
from perdure_pm.store.inventory import hash_file, load_inventory
from perdure_pm.store.layout import Layout
from perdure_pm.store.policy import config_digest_now, lazy_allowed
from perdure_pm.store.reading import read_regular
from perdure_pm.store.receipts import load_all

pytestmark = pytest.mark.platforms("linux", "darwin")

FILESYSTEM = LocalFilesystem()


def pipe(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(path)


def endless(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to("/dev/zero")


def folder(path: Path) -> None:
    path.mkdir(parents=True)


KINDS = pytest.mark.parametrize("make", [pipe, endless, folder])


@pytest.mark.proves("store-reads-files-only")
@KINDS
def test_what_is_no_file_is_refused_at_once(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "x")
    with pytest.raises(OSError, match="is not a file"):
        read_regular(tmp_path / "x", 10)
    with pytest.raises(OSError, match="is not a file"):
        hash_file(tmp_path / "x")


@pytest.mark.proves("store-reads-files-only")
def test_a_file_is_read_through_a_link_and_up_to_its_limit(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"0123456789")
    (tmp_path / "link").symlink_to("x")
    assert read_regular(tmp_path / "link", 10) == b"0123456789"
    with pytest.raises(OSError, match="is larger than 9 bytes"):
        read_regular(tmp_path / "x", 9)


@pytest.mark.proves("store-reads-files-only")
@KINDS
def test_no_reader_of_the_home_waits_for_what_is_no_file(home: Path, make: Callable[[Path], None]) -> None:
    layout = Layout(home)
    for path in (
        layout.config,
        layout.policy,
        layout.history("default"),
        layout.receipts / "20260101T000000.000000Z-aaaaaaaa.json",
        layout.runtime_pointer,
        layout.seed_pointer,
        home / "files.json",
        layout.mutex_holder,
    ):
        make(path)
    assert config_digest_now(layout) is None
    assert not lazy_allowed(layout, {})
    with pytest.raises(PerdureError, match="is not a file"):
        load_home_config(layout)
    assert load_history(layout, "default") == []
    now = datetime(2026, 11, 29, tzinfo=UTC)
    selection = Selection(at=now, generation="1-0123456789ab", before=None, operation="install")
    with pytest.raises((OSError, PerdureError)):
        append_selection(FILESYSTEM, layout, "default", selection)
    (damage,) = load_all(layout)[1]
    assert "is not a file" in damage.reason
    assert load_runtime(layout) is None
    with pytest.raises(IntegrityFault):
        seed_source(layout)
    with pytest.raises(IntegrityFault):
        load_inventory(home / "files.json")
    with held(layout, "test"):
        pass


@pytest.mark.proves("store-reads-files-only")
def test_the_holders_name_is_not_written_through_a_link(home: Path, tmp_path: Path) -> None:
    layout = Layout(home)
    home.mkdir(exist_ok=True)
    (tmp_path / "mine").write_text("mine", encoding="ascii")
    layout.mutex_holder.symlink_to(tmp_path / "mine")
    with held(layout, "test"):
        assert "test" in layout.mutex_holder.read_text(encoding="utf-8")
    assert (tmp_path / "mine").read_text(encoding="ascii") == "mine"
