"""The app's jail for commands and PM's protection from a host share no code, and hold the same by the same means."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from perdure.jail import bubblewrap, machine, mounts
from perdure.jail.bubblewrap import Means
from perdure.jail.machine import LinuxSystem
from perdure.jail.plan import Plan

pytestmark = [pytest.mark.platforms("linux"), pytest.mark.proves("protect-as-the-jail")]

HOME = "/srv/deep/home"
MOUNTS = r"""22 1 8:1 / / rw - ext4 /dev/sda1 rw
30 22 8:2 / /srv rw - ext4 /dev/sdb1 rw
31 22 8:2 /deep /mnt/a\040b rw - ext4 /dev/sdb1 rw
32 22 8:2 /deep/home/store /mnt/part rw - ext4 /dev/sdb1 rw
33 22 8:2 /elsewhere /mnt/other rw - ext4 /dev/sdb1 rw
34 22 8:2 /deep/home /covered rw - ext4 /dev/sdb1 rw
35 22 8:3 / /covered rw - ext4 /dev/sdc1 rw
not a line
"""


@pytest.fixture(scope="module")
def protect(checkout: Path) -> ModuleType:
    path = checkout / "pm" / "perdure_pm" / "launcher" / "protect.py"
    spec = importlib.util.spec_from_file_location("protect_of_pm", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_both_take_the_same_from_root(protect: ModuleType) -> None:
    assert (protect.DROPPED, protect.KERNEL) == (bubblewrap.DROPPED, bubblewrap.KERNEL)
    assert protect.LENT == machine._LENT
    assert protect.find_devices() == list(LinuxSystem({}).devices())


def test_both_follow_bind_mounts_alike(protect: ModuleType) -> None:
    ours = mounts.parse_mounts(MOUNTS)
    theirs = protect.parse_mounts(MOUNTS)
    assert theirs == [(mount.device, mount.root, mount.place) for mount in ours]
    for path in (HOME, "/srv", "/srv/deep", "/mnt/a b/home", "/home/me", "/"):
        assert protect.other_names(path, theirs) == list(mounts.other_names(path, ours)), path
    assert protect.other_names(HOME, theirs) == ["/mnt/a b/home", "/mnt/part"]


@pytest.mark.parametrize("root", [True, False])
def test_both_say_the_same_to_bubblewrap(protect: ModuleType, root: bool) -> None:
    held = ("/mnt/a b/home", "/mnt/part", HOME)
    plan = Plan(pinned=("/mnt", "/srv/deep"), read_only=held, writable=(), hidden=(), emptied=(), loose=())
    means = Means(program="bwrap", root=root, own_processes=False, devices=("/dev/sda",))
    ours = bubblewrap.make_arguments(plan, means, cwd="/", status=None)
    theirs = protect.make_arguments(HOME, "default", MOUNTS, root=root, devices=["/dev/sda"])
    assert ["bwrap", *theirs, "--chdir", "/", "--"] == ours
