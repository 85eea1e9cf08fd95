"""Applications that nobody here wrote, hosted for real: one home each, everything from an index.

Two hosts are tried in every run, quickly; all of them in every way with --slow, and with --regenerate-docs each one
then writes its row of docs/reference/hosts.md.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import platform
import random
import re
import shlex
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

import pytest

from perdure_pm.adapters.filesystem import LocalFilesystem
from tests.system.machine import Answer, Installation, copy_home, differences, fingerprint
from tests.system.real_hosts import HOSTS, Question, RealHost, Try

QUICK = ("datasette", "flake8")
"""What is tried in every run: a server that loads its plugins itself, and a host whose plugins run in processes."""
PAGE = "docs/reference/hosts.md"
SERVER_SECONDS = 60.0
PLUGINS = Question(page="/-/plugins.json")
"""What datasette answers with its plugins."""


class Hosted:
    """A home that hosts one application, and a directory to use it in."""

    def __init__(self, host: RealHost, installation: Installation, folder: Path) -> None:
        self.host = host
        self.at = installation
        self.folder = folder
        folder.mkdir()
        self._write_files("0")

    def _write_files(self, port: str) -> None:
        """Have the host's files in the directory; what it wrote there itself stays."""
        for name, text in self.host.files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text.replace("{home}", str(self.at.home)).replace("{port}", port), encoding="utf-8")

    def init(self) -> None:
        words = [word for name in self.host.commands for word in ("--command", name)]
        words += [word for name in self.host.beside for word in ("--with", name)]
        for name, value in self.host.variables.items():
            words += ["--env", f"{name}={self._fill(value)}"]
        self.at.pm("host", "init", self.host.requirement, *words).succeeded()
        if self.host.builds:
            self.at.pm("config", "set", "install.build", ",".join(self.host.builds)).succeeded()

    def start(self, words: tuple[str, ...]) -> Answer:
        return replace(self.at, cwd=self.folder).run(
            [self.at.home / "bin" / words[0], *(self._fill(word) for word in words[1:])]
        )

    def require(self, tried: Try) -> None:
        answer = self.start(tried.words)
        read = self.folder / tried.reads if tried.reads is not None else None
        said = answer.out + answer.err
        text = read.read_text(encoding="utf-8") if read is not None and read.is_file() else said
        missing = [wanted for wanted in tried.says if wanted not in text]
        assert answer.code in tried.accepted, f"exit {answer.code}: {said[-2000:]}"
        assert not missing, f"{missing} missing in: {text[-2000:]}"

    def require_sound(self) -> None:
        self.require(self.host.visible)
        self.require(self.host.works)
        assert self.at.pm("status", "--json").succeeded().json["data"]["findings"] == []

    def versions(self) -> dict[str, str]:
        record = json.loads((self.at.generation_path / "record.json").read_bytes())
        return {entry["name"]: entry["version"] for entry in record["packages"]} | {"": record["host"]["version"]}

    def server(self, words: tuple[str, ...]) -> Server:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = int(probe.getsockname()[1])
        self._write_files(str(port))
        return Server(self, words, port)

    def _fill(self, word: str) -> str:
        return word.replace("{folder}", str(self.folder))


