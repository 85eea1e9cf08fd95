"""The floor for what no machine comes back from, and everything that only looks like it."""

from __future__ import annotations

import pytest

from perdure.domain.effect import Act, Effect, Hole, Pattern
from perdure.domain.verdict import Ruling
from perdure.guard.judge import judge
from tests.app.guard.layouts import HOLE, HOME, STAR, effect, protected, reading, run, word


def codes(made: Effect) -> list[str]:
    verdict = judge(reading(made), protected(), [HOME])
    found = [reason.code for reason in verdict.reasons if reason.code.startswith("catastrophic-")]
    if found:
        assert (verdict.ruling, verdict.floor) == (Ruling.REFUSE, True)
    return found


@pytest.mark.proves("guard-catastrophic")
@pytest.mark.parametrize(
    ("made", "code"),
    [
        (effect(Act.DELETE, "/", recursive=True), "wipe"),
        (effect(Act.DELETE, "/", STAR, recursive=True), "wipe"),
        (effect(Act.DELETE, "/tmp/..", recursive=True), "wipe"),
        (effect(Act.DELETE, "/etc", recursive=True), "wipe"),
        (effect(Act.DELETE, "/b", STAR, recursive=True), "wipe"),
        (effect(Act.DELETE, HOME, recursive=True), "wipe"),
        (effect(Act.DELETE, HOME, "/", STAR, recursive=True), "wipe"),
        (effect(Act.DELETE, "/home", recursive=True), "wipe"),
        (effect(Act.MOVE, "/usr", by="mv"), "wipe"),
        (effect(Act.OVERWRITE, "/dev/sda", by="dd"), "device"),
        (effect(Act.OVERWRITE, "/dev/nvme0n1p2", by="dd"), "device"),
        (effect(Act.EMPTY, "/dev/sd", Pattern("?"), by="shred"), "device"),
        (effect(Act.OVERWRITE, "/dev/disk/by-id/ata-x", by=">"), "device"),
        (effect(Act.CHANGE, "/proc/sysrq-trigger", by=">"), "shutdown"),
        (run("mkfs.ext4", "/dev/sda1"), "filesystem"),
        (run("/sbin/mkfs", "-t", "ext4", "/dev/vdb"), "filesystem"),
        (run("wipefs", "-a", "/dev/sda"), "filesystem"),
        (run("mkswap", "/dev/sda2"), "filesystem"),
        (run("cryptsetup", "luksFormat", "/dev/sda3"), "filesystem"),
        (run("mkfs.xfs", word("/dev/sd", Pattern("[a-c]"))), "filesystem"),
        (run("reboot"), "shutdown"),
        (run("/bin/reboot"), "shutdown"),
        (run("shutdown", "-h", "now"), "shutdown"),
        (run("init", "0"), "shutdown"),
        (run("systemctl", "--force", "poweroff"), "shutdown"),
        (run("systemctl", "isolate", "reboot.target"), "shutdown"),
        (run("kill", "-9", "-1"), "kill"),
        (run("kill", "-s", "KILL", "--", "-1"), "kill"),
        (run("kill", "--", "-1"), "kill"),
        (run("killall5"), "kill"),
    ],
)
def test_a_catastrophe_is_refused_by_name(made: Effect, code: str) -> None:
    assert codes(made) == [f"catastrophic-{code}"]


@pytest.mark.proves("guard-catastrophic-true")
@pytest.mark.parametrize(
    "made",
    [
        run("grep", "-rn", "rm -rf /", "docs"),
        run("git", "commit", "-m", "rm -rf /"),
        run("echo", "reboot"),
        run("man", "reboot"),
        run("./reboot"),
        run("scripts/shutdown"),
        run("shutdown", "-c"),
        run("reboot", "--help"),
        run("wipefs", "-n", "/dev/sda"),
        run("wipefs", "/dev/sda"),
        run("mkfs.ext4", "disk.img"),
        run("mkfs.ext4", "-n", "/dev/sda1"),
        run("parted", "/dev/sda", "print"),
        run("cryptsetup", "status", "x"),
        run("systemctl", "status", "reboot.target"),
        run("systemctl", "restart", "reboot"),
        run("kill", "-1", "4711"),
        run("kill", "-l", "1"),
        run("init", "project"),
        run("hdparm", "-I", "/dev/sda"),
        effect(Act.EMPTY, f"{HOME}/dev/sdk/token", by="shred -u"),
        effect(Act.DELETE, f"{HOME}/dev/sdk/token", by="shred -u"),
        effect(Act.OVERWRITE, "/dev/null", by=">"),
        effect(Act.OVERWRITE, "/dev/sdcard-reader.txt", by=">"),
        effect(Act.READ, "/dev/sda", by="dd"),
        effect(Act.DELETE, "/var/lib/apt/lists/", STAR, recursive=True),
        effect(Act.DELETE, "/tmp/", STAR, recursive=True),
        effect(Act.DELETE, "/", recursive=True, names=[word(STAR, ".pyc")], by="find"),
        effect(Act.DELETE, "/etc"),
        effect(Act.DELETE, "/", Hole("$X"), recursive=True),
        effect(Act.DELETE, HOLE, recursive=True),
        effect(Act.DELETE, f"{HOME}/project", recursive=True),
    ],
)
def test_what_only_looks_like_one_is_none(made: Effect) -> None:
    assert codes(made) == []
