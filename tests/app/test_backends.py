"""Where commands run: how they get there word by word, and that nothing that may reach the host passes for isolated."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.app_file import AppFile
from perdure.domain.backend import Backend, FarCommand, Launch
from perdure.domain.errors import BackendFailed, BackendUnknown
from perdure.tools.backends import Backends
from perdure.tools.far_commands import Container, Ssh

FAR = FarCommand(run="Run-1_x", command=("sh", "-c", "echo $A"), environment={"A": "b c"})


def backends(
    folder: Path,
    text: str,
    *,
    provided: Callable[[], Iterable[tuple[str, Backend]]] = tuple,
    inspected: str | None = None,
) -> Backends:
    """Return the registry of a profile whose app.yaml says this."""
    path = folder / "app.yaml"
    path.write_text(text)
    return Backends(file=AppFile(path), provided=provided, inspect=lambda command: inspected)


@pytest.mark.proves("backends-quoting")
def test_a_new_container_gets_the_words_as_they_are_and_variables_by_name() -> None:
    launch = Container(program="docker", image="alpine:3", cwd="/w", network="none").launch(FAR)
    assert launch.command == (
        *("docker", "run", "--rm", "--name", "perdure-run1x", "--entrypoint", "", "--network", "none"),
        *("-e", "A", "-e", "PERDURE_RUN", "-w", "/w", "--", "alpine:3", "sh", "-c", "echo $A"),
    )
    assert launch.environment == {"A": "b c", "PERDURE_RUN": "Run-1_x"}
    assert launch.cleanup == ("docker", "rm", "-f", "perdure-run1x")


@pytest.mark.proves("backends-quoting")
def test_a_running_container_and_another_machine_get_them_too() -> None:
    launch = Container(program="podman", container="dev").launch(FAR)
    assert launch.command == (*("podman", "exec", "-e", "A", "-e", "PERDURE_RUN", "--", "dev", "sh", "-c", "echo $A"),)
    launch = Ssh(program="ssh", host="you@far", port=2222, arguments=("-F", "config")).launch(
        FarCommand(run="r", command=("ls", "-l"), cwd="/a b")
    )
    assert launch.command[-5:] == ("-F", "config", "--", "you@far", "cd -- '/a b' && exec env PERDURE_RUN=r ls -l")
    assert "BatchMode=yes" in launch.command


@pytest.mark.platforms("linux", "darwin")
@pytest.mark.proves("backends-quoting")
@settings(max_examples=40, deadline=None)
@given(words=st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0")), max_size=4))
def test_a_login_shell_takes_the_text_for_ssh_apart_into_the_same_words(words: list[str]) -> None:
    show = 'for word do printf "%s\\0" "$word"; done'
    far = FarCommand(run="r", command=("sh", "-c", show, "sh", *words))
    text = Ssh(program="ssh", host="far").launch(far).command[-1]
    done = subprocess.run(["/bin/sh", "-c", text], capture_output=True, check=True)
    assert done.stdout == b"".join(word.encode() + b"\0" for word in words)


@pytest.mark.platforms("linux")
@pytest.mark.proves("backends-far-side-ended")
def test_what_carries_the_runs_id_is_ended_and_nothing_else() -> None:
    launch = Ssh(program="ssh", host="far").launch(FAR)
    with (
        subprocess.Popen(["sleep", "300"], env={"PERDURE_RUN": "Run-1_x"}) as own,
        subprocess.Popen(["sleep", "300"], env={"PERDURE_RUN": "Run-1_xy"}) as other,
    ):
        try:
            subprocess.run(["/bin/sh", "-c", launch.cleanup[-1]], check=True, timeout=60)
            assert own.wait(timeout=30) == -9
            assert other.poll() is None
        finally:
            own.kill()
            other.kill()


ISOLATED = [
    ("{kind: docker, image: alpine}", True),
    ("{kind: podman, image: alpine, network: none, cwd: /w, environment: [A]}", True),
    ("{kind: docker, image: alpine, network: host}", False),
    ("{kind: docker, image: alpine, mounts: ['/srv:/srv']}", False),
    ("{kind: docker, image: alpine, arguments: [-v, '/:/host']}", False),
    ("{kind: docker, image: alpine, arguments: [--privileged]}", False),
    ("{kind: docker, image: alpine, arguments: ['--pid=host']}", False),
    ("{kind: docker, image: alpine, arguments: [--memory, 1g]}", False),
    ("{kind: ssh, host: far}", False),
]


@pytest.mark.proves("backends-isolated")
@pytest.mark.parametrize(("settings", "isolated"), ISOLATED)
def test_a_new_container_is_isolated_unless_something_may_reach_the_host(
    tmp_path: Path, settings: str, isolated: bool
) -> None:
    assert backends(tmp_path, f"backends: {{box: {settings}}}").isolated("box") is isolated


PLAIN: dict[str, Any] = {"Mounts": [], "HostConfig": {"Privileged": False, "PidMode": "", "NetworkMode": "bridge"}}


def changed(**host: object) -> str:
    return json.dumps([{**PLAIN, "HostConfig": {**PLAIN["HostConfig"], **host}}])


@pytest.mark.proves("backends-isolated")
@pytest.mark.parametrize(
    ("said", "isolated"),
    [
        (json.dumps([PLAIN]), True),
        (changed(SecurityOpt=[]), True),
        (json.dumps([{**PLAIN, "Mounts": [{"Type": "bind"}]}]), False),
        (json.dumps([{"HostConfig": PLAIN["HostConfig"]}]), False),
        (changed(Privileged=True), False),
        (changed(Privileged="no"), False),
        (changed(PidMode="host"), False),
        (changed(NetworkMode="container:other"), False),
        (changed(Binds=["/var/run/docker.sock:/s"]), False),
        (changed(Devices=[{"PathOnHost": "/dev/sda"}]), False),
        (changed(CapAdd=["SYS_ADMIN"]), False),
        (changed(SecurityOpt=["seccomp=unconfined"]), False),
        (json.dumps([PLAIN, PLAIN]), False),
        ("not json", False),
        (None, False),
    ],
)
def test_a_running_container_is_isolated_only_where_the_engine_says_so(
    tmp_path: Path, said: str | None, isolated: bool
) -> None:
    found = backends(tmp_path, "backends: {box: {kind: docker, container: dev}}", inspected=said)
    assert found.isolated("box") is isolated


class _Raises:
    def __bool__(self) -> bool:
        raise RuntimeError("no")


def _raise() -> bool:
    raise RuntimeError("no")


DECLARED: list[tuple[Any, bool]] = [
    (True, True),
    (False, False),
    ("yes", True),
    ([], False),
    (lambda: 1, True),
    (lambda: None, False),
    (_raise, False),
    (_Raises(), False),
]


@pytest.mark.proves("backends-isolated")
@pytest.mark.parametrize(("declared", "isolated"), DECLARED)
def test_what_a_provider_declares_becomes_a_plain_bool_and_what_raises_is_no(
    tmp_path: Path, declared: Any, isolated: bool
) -> None:
    backend = Backend(name="cloud", launch=lambda far: Launch(command=far.command), isolated=declared)
    found = backends(tmp_path, "", provided=lambda: [("clouds", backend)])
    assert found.isolated("cloud") is isolated


@pytest.mark.proves("backends-isolated")
def test_what_nobody_knows_what_cannot_be_read_and_this_machine_are_not_isolated(tmp_path: Path) -> None:
    assert backends(tmp_path, "").isolated("gone") is False
    assert backends(tmp_path, "").isolated("local") is False
    assert backends(tmp_path, "backends: [").isolated("box") is False
    assert backends(tmp_path, "", provided=_raise).isolated("box") is False  # type: ignore[arg-type]  # a broken registry


@pytest.mark.proves("backends-settings-checked")
@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{box: {kind: lxc}}", "backends.box.kind must be one of docker, podman, ssh"),
        ("{box: {kind: docker}}", "backends.box takes image or container, one of the two"),
        ("{box: {kind: docker, image: a, container: b}}", "backends.box takes image or container, one of the two"),
        ("{box: {kind: docker, image: a, mount: b}}", "backends.box: there is no setting mount"),
        ("{box: {kind: docker, image: '-v'}}", "backends.box.image must be a text that is no option"),
        ("{box: {kind: docker, image: a, mounts: /a}}", "backends.box.mounts must be a list of texts"),
        ("{far: {kind: ssh}}", "backends.far.host is missing"),
        ("{far: {kind: ssh, host: -oProxyCommand=x}}", "backends.far.host must be a text that is no option"),
        ("{far: {kind: ssh, host: a, port: yes}}", "backends.far.port must be a number from 1 to 65535"),
        ("{far: {kind: ssh, host: a, environment: ['A;b']}}", "backends.far.environment: 'A;b' is no name"),
        ("{local: {kind: ssh, host: a}}", "backends.local: a backend's name is in lower case, and not `local`"),
        ("[a]", "backends must be a mapping of names to settings"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named_with_its_place(tmp_path: Path, text: str, fault: str) -> None:
    with pytest.raises(BackendUnknown) as caught:
        backends(tmp_path, f"backends: {text}").find("box")
    assert caught.value.summary == f"{tmp_path / 'app.yaml'}: {fault}"


@pytest.mark.proves("backends-settings-checked")
def test_a_backend_that_is_not_there_and_one_that_breaks_say_so(tmp_path: Path) -> None:
    def launch(far: FarCommand) -> Launch:
        raise ValueError("no machine")

    broken = Backend(name="broken", launch=launch)
    odd = Backend(name="odd", launch=lambda far: "ssh far")  # type: ignore[arg-type,return-value]  # what a plugin could return
    found = backends(
        tmp_path, "backends: {box: {kind: docker, image: a}}", provided=lambda: [("p", broken), ("p", odd)]
    )
    with pytest.raises(BackendUnknown, match=r"there is no backend 'gone'; there are local, box, broken, odd"):
        found.find("gone")
    with pytest.raises(BackendFailed, match="backend broken: ValueError: no machine"):
        found.launch("broken", FAR)
    with pytest.raises(BackendFailed, match="backend odd does not say"):
        found.launch("odd", FAR)
    assert shlex.join(found.launch("box", FAR).command).startswith("docker run --rm ")
