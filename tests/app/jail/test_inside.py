"""What docs/explanation/jail.md says is different inside: each row of its table, as root and as a user."""

from __future__ import annotations

import json
import os
import shutil
import socket
import struct
import subprocess
import threading
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.app.command_line import envelope_of
from tests.app.conftest import Generation
from tests.app.jail.layout import Layout
from tests.app.jail.test_jail_cli import hide_in_ls
from tests.unprivileged import UnprivilegedUser

pytestmark = [
    pytest.mark.platforms("linux"),
    pytest.mark.unprivileged,
    pytest.mark.proves("jail-differences"),
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed"),
]

SUDO = "`sudo`, `su` as a user, every setuid or file-capability program"
MOVES = "renaming or hard-linking between a parent of a root and what is beside it"
PTRACE = "`ptrace`, `gdb -p`, `strace -p`"
MOUNT = "`mount`, `umount`, `nsenter`"
NAMESPACES = "`unshare -Ur`, rootless containers, the sandbox of a browser, `bwrap` in the jail"
DAEMONS = "`docker`, `podman --remote`"
OTHERS = "`systemd-run`, `at`, `cron`, `ssh localhost`, D-Bus"
BACKGROUND = "a background process"
CODE = "the exit code where a signal ended the command"

TRACE = """
import ctypes, os, signal, time
child = os.fork()
if child == 0:
    time.sleep(30)
libc = ctypes.CDLL(None)
print(libc.ptrace(16, child, 0, 0))
os.kill(child, signal.SIGKILL)
"""
ASK = """
import os, socket
asked = socket.socket(socket.AF_UNIX)
asked.connect(os.environ["DAEMON"])
asked.sendall((os.environ["HOUSE"] + "/asked").encode())
print(asked.recv(9).decode())
"""
CAPABILITY = struct.pack("<5I", 0x02000001, 1 << 2, 0, 0, 0)
"""cap_dac_read_search, permitted and effective, as the kernel keeps it of a file (capability.h)."""


class Case(NamedTuple):
    """One text, what it prints without the jail, and in it."""

    row: str
    who: str
    """``user``, ``root`` or ``both``."""
    script: str
    free: str
    jailed: str
    needs: str = "sh"
    """The program that it is about."""


CASES = {
    "a move": Case(
        MOVES, "both", 'echo x > "$FOLDER/deep/x"; mv "$FOLDER/deep/x" "$WORK/y" && cat "$WORK/y"', "x", "x"
    ),
    "a link": Case(
        MOVES,
        "both",
        'touch "$FOLDER/deep/x"; ln "$FOLDER/deep/x" "$WORK/y" 2>/dev/null && echo linked || echo refused',
        "linked",
        "refused",
    ),
    "tracing one's own": Case(PTRACE, "both", f"\"$PYTHON\" -c '{TRACE}'", "0", "0"),
    "mounting": Case(
        MOUNT, "root", 'mount -t tmpfs none "$OTHER" 2>/dev/null && umount "$OTHER" && echo yes || echo no', "yes", "no"
    ),
    "entering": Case(
        MOUNT, "root", "nsenter -t $$ -m true 2>/dev/null && echo yes || echo no", "yes", "no", needs="nsenter"
    ),
    "a user namespace": Case(NAMESPACES, "user", "unshare -Ur id -u 2>/dev/null || echo no", "0", "0", needs="unshare"),
    "a jail in the jail": Case(
        NAMESPACES, "user", "bwrap --dev-bind / / echo yes 2>/dev/null || echo no", "yes", "yes", needs="bwrap"
    ),
    "a jail in the jail of root": Case(
        NAMESPACES, "root", "bwrap --dev-bind / / echo yes 2>/dev/null || echo no", "yes", "no", needs="bwrap"
    ),
    "a mount namespace of root": Case(
        NAMESPACES, "root", "unshare -m echo yes 2>/dev/null || echo no", "yes", "no", needs="unshare"
    ),
    "a daemon's client": Case(
        DAEMONS, "both", f'"$PYTHON" -c \'{ASK}\'; test -e "$HOUSE/asked" && echo there', "done there", "done there"
    ),
    "whoever acts when asked": Case(
        OTHERS, "both", f'"$PYTHON" -c \'{ASK}\'; test -e "$HOUSE/asked" && echo there', "done there", "done there"
    ),
    "sudo": Case(
        SUDO,
        "user",
        "sudo -n true 2>&1 | grep -o 'no new privileges' | head -1 | grep . || echo not that",
        "not that",
        "no new privileges",
        needs="sudo",
    ),
}


