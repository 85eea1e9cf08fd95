"""Plugins enabled and disabled, in every spelling, in any order, at once; what sits out, and what is told of it."""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest

from perdure_pm.model.errors import ConfigChanged, UsageFault
from perdure_pm.store.config import load_file, load_profile_config
from perdure_pm.store.pointer import load_pointer
from tests.pm.bench import Bench
from tests.pm.plugin_sources import write_manifest_plugin
from tests.pm.plugin_states import running, states
from tests.system.machine import fingerprint

pytestmark = pytest.mark.platforms("linux", "darwin")

WRITTEN = (
    "# mine\r\nschema: 1\r\nplugins:\r\n  # the first one\r\n  - 'Gadget>=1,<2'  # why\r\n  - fakehost-clock\r\n"
    '  - "part-1"\r\n# the end\r\n'
)


def lists(bench: Bench) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return both lists of the profile's configuration."""
    found = load_profile_config(bench.layout, "default")
    return found.plugins, found.disabled


@pytest.fixture
def written(bench: Bench) -> Bench:
    """A home whose configuration was written by hand, with comments, quotes and other line endings, and installed."""
    bench.config.write_bytes(WRITTEN.encode())
    bench.call("install")
    assert running(bench) == ["gadget", "fakehost-clock", "part-1"]
    return bench


# One name, many spellings


@pytest.mark.proves("plugins-disabled-beats", "plugins-switch-idempotent")
@pytest.mark.parametrize("spelling", ["part-1", "PART_1", "part.1", "Part--1", "part-1>=1,<2"])
def test_a_plugin_is_off_and_on_under_every_spelling(written: Bench, spelling: str) -> None:
    """Case 65."""
    with_all = written.current.identity
    written.call("plugin-disable", names=[spelling])
    without = written.current.identity
    assert running(written) == ["gadget", "fakehost-clock"]
    assert "part-1" not in {package["name"] for package in written.current.record["packages"]}
    text = written.config.read_bytes()
    assert text.replace(b"disabled: [part-1]\r\n", b"") == WRITTEN.encode()  # comments, order, quotes and line endings
    for again in (spelling, "part_1"):
        assert written.call("plugin-disable", names=[again]).status == "noop"
    assert (written.config.read_bytes(), written.current.identity) == (text, without)
    written.call("plugin-enable", names=[spelling])
    assert (written.current.identity, lists(written)) == (with_all, (("Gadget>=1,<2", "fakehost-clock", "part-1"), ()))
    assert written.config.read_bytes().replace(b"disabled: []\r\n", b"") == WRITTEN.encode()
    assert written.call("plugin-enable", names=["Part.1"]).status == "noop"


@pytest.mark.proves("plugins-disabled-beats")
@pytest.mark.parametrize("entry", ["gadget", "GADGET", "Gadget >= 1", "'gadget==1.0'"])
def test_a_hand_edit_that_disables_is_picked_up_by_the_next_install(written: Bench, entry: str) -> None:
    """`disabled` beats the list, whichever spelling a person uses there."""
    written.config.write_bytes(WRITTEN.encode() + f"disabled: [{entry}]  # for now\r\n".encode())
    assert states(written)["gadget"] == "still-runs"
    assert written.pm("plan", "--check").exit_code == 3
    written.call("install")
    assert running(written) == ["fakehost-clock", "part-1"]
    assert states(written) == {"gadget": "disabled", "fakehost-clock": "runs", "part-1": "runs"}
    assert written.config.read_bytes() == WRITTEN.encode() + f"disabled: [{entry}]  # for now\r\n".encode()
    written.call("plugin-enable", names=["gadget"])
    assert running(written) == ["gadget", "fakehost-clock", "part-1"]
    assert b"# for now" in written.config.read_bytes()


def test_a_plugin_that_is_not_listed_cannot_be_switched(written: Bench) -> None:
    before = fingerprint(written.layout.home, without=["mutex", "cache/tmp"])
    for operation in ("plugin-enable", "plugin-disable"):
        with pytest.raises(UsageFault) as caught:
            written.call(operation, names=["part-1", "nothing"])
        assert caught.value.hint == "perdure-pm plugin list"
    assert fingerprint(written.layout.home, without=["mutex", "cache/tmp"]) == before
    assert written.pm("plugin", "disable").exit_code == 2
    assert written.pm("plugin", "disable", "part-1", "--all").exit_code == 2


