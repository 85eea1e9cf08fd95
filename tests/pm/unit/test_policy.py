"""pm/policy: only a literal true is true."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure_pm.adapters.filesystem import LocalFilesystem
from perdure_pm.store.config import is_lazy, load_file
from perdure_pm.store.layout import Layout
from perdure_pm.store.policy import config_digest_now, lazy_allowed, mirror_policy
from tests.pm.sample_home import snapshot

pytestmark = pytest.mark.proves("pm-policy-strict")


@pytest.fixture
def layout(home: Path) -> Layout:
    home.mkdir()
    return Layout(home)


def mirror(layout: Layout) -> None:
    file = load_file(layout, layout.config)
    mirror_policy(LocalFilesystem(), layout, lazy=is_lazy(file), config_digest=file.digest)


def test_a_fresh_home_allows_lazy_installs(layout: Layout) -> None:
    assert lazy_allowed(layout, {})
    assert snapshot(layout.home) == {}


def test_a_mirrored_true_allows_them_and_a_mirrored_false_does_not(layout: Layout) -> None:
    layout.config.write_text("install: {lazy: true}\n", encoding="utf-8")
    mirror(layout)
    assert lazy_allowed(layout, {})
    layout.config.write_text("install: {lazy: false}\n", encoding="utf-8")
    mirror(layout)
    assert not lazy_allowed(layout, {})


@pytest.mark.parametrize(
    "text",
    ["install: {lazy: 'false'}", 'install: {lazy: "no"}', "install: {lazy: no}", "install: [", "\t", "install: 1"],
)
def test_an_unclear_or_broken_config_is_off_and_nothing_is_printed_or_changed(
    layout: Layout, text: str, capfd: pytest.CaptureFixture[str]
) -> None:
    layout.config.write_text(text, encoding="utf-8")
    before = snapshot(layout.home)
    assert not lazy_allowed(layout, {})  # never mirrored
    assert snapshot(layout.home) == before
    mirror(layout)
    assert not lazy_allowed(layout, {})
    assert layout.config.read_text(encoding="utf-8") == text
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "policy",
    [
        b"",
        b"\xff",
        b"lazy=true\n",
        b"version=1\nlazy=true\n",
        b"version=2\nlazy=true\nconfig=absent\n",
        b"version=1\nlazy=True\nconfig=absent\n",
        b"version=1\nlazy=1\nconfig=absent\n",
        b"version=1\nlazy=true\nconfig=other\n",
        b"version=1\nlazy=true\nlazy=true\nconfig=absent\n",
        b"version=1\nlazy = true\nconfig=absent\n",
        b"version=1\nlazy=true\nconfig=absent\nrubbish\n",
    ],
)
def test_a_policy_that_is_not_what_pm_writes_is_off(layout: Layout, policy: bytes) -> None:
    layout.pm.mkdir()
    layout.policy.write_bytes(policy)
    assert not lazy_allowed(layout, {})


def test_a_policy_that_cannot_be_read_is_off(layout: Layout) -> None:
    layout.policy.mkdir(parents=True)
    assert not lazy_allowed(layout, {})
    layout.policy.rmdir()
    layout.policy.symlink_to("nowhere")
    assert not lazy_allowed(layout, {})


def test_an_edit_after_the_mirroring_is_off_until_it_is_mirrored(layout: Layout) -> None:
    layout.config.write_text("install: {lazy: true}\n", encoding="utf-8")
    mirror(layout)
    layout.config.write_text("install: {lazy: true} # edited\n", encoding="utf-8")
    assert not lazy_allowed(layout, {})
    mirror(layout)
    assert lazy_allowed(layout, {})
    layout.config.unlink()
    assert not lazy_allowed(layout, {})


def test_an_edit_between_reading_and_mirroring_is_never_taken_for_what_was_read(layout: Layout) -> None:
    layout.config.write_text("install: {lazy: true}\n", encoding="utf-8")
    file = load_file(layout, layout.config)
    layout.config.write_text("install: {lazy: false}\n", encoding="utf-8")
    mirror_policy(LocalFilesystem(), layout, lazy=is_lazy(file), config_digest=file.digest)
    assert not lazy_allowed(layout, {})


@pytest.mark.parametrize(
    ("value", "allowed"), [("1", False), ("yes", False), ("maybe", False), ("0", True), ("", True), ("off", True)]
)
def test_the_variable_turns_them_off_and_an_unclear_word_does_too(layout: Layout, value: str, allowed: bool) -> None:
    assert lazy_allowed(layout, {"PERDURE_NO_LAZY": value}) is allowed


def test_the_flag_turns_them_off_and_can_never_turn_them_on(layout: Layout) -> None:
    assert not lazy_allowed(layout, {}, True)
    assert not lazy_allowed(layout, {"PERDURE_NO_LAZY": "1"}, False)


def test_an_unchanged_policy_keeps_its_bytes_and_its_inode(layout: Layout) -> None:
    mirror(layout)
    inode = layout.policy.stat().st_ino
    mirror(layout)
    assert layout.policy.stat().st_ino == inode
    assert layout.policy.read_text(encoding="ascii") == f"version=1\nlazy=true\nconfig={config_digest_now(layout)}\n"
