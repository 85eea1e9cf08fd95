"""An application that is no checkout of ours as the host of a home: had by requirement, wheel or checkout."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from perdure_pm.adapters.filesystem import LocalFilesystem
from perdure_pm.adapters.interpreter import running_interpreter
from perdure_pm.adapters.processes import Completed, process_start
from perdure_pm.adapters.uv_failures import sort_failure
from perdure_pm.model.errors import (
    BuildRefused,
    ConflictRefused,
    ConsentMissing,
    HealthCheckFailed,
    PerdureError,
    UsageFault,
)
from perdure_pm.model.network import Network
from perdure_pm.ops.soundness import find_damage
from tests.pm.bench import Bench
from tests.pm.guest import extension, guest, init, says
from tests.pm.hint_sites import commands_in
from tests.pm.locked_host import clashes_of
from tests.pm.polling import wait_until
from tests.pm.wheels import write_sdist, write_wheel
from tests.system.machine import built_contents

APART = "[console_scripts]\napart = apart:main\n"

pytestmark = pytest.mark.platforms("linux", "darwin")


@pytest.mark.proves("pm-host-sources")
def test_a_requirement_is_locked_once_and_its_commands_get_launchers(there: Bench) -> None:
    assert init(there, "guest>=1").status == "ok"
    assert init(there, "guest>=1").status == "noop"
    there.call("install")
    assert says(there)["version"] == "1.0", "the pre-release was named by nobody"
    assert sorted(path.name for path in there.layout.bin.iterdir()) == [
        "guest",
        "guest-side",
        "guest-window",
        "perdure-pm",
    ]
    there.add("hat")
    assert says(there)["plugins"] == {"hat": "1.0"}
    assert there.call("install").status == "noop"


@pytest.mark.proves("pm-host-sources")
def test_a_wheel_and_a_checkout_are_hosts_too(there: Bench, wheels: Path, tmp_path: Path) -> None:
    aside = tmp_path / "aside"
    aside.mkdir()
    init(there, str(guest(aside, "1.5")))
    there.call("install")
    there.add("hat")
    assert says(there) == {"plugins": {"hat": "1.0"}, "variable": None, "version": "1.5"}
    assert there.call("install").status == "noop"
    there.call("plugin-remove", names=["hat"])
    with pytest.raises(ConsentMissing):
        init(there, str(there.workshop.checkout))
    init(there, str(there.workshop.checkout), replace=True)
    there.call("install")
    assert there.start().returncode == 0


@pytest.mark.proves("pm-host-locked")
def test_what_an_index_has_later_moves_the_host_only_in_an_upgrade(there: Bench, wheels: Path) -> None:
    init(there, "guest>=1")
    there.call("install")
    guest(wheels, "2.0")
    assert there.call("install").status == "noop"
    there.add("hat")
    assert says(there)["version"] == "1.0"
    there.call("upgrade")
    assert says(there) == {"plugins": {"hat": "1.0"}, "variable": None, "version": "2.0"}
    there.call("rollback")
    assert says(there)["version"] == "1.0"


@pytest.mark.proves("pm-host-locked")
def test_a_pre_release_is_taken_where_it_is_named(there: Bench) -> None:
    init(there, "guest==3.0a1")
    there.call("install")
    assert says(there)["version"] == "3.0a1"


@pytest.mark.proves("pm-host-locked")
def test_a_plugin_that_needs_another_host_is_refused_with_the_chain(there: Bench) -> None:
    init(there, "guest")
    there.call("install")
    before = there.current.identity
    with pytest.raises(ConflictRefused) as refused:
        there.add("newer")
    assert refused.value.exit_code == 4
    assert str(refused.value) == (
        "newer cannot be installed with guest 1.0: newer 1.0 needs guest>=3.0a1, and the host is guest 1.0"
    )
    assert there.current.identity == before
    assert says(there)["version"] == "1.0"


@pytest.mark.proves("plugins-conflict-explained")
def test_a_host_that_would_fit_is_found_within_its_requirement_and_beyond(there: Bench, wheels: Path) -> None:
    init(there, "guest<3")
    there.call("install")
    extension(wheels, "picky", "1.0", needs="guest>=2,<3")
    guest(wheels, "2.5")
    assert ways(there, "picky") == [("guest 2.5", "perdure-pm upgrade"), ("leaving out picky", None)]
    # What a command of the message did, another does not undo; and then it fits.
    there.call("upgrade")
    there.add("picky")
    assert says(there)["version"] == "2.5"
    assert ways(there, "newer") == [("leaving out newer", None)], "picky keeps the host below 3"
    there.call("plugin-remove", names=["picky"])
    command = "perdure-pm host init 'guest==3.0a1' --yes"
    assert ways(there, "newer") == [("leaving out newer", None), ("guest 3.0a1", command)]
    assert there.pm(*shlex.split(command)[1:]).exit_code == 0
    there.add("newer")
    assert says(there)["version"] == "3.0a1"


def ways(bench: Bench, plugin: str) -> list[tuple[str, str | None]]:
    """Return the ways out that fit, of a refused addition."""
    with pytest.raises(ConflictRefused) as refused:
        bench.add(plugin)
    clash = clashes_of(refused.value)[0]
    return [(way["what"], way["command"]) for way in clash["ways_out"] if way["fits"]]


@pytest.mark.parametrize("value", ["plain", "a b", "it's", '"$HOME"', "`x`", "\\", "*", "ä", "", "new\nline"])
def test_a_variable_reaches_the_host_as_it_was_given(there: Bench, value: str) -> None:
    init(there, "guest", environment={"GUEST": value}, commands=["guest"])
    there.call("install")
    assert says(there)["variable"] == value
    assert sorted(path.name for path in there.layout.bin.iterdir()) == ["guest", "perdure-pm"]


@pytest.mark.proves("pm-host-variables")
def test_a_variable_of_the_host_outlives_every_operation(there: Bench) -> None:
    init(there, "guest", environment={"GUEST": "kept"}, commands=["guest"])
    there.call("install")
    first = there.current.identity

    def stays(operation: str, **arguments: object) -> None:
        with contextlib.suppress(PerdureError):
            there.call(operation, there.context(on_stage=lambda stage: read.append(launcher.read_bytes())), **arguments)
        assert set(read) == {as_written}, operation
        assert says(there)["variable"] == "kept", operation

    launcher = there.layout.bin / "guest"
    as_written = launcher.read_bytes()
    read = [as_written]
    stays("plugin-add", requirements=["hat"])
    stays("plugin-add", requirements=["bad"])
    stays("rollback", to=first)
    stays("rollback")
    stays("plugin-remove", names=["hat"])
    stays("collect")
    there.layout.config.write_text("host: [\n", encoding="utf-8")
    stays("rollback")
    stays("install")


@pytest.mark.proves("pm-host-launchers-follow")
def test_launchers_are_those_of_what_runs_now_and_come_back_with_it(there: Bench, wheels: Path) -> None:
    def launchers() -> list[str]:
        return sorted(path.name for path in there.layout.bin.iterdir() if path.name != "perdure-pm")

    (there.layout.bin / "mine").write_text("#!/bin/sh\n# my own, with profiles in it\n", encoding="utf-8")
    write_wheel(wheels, "other", "1.0", source="def main(): pass\n", entries="[console_scripts]\nother = other:main\n")
    init(there, "guest")
    there.call("install")
    all_of_them = ["guest", "guest-side", "guest-window", "mine"]
    assert launchers() == all_of_them
    there.call("config-set", key="host.commands", value="guest")
    assert there.call("install").status == "noop"
    assert launchers() == ["guest", "mine"]
    there.call("config-set", key="host.commands", value=None)
    there.call("install")
    assert launchers() == all_of_them
    init(there, "other", replace=True)
    there.call("install")
    assert launchers() == ["mine", "other"]
    there.call("rollback")
    assert launchers() == all_of_them


def test_what_is_installed_beside_the_host_is_there_and_is_no_plugin(there: Bench) -> None:
    init(there, "guest", **{"with": ["beside"]})
    there.call("install")
    assert "beside" in {package["name"] for package in there.current.record["packages"]}
    assert there.current.record["plugins"] == []
    there.add("hat")
    assert "beside" in {package["name"] for package in there.current.record["packages"]}


def test_a_command_without_a_version_call_is_asked_for_help(there: Bench, wheels: Path) -> None:
    guest(wheels, "1.0", strict=True)
    init(there, "guest")
    there.call("install")
    assert says(there)["version"] == "1.0"


def test_the_configured_health_check_decides(there: Bench) -> None:
    init(there, "guest", health="--version")
    there.call("install")
    assert there.call("config-set", key="host.health", value="--version --more").status == "ok"


SERVER = """import os, subprocess, sys, time
from pathlib import Path

