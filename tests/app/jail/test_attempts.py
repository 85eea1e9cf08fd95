"""What programs try against a root, each of which succeeds without the jail and none of which does in it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.app.jail.layout import Layout
from tests.unprivileged import UnprivilegedUser

pytestmark = [
    pytest.mark.platforms("linux"),
    pytest.mark.unprivileged,
    pytest.mark.proves("jail-holds-roots"),
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed"),
]

C_PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
int main(void) {
    char path[4096];
    snprintf(path, sizeof path, "%s/pyvenv.cfg", getenv("VENV"));
    return remove(path) ? 1 : 0;
}
"""
PTRACE = "import ctypes,os; print(ctypes.CDLL(None).ptrace(16, int(os.environ['OUTSIDE']), 0, 0))"
HANDLE = """
import ctypes, os, struct
libc = ctypes.CDLL(None, use_errno=True)
class Handle(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint), ("kind", ctypes.c_int), ("data", ctypes.c_ubyte * 128)]
handle, mount = Handle(size=128), ctypes.c_int()
path = os.environ["VENV"] + "/pyvenv.cfg"
if libc.name_to_handle_at(-100, path.encode(), ctypes.byref(handle), ctypes.byref(mount), 0):
    raise SystemExit("no handle")
at = os.open(os.environ["WORK"], os.O_RDONLY | os.O_DIRECTORY)
opened = libc.open_by_handle_at(at, ctypes.byref(handle), os.O_WRONLY | os.O_TRUNC)
os.write(opened, b"harmed") if opened >= 0 else None
"""

ATTEMPTS = {
    "sh -c": 'sh -c "rm -rf $VENV"',
    "xargs": 'echo "$VENV" | xargs rm -rf',
    "rmtree in Python": """"$PYTHON" -c "import os,shutil; shutil.rmtree(os.environ['VENV'])" """,
    "a rename in Python": """"$PYTHON" -c "import os; os.rename(os.environ['VENV'], os.environ['WORK'] + '/x')" """,
    "a git hook": """
        cd "$WORK" && git init -q . && printf '#!/bin/sh\\nrm -rf "$VENV"\\n' > .git/hooks/post-commit
        chmod +x .git/hooks/post-commit
        git -c user.name=a -c user.email=a@example.org commit -q --allow-empty -m x""",
    "a detached process": """(setsid nohup sh -c 'rm -rf "$VENV"; : > "$WORK/done"' >/dev/null 2>&1 &)
        for i in 1 2 3 4 5 6 7 8 9 10; do [ -e "$WORK/done" ] || sleep 0.1; done""",
    "appending": 'echo x >> "$VENV/pyvenv.cfg"',
    "permissions": 'chmod 000 "$VENV/pyvenv.cfg"',
    "something new": ': > "$VENV/lib/sitecustomize.py"',
    "putting something in its place": 'echo x > "$WORK/x"; mv -f "$WORK/x" "$VENV/pyvenv.cfg"',
    "moving a parent": 'mv "$HOUSE/store" "$HOUSE/gone"',
    "moving the home": 'mv "$HOUSE" "$HOUSE.gone"',
    "moving a parent of the home": 'mv "$FOLDER/deep" "$FOLDER/gone"',
    "an exchange with a parent": """mkdir "$WORK/empty"; "$PYTHON" -c "
import ctypes,os; libc = ctypes.CDLL(None)
libc.renameat2(-100, os.environ['FOLDER'].encode() + b'/deep', -100, os.environ['WORK'].encode() + b'/empty', 2)" """,
    "a link made before": 'echo x > "$WORK/link/pyvenv.cfg"',
    "a hard link": 'ln "$VENV/pyvenv.cfg" "$WORK/hard"; echo x >> "$WORK/hard"',
    "through /proc/self/root": 'rm -rf "/proc/self/root$VENV"',
    "through a process outside": 'rm -rf "/proc/$OUTSIDE/root$VENV"',
    "through the working directory of a process outside": 'rm -rf "/proc/$OUTSIDE/cwd/deep"',
    "a policy": 'echo "jail: off" > "$HOUSE/profiles/default/app.yaml"',
    "a policy where there was none": 'mkdir "$HOUSE/profiles/x" && echo "jail: off" > "$HOUSE/profiles/x/app.yaml"',
    "an answer to an approval": 'echo approved > "$HOUSE/state/default/approvals.db"',
    "a file that shares its bytes": 'echo x > "$HOUSE/cache/wheel"',
    "a pointer": 'rm "$HOUSE/profiles/default/current"',
    "a launcher": 'cp /bin/true "$HOUSE/bin/perdure"',
    "another jail inside": 'bwrap --dev-bind / / rm -rf "$VENV" || rm -rf "$VENV"',
    "a user namespace": """unshare -Urm sh -c '
        umount "$HOUSE"; umount -l "$VENV"; mount -o remount,rw,bind "$HOUSE"; rm -rf "$VENV"' || rm -rf "$VENV" """,
    "a namespace of a process outside": """
        nsenter -t "$OUTSIDE" -m rm -rf "$VENV" || nsenter -t 1 -m rm -rf "$VENV" || rm -rf "$VENV" """,
    "unmounting": 'umount "$HOUSE"; umount -l "$HOUSE"; umount -l "$VENV"; rm -rf "$VENV"',
    "mounting again": 'mount -o remount,rw "$HOUSE"; mount -o remount,rw,bind "$HOUSE"; rm -rf "$VENV"',
    "a mount over it": 'mkdir "$WORK/up"; mount --bind "$FOLDER/deep" "$WORK/up"; rm -rf "$WORK/up/house" "$VENV"',
}
AS_ROOT = {
    "a handle": f"\"$PYTHON\" -c '{HANDLE}'",
}