def test_a_profile_that_names_no_plugins_can_disable_one_of_the_bundle(bench: Bench) -> None:
    bench.config.unlink(missing_ok=True)
    bench.call("plugin-disable", names=["fakehost.clock"])
    assert (running(bench), lists(bench)) == ([], (("fakehost-clock",), ("fakehost-clock",)))


def test_adding_a_disabled_plugin_has_it_run_and_removing_one_forgets_that_it_was(written: Bench) -> None:
    written.call("plugin-disable", names=["gadget", "part-1"])
    written.call("plugin-add", requirements=["gadget==1.0"])
    assert running(written) == ["gadget", "fakehost-clock"]
    written.call("plugin-remove", names=["part-1"])
    assert lists(written) == (("gadget==1.0", "fakehost-clock"), ())


def test_nothing_of_a_disabled_plugin_is_looked_for(written: Bench) -> None:
    """It stays in the list although no index has it any more; enabling it says what is missing and changes nothing."""
    written.config.write_bytes(WRITTEN.replace("part-1", "part-nowhere").encode() + b"disabled: [part-nowhere]\r\n")
    written.call("install")
    assert running(written) == ["gadget", "fakehost-clock"]
    text = written.config.read_bytes()
    ended = written.pm("plugin", "enable", "part-nowhere", "--json")
    assert (ended.exit_code, ended.envelope["errors"][0]["state"]) == (6, "unchanged")
    assert written.config.read_bytes() == text


# Safe mode of any host, and going back


@pytest.mark.proves("plugins-disable-all")
def test_disabling_all_leaves_the_host_alone_and_enabling_all_brings_them_back(written: Bench) -> None:
    with_all = written.current.identity
    ended = written.pm("plugin", "disable", "--all", "--yes", "--json")
    assert (ended.exit_code, running(written)) == (0, [])
    assert [package["name"] for package in written.current.record["packages"]] == ["fakehost"]
    assert written.pm("plugin", "list").out.count("disabled") == 3
    assert written.pm("plugin", "disable", "--all", "--json").envelope["status"] == "noop"
    assert written.pm("plugin", "enable", "--all").exit_code == 0
    assert (written.current.identity, running(written)) == (with_all, ["gadget", "fakehost-clock", "part-1"])


@pytest.mark.proves("rollback-config-follows")
def test_going_back_loses_neither_what_was_disabled_nor_that_it_was(written: Bench) -> None:
    everything = lists(written)
    written.call("plugin-disable", names=["gadget"])
    resting = lists(written)
    written.call("plugin-enable", names=["gadget"])
    assert lists(written) == everything
    written.call("rollback")
    assert (lists(written), running(written)) == (resting, ["fakehost-clock", "part-1"])
    written.call("rollback")
    assert (lists(written), running(written)) == (everything, ["gadget", "fakehost-clock", "part-1"])
    assert written.call("install").status == "noop"


@pytest.mark.proves("rollback-config-follows")
def test_where_the_history_is_lost_what_is_disabled_stays_listed(written: Bench) -> None:
    older = written.current.identity
    written.call("plugin-disable", names=["part-1"])
    written.call("plugin-add", requirements=["part-2"])
    written.layout.history("default").unlink()
    written.call("rollback", to=written.generations[0])
    assert lists(written) == (("fakehost-clock", "part-1"), ("part-1",))
    written.call("rollback", to=older)
    assert lists(written) == (("Gadget>=1,<2", "fakehost-clock", "part-1"), ())


# Several at once


