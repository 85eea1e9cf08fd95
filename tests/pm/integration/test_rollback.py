"""Going back: one move of the pointer, whatever else is gone."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from perdure_pm.model.errors import IntegrityFault, NothingInstalled, UsageFault
from perdure_pm.store.layout import Layout
from perdure_pm.store.pointer import load_pointer, save_pointer
from tests.pm.bench import Bench
from tests.pm.fake_host import replace_uv
from tests.system.machine import fingerprint

pytestmark = pytest.mark.platforms("linux", "darwin")

NETWORK_CALLS = re.compile(r"\b(socket|connect|sendto|sendmsg|bind)\(.*AF_INET")


def pointer(layout: Layout) -> str:
    found = load_pointer(layout, "default")
    assert found is not None
    return found


@pytest.mark.proves("rollback-alone")
def test_going_back_needs_no_cache_no_uv_no_build_and_no_network(bench: Bench, tmp_path: Path) -> None:
    first = pointer(bench.layout)
    second = bench.add("gadget")
    before = {name: fingerprint(bench.layout.generation(name)) for name in (first, second)}
    shutil.rmtree(bench.layout.cache)
    used = tmp_path / "uv-was-used"
    replace_uv(bench.workshop, bench.layout, f'touch "{used}"\nexit 1\n')
    without_network = ("unshare", "-n") if os.geteuid() == 0 and shutil.which("unshare") else ()
    command = [*without_network, str(bench.layout.bin / "perdure-pm"), "rollback", "--json"]
    trace = tmp_path / "trace"
    if shutil.which("strace"):
        command = ["strace", "-f", "-qq", "-e", "trace=execve,network", "-o", str(trace), *command]
    ended = subprocess.run(
        command, env=bench.command_line.environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert pointer(bench.layout) == first
    assert {name: fingerprint(bench.layout.generation(name)) for name in (first, second)} == before
    assert not used.exists()
    if trace.exists():
        calls = trace.read_text().splitlines()
        started = {Path(found[1]).name for line in calls if (found := re.search(r'execve\("([^"]+)".* = 0', line))}
        assert {name for name in started if not name.startswith("python")} <= {"unshare", "perdure-pm"}
        assert [line for line in calls if NETWORK_CALLS.search(line)] == []
    assert '"gadget"' not in bench.start().stdout
    assert not (bench.layout.home / "cache" / "uv").exists()


@pytest.mark.proves("rollback-finds-what-is-meant", "rollback-receipt")
@pytest.mark.parametrize("kind", ["nothing", "number", "id", "prefix", "label"])
def test_the_target_is_named_in_every_way(bench: Bench, kind: str) -> None:
    first = pointer(bench.layout)
    second = bench.add("gadget")
    assert bench.pm("label", "good", "1").exit_code == 0
    words = {"nothing": [], "number": ["1"], "id": [first], "prefix": [first[:6]], "label": ["good"]}[kind]
    ended = bench.pm("rollback", *words, "--json")
    assert (ended.exit_code, pointer(bench.layout)) == (0, first), ended.err
    data = ended.envelope["data"]
    assert (data["generation"], data["from"], data["obligations"]) == (first, second, [])
    (receipt,) = bench.receipts("rollback")
    assert (receipt.status, receipt.id, receipt.data) == ("ok", data["receipt"], {"generation": first, "from": second})
    # The way back leads forward again: what was selected before is now the second one.
    assert bench.pm("rollback").exit_code == 0
    assert pointer(bench.layout) == second


@pytest.mark.proves("rollback-receipt")
def test_going_to_what_is_selected_already_does_nothing(bench: Bench) -> None:
    before = fingerprint(bench.layout.profile("default"))
    assert bench.call("rollback", to="1").status == "noop"
    assert fingerprint(bench.layout.profile("default")) == before


@pytest.mark.proves("rollback-refuses")
def test_with_nothing_before_it_says_so(bench: Bench) -> None:
    with pytest.raises(NothingInstalled) as caught:
        bench.call("rollback")
    assert "has selected nothing before this" in caught.value.summary
    ended = bench.pm("rollback")
    assert (ended.exit_code, "selected nothing before" in ended.err) == (1, True)
    assert "history" in ended.err


@pytest.mark.proves("rollback-refuses")
@pytest.mark.parametrize("to", ["9", "nonsense", "1-ffff", "../1"])
def test_what_is_not_there_is_refused(bench: Bench, to: str) -> None:
    before = fingerprint(bench.layout.home)
    with pytest.raises(UsageFault):
        bench.call("rollback", to=to)
    assert fingerprint(bench.layout.home) == before


def _truncate(path: Path) -> None:
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:-1])


def _remove(path: Path) -> None:
    path.parent.chmod(0o755)
    path.unlink()


DAMAGES: dict[str, Callable[[Path], None]] = {
    "a shorter file": lambda path: _truncate(next(path.glob("venv/lib/python3*/site-packages/fakehost/__init__.py"))),
    "a missing file": lambda path: _remove(next(path.glob("venv/lib/python3*/site-packages/fakehost/__init__.py"))),
    "no list of files": lambda path: _remove(path / "files.json"),
    "no record": lambda path: _remove(path / "record.json"),
    "no interpreter": lambda path: _remove(path / "venv" / "bin" / "python"),
    "no packages": lambda path: shutil.rmtree(next(path.glob("venv/lib"))),
}


@pytest.mark.proves("rollback-refuses")
@pytest.mark.parametrize("damage", list(DAMAGES))
def test_a_damaged_target_is_refused_and_what_runs_stays(bench: Bench, damage: str) -> None:
    first = bench.current.path
    second = bench.add("gadget")
    config = bench.config.read_bytes()
    for folder, _, _ in os.walk(first):
        os.chmod(folder, 0o755)
    DAMAGES[damage](first)
    for to in ("1", None):
        with pytest.raises(IntegrityFault) as caught:
            bench.call("rollback", to=to)
        assert first.name in caught.value.summary
        assert (caught.value.hint, caught.value.state) == ("choose another: perdure-pm history", "unchanged")
    assert (pointer(bench.layout), bench.config.read_bytes()) == (second, config)
    assert '"gadget": "1.0"' in bench.start().stdout


@pytest.mark.proves("rollback-refuses")
def test_a_generation_whose_interpreter_became_another_minor_version_is_refused(bench: Bench) -> None:
    """Case 50: what was built for another Python is not used, and the reason is told."""
    first = bench.current
    second = bench.add("gadget")
    first.python.parent.chmod(0o755)
    first.python.unlink()
    answer = json.dumps({"path": "/usr/bin/python3", "version": "3.99.1", "implementation": "CPython"})
    first.python.write_text(f"#!/bin/sh\necho '{answer}'\n")
    first.python.chmod(0o755)
    with pytest.raises(IntegrityFault) as caught:
        bench.call("rollback", to="1")
    assert "its interpreter is now 3.99.1" in caught.value.summary
    assert pointer(bench.layout) == second
    # Nor is it taken for an answer to an install that wants the same.
    assert bench.call("plugin-remove", names=["gadget"]).data["generation"] not in {first.identity, second}
    assert bench.start().returncode == 0


CONFIG = """\
# my plugins; keep this line
schema: 1
plugins:   # in load order
  - 'fakehost-clock'   # the bundled one
  - "gadget"

