"""Plugins with an address that do not go with this host or this machine: told as what they are, with a way out."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure_pm.model.errors import ArtefactMissing, ConflictRefused, SourceUnusable
from tests.pm.bench import Bench
from tests.pm.plugin_sources import write_plugin
from tests.pm.wheels import write_wheel
from tests.system.machine import fingerprint

pytestmark = pytest.mark.platforms("linux", "darwin")


def needing(folder: Path, requirement: str) -> Path:
    """Have a plugin in `folder` that needs something, and return it."""
    path = write_plugin(folder) / "pyproject.toml"
    text = path.read_text(encoding="utf-8")
    asked = text.replace('version = "1.0"', f'version = "1.0"\ndependencies = ["{requirement}"]')
    assert asked != text
    path.write_text(asked, encoding="utf-8")
    return folder


@pytest.mark.proves("plugins-conflict-changes-nothing", "plugins-conflict-explained")
@pytest.mark.parametrize(
    ("requirement", "said"),
    [
        ("fakehost>=9", "notify 1.0 needs fakehost>=9, and the host is fakehost 0.1.0"),
        ("fakehost-clock>=4", "notify 1.0 needs fakehost-clock>=4, and fakehost 0.1.0 locked fakehost-clock 0.1.0"),
    ],
)
def test_a_plugin_that_needs_another_version_of_a_host_that_no_index_has_is_a_conflict(
    bench: Bench, tmp_path: Path, requirement: str, said: str
) -> None:
    """Case 58: the host is built here, so that the plugin alone cannot be resolved at all."""
    folder = needing(tmp_path / "notify", requirement)
    before = fingerprint(bench.layout.home, without=("receipts", "cache", "mutex", "mutex.json", "store/plugins"))
    with pytest.raises(ConflictRefused) as caught:
        bench.add(str(folder))
    assert caught.value.summary == f"notify cannot be installed with fakehost 0.1.0: {said}"
    assert caught.value.hint == "leave out notify"
    after = fingerprint(bench.layout.home, without=("receipts", "cache", "mutex", "mutex.json", "store/plugins"))
    assert after == before


def test_what_is_missing_beside_the_host_is_no_conflict(bench: Bench, tmp_path: Path) -> None:
    with pytest.raises(ArtefactMissing, match="nosuch"):
        bench.add(str(needing(tmp_path / "notify", "nosuch>=1")))


def test_a_wheel_for_another_machine_says_for_which_and_names_no_setting(bench: Bench, tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, "notify", "1.0")
    for tag in ("cp39-cp39-win_amd64", "cp311-cp311-macosx_11_0_arm64", "pp310-pypy310_pp73-manylinux_2_17_x86_64"):
        other = wheel.with_name(f"notify-1.0-{tag}.whl")
        other.write_bytes(wheel.read_bytes())
        with pytest.raises(SourceUnusable) as caught:
            bench.add(str(other))
        assert tag in caught.value.summary
        assert "install.build" not in str(caught.value.hint)
    bench.add(str(wheel))