class Told(NamedTuple):
    """What came of an attempt."""

    harmed: bool
    said: str


def attempt(layout: Layout, script: str, *, jailed: bool) -> Told:
    """Return what came of one attempt, made by this process's user."""
    before = layout.contents()
    (layout.work / "link").symlink_to(layout.venv)
    with subprocess.Popen(["/bin/sleep", "60"], cwd=layout.folder) as outside:
        try:
            front = layout.jail().arguments(str(layout.work), None) if jailed else []
            done = layout.run(script, front, {"OUTSIDE": str(outside.pid)})
        finally:
            outside.kill()
    return Told(layout.contents() != before if layout.home.is_dir() else True, done.stdout + done.stderr)


def attempt_both(folder: Path, script: str) -> tuple[Told, Told, str | None]:
    """Return what came of it with the jail and without, and why there is no jail here."""
    for name in ("jailed", "free"):
        (folder / name).mkdir()
    jailed, free = Layout(folder / "jailed"), Layout(folder / "free")
    if (why := jailed.jail().why_not()) is not None:
        return Told(False, ""), Told(False, ""), why
    return attempt(jailed, script, jailed=True), attempt(free, script, jailed=False), None


def check(told: tuple[Told, Told, str | None]) -> None:
    """Assert that an attempt does harm, and none in the jail."""
    jailed, free, why = told
    if why is not None:
        pytest.skip(f"no jail: {why}")
    assert free.harmed, f"this does no harm anywhere: {free.said}"
    assert not jailed.harmed, jailed.said


@pytest.mark.parametrize("name", [*ATTEMPTS, *AS_ROOT])
def test_no_attempt_of_the_tests_own_user_harms_a_root(place: Path, name: str) -> None:
    if name in AS_ROOT and os.geteuid() != 0:
        pytest.skip("needs root to do harm")
    check(attempt_both(place, (ATTEMPTS | AS_ROOT)[name]))


@pytest.mark.parametrize("name", ATTEMPTS)
def test_no_attempt_of_a_user_without_privileges_harms_a_root(unprivileged_user: UnprivilegedUser, name: str) -> None:
    if not unprivileged_user.dropped:
        pytest.skip("the other test is this one: the tests run without privileges")
    check(unprivileged_user.call(attempt_both, unprivileged_user.folder, ATTEMPTS[name]))


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no compiler")
def test_a_program_that_nobody_knows_harms_no_root(place: Path, unprivileged_user: UnprivilegedUser) -> None:
    program = unprivileged_user.folder / "unknown"
    subprocess.run(["cc", "-x", "c", "-o", str(program), "-"], input=C_PROGRAM, text=True, check=True)
    check(attempt_both(place, str(program)))
    check(unprivileged_user.call(attempt_both, unprivileged_user.folder, str(program)))


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts something")
def test_a_bind_mount_made_before_is_no_way_round(place: Path) -> None:
    layout = Layout(place)
    others = [place / "whole", place / "part"]
    before = layout.contents()
    mounted = []
    try:
        for other, source in zip(others, (place / "deep", layout.venv / "lib"), strict=True):
            other.mkdir()
            subprocess.run(["mount", "--bind", str(source), str(other)], check=True)
            mounted.append(other)
        plan = layout.jail().plan()
        assert {str(place / "whole" / "house"), str(place / "part")} <= set(plan.read_only)
        done = layout.run(
            'rm -rf "$FOLDER/whole/house/store" "$FOLDER/part/module.py"; mv "$FOLDER/whole/house" "$FOLDER/whole/x"; '
            'cat "$FOLDER/whole/house/state/default/approvals.db"; : > "$FOLDER/whole/free"',
            layout.jail().arguments(str(layout.work), None),
        )
        assert layout.contents() == before, done.stderr
        assert "pending" not in done.stdout
        assert (place / "deep" / "free").exists()  # the rest of it is not ours
    finally:
        for other in mounted:
            subprocess.run(["umount", str(other)], check=True)


