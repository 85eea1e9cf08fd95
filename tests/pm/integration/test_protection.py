"""A host that is started with its home read-only: what it may do to it, as root and not, and what is said otherwise."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from perdure_pm.launcher import protect
from perdure_pm.model.errors import PerdureError
from perdure_pm.ops import protection
from perdure_pm.ops.doctor import examine
from perdure_pm.store.layout import Layout
from tests.pm.bench import Bench
from tests.pm.fake_host import copy_home
from tests.pm.sample_home import snapshot
from tests.unprivileged import UnprivilegedUser

pytestmark = pytest.mark.platforms("linux")
needs_bubblewrap = [
    pytest.mark.unprivileged,
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed"),
]

ATTACKS = {
    "delete": "shutil.rmtree(home, ignore_errors=True)",
    "write": "open(os.path.join(home, 'profiles', 'default', 'current'), 'w')",
    "unlock and write": "os.chmod(sys.prefix, 0o777); open(os.path.join(sys.prefix, 'new'), 'w')",
    "rename": "os.rename(home, home + '.away')",
    "rename its parent": "os.rename(os.path.dirname(home), os.path.dirname(home) + '.away')",
    "replace a launcher": "os.replace(os.path.join(home, 'state', 'made'), os.path.join(home, 'bin', 'fakehost'))",
    "remount": "subprocess.run(['mount', '-o', 'remount,rw,bind', home], check=True)",
    "unmount": "subprocess.run(['umount', '-l', home], check=True)",
    "a process outside": "shutil.rmtree('/proc/%s/root%s/bin' % (os.environ['OUTSIDE'], home))",
    "a namespace of its own": "subprocess.run(['unshare', '-Urm', 'sh', '-c', os.environ['UNDO'], home], check=True)",
}
UNDO = 'umount -l "$0" || mount -o remount,rw,bind "$0"; rm -rf "$0/bin"; test ! -e "$0/bin"'
SCRIPT = """
import os, shutil, subprocess, sys
home = os.environ["VICTIM"]
open(os.path.join(home, "state", "made"), "w").close()
open(os.path.join(os.path.dirname(home), "beside"), "w").close()
try:
    exec(os.environ["ATTACK"])
except (OSError, subprocess.CalledProcessError) as error:
    sys.exit(f"refused: {error}")