# the end
"""


@pytest.mark.proves("rollback-config-follows")
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("linked", [False, True])
def test_the_configuration_follows_and_everything_else_in_it_survives(
    bench: Bench, tmp_path: Path, newline: str, linked: bool
) -> None:
    """Case 40: also where it is a link into a tree of dotfiles, which stays a link."""
    bench.add("gadget")
    bench.config.unlink()
    real = tmp_path / "dotfiles" / "perdure.yaml" if linked else bench.config
    real.parent.mkdir(exist_ok=True)
    real.write_bytes(CONFIG.replace("\n", newline).encode())
    if linked:
        bench.config.symlink_to(real)
    assert bench.call("install").status == "noop"
    assert bench.call("rollback").status == "ok"
    assert bench.config.is_symlink() is linked
    expected = CONFIG.replace('  - "gadget"\n', "").replace("\n", newline).encode()
    assert real.read_bytes() == expected
    assert bench.call("install").status == "noop"
    # And forward again: the entry comes back.
    assert bench.call("rollback").status == "ok"
    assert real.read_bytes().replace(b'"', b"").count(b"  - gadget") == 1
    assert bench.call("install").status == "noop"
    assert bench.config.is_symlink() is linked


@pytest.mark.proves("rollback-config-follows")
def test_a_broken_configuration_keeps_nobody_from_going_back(bench: Bench) -> None:
    first = pointer(bench.layout)
    bench.add("gadget")
    bench.config.write_text("plugins: [unclosed\n")
    outcome = bench.call("rollback")
    assert (outcome.status, pointer(bench.layout)) == ("ok", first)
    assert any("does not follow" in said for said in outcome.obligations), outcome.obligations
    assert bench.config.read_text() == "plugins: [unclosed\n"


@pytest.mark.proves("rollback-previous")
def test_after_a_crash_before_the_history_line_the_way_back_is_known(bench: Bench) -> None:
    first = pointer(bench.layout)
    second = bench.add("gadget")
    third = bench.add("part-1")
    path = bench.layout.history("default")
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    assert bench.call("rollback").data == {"generation": second, "from": third}
    assert first != second


@pytest.mark.proves("rollback-alone")
def test_a_corrupt_pointer_does_not_keep_anybody_from_going_to_a_generation(bench: Bench) -> None:
    first = pointer(bench.layout)
    bench.add("gadget")
    for text in (b"\0\0\0", b"../../etc\n", b"7-0123456789ab\n"):
        bench.layout.pointer("default").write_bytes(text)
        assert bench.call("rollback", to="1").status == "ok"
        assert pointer(bench.layout) == first


@pytest.mark.proves("rollback-dry")
def test_a_dry_run_names_the_target_and_moves_nothing(bench: Bench) -> None:
    first = pointer(bench.layout)
    second = bench.add("gadget")
    before = fingerprint(bench.layout.profile("default"))
    ended = bench.pm("rollback", "--dry-run", "--json")
    assert (ended.exit_code, ended.envelope["data"]["generation"]) == (0, first)
    assert (pointer(bench.layout), fingerprint(bench.layout.profile("default"))) == (second, before)


@pytest.mark.proves("rollback-alone")
def test_profiles_go_back_each_for_itself(bench: Bench) -> None:
    first = pointer(bench.layout)
    other = bench.context(profile="other")
    bench.call("install", other)
    assert load_pointer(bench.layout, "other") == first  # equal selections share a generation
    second = bench.add("gadget")
    with pytest.raises(NothingInstalled):
        bench.call("rollback", bench.context(profile="other"))
    assert (pointer(bench.layout), load_pointer(bench.layout, "other")) == (second, first)
    save_pointer(bench.context().filesystem, bench.layout, "other", first)


@pytest.mark.proves("rollback-finds-what-is-meant")
@pytest.mark.parametrize("operation", ["rollback", "pin", "confirm"])
def test_an_empty_word_names_nothing(bench: Bench, operation: str) -> None:
    """A script's unset variable: `rollback "$GOOD"` must not go back to whatever was before."""
    second = bench.add("gadget")
    ended = bench.pm(operation, "")
    assert (ended.exit_code, ended.err.splitlines()[0]) == (2, "error: '' names no generation of this home")
    assert pointer(bench.layout) == second
    assert not bench.layout.labels.exists()