INSIDE = {
    "the environment of somebody else can be made anew": (
        'rm -rf "$OTHER" && "$PYTHON" -m venv --without-pip "$OTHER" && ls "$OTHER"',
        "bin\ninclude\nlib\n",
    ),
    "what the layout of the home does not know can be changed": (
        'echo mine > "$HOUSE/mine/note"; cat "$HOUSE/mine/note"',
        "mine\n",
    ),
    "state is hidden": ('ls -A "$HOUSE/state"; echo end', "end\n"),
    "processes outside are not seen": ('kill -0 "$OUTSIDE" 2>/dev/null || echo unseen', "unseen\n"),
    "a process outside cannot be traced": (f'"$PYTHON" -c "{PTRACE}"', "-1\n"),
    "output goes where it goes outside": ("echo x > /dev/null && echo y > /dev/stdout", "y\n"),
    "the first process is the jail's": ("cat /proc/1/comm", "bwrap\n"),
    "nothing gives new rights": ("grep -c 'NoNewPrivs:.*1' /proc/self/status", "1\n"),
}


def inside(folder: Path, name: str) -> tuple[str, str] | None:
    """Return what a text says inside and what it is expected to say; None where there is no jail."""
    layout = Layout(folder)
    (layout.home / "mine").mkdir()
    if layout.jail().why_not() is not None:
        return None
    script, expected = INSIDE[name]
    front = layout.jail().arguments(str(layout.work), None)
    return layout.run(script, front, {"OUTSIDE": str(os.getpid())}).stdout, expected


@pytest.mark.proves("jail-others-free", "jail-holds-roots")
@pytest.mark.parametrize("name", INSIDE)
def test_inside(place: Path, unprivileged_user: UnprivilegedUser, name: str) -> None:
    for answer in (inside(place, name), unprivileged_user.call(inside, unprivileged_user.folder, name)):
        if answer is None:
            pytest.skip("no jail")
        said, expected = answer
        assert said.startswith(expected), said


@pytest.mark.skipif(os.geteuid() != 0, reason="asks what root may do")
def test_root_reaches_neither_disk_nor_kernel(place: Path) -> None:
    layout = Layout(place)
    jail = layout.jail()
    front = jail.arguments(str(layout.work), None)
    for device in jail.system.devices():
        assert layout.run(f"head -c 1 {device}", front).returncode != 0
        assert "Permission denied" in layout.run(f": >> {device}", front).stderr
    major, minor = os.major(os.stat("/").st_dev), os.minor(os.stat("/").st_dev)
    assert "Operation not permitted" in layout.run(f"mknod disk b {major} {minor}", front).stderr
    for path in ("/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/sys/kernel/uevent_helper"):
        if os.path.exists(path):
            assert "Read-only file system" in layout.run(f": >> {path}", front).stderr, path
    # What root is for, elsewhere, stays.
    assert layout.run('chown 12345 "$WORK"; stat -c %u "$WORK"', front).stdout == "12345\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="makes a setuid program")
def test_a_setuid_program_gets_no_rights_inside(unprivileged_user: UnprivilegedUser) -> None:
    program = unprivileged_user.folder / "whoami"
    shutil.copy("/usr/bin/id", program)
    program.chmod(0o4755)

    def ask() -> tuple[str, str]:
        layout = Layout(unprivileged_user.folder / "own")
        front = layout.jail().arguments(str(layout.work), None)
        return layout.run(f"{program} -u").stdout.strip(), layout.run(f"{program} -u", front).stdout.strip()

    own = unprivileged_user.folder / "own"
    own.mkdir()
    unprivileged_user.own(own)
    assert unprivileged_user.call(ask) == ("0", str(unprivileged_user.uid))