print("done")
"""


def ask(bench: Bench, policy: str) -> None:
    """Have the launchers follow `policy`; nothing is built for it."""
    before = bench.generations
    bench.call("config-set", key="host.protect", value=policy)
    bench.call("install")
    assert bench.generations == before


def script(layout: Layout, text: str) -> None:
    """Have the host do this when it is started."""
    (path,) = layout.generations.glob("*/venv/bin/fakehost")
    path.parent.chmod(0o755)
    path.chmod(0o755)
    path.write_text(f"#!/bin/sh\n{text}".replace("#!/bin/sh\n", "", 1), encoding="utf-8")


def without_bubblewrap(bench: Bench) -> None:
    """Have the generation look for bubblewrap in no place."""
    path = bench.current.path / "protect.py"
    path.parent.chmod(0o755)
    path.chmod(0o644)
    path.write_text(path.read_text(encoding="utf-8").replace("PLACES = (", "PLACES = () and ("), encoding="utf-8")


def attack(layout: Layout, name: str) -> tuple[subprocess.CompletedProcess[str], bool]:
    """Return how a host ended that attacks its home, and whether all but `state` is as it was."""
    with subprocess.Popen(["sleep", "60"]) as outside:
        for folder in (layout.state, layout.crashes("default")):
            folder.mkdir(exist_ok=True)
        before = {path: data for path, data in snapshot(layout.home).items() if not path.startswith("state")}
        ended = subprocess.run(
            [layout.bin / "fakehost"],
            env={
                "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
                "VICTIM": str(layout.home),
                "ATTACK": ATTACKS[name],
                "UNDO": UNDO,
                "OUTSIDE": str(outside.pid),
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        outside.kill()
    after = {path: data for path, data in snapshot(layout.home).items() if not path.startswith("state")}
    return ended, after == before


def require_held(ended: subprocess.CompletedProcess[str], intact: bool, name: str) -> None:
    assert intact, ended.stderr
    if name == "delete":  # which passes over what it cannot delete
        assert ended.stdout == "done\n", ended.stderr
    else:
        assert ended.returncode == 1, ended
        assert "refused" in ended.stderr


@pytest.fixture
def protected(bench: Bench) -> Bench:
    ask(bench, "require")
    script(bench.layout, SCRIPT)
    return bench


class TestWithBubblewrap:
    pytestmark = needs_bubblewrap

    @pytest.mark.proves("protect-holds-home")
    def test_a_host_that_attacks_its_home_harms_nothing(self, protected: Bench) -> None:
        for name in ATTACKS:
            ended, intact = attack(protected.layout, name)
            require_held(ended, intact, name)
            assert (protected.layout.home / "state").is_dir()
            assert (protected.layout.home.parent / "beside").exists()

    @pytest.mark.proves("protect-holds-home")
    def test_nor_does_one_without_privileges(self, protected: Bench, unprivileged_user: UnprivilegedUser) -> None:
        if not unprivileged_user.dropped:
            pytest.skip("the other test is this one: the tests run without privileges")
        (unprivileged_user.folder / "deep").mkdir()
        layout = copy_home(protected.layout, unprivileged_user.folder / "deep" / "home")
        python = shutil.which("python3", path="/usr/bin:/bin")
        if python is None:
            pytest.skip("there is no Python that every user can start")
        link = layout.generation(protected.current.identity) / "venv" / "bin" / "python"
        link.unlink()
        link.symlink_to(python)
        for name in ("start.py", "library"):  # by which another interpreter is refused
            (link.parent.parent.parent / name).unlink()
        for path in (unprivileged_user.folder / "deep", *unprivileged_user.folder.rglob("*")):
            os.chown(path, unprivileged_user.uid, unprivileged_user.gid, follow_symlinks=False)
        for name in ATTACKS:
            require_held(*unprivileged_user.call(attack, layout, name), name)

    def test_it_is_started_as_ever_otherwise(self, bench: Bench, tmp_path: Path) -> None:
        bench.call("config-set", key="host.protect", value="require")
        plain = bench.start()
        ask(bench, "require")
        ended = bench.start()
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, plain.stdout, "")
        script(bench.layout, "import os, sys\nprint(os.getcwd(), sys.argv[1:], sys.stdin.read())\nsys.exit(7)\n")
        ended = subprocess.run(
            [bench.layout.bin / "fakehost", "a b", "", "'"],
            cwd=tmp_path,
            env={"PATH": os.defpath},
            input="typed",
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert (ended.returncode, ended.stdout) == (7, f"{tmp_path} ['a b', '', \"'\"] typed\n"), ended.stderr

    @pytest.mark.proves("protect-signals")
    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
    def test_a_signal_reaches_the_host_once_and_its_ending_is_told(self, bench: Bench, number: signal.Signals) -> None:
        ask(bench, "require")
        counting = (
            "import os, signal, sys, time\nseen = []\n"
            f"signal.signal({number:d}, lambda *_: seen.append(1))\n"
            "print('ready', flush=True)\n"
            "while not seen: time.sleep(0.01)\n"
            "time.sleep(0.2)\nprint(len(seen), flush=True)\n"
            f"signal.signal({number:d}, signal.SIG_DFL)\nos.kill(os.getpid(), {number:d})\n"
        )
        script(bench.layout, counting)
        with subprocess.Popen([bench.layout.bin / "fakehost"], stdout=subprocess.PIPE, text=True) as started:
            assert started.stdout is not None
            assert started.stdout.readline() == "ready\n"
            started.send_signal(number)
            assert started.stdout.read() == "1\n"
        assert started.returncode == -number

    @pytest.mark.proves("protect-signals")
    def test_a_host_ends_with_what_was_started_as_it(self, bench: Bench) -> None:
        ask(bench, "require")
        script(bench.layout, "import time\nprint('ready', flush=True)\ntime.sleep(60)\n")
        with subprocess.Popen([bench.layout.bin / "fakehost"], stdout=subprocess.PIPE, text=True) as started:
            assert started.stdout is not None
            assert started.stdout.readline() == "ready\n"
            started.kill()
            # It comes to its end when nobody has it open any more, and so nobody is left.
            assert started.stdout.read() == ""

    def test_status_and_doctor_say_that_it_works(self, bench: Bench) -> None:
        ask(bench, "require")
        assert bench.pm("status", "--json").envelope["data"]["protect"] == {"policy": "require", "why_not": None}
        assert "require; works here" in bench.pm("status").out
        assert not [found for found in codes(bench) if found.startswith("protection")]


def codes(bench: Bench) -> list[str]:
    return [problem["code"] for problem in examine(bench.layout, "default", deep=False)["problems"]]


@pytest.mark.proves("protect-never-silent")
def test_what_cannot_be_protected_is_refused_or_said(bench: Bench) -> None:
    ask(bench, "require")
    without_bubblewrap(bench)
    ended = bench.start()
    assert (ended.returncode, ended.stdout) == (1, "")
    first, second = ended.stderr.splitlines()
    assert first == (
        "error: the host is not started: host.protect is require, and the home cannot be protected from it: "
        "bubblewrap (bwrap) is not installed"
    )
    assert f'"{bench.layout.bin}/perdure-pm" config set host.protect prefer' in second
    way = second.split(": ", 2)[-1]
    environment = {"PATH": os.defpath, "HOME": str(bench.layout.home.parent), **bench.settings()}
    subprocess.run(["sh", "-c", way], env=environment, capture_output=True, check=True, timeout=120)
    without_bubblewrap(bench)  # install mended what was changed
    ended = bench.start()
    assert ended.returncode == 0
    home = os.path.realpath(bench.layout.home)
    assert ended.stderr == (
        f"notice: the home {home} is not protected from this host: bubblewrap (bwrap) is not installed\n"
    )
    bench.call("config-set", key="host.protect", value="off")
    bench.call("install")
    assert bench.start().stderr == ""


@pytest.mark.proves("protect-never-silent")
@pytest.mark.parametrize(("policy", "code", "word"), [("require", 1, "error"), ("prefer", 0, "notice")])
def test_a_generation_that_lost_its_protection_says_so(bench: Bench, policy: str, code: int, word: str) -> None:
    ask(bench, policy)
    path = bench.current.path / "protect.py"
    path.parent.chmod(0o755)
    path.unlink()
    ended = bench.start()
    assert ended.returncode == code
    assert ended.stderr.startswith(f"{word}: ")
    assert "protect.py is gone" in ended.stderr
    assert bench.pm("install").exit_code == 0
    assert (bench.current.path / "protect.py").exists()


@pytest.mark.proves("protect-never-silent")
def test_no_variable_lets_a_host_start_without(bench: Bench) -> None:
    ask(bench, "require")
    without_bubblewrap(bench)
    lax = {"protect": "off", "PERDURE_PROTECT": "off", "HOST_PROTECT": "off"}
    assert bench.start(variables=lax).returncode == 1


def test_doctor_says_what_is_behind_and_what_is_missing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protection, "find_obstacle", lambda layout: "no bwrap")
    bench.call("config-set", key="host.protect", value="require")
    assert "protection-behind" in codes(bench)
    bench.call("install")
    found = {problem["code"]: problem for problem in examine(bench.layout, "default", deep=False)["problems"]}
    assert "protection-behind" not in found
    assert found["protection-missing"]["summary"].endswith("no bwrap")
    assert bench.pm("config", "set", "host.protect", "prefer").exit_code == 0
    assert bench.pm("install").exit_code == 0
    assert not [code for code in codes(bench) if code.startswith("protection")]


def test_a_setting_that_is_none_is_refused(bench: Bench) -> None:
    with pytest.raises(PerdureError, match=r"host\.protect must be off, prefer or require"):
        bench.call("config-set", key="host.protect", value="always")


@pytest.mark.proves("protect-never-silent")
def test_a_bubblewrap_that_does_not_answer_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stuck = tmp_path / "bwrap"
    stuck.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 60\n", encoding="utf-8")
    stuck.chmod(0o755)
    monkeypatch.setattr(protect, "find_program", lambda: str(stuck))
    monkeypatch.setattr(protect, "TRY_SECONDS", 0.5)
    assert protect.prepare(str(tmp_path), "default") == ([], f"{stuck} made no jail within 0.5 s")
    assert not os.path.exists(f"/proc/{(tmp_path / 'pid').read_text().strip()}")


@pytest.mark.proves("protect-never-silent")
def test_a_program_that_this_user_could_have_put_there_protects_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bwrap").symlink_to(sys.executable)
    monkeypatch.setattr(protect, "PLACES", (str(tmp_path),))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(os, "access", lambda path, mode: True)
    assert protect.find_program() is None