class Server:
    """A host's server, from its start to the end of the block."""

    def __init__(self, hosted: Hosted, words: tuple[str, ...], port: int) -> None:
        self.port = port
        filled = [word.replace("{folder}", str(hosted.folder)).replace("{port}", str(self.port)) for word in words]
        self._log = hosted.folder / f"server-{self.port}.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [hosted.at.home / "bin" / filled[0], *filled[1:]],
                cwd=hosted.folder,
                env=dict(hosted.at.environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        self.ask(Question())
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGTERM)
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(20)

    def ask(self, question: Question) -> str:
        """Return the answer, however long the server takes to start and to say what it must."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        address = f"http://127.0.0.1:{self.port}{question.page}"
        data = None if question.posts is None else question.posts.encode()
        deadline = time.monotonic() + SERVER_SECONDS
        said = ""
        while True:
            try:
                with opener.open(urllib.request.Request(address, data), timeout=10) as answer:
                    said = str(answer.read().decode())
            except urllib.error.HTTPError as refused:
                said = f"{refused}: {refused.read().decode()}"
            except OSError as error:
                said = str(error)
            else:
                if all(wanted in said for wanted in question.says):
                    return said
            self._require_hope(deadline, f"{question}: {said[-1000:]}")
            time.sleep(0.05)

    def _require_hope(self, deadline: float, answer: str) -> None:
        said = self._log.read_text(encoding="utf-8", errors="replace")[-2000:]
        assert self._process.poll() is None, f"the server ended with {self._process.returncode}: {said}"
        assert time.monotonic() < deadline, f"{answer}\n{said}"


@pytest.fixture
def hosted(empty: Installation, tmp_path: Path) -> Iterator[Callable[[str], Hosted]]:
    """Make homes of hosts of the table: ``hosted(name)``."""
    homes: list[Path] = []

    def make(name: str) -> Hosted:
        home = tmp_path / f"home-{len(homes)}"
        homes.append(copy_home(empty.home, home))
        return Hosted(HOSTS[name], replace(empty, home=home), tmp_path / f"work-{len(homes)}")

    yield make
    for home in homes:
        LocalFilesystem().remove_tree(home)


class Steps:
    """What was tried, in order, and how it ended; one that fails does not keep the others from being tried."""

    def __init__(self) -> None:
        self.ended: dict[str, str] = {}

    def step(self, name: str, action: Callable[[], object]) -> None:
        try:
            action()
        except (AssertionError, subprocess.TimeoutExpired, OSError) as error:
            self.ended[name] = str(error)[-3000:] or type(error).__name__
        else:
            self.ended[name] = ""

    @property
    def failed(self) -> dict[str, str]:
        return {name: text for name, text in self.ended.items() if text}


def require_end_by_kill(hosted: Hosted, words: list[str], after: float) -> None:
    """Kill perdure-pm with everything it started, `after` seconds into a command."""
    process = subprocess.Popen(
        [hosted.at.home / "bin" / "perdure-pm", *words],
        env=dict(hosted.at.environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    time.sleep(after)
    for child in descendants(process.pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
    process.wait(30)


def descendants(root: int) -> list[int]:
    """Return a process and all that came from it, in whatever group they are now."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    children: dict[int, list[int]] = {}
    for line in listed.splitlines():
        child, parent = map(int, line.split())
        children.setdefault(parent, []).append(child)
    found = [root]
    for process in found:
        found += children.get(process, [])
    return found


def damage(hosted: Hosted) -> str:
    """Delete one module of a plugin from the selected generation, and return it as its RECORD names it."""
    package = next(iter(hosted.at.generation_path.glob("venv/lib/python*/site-packages")))
    name = re.sub("[-_.]", "?", hosted.host.plugins[0])
    records = list(package.glob(f"{name}-[0-9]*.dist-info/RECORD"))
    assert len(records) == 1, f"{name} is not there once"
    (record,) = records
    module = next(line.split(",")[0] for line in record.read_text(encoding="utf-8").splitlines() if ".py," in line)
    (package / module).parent.chmod(0o755)
    (package / module).unlink()
    return module


@pytest.mark.proves("hosts-real")
@pytest.mark.parametrize("name", QUICK)
def test_a_well_known_host_works_with_its_plugins(name: str, hosted: Callable[[str], Hosted]) -> None:
    here = hosted(name)
    here.init()
    here.at.pm("install").succeeded()
    bare = here.at.generation
    here.at.pm("plugin", "add", *here.host.plugins).succeeded()
    here.require_sound()
    if here.host.serves:
        serve_once(here)
    go_back_and_forth(here, bare)