@pytest.mark.proves("publish-serial")
def test_two_enables_at_once_both_count(written: Bench) -> None:
    """Case 38, as two people do it."""
    written.call("plugin-disable", names=["gadget", "part-1"])
    started = [
        subprocess.Popen(
            [written.layout.bin / "perdure-pm", "plugin", "enable", name, "--json"],
            env={**written.command_line.environment, **written.settings()},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in ("gadget", "part-1")
    ]
    for process in started:
        out, err = process.communicate(timeout=120)
        assert (process.returncode, json.loads(out)["status"]) == (0, "ok"), err
    assert (running(written), lists(written)[1]) == (["gadget", "fakehost-clock", "part-1"], ())


@pytest.mark.proves("publish-expected-digest")
@pytest.mark.parametrize("operation", ["plugin-enable", "plugin-disable"])
def test_a_stale_view_is_refused(written: Bench, operation: str) -> None:
    """Case 37."""
    seen = load_file(written.layout, written.config).digest
    written.config.write_bytes(WRITTEN.encode() + b"disabled: [part-1]\r\n")
    stages: list[str] = []
    with pytest.raises(ConfigChanged) as caught:
        written.call(operation, written.context(on_stage=stages.append), names=["gadget"], expected=seen)
    assert (stages, caught.value.retry, caught.value.state) == ([], "later", "unchanged")
    assert written.config.read_bytes() == WRITTEN.encode() + b"disabled: [part-1]\r\n"


# Profiles


@pytest.mark.proves("publish-serial")
def test_what_one_profile_disables_runs_in_the_other(written: Bench) -> None:
    """Case 60."""
    other = written.context(profile="other")
    written.call("plugin-add", other, requirements=["gadget", "part-1"])
    whole = load_pointer(written.layout, "other")
    written.call("plugin-disable", other, names=["gadget"])
    assert (running(written, "other"), running(written)) == (
        ["fakehost-clock", "part-1"],
        ["gadget", "fakehost-clock", "part-1"],
    )
    assert (states(written, "other")["gadget"], states(written)["gadget"]) == ("disabled", "runs")
    assert written.call("plugin-enable", other, names=["gadget"]).data["reused"] is True
    assert load_pointer(written.layout, "other") == whole


# What the app leaves out since it crashed


def note_crash(bench: Bench, name: str, version: str, profile: str = "default") -> Path:
    """Leave what the app leaves when a start ended while it imported a plugin."""
    folder = bench.layout.crashes(profile)
    folder.mkdir(parents=True, exist_ok=True)
    said = {"schema": 1, "plugin": name, "distribution": name, "version": version, "during": "importing it"}
    path = folder / f"{name}.json"
    path.write_text(json.dumps({**said, "at": "2026-11-29T22:00:00Z"}))
    return path


@pytest.mark.proves("plugins-brought-back")
def test_a_plugin_that_crashed_is_shown_and_enabling_brings_it_back(written: Bench) -> None:
    """Case 110, from PM's side: the command that the app names does what it says, and builds nothing."""
    before = written.current.identity
    note, other = note_crash(written, "gadget", "1.0"), note_crash(written, "part-1", "0.9")
    assert states(written) == {"gadget": "skipped", "fakehost-clock": "runs", "part-1": "runs"}
    assert "skipped: the app ended while importing it" in written.pm("plugin", "list").out
    assert "plugin enable gadget" in written.pm("status").out
    dry = written.pm("plugin", "enable", "gadget", "--dry-run", "--json").envelope
    assert (dry["status"], dry["data"]["brought_back"], note.exists()) == ("ok", ["gadget"], True)
    ended = written.pm("plugin", "enable", "Gadget")
    assert (ended.exit_code, ended.out) == (0, "the app loads gadget again\n")
    assert (note.exists(), other.exists(), written.current.identity) == (False, True, before)
    assert states(written)["gadget"] == "runs"
    assert written.pm("plugin", "enable", "gadget", "--json").envelope["status"] == "noop"


@pytest.mark.proves("plugins-brought-back")
def test_a_plugin_that_crashed_is_taken_out_without_being_imported(written: Bench) -> None:
    """Case 104: whatever it would do at import, removing and disabling do not care."""
    site = next(written.current.path.glob("venv/lib/python3*/site-packages"))
    module = site / "part_1" / "__init__.py"
    for path in (module.parent, module):
        path.chmod(0o755)
    module.unlink()  # not written in place: the bytes are shared
    module.write_text("import os\nos._exit(9)\n")
    note = note_crash(written, "part-1", "1.0")
    assert written.start().returncode == 9
    assert written.pm("plugin", "disable", "part-1").exit_code == 0
    assert running(written) == ["gadget", "fakehost-clock"]
    written.call("rollback", to=written.generations[0])
    written.config.write_bytes(WRITTEN.encode())
    assert note.exists()
    assert written.pm("plugin", "remove", "part-1").exit_code == 0
    assert (running(written), note.exists()) == (["gadget", "fakehost-clock"], False)


# Sitting out


@pytest.mark.proves("plugins-sit-out")
@pytest.mark.parametrize("marker", ["sys_platform == 'nowhere'", "python_version < '3'"])
def test_an_entry_whose_marker_excludes_this_machine_sits_out_and_says_why(written: Bench, marker: str) -> None:
    """Case 58: the marker is asked for the machine and the interpreter that the generation is for."""
    entry = f"part-2; {marker}"
    outcome = written.call("plugin-add", requirements=[entry])
    assert outcome.status == "ok"  # the list changed, and nothing else
    assert (running(written), lists(written)[0][-1]) == (["gadget", "fakehost-clock", "part-1"], entry)
    assert any("part-2 sits out: its marker excludes this machine" in said for said in outcome.obligations)
    assert states(written)["part-2"] == "sits-out"
    assert "its marker excludes" in written.pm("plugin", "list").out
    assert "sits out       part-2: its marker excludes" in written.pm("status").out
    assert written.call("install").status == "noop"
    (out,) = written.pm("plan", "--json").envelope["data"]["plan"]["sit_outs"]
    assert (out["name"], out["entry"]) == ("part-2", entry)
    # It returns by itself once it fits.
    written.config.write_bytes(written.config.read_bytes().replace(marker.encode(), b"python_version > '3'"))
    written.call("install")
    assert (running(written), states(written)["part-2"]) == (["gadget", "fakehost-clock", "part-1", "part-2"], "runs")
    assert written.pm("status", "--json").envelope["data"]["sit_outs"] == []


# What is told of one


def test_info_tells_everything_of_a_plugin_in_words(bench: Bench, tmp_path: Path) -> None:
    more = "requires-host: '>=0.1'\nplatforms: [\"sys_platform != 'nowhere'\"]\ncapabilities: [network]\n"
    source = write_manifest_plugin(tmp_path / "notify", more=more)
    bench.add(str(source))
    lines = [line.split(None, 1) for line in bench.pm("plugin", "info", "Notify").out.splitlines()]
    said = {words[0]: words[1] for words in lines}
    assert said["state"] == "runs"
    assert said["from"] == f"file://{source}"
    assert said["since"] == bench.current.identity
    assert (said["requires-host"], said["capabilities"], said["entry"]) == (
        ">=0.1",
        "network",
        "notify = notify:plugin",
    )
    assert said["platforms"] == "sys_platform != 'nowhere'"
    assert int(said["files"].partition(",")[0]) >= 4
    bundled = bench.pm("plugin", "info", "clock").out
    assert "the host's bundle" in bundled
    assert bench.pm("plugin", "info", "nothing").exit_code == 2


# Random sequences


@pytest.mark.proves("plugins-disabled-beats", "plugins-switch-idempotent")
@pytest.mark.parametrize("seed", [21, 22])
def test_any_sequence_of_switches_ends_in_what_a_model_says(bench: Bench, seed: int) -> None:
    """Case 103, for enable and disable: the list, what is off, and what runs stay in line."""
    chance = random.Random(seed)  # noqa: S311 - a sequence that can be repeated
    pool = ["gadget", "part-1", "part-2"]
    order, off = ["fakehost-clock"], set[str]()
    bench.call("plugin-add", requirements=["fakehost-clock"])
    for _ in range(14):
        name = chance.choice([*pool, "fakehost-clock"])
        verb = chance.choice(["add", "remove", "enable", "disable", "disable", "enable"])
        arguments: dict[str, Any] = {"requirements": [name]} if verb == "add" else {"names": [name]}
        if verb != "add" and name not in order:
            with pytest.raises(UsageFault):
                bench.call(f"plugin-{verb}", **arguments)
        else:
            bench.call(f"plugin-{verb}", **arguments)
            order = [*order, name] if verb == "add" and name not in order else order
            order = [entry for entry in order if entry != name] if verb == "remove" else order
            off = off | {name} if verb == "disable" else off - {name}
        assert lists(bench)[0] == tuple(order), verb
        assert set(lists(bench)[1]) == off, verb
        assert list(bench.current.record["selection"]) == [entry for entry in order if entry not in off]
        assert bench.call("install").status == "noop"
    assert running(bench) == [entry for entry in order if entry not in off]