class Daemon:
    """A process outside that makes a file where it is told to, as a container engine does, or cron."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "daemon"
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(self.path))
        self._socket.listen()
        self.path.chmod(0o777)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            with client:
                Path(client.recv(4096).decode()).touch()
                client.sendall(b"done")

    def close(self) -> None:
        """Have nobody answer any more."""
        self._socket.close()
        self.path.unlink()


def say(folder: Path, script: str, daemon: str, jailed: bool) -> str | None:
    """Return what a text prints; None where there is no jail."""
    folder.mkdir()
    layout = Layout(folder)
    front = []
    if jailed:
        if layout.jail().why_not() is not None:
            return None
        front = layout.jail().arguments(str(layout.work), None)
    return " ".join(layout.run(script, front, {"DAEMON": daemon}).stdout.split())


@pytest.mark.parametrize("name", CASES)
def test_a_row_is_as_the_table_says(name: str, place: Path, unprivileged_user: UnprivilegedUser) -> None:
    case = CASES[name]
    if shutil.which(case.needs) is None:
        pytest.skip(f"{case.needs} is not installed")
    users = [unprivileged_user.folder] if case.who in {"user", "both"} else []
    if case.who in {"root", "both"} and os.geteuid() == 0:
        users.append(place)
    daemon = Daemon(place)
    try:
        for folder in users:
            for jailed, expected in ((False, case.free), (True, case.jailed)):
                given = (folder / f"jailed-{jailed}", case.script, str(daemon.path))
                said = say(*given, jailed) if folder == place else unprivileged_user.call(say, *given, jailed)
                if said is None or (not jailed and case.row == NAMESPACES and said == "no"):
                    pytest.skip("this machine has no jail, or lets nobody make namespaces")
                assert said == expected, (folder, jailed)
    finally:
        daemon.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a program rights")
def test_a_program_with_capabilities_has_none_inside(unprivileged_user: UnprivilegedUser) -> None:
    secret, program = unprivileged_user.folder / "secret", unprivileged_user.folder / "reader"
    secret.write_text("read\n")
    secret.chmod(0o600)
    os.chown(secret, 0, 0)
    shutil.copy("/bin/cat", program)
    program.chmod(0o755)
    os.setxattr(program, "security.capability", CAPABILITY)
    script = f"{program} {secret} 2>/dev/null || echo refused"
    said = [
        unprivileged_user.call(say, unprivileged_user.folder / f"jailed-{jailed}", script, "", jailed)
        for jailed in (False, True)
    ]
    assert said == ["read", "refused"]


def test_a_background_process_ends_and_a_signal_is_told_as_a_code(generation: Generation, tmp_path: Path) -> None:
    mark = f"43{os.getpid()}"
    environment = hide_in_ls(tmp_path, f"setsid sleep {mark} & kill -9 $$")
    done = generation.run("exec", "--json", "--jail", "require", "--", "ls", "-l", environment=environment)
    answer = envelope_of(done)
    if answer["errors"] and answer["errors"][0]["code"] == "jail-unavailable":
        pytest.skip(json.dumps(answer["errors"]))
    assert (answer["data"]["exit_code"], answer["data"]["ended"]) == (128 + 9, "exited")
    living = subprocess.run(["ps", "-eo", "args="], capture_output=True, text=True, check=True).stdout
    assert f"sleep {mark}" not in living


def test_every_row_of_the_table_is_tried_here(checkout: Path) -> None:
    text = (checkout / "docs" / "explanation" / "jail.md").read_text(encoding="utf-8")
    table = text.partition("| what | inside |\n")[2].partition("\n\n")[0].splitlines()[1:]
    rows = {line.split(" | ")[0].removeprefix("| ") for line in table}
    assert rows == {case.row for case in CASES.values()} | {BACKGROUND, CODE}