@pytest.mark.proves("rollback-finds-what-is-meant", "labels-damage-refused")
def test_damaged_pins_keep_nobody_from_going_back(bench: Bench) -> None:
    first = pointer(bench.layout)
    bench.add("gadget")
    bench.layout.labels.write_text("[]")
    with pytest.raises(IntegrityFault):
        bench.call("rollback", to="good")
    assert bench.call("rollback", to="1").data["generation"] == first
    assert bench.pm("diff", "2").exit_code == 0


@pytest.mark.proves("cli-streams-survive")
@pytest.mark.platforms("linux")
@pytest.mark.parametrize("words", [[], ["--json"]])
def test_an_answer_that_is_lost_is_never_told_as_nothing_done(bench: Bench, words: list[str]) -> None:
    first = pointer(bench.layout)
    second = bench.add("gadget")
    ended = bench.command_line("rollback", *words, shell_suffix=">/dev/full")
    done = bench.receipts("rollback")[-1]
    assert (pointer(bench.layout), ended.exit_code) == (first, 1)
    assert ended.err.splitlines() == [
        "error: standard output cannot be written: No space left on device",
        f"  it was done all the same: HOME/bin/perdure-pm receipts {done.id[:8]}",
    ]
    ended = bench.command_line("rollback", "--dry-run", *words, shell_suffix=">/dev/full")
    assert ended.err.splitlines()[-1] == "  state: unchanged"
    assert second != first