@pytest.mark.proves("hosts-real")
@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTS)
def test_a_real_host_with_its_plugins(
    name: str, hosted: Callable[[str], Hosted], checkout: Path, pytestconfig: pytest.Config
) -> None:
    here = hosted(name)
    host, steps = here.host, Steps()

    def install() -> None:
        here.init()
        here.at.pm("install").succeeded()

    def upgrade() -> None:
        here.at.pm("upgrade").succeeded()
        here.require_sound()

    def mend() -> None:
        module = damage(here)
        doctor = here.at.pm("doctor", "--json")
        assert doctor.code == 3
        assert module in doctor.out
        here.at.pm("repair").succeeded()
        here.require_sound()

    steps.step("install", install)
    if not steps.failed:
        bare = here.at.generation
        steps.step("add", lambda: here.at.pm("plugin", "add", *host.plugins).succeeded())
        steps.step("visible", lambda: here.require(host.visible))
        steps.step("works", lambda: here.require(host.works))
        if host.serves:
            steps.step("serves", lambda: serve_once(here))
        steps.step("upgrade", upgrade)
        steps.step("rollback", lambda: go_back_and_forth(here, bare))
        steps.step("kill", lambda: kill_an_add(here))
        steps.step("repair", mend)
    if pytestconfig.getoption("regenerate_docs"):
        write_row(checkout / PAGE, name, host, here.versions() if not steps.ended["install"] else {}, steps)
    assert steps.failed == {}


def serve_once(here: Hosted) -> None:
    with here.server(here.host.serves) as server:
        for question in here.host.questions:
            server.ask(question)


def go_back_and_forth(here: Hosted, bare: str) -> None:
    full = here.at.generation
    plugin = here.host.plugins[0]
    here.at.pm("rollback", bare).succeeded()
    assert plugin not in here.versions()
    here.at.pm("rollback", full).succeeded()
    here.require(here.host.works)


def kill_an_add(here: Hosted) -> None:
    before = here.at.generation
    # Another requirement for the same plugin: a new generation, for which nothing has to be fetched.
    words = ["plugin", "add", f"{here.host.plugins[0]}>=0"]
    chance = random.Random(here.host.requirement)  # noqa: S311 - a place to kill, not a secret
    for _ in range(3):
        require_end_by_kill(here, words, chance.uniform(0.2, 2.5))
        here.require(here.host.works)
        if here.at.generation != before:
            break
    here.at.pm(*words).succeeded()
    here.require_sound()


def write_row(page: Path, name: str, host: RealHost, versions: Mapping[str, str], steps: Steps) -> None:
    """Have the host's row in the page say how it went just now."""
    names = [re.sub(r"[-_.]+", "-", plugin).lower() for plugin in host.plugins]
    plugins = ", ".join(f"{plugin} {versions.get(plugin, '?')}" for plugin in names)
    good = ", ".join(step for step, text in steps.ended.items() if not text)
    bad = ", ".join(steps.failed) or "nothing"
    day = datetime.now(UTC).strftime("%Y-%m-%d")
    where = f"{sys.platform} {platform.machine()}, Python {platform.python_version()}"
    cells = [f"{name} {versions.get('', '?')}", plugins, host.about, good, bad, f"{day}, {where}"]
    row = f"| {' | '.join(cells)} |"
    with page.open("r+", encoding="utf-8") as shared:
        fcntl.flock(shared, fcntl.LOCK_EX)  # several processes of tests write rows of their own
        text = shared.read()
        shared.seek(0)
        shared.write(with_row(text, name, row))
        shared.truncate()


def with_row(text: str, name: str, row: str) -> str:
    """Return the page with the row of a host in place of its earlier one."""
    lines = text.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("| ---")) + 1
    rows = [line for line in lines[start:] if line.startswith("| ") and line.split()[1] != name]
    rest = [line for line in lines[start:] if not line.startswith("| ")]
    return "\n".join([*lines[:start], *sorted([*rows, row]), *rest]) + "\n"


