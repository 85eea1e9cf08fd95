"""Commands in backends as they are used: an engine that only records, a real sshd, and a real podman where one runs."""

from __future__ import annotations

import getpass
import io
import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.app.command_line import envelope_of
from tests.app.conftest import Generation
from tests.app.test_exec import records, running

pytestmark = pytest.mark.platforms("linux")

RECORDER = """#!{python} -I
import json, os, sys
seen = {{"arguments": sys.argv[1:], "environment": dict(os.environ), "cwd": os.getcwd()}}
with open({log!r}, "a") as file:
    file.write(json.dumps(seen) + "\\n")
if "inspect" in sys.argv:
    print({inspected!r})
"""


class Engine:
    """A program in the place of docker that notes what it is called with."""

    def __init__(self, generation: Generation, folder: Path) -> None:
        self.path, self._log, self._home = folder / "docker", folder / "log", generation.home
        folder.mkdir()
        self.inspects_as("[]")

    def inspects_as(self, text: str) -> None:
        python = os.path.realpath(sys.executable)
        self.path.write_text(RECORDER.format(python=python, log=str(self._log), inspected=text))
        self.path.chmod(0o755)

    def settings(self, **settings: object) -> None:
        write_settings(self._home, {"box": {"kind": "docker", "program": str(self.path), **settings}})

    def calls(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._log.read_text().splitlines()] if self._log.exists() else []


def write_settings(home: Path, backends: object) -> None:
    path = home / "profiles" / "default" / "app.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"backends": backends}))


@pytest.fixture
def engine(generation: Generation, tmp_path: Path) -> Engine:
    """An engine that runs nothing."""
    return Engine(generation, tmp_path / "engine")


@pytest.mark.proves("backends-quoting", "backends-far-side-ended", "exec-recorded", "exec-environment")
def test_a_command_goes_to_the_engine_as_it_was_given_and_what_is_left_is_taken_away(
    generation: Generation, engine: Engine
) -> None:
    engine.settings(image="alpine:3", environment=["GIVEN", "MISSING"])
    environment = {"GIVEN": "a 'b'", "OTHER": "x", "VIRTUAL_ENV": str(generation.venv)}
    done = generation.run("exec", "--json", "--backend", "box", "--", "ls", "a b", "$HOME", environment=environment)
    data = envelope_of(done)["data"]
    assert (done.returncode, data["backend"], data["untidy"]) == (0, "box", None)
    started, tidied = engine.calls()
    name = started["arguments"][3]
    assert started["arguments"] == [
        *("run", "--rm", "--name", name, "--entrypoint", ""),
        *("-e", "GIVEN", "-e", "PERDURE_RUN", "--", "alpine:3", "ls", "a b", "$HOME"),
    ]
    assert started["environment"]["GIVEN"] == "a 'b'"
    assert started["environment"]["PERDURE_RUN"] == data["run"]
    assert "VIRTUAL_ENV" not in started["environment"]
    assert tidied["arguments"] == ["rm", "-f", name]
    judged, _, ended = records(generation)
    assert (judged["backend"], ended["untidy"]) == ("box", None)


@pytest.mark.proves("backends-isolated", "exec-guard-first")
def test_isolation_relaxes_what_is_only_classified_and_never_the_floor_or_a_rule(
    generation: Generation, engine: Engine
) -> None:
    def run(*command: str, **settings: object) -> tuple[int, str | None]:
        engine.settings(**settings)
        done = generation.run("exec", "--json", "--backend", "box", "--", *command)
        errors = envelope_of(done)["errors"]
        return done.returncode, errors[0]["code"] if errors else None

    plain = json.dumps([{"Mounts": [], "HostConfig": {"Privileged": False}}])
    assert run("frobnicate", image="alpine") == (0, None)
    assert run("frobnicate", image="alpine", mounts=["/srv:/srv"]) == (10, "command-needs-approval")
    assert run("frobnicate", image="alpine", arguments=["-v", "/:/host"]) == (10, "command-needs-approval")
    assert run("frobnicate", container="dev") == (10, "command-needs-approval")
    engine.inspects_as(plain)
    assert run("frobnicate", container="dev") == (0, None)
    for line in ("rm -rf /", f"rm -rf {shlex.quote(str(generation.venv))}"):
        assert run(line, image="alpine") == (10, "command-refused")
    # What is mounted is met by its path here, whatever it is called inside.
    inside = f"rm -rf {shlex.quote(f'/host{generation.venv}')}"
    for given in ({"mounts": ["/:/host"]}, {"arguments": ["--volume=/:/host"]}, {"arguments": ["-v", "/:/host"]}):
        assert run(inside, image="alpine", **given) == (10, "command-refused")
        tried = generation.run("approvals", "test", "--backend", "box", "--json", "--", inside)
        assert envelope_of(tried)["data"]["decision"]["code"] == "own-feet"
    assert run("rm", "-rf", "bin", image="alpine", cwd="/w", mounts=[f"{generation.venv}:/w"]) == (
        10,
        "command-refused",
    )
    assert run(inside, image="alpine") == (0, None)
    assert run("echo x > AGENTS.md", image="alpine") == (10, "command-needs-approval")
    assert [call["arguments"][0] for call in engine.calls()].count("run") == 2