def main():
    if "--version" in sys.argv:
        return
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    Path(sys.argv[1]).write_text(f"{os.getpid()} {child.pid}")
    print("x" * 2_000_000, flush=True)
    @THEN@
    time.sleep(600)
"""


def server(wheels: Path, version: str, then: str = "pass") -> None:
    """Have a host that starts well, starts a child in a session of its own, and then does `then`."""
    entries = "[console_scripts]\nserver = server:main\n"
    write_wheel(wheels, "server", version, source=SERVER.replace("@THEN@", then), entries=entries)


@pytest.mark.proves("pm-server-stays-up")
def test_a_server_that_keeps_running_is_selected_and_ended_with_all_that_it_started(
    there: Bench, wheels: Path, tmp_path: Path
) -> None:
    server(wheels, "1.0")
    init(there, "server", serve=str(tmp_path / "pids"))
    there.call("config-set", key="host.stays", value="2")
    started = time.monotonic()
    assert there.pm("install").exit_code == 0
    assert time.monotonic() - started >= 2
    for pid in (tmp_path / "pids").read_text(encoding="ascii").split():
        assert process_start(int(pid)) is None


@pytest.mark.proves("pm-server-stays-up", "cli-true-hints")
@pytest.mark.parametrize(
    ("then", "how"), [("sys.exit('the port is taken')", "1"), ("return", "0"), ("os.kill(os.getpid(), 9)", "-9")]
)
def test_a_version_that_ends_by_itself_is_not_selected_and_the_receipt_says_how_it_ended(
    there: Bench, wheels: Path, tmp_path: Path, then: str, how: str
) -> None:
    server(wheels, "1.0")
    init(there, "server>=1", serve=str(tmp_path / "pids"))
    there.call("config-set", key="host.stays", value="2")
    assert there.pm("install").exit_code == 0
    before = there.current.identity
    server(wheels, "2.0", then)
    ended = there.pm("upgrade", "--json")
    (error,) = ended.envelope["errors"]
    assert (ended.exit_code, error["code"], there.current.identity) == (5, "health-check-failed", before)
    said = f"server 2.0 starts and does not keep running: server {tmp_path}/pids ended with {how} after"
    assert error["summary"].startswith(said)
    noted = there.receipts("upgrade")[-1].error
    assert noted is not None
    assert noted["summary"] == error["summary"]
    assert ("the port is taken" in error["context"]["output"]) is then.startswith("sys.exit")
    for pid in (tmp_path / "pids").read_text(encoding="ascii").split():
        wait_until(lambda pid=pid: process_start(int(pid)) is None, "what it started is gone")  # type: ignore[misc]
    (command,) = commands_in(error["hint"].replace("HOME/", f"{there.layout.home}/"))
    assert there.pm(*shlex.split(command)[1:]).exit_code == 0
    assert there.pm("upgrade").exit_code == 0


@pytest.mark.parametrize(
    ("source", "arguments"),
    [
        ("", {}),
        ("not a requirement", {}),
        ("missing-1.0-py3-none-any.whl", {}),
        ("guest", {"environment": {"1A": "x"}}),
        ("guest", {"commands": ["../x"]}),
        ("guest", {"with": ["a b"]}),
    ],
)
def test_what_cannot_be_a_host_is_refused_and_nothing_is_written(
    there: Bench, source: str, arguments: dict[str, object]
) -> None:
    with pytest.raises(PerdureError) as refused:
        init(there, source, **arguments)
    assert refused.value.exit_code != 70
    if isinstance(refused.value, UsageFault):
        assert not there.layout.config.exists() or "guest" not in there.layout.config.read_text(encoding="utf-8")


def test_a_host_with_no_command_of_that_name_is_refused(there: Bench) -> None:
    init(there, "guest", commands=["absent"])
    with pytest.raises(HealthCheckFailed, match="absent"):
        there.call("install")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [({"environment": {"A B": "1"}}, "is not the name of a variable"), ({"with": ["foo bar"]}, "must be a name")],
)
def test_a_host_is_written_down_as_a_whole_or_not_at_all(there: Bench, wrong: dict[str, object], said: str) -> None:
    init(there, "guest")
    before = there.layout.config.read_text()
    with pytest.raises(UsageFault, match=said) as caught:
        init(there, "sprocket", replace=True, **wrong)
    assert "config.yaml:" not in caught.value.summary  # at no line of a file that nobody wrote
    assert there.layout.config.read_text() == before


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("", "a host must be a name"),
        ("/nowhere/own", "/nowhere/own is not there"),
        ("/dev/null", "/dev/null is neither a wheel nor a checkout"),
        ("git+https://user:secret@127.0.0.1:1/own", "a host must"),
    ],
)
def test_what_is_no_host_is_said_as_it_was_typed(there: Bench, source: str, said: str) -> None:
    with pytest.raises(UsageFault, match=said) as caught:
        init(there, source)
    assert "secret" not in json.dumps([caught.value.summary, caught.value.context])


def test_host_show_says_what_is_hosted_and_what_is_installed(there: Bench) -> None:
    init(there, "guest>=1", environment={"GUEST": "x"})
    said = there.pm("host", "show", "--json").envelope["data"]
    assert (said["name"], said["source"], said["version"]) == ("guest", "guest>=1", None)
    there.call("install")
    said = there.pm("host", "show", "--json").envelope["data"]
    assert (said["version"], said["environment"]) == ("1.0", {"GUEST": "x"})


def test_pip_is_answered_in_the_generation(there: Bench) -> None:
    init(there, "guest")
    there.call("install")
    python = there.current.environment / "bin" / "python"
    ended = subprocess.run([python, "-I", "-m", "pip", "install", "hat"], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert f"{there.layout.bin / 'perdure-pm'} plugin add hat" in ended.stderr


@pytest.mark.proves("pm-host-stranger-seen")
def test_what_an_installer_added_to_a_generation_is_seen_and_gone_after_the_next_install(there: Bench) -> None:
    """As root the file modes do not hold, and `PIP_CONFIG_FILE=/dev/null` gets past the refusal of pip."""
    init(there, "guest")
    there.call("install")
    before = there.current.identity
    package = next(there.current.environment.glob("lib/python*/site-packages"))
    package.chmod(0o755)
    (package / "hat").mkdir()
    assert find_damage(there.layout, there.current) == "", "some wheels leave a directory with nothing in it"
    (package / "hat" / "__init__.py").write_text("plugin = 'added'\n", encoding="utf-8")
    (package / "hat-1.0.dist-info").mkdir()
    (package / "hat-1.0.dist-info" / "entry_points.txt").write_text("[guest]\nhat = hat:plugin\n", encoding="utf-8")
    assert find_damage(there.layout, there.current).endswith("is no part of this generation")
    assert there.call("install").status == "ok"
    assert there.current.identity != before
    assert find_damage(there.layout, there.current) == ""
    assert says(there)["plugins"] == {}


@pytest.mark.platforms("linux")
@pytest.mark.proves("pm-host-interpreter-gone")
def test_an_interpreter_that_went_away_costs_one_install_and_no_plugin(there: Bench, tmp_path: Path) -> None:
    """Cases 74, 86 and 87: the message names a command that works in this very state, and nothing is lost by it."""
    base = running_interpreter().path
    moved = tmp_path / "python" / "bin" / base.name
    moved.parent.mkdir(parents=True)
    shutil.copy2(base, moved)
    (tmp_path / "python" / "lib").symlink_to(base.parent.parent / "lib")
    init(there, "guest", environment={"GUEST": "kept"})
    assert there.pm("install", "--python", str(moved)).exit_code == 0
    assert there.pm("plugin", "add", "hat").exit_code == 0
    assert there.current.record["interpreter"]["path"] == str(moved)
    before = there.pm("plugin", "list").out
    shutil.rmtree(tmp_path / "python")
    ended = subprocess.run(
        [there.layout.bin / "guest"], env={"PATH": os.defpath}, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1
    hint = ended.stderr.partition("try: ")[2].strip()
    assert shlex.split(hint)[0] == str(there.layout.bin / "perdure-pm")
    assert there.pm(*shlex.split(hint)[1:]).exit_code == 0
    assert says(there) == {"plugins": {"hat": "1.0"}, "variable": "kept", "version": "1.0"}
    assert there.pm("plugin", "list").out == before


@pytest.mark.proves("pm-host-consent")
def test_without_a_terminal_a_home_is_not_made_to_host_something_else(there: Bench) -> None:
    """Case 112: refused at once, by the name of the flag, with nothing changed."""
    init(there, "guest")
    there.call("install")
    before = there.layout.config.read_bytes()
    ended = there.pm("host", "init", "sprocket", "--json")
    (error,) = ended.envelope["errors"]
    assert (ended.exit_code, error["code"]) == (10, "consent-missing")
    assert "--yes" in error["hint"]
    assert there.layout.config.read_bytes() == before
    assert says(there)["version"] == "1.0"


@pytest.mark.proves("pm-host-same-bytes")
def test_what_surrounds_a_command_changes_nothing_of_a_host_and_uv_is_quoted_in_the_receipt(
    there: Bench, tmp_path: Path
) -> None:
    """Case 108, for an application of others."""
    user = tmp_path / "user"
    (user / ".config" / "uv").mkdir(parents=True)
    (user / ".config" / "uv" / "uv.toml").write_text('index-url = "http://127.0.0.1:1/"\n', encoding="utf-8")
    (user / "guest.py").write_text("raise SystemExit('not this one')\n", encoding="utf-8")
    hostile = {
        "HOME": str(user),
        "UV_INDEX_URL": "http://127.0.0.1:1/",
        "UV_NO_CACHE": "1",
        "PIP_INDEX_URL": "http://127.0.0.1:1/",
        "PYTHONPATH": str(user),
        "VIRTUAL_ENV": str(user),
    }
    init(there, "guest")
    there.call("install")
    there.add("hat")
    first = there.current
    plain = built_contents(first.environment, byte_code=False)
    there.call("plugin-remove", names=["hat"])
    LocalFilesystem().remove_tree(first.path)
    assert there.pm("plugin", "add", "hat", variables=hostile).exit_code == 0
    assert built_contents(there.current.environment, byte_code=False) == plain
    assert there.pm("plugin", "add", "nowhere", variables=hostile).exit_code != 0
    receipt = there.receipts("plugin-add")[-1]
    assert "nowhere" in str(receipt.error["context"]["uv"] if receipt.error else "")


def test_a_source_without_a_wheel_is_named_with_what_allows_a_build() -> None:
    said = "error: No solution found:\n  cause: Because thing{os_name == 'posix'}==1.0 has no usable wheels and you do"
    failure = sort_failure(Completed(returncode=1, stdout="", stderr=said), "installing packages", Network())
    assert isinstance(failure, BuildRefused)
    assert failure.context["package"] == "thing"
    assert failure.hint == "where you trust it: perdure-pm config set install.build thing"


@pytest.mark.proves("pm-host-sources")
def test_what_lacks_a_wheel_for_another_interpreter_is_nobodys_trouble(there: Bench, wheels: Path) -> None:
    other = "raw==1.0; platform_python_implementation != 'CPython'"
    write_wheel(wheels, "apart", "1.0", source="def main(): pass\n", requires=[other, "sprocket"], entries=APART)
    write_sdist(wheels, write_wheel(wheels, "raw", "1.0", entries=""), backend="")
    init(there, "apart")
    there.call("install")
    assert "raw" not in {package["name"] for package in there.current.record["packages"]}


@pytest.mark.proves("pm-host-sources")
def test_a_host_that_needs_what_has_no_wheel_is_locked_once_that_may_be_built(there: Bench, wheels: Path) -> None:
    write_wheel(
        wheels,
        "rough",
        "1.0",
        source="def main(): pass\n",
        requires=["raw"],
        entries="[console_scripts]\nrough = rough:main\n",
    )
    write_sdist(wheels, write_wheel(wheels, "raw", "1.0", entries=""), backend="")
    init(there, "rough")
    with pytest.raises(BuildRefused) as refused:
        there.call("install")
    assert str(refused.value.hint).endswith("config set install.build raw")
    there.call("config-set", key="install.build", value="raw")
    there.call("install")
    assert "raw" in {package["name"] for package in there.current.record["packages"]}