@pytest.mark.proves("hosts-real", "hosts-server", "hosts-own-data", "hosts-pip")
@pytest.mark.slow
def test_datasette_from_init_to_uninstall(hosted: Callable[[str], Hosted], tmp_path: Path) -> None:
    """A server keeps its generation while everything changes around it, and its data is nobody's but its own."""
    here = hosted("datasette")
    data = tmp_path / "data"
    data.mkdir()
    python = here.at.python
    script = "import sqlite3; c = sqlite3.connect('real.db'); c.execute('create table t(a)'); c.commit()"
    replace(here.at, cwd=data).run([python, "-c", script]).succeeded()
    mine = fingerprint(data)
    here.init()
    here.at.pm("install").succeeded()
    old = here.at.generation
    with here.server(("datasette", "serve", "-i", str(data / "real.db"), "--port", "{port}")) as server:
        answer = here.at.pm("plugin", "add", *here.host.plugins, "--json").succeeded()
        assert any(old in obligation for obligation in answer.json["data"]["obligations"])
        here.require_sound()
        kept = here.at.pm("collect", "--json").succeeded().json["data"]["kept"]
        assert old in here.at.generations
        assert "in use" in kept[old]
        assert "datasette-vega" not in server.ask(PLUGINS)
    with here.server(("datasette", "serve", "-i", str(data / "real.db"), "--port", "{port}")) as server:
        assert "datasette-vega" in server.ask(PLUGINS)

    before = fingerprint(here.at.generation_path)
    refused = here.start(("datasette", "install", "datasette-json-html"))
    assert refused.code == 1
    command = f"{shlex.quote(str(here.at.home / 'bin' / 'perdure-pm'))} plugin add datasette-json-html"
    assert command in refused.out + refused.err
    assert differences(before, fingerprint(here.at.generation_path)) == []

    # Said on purpose, this gets past the refusal; then the file modes stop all but root, and root's is found.
    bypass = replace(here.at, environment={**here.at.environment, "PIP_CONFIG_FILE": os.devnull})
    added = bypass.run([here.at.home / "bin" / "datasette", "install", "datasette-json-html"])
    assert (added.code == 0) <= (os.geteuid() == 0)
    here.at.pm("install").succeeded()
    assert "datasette-json-html" not in here.start(("datasette", "plugins", "--all")).out
    assert before == fingerprint(here.at.generation_path) or added.code == 0

    conflict = here.at.pm("plugin", "add", "datasette-acl", "--json")
    assert conflict.code == 4
    assert "datasette" in conflict.error["summary"]
    here.require_sound()
    here.at.pm("uninstall", "--yes").succeeded()
    assert fingerprint(data) == mine
    shutil.rmtree(data)


@pytest.mark.proves("hosts-apart")
@pytest.mark.slow
def test_two_hosts_side_by_side_never_meet(hosted: Callable[[str], Hosted]) -> None:
    first, second = hosted("sqlite-utils"), hosted("flake8")
    first.init()
    first.at.pm("install").succeeded()
    first.at.pm("plugin", "add", *first.host.plugins).succeeded()
    left_out = ("mutex", "mutex.json")
    before = fingerprint(first.at.home, without=left_out)
    second.init()
    second.at.pm("install").succeeded()
    second.at.pm("plugin", "add", *second.host.plugins).succeeded()
    second.require_sound()
    second.at.pm("uninstall", "--yes").succeeded()
    assert differences(before, fingerprint(first.at.home, without=left_out)) == []
    first.require_sound()


@pytest.mark.proves("hosts-apart")
@pytest.mark.slow
def test_a_home_that_another_one_made_outlives_it(hosted: Callable[[str], Hosted], tmp_path: Path) -> None:
    """`perdure-pm --home NEW host init` gives the new home a PM of its own, and nothing of the old one."""
    first = hosted("sqlite-utils")
    first.init()
    first.at.pm("install").succeeded()
    second = replace(first.at, home=tmp_path / "second")
    first.at.pm("--home", second.home, "host", "init", "sqlite-utils").succeeded()
    second.pm("install").succeeded()
    second.pm("plugin", "add", *first.host.plugins).succeeded()
    assert inodes(first.at.home) & inodes(second.home) == set()
    named = subprocess.run(
        ["grep", "-rlF", str(first.at.home), str(second.home)], capture_output=True, text=True, check=False
    )
    assert named.stdout.splitlines() == []
    LocalFilesystem().remove_tree(first.at.home)
    second.run([second.home / "bin" / "sqlite-utils", "plugins"]).succeeded()
    second.pm("rollback").succeeded()
    second.pm("plugin", "add", "sqlite-utils-shell>=0").succeeded()
    second.pm("self", "rebuild").succeeded()
    second.pm("install").succeeded()
    LocalFilesystem().remove_tree(second.home)


def inodes(root: Path) -> set[tuple[int, int]]:
    """Return the device and inode of every regular file below `root`."""
    found = (os.lstat(os.path.join(folder, name)) for folder, _, names in os.walk(root) for name in names)
    return {(status.st_dev, status.st_ino) for status in found if stat.S_ISREG(status.st_mode)}