@pytest.mark.proves("backends-settings-checked")
def test_a_backend_that_is_not_there_starts_nothing_and_a_plugins_is_found(
    generation: Generation, tmp_path: Path
) -> None:
    source = """
import sys
from perdure.api.backends import Backend, Launch
from perdure.api.hooks import hookimpl

plugin = sys.modules[__name__]

@hookimpl
def backends():
    return [Backend(name="cloud", launch=lambda far: Launch(command=("printf", "%s|", *far.command)), isolated=True)]
"""
    generation.boot(generation.plugin("clouds", source))
    done = generation.run("exec", "--backend", "cloud", "--", "frobnicate", "a b")
    assert (done.returncode, done.stdout) == (0, "frobnicate|a b|")
    done = generation.run("exec", "--json", "--backend", "gone", "--", "ls")
    (error,) = envelope_of(done)["errors"]
    assert (done.returncode, error["code"]) == (2, "backend-unknown")
    assert error["summary"] == "there is no backend 'gone'; there are local, cloud"
    done = generation.run("exec", "--json", "--backend", "cloud", "--cwd", "relative", "--", "ls")
    assert (done.returncode, envelope_of(done)["errors"][0]["code"]) == (2, "usage")


@pytest.fixture
def far(generation: Generation, tmp_path: Path) -> Iterator[Path]:
    """An sshd on this machine that the backend `far` leads to; the directory of its files."""
    sshd, keygen = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin"), shutil.which("ssh-keygen")
    if sshd is None or keygen is None or shutil.which("ssh") is None:
        pytest.skip("no sshd on this machine: install openssh-server")
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    folder = tmp_path / "ssh d"
    folder.mkdir(mode=0o700)
    for name in ("host", "user"):
        subprocess.run([keygen, "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    (folder / "keys").write_bytes((folder / "user.pub").read_bytes())
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (folder / "config").write_text(
        f'Port {port}\nListenAddress 127.0.0.1\nHostKey "{folder}/host"\nAuthorizedKeysFile "{folder}/keys"\n'
        "StrictModes no\nUsePAM no\nPasswordAuthentication no\nPidFile none\nPermitRootLogin yes\n"
    )
    (folder / "known").write_text(f"[127.0.0.1]:{port} {(folder / 'host.pub').read_text()}")
    write_settings(
        generation.home,
        {
            "far": {
                "kind": "ssh",
                "host": f"{getpass.getuser()}@127.0.0.1",
                "port": port,
                "environment": ["GIVEN"],
                "arguments": [
                    *("-F", "none", "-i", str(folder / "user"), "-o", f'UserKnownHostsFile="{folder}/known"'),
                ],
            }
        },
    )
    with subprocess.Popen([sshd, "-D", "-e", "-f", str(folder / "config")], stderr=subprocess.PIPE) as process:
        try:
            deadline = time.monotonic() + 30
            while True:
                with socket.socket() as reached:
                    if reached.connect_ex(("127.0.0.1", port)) == 0:
                        break
                assert process.poll() is None, process.stderr and process.stderr.read()
                assert time.monotonic() < deadline
                time.sleep(0.02)  # it says nothing when it listens
            yield folder
        finally:
            process.kill()


@pytest.mark.proves("backends-quoting", "exec-output-bounded")
def test_another_machine_runs_the_words_and_the_texts_as_they_are(generation: Generation, far: Path) -> None:
    words = ["a b", "$HOME", "it's", '"', "\n", "", "*", "\\", "ü"]
    command = ["exec", "--backend", "far", "--", "printf", "%s|", *words]
    done = generation.run(*command, environment={"GIVEN": "x"})
    assert (done.returncode, done.stdout) == (0, "".join(f"{word}|" for word in words)), done.stderr
    script = 'cd "$PWD"; for w in "a  b" c; do echo "$w"; done; echo "$GIVEN"; pwd; echo err >&2; exit 7'
    options = ["--json", "--backend", "far", "--cwd", str(far)]
    done = generation.run("exec", *options, "--", script, environment={"GIVEN": "it's $x"})
    data = envelope_of(done)["data"]
    assert (done.returncode, data["stdout"], data["stderr"]) == (7, f"a  b\nc\nit's $x\n{far}\n", "err\n")
    done = generation.run("exec", "--backend", "far", "--most-output", "4096", "--", "seq 1 100000")
    assert (done.returncode, len(done.stdout) < 4200, done.stdout.endswith("100000\n")) == (0, True, True)


@pytest.mark.proves("backends-far-side-ended", "exec-recorded")
def test_what_runs_on_another_machine_ends_with_its_time_and_leaves_nothing(generation: Generation, far: Path) -> None:
    mark = f"33{os.getpid()}"
    done = generation.run(
        "exec", "--json", "--backend", "far", "--seconds", "3", "--", f"setsid sleep {mark} & echo begun; sleep {mark}"
    )
    data = envelope_of(done)["data"]
    assert (done.returncode, data["stdout"], data["untidy"]) == (124, "begun\n", None)
    assert running(mark) == []
    done = generation.run("exec", "--backend", "far", "--", f"setsid nohup sleep {mark} >/dev/null 2>&1 & echo done")
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert running(mark) == []


@pytest.mark.proves("backends-far-side-ended")
def test_a_far_side_that_cannot_be_asked_is_said_to_be_unknown(generation: Generation, engine: Engine) -> None:
    engine.settings(container="dev")
    engine.path.write_text('#!/bin/sh\ncase "$*" in *proc*) echo gone >&2; exit 3;; esac\n')
    done = generation.run("exec", "--json", "--backend", "box", "--", "ls")
    assert envelope_of(done)["data"]["untidy"] == f"{engine.path} ended with 3: gone"
    assert f"whether something is left in box cannot be told: {engine.path} ended with 3: gone" in done.stderr


IMAGE = "perdure-try:1"


@pytest.fixture
def podman(generation: Generation, tmp_path: Path) -> Iterator[Path]:
    """A real podman with an image of a static busybox; skips where no container can be run here."""
    program, busybox = shutil.which("podman"), shutil.which("busybox")
    if program is None or busybox is None:
        pytest.skip("no podman, or no busybox, on this machine")
    layer = tmp_path / "layer.tar"
    with tarfile.open(layer, "w") as tar:
        tar.add(busybox, "bin/busybox")
        for name in ("sh", "echo", "sleep", "env", "pwd", "cat", "ls", "grep", "tr", "kill", "setsid"):
            link = tarfile.TarInfo(f"bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)
        script = b'#!/bin/sh\necho "$@"\n'
        member = tarfile.TarInfo("bin/frobnicate")
        member.size, member.mode = len(script), 0o755
        tar.addfile(member, io.BytesIO(script))
    (tmp_path / "limits.conf").write_text('[containers]\ndefault_ulimits=["nofile=1024:1024", "nproc=1024:1024"]\n')
    runtime = "--runtime runc" if shutil.which("runc", path="/usr/sbin:/usr/bin:/usr/local/bin") else ""
    short = tempfile.mkdtemp(prefix="pd")  # podman takes no long path for what it keeps while it runs
    store = shlex.join(["--root", str(tmp_path / "store"), "--runroot", short, "--storage-driver", "vfs"])
    wrapper = tmp_path / "podman"
    wrapper.write_text(
        f"#!/bin/sh\nexport CONTAINERS_CONF={shlex.quote(str(tmp_path / 'limits.conf'))}\n"
        f'exec {program} {store} --cgroup-manager cgroupfs {runtime} "$@"\n'
    )
    wrapper.chmod(0o755)
    tried = [
        subprocess.run([str(wrapper), *words], capture_output=True, text=True, check=False, timeout=120)
        for words in (["import", str(layer), IMAGE], ["run", "--rm", "--network", "none", IMAGE, "pwd"])
    ]
    if any(done.returncode for done in tried):
        pytest.skip(f"podman runs no container here: {' '.join(tried[-1].stderr.split())[-200:]}")
    common = {"kind": "podman", "program": str(wrapper)}
    box = {**common, "image": IMAGE, "network": "none", "environment": ["GIVEN"]}
    write_settings(generation.home, {"box": box, "dev": {**common, "container": "dev"}})
    yield wrapper
    subprocess.run([str(wrapper), "rm", "-f", "-a", "-t", "0"], check=False, capture_output=True, timeout=120)
    shutil.rmtree(short, ignore_errors=True)


@pytest.mark.slow
@pytest.mark.proves("backends-quoting", "backends-isolated", "backends-far-side-ended")
def test_a_real_container_runs_the_words_and_ends_with_its_time(generation: Generation, podman: Path) -> None:
    def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return generation.run("exec", "--shell", "sh", *words, environment=environment)

    done = run("--backend", "box", "--", "frobnicate", "a b", "$HOME", "it's")
    assert (done.returncode, done.stdout) == (0, "a b $HOME it's\n"), done.stderr
    done = run("--backend", "box", "--cwd", "/bin", "--", 'echo "$GIVEN"; pwd; exit 5', GIVEN="x  y")
    assert (done.returncode, done.stdout) == (5, "x  y\n/bin\n"), done.stderr
    mark = f"34{os.getpid()}"
    done = run("--backend", "box", "--seconds", "3", "--", f"echo begun; sleep {mark}")
    assert (done.returncode, done.stdout, running(mark)) == (124, "begun\n", [])
    held = ["run", "-d", "--name", "dev", "--network", "none", IMAGE, "sleep", "600"]
    subprocess.run([str(podman), *held], check=True, capture_output=True, timeout=120)
    done = run("--backend", "dev", "--", "frobnicate", "in", "it")
    assert (done.returncode, done.stdout) == (0, "in it\n"), done.stderr
    done = run("--backend", "dev", "--seconds", "3", "--", f"setsid sleep {mark} & sleep {mark}")
    assert (done.returncode, running(mark)) == (124, []), done.stderr
