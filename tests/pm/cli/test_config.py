"""config get and config set, through the worker."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure_pm.store.layout import Layout
from perdure_pm.store.policy import lazy_allowed
from tests.pm.command_line import CommandLine
from tests.pm.sample_home import snapshot
from tests.unprivileged import UnprivilegedUser

TABLE = """\
KEY                       VALUE            FROM
host.name                 perdure          file
host.extras               -                default
host.requirement          -                default
host.wheel                -                default
host.with                 -                default
host.commands             -                default
host.plugin-groups        -                default
host.health               -                default
host.serve                -                default
host.stays                20               default
host.environment          -                default
host.protect              off              default
host.python               -                default
host.checkout             -                default
install.lazy              true             default
install.build             -                default
install.build-with-host   -                default
install.build-policy      ask              default
install.direct-urls       -                default
install.quarantine        7                default
install.quarantine-exceptions  -           default
install.import-limit      30               default
packages                  -                default
network.index-url         -                default
network.proxy             -                default
network.certificate       -                default
network.wheelhouse        -                default
network.python-downloads  -                default
network.offline           false            default
plugins                   a b              file
disabled                  -                default
"""


def test_every_value_is_shown_with_where_it_comes_from(pm: CommandLine, layout: Layout) -> None:
    layout.profile("default").mkdir(parents=True)
    layout.config.write_text("host: {name: perdure}\nhots: 1\n", encoding="utf-8")
    layout.profile_config("default").write_text("plugins: [a, b]\n", encoding="utf-8")
    ended = pm("config", "get")
    assert ended.out.split() == TABLE.split()
    assert ended.err == (
        "notice: warning: config.yaml:2:1 hots: unknown key, kept but without effect; did you mean host?\n"
    )


def test_what_is_no_plain_value_is_shown_too(pm: CommandLine, layout: Layout) -> None:
    pm.home.mkdir()
    layout.config.write_text(
        "host: {environment: {A: b, C: ''}}\npackages:\n- {name: rg, version: '14'}\n- 5\n", encoding="utf-8"
    )
    assert pm("config", "get", "host.environment").out == "A=b\nC=\n"
    assert pm("config", "get", "packages").out == "rg 14\nthe number 5\n"
    shown = pm("config", "get", "--json").envelope["data"]["values"]
    assert shown["packages"] == {"value": ["rg 14", "the number 5"], "source": "file"}
    assert shown["host.environment"] == {"value": ["A=b", "C="], "source": "file"}


def test_a_value_that_is_set_is_read_back_and_leaves_a_receipt(pm: CommandLine, layout: Layout) -> None:
    pm.home.mkdir()
    layout.config.write_text("# mine\r\ninstall:\r\n  lazy: true # on\r\n", encoding="utf-8", newline="")
    ended = pm("config", "set", "install.lazy", "false")
    assert (ended.exit_code, ended.out, ended.err) == (0, "install.lazy is false\n", "")
    assert layout.config.read_bytes() == b"# mine\r\ninstall:\r\n  lazy: false # on\r\n"
    assert pm("config", "get", "install.lazy").out == "false\n"
    assert not lazy_allowed(layout, {})
    assert pm("config", "set", "install.lazy", "false", "--json").envelope["status"] == "noop"
    listed = pm("receipts", "--json").envelope["data"]["receipts"]
    assert [(row["operation"], row["status"]) for row in listed] == [("config-set", "noop"), ("config-set", "ok")]
    one = pm("receipts", listed[0]["id"][:8], "--json").envelope["data"]["receipt"]
    assert one["id"] == listed[0]["id"]


def test_a_key_is_unset_and_a_list_is_set(pm: CommandLine, layout: Layout) -> None:
    assert pm("config", "set", "plugins", "perdure-facts,other").exit_code == 0
    assert layout.profile_config("default").read_text(encoding="utf-8") == "plugins: [perdure-facts, other]\n"
    assert pm("config", "get", "plugins").out == "perdure-facts\nother\n"
    assert pm("config", "set", "plugins", "--unset").out == "plugins is unset\n"
    assert pm("config", "get", "plugins").out == ""


def test_a_relative_path_counts_from_where_the_person_is(pm: CommandLine, tmp_path: Path) -> None:
    assert pm("config", "set", "network.wheelhouse", "w", cwd=tmp_path).out == (
        f"network.wheelhouse is {tmp_path / 'w'}\n"
    )


def test_a_dry_run_shows_the_change_and_makes_none(pm: CommandLine, layout: Layout) -> None:
    ended = pm("config", "set", "network.offline", "true", "--dry-run")
    assert (ended.exit_code, ended.out) == (0, "@@ -0,0 +1,2 @@\n+network:\n+  offline: true\n")
    assert not layout.config.exists()


@pytest.mark.proves("pm-config-every-fault")
def test_a_file_with_other_faults_is_refused_whole_and_unchanged(pm: CommandLine, layout: Layout) -> None:
    pm.home.mkdir()
    text = "network: {offline: maybe, proxy: 1}\n"
    layout.config.write_text(text, encoding="utf-8")
    ended = pm("config", "set", "install.lazy", "false", "--json")
    (error,) = ended.envelope["errors"]
    assert (ended.exit_code, error["code"]) == (2, "config-invalid")
    assert error["context"]["faults"] == [
        "config.yaml:1:20 network.offline: must be true or false, is the text 'maybe'",
        "config.yaml:1:34 network.proxy: must be text, is the number 1",
    ]
    assert layout.config.read_text(encoding="utf-8") == text


@pytest.fixture
def held_mutex(layout: Layout) -> Iterator[None]:
    """The mutex, held by this process."""
    layout.home.mkdir()
    handle = os.open(layout.mutex, os.O_RDWR | os.O_CREAT)
    fcntl.flock(handle, fcntl.LOCK_EX)
    said = {"pid": os.getpid(), "operation": "install", "since": "2026-11-29T19:00:00Z"}
    layout.mutex_holder.write_text(json.dumps(said), encoding="utf-8")
    yield
    os.close(handle)


@pytest.mark.usefixtures("held_mutex")
def test_where_another_operation_runs_no_wait_is_busy_and_names_it(pm: CommandLine) -> None:
    ended = pm("config", "set", "install.lazy", "false", "--no-wait")
    assert (ended.exit_code, ended.err) == (
        7,
        (
            f"error: another operation is running: install (process {os.getpid()}, since 2026-11-29T19:00:00Z)\n"
            "  state: unchanged\n"
            "  try: run the same command without --no-wait to wait for it\n"
        ),
    )


@pytest.mark.proves("pm-home-checked-first")
@pytest.mark.unprivileged
def test_root_changes_nothing_in_another_users_home(unprivileged_user: UnprivilegedUser) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can be refused as root")
    pm = CommandLine(unprivileged_user.folder / "home")
    for words in (["config", "set", "install.lazy", "false"], ["install"], ["self", "rebuild"], ["uninstall", "--yes"]):
        ended = pm(*words, "--json")
        assert (ended.exit_code, ended.envelope["errors"][0]["code"]) == (10, "home-foreign")
    assert snapshot(unprivileged_user.folder) == {}


@pytest.mark.proves("pm-home-checked-first")
def test_a_home_that_cannot_be_is_one_message_naming_the_path(pm: CommandLine) -> None:
    pm.home.write_text("mine", encoding="utf-8")
    ended = pm("config", "set", "install.lazy", "false")
    assert (ended.exit_code, ended.err) == (
        1,
        (
            "error: HOME is not a directory\n"
            "  state: unchanged\n"
            "  try: choose another home with --home DIR, or correct that\n"
        ),
    )
