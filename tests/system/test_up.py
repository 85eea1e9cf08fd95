"""``bootstrap.py up`` from a clean checkout: from nothing to an app that answers, and then without a change."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from perdure_pm.adapters.filesystem import LocalFilesystem
from perdure_pm.adapters.mutex import held
from perdure_pm.store.layout import Layout
from tests.system.machine import (
    Installation,
    copy_home,
    differences,
    execute,
    fingerprint,
    plain_environment,
    seed_caches,
)

REMEMBERED = ("receipts", "mutex.json", "mutex")
"""What every operation may write, whatever it did."""


@pytest.mark.proves("system-up-answers")
def test_after_up_the_app_answers_with_its_bundled_plugin(installed: Installation) -> None:
    """Case 1: the home was empty, and nothing but a Python was used."""
    assert installed.perdure("--version").succeeded().out.startswith("perdure ")
    assert "facts" in installed.perdure("plugins").succeeded().out
    installed.perdure("doctor").succeeded()
    (receipt,) = installed.receipts()
    assert (receipt["operation"], receipt["status"]) == ("install", "ok")


@pytest.mark.proves("system-up-answers")
def test_up_leaves_nothing_outside_the_home(installed: Installation, clone: Path, checkout: Path) -> None:
    assert list(installed.home.with_name("user").rglob("*")) == []
    strange = [
        path for path in clone.rglob("*") if path.is_file() and not (checkout / path.relative_to(clone)).exists()
    ]
    assert strange == []


@pytest.mark.proves("system-up-unchanged")
def test_a_second_up_changes_no_byte_and_is_quick(own: Installation, figure: Callable[[str], None]) -> None:
    """Cases 2 and 41: the selection, the records and every file stay as they are; only a receipt is new."""
    before = fingerprint(own.home, without=REMEMBERED)
    started = time.perf_counter()
    answer = own.up().succeeded()
    seconds = time.perf_counter() - started
    figure(f"second up: {seconds:.2f} s in all, the app's own start included (target for preparing: under 1 s)")
    assert differences(before, fingerprint(own.home, without=REMEMBERED)) == []
    assert answer.json["data"]["install"]["generation"] == own.generation
    assert [receipt["status"] for receipt in own.receipts()] == ["ok", "noop"]
    assert seconds < 10, "nothing was built"


@pytest.mark.proves("system-up-unchanged")
def test_up_without_json_speaks_to_a_person(own: Installation) -> None:
    answer = own.bootstrap("up").succeeded()
    assert f"answers from generation {own.generation} in {own.home}" in answer.out
    command = answer.out.splitlines()[-1].partition(": ")[2]
    path = execute(["sh", "-c", command], environment=own.environment).succeeded()
    assert str(own.home / "bin") in path.out, "the hint does what it says"


@pytest.mark.proves("cli-streams-survive")
@pytest.mark.platforms("linux")
@pytest.mark.parametrize(
    ("suffix", "exit_code", "said"),
    [
        (">&- 2>&- <&-", 0, ""),
        ("--json >&-", 0, ""),
        (">/dev/full", 1, "error: standard output cannot be written: No space left on device\n  state: unchanged\n"),
        ("2>/dev/full", 0, ""),
        ("--nonsense --json 2>&- >&-", 2, ""),
    ],
)
def test_up_survives_streams_that_are_closed_or_full(own: Installation, suffix: str, exit_code: int, said: str) -> None:
    command = shlex.join(str(word) for word in [*own.bootstrap_command(), "up"])
    answer = own.run(["sh", "-c", f"{command} {suffix}"])
    assert (answer.code, answer.err) == (exit_code, said)


@pytest.mark.proves("system-up-unchanged")
def test_up_that_waited_for_an_uninstall_starts_anew(own: Installation) -> None:
    """It had found PM's runtime sound, and its worker found it gone."""
    layout = Layout(own.home)
    command = [str(word) for word in [*own.bootstrap_command(), "up", "--json", "--offline"]]
    with held(layout, "uninstall"):
        waiting = subprocess.Popen(
            command, env=dict(own.environment), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert waiting.stderr is not None
        assert any("waiting for another operation" in line for line in waiting.stderr)
        for path in (layout.pm, layout.store, layout.bin, layout.profile("default").parent):
            LocalFilesystem().remove_tree(path)
    out, _ = waiting.communicate(timeout=240)
    assert json.loads(out)["status"] == "ok", out
    own.perdure("--version").succeeded()


@pytest.mark.proves("system-up-unchanged")
def test_up_refuses_to_be_a_dry_run_before_it_makes_anything(installed: Installation, new_home: Path) -> None:
    there = replace(installed, home=new_home).with_environment(PERDURE_DRY_RUN="1")
    answer = there.up()
    assert (answer.code, answer.error["code"]) == (2, "usage")
    assert not new_home.exists()


@pytest.mark.proves("system-paths")
@pytest.mark.parametrize(
    "name",
    ["with space", "quote'and\"double", "new\nline", "dollar$HOME`x`", "ümläut", "-dash", "back\\slash", "end\n"],
    ids=["space", "quotes", "newline", "shell", "not ascii", "dash", "backslash", "newline at the end"],
)
def test_every_launcher_works_whatever_the_homes_path_holds(installed: Installation, tmp_path: Path, name: str) -> None:
    """The home is moved, which it survives too: nothing in it names its own path."""
    (tmp_path / name).mkdir()
    moved = replace(installed, home=copy_home(installed.home, tmp_path / name / "ho me"), cwd=tmp_path)
    assert moved.perdure("--version").succeeded().out == installed.perdure("--version").out
    assert moved.pm("status", "--json").succeeded().json["data"]["home"] == str(moved.home)
    link = tmp_path / "a link"
    link.symlink_to(os.path.relpath(moved.home / "bin" / "perdure", tmp_path))
    second = tmp_path / name / "second"
    second.symlink_to(link)
    assert execute([second, "pm", "status", "--json"], cwd=tmp_path).succeeded().json["data"]["home"] == str(moved.home)
    through_path = plain_environment({"PATH": f"{tmp_path / name}:{os.environ['PATH']}"})
    assert execute(["second", "--version"], environment=through_path).succeeded().out.startswith("perdure ")


@pytest.mark.proves("system-paths")
def test_up_works_into_a_home_whose_path_is_hard_to_quote(
    installed: Installation, warm_home: Path, tmp_path: Path
) -> None:
    (tmp_path / "a 'b' \"c\"\n$d").mkdir()
    home = tmp_path / "a 'b' \"c\"\n$d" / "ho me"
    warm_home.rename(home)
    there = replace(installed, home=home, cwd=Path("/"))
    assert there.up("--offline").succeeded().json["data"]["home"] == str(home)
    there.perdure("plugins", "--check").succeeded()
    compiled = {path.name.partition(".")[0] for path in home.glob("store/generations/*/venv/lib/*/*/perdure/**/*.pyc")}
    assert {"plugin_manager", "hookspecs"} <= compiled, "uv compiles nothing in such a path; PM does"
    assert there.up("--offline").succeeded().json["data"]["install"]["generation"] == there.generation
    warm_home.mkdir()  # for the fixture
    execute(["chmod", "-R", "u+w", home])


@pytest.mark.proves("system-isolated")
def test_two_homes_and_two_checkouts_do_not_touch_each_other(
    own: Installation, own_checkout: Path, new_home: Path
) -> None:
    """Case 45: a foreign checkout syncs into its own home, this one stays as it was."""
    before = fingerprint(own.home)
    module = own_checkout / "app" / "perdure" / "hookspecs.py"
    module.write_text(module.read_text(encoding="utf-8") + "\nFOREIGN = True\n", encoding="utf-8")
    other = replace(own, home=new_home, checkout=own_checkout)
    seed_caches(own.home, new_home)
    other.up("--offline").succeeded()
    assert differences(before, fingerprint(own.home)) == []
    assert own.generation.partition("-")[2] != other.generation.partition("-")[2]
    config = (new_home / "config.yaml").read_text(encoding="utf-8")
    assert str(own_checkout) in config
    # The home that is named decides, not the checkout or the home that the command comes from.
    crossed = other.pm("status", "--home", own.home, "--json").succeeded()
    assert crossed.json["data"]["generation"]["id"] == own.generation
    assert differences(before, fingerprint(own.home)) == []


@pytest.mark.proves("system-interpreters")
def test_entry_points_with_different_interpreters_do_not_rebuild_in_turns(own: Installation) -> None:
    """Case 44: what runs bootstrap.py is not what PM runs on, once there is a runtime."""
    others = [Path(f"/usr/bin/python3.{minor}") for minor in range(9, 15)]
    other = next((path for path in others if path.exists() and os.path.realpath(path) != str(own.python)), None)
    if other is None:
        pytest.skip("no second Python below /usr/bin")
    before = fingerprint(own.home, without=REMEMBERED)
    for python in (other, own.python, other):
        replace(own, python=python).up().succeeded()
    assert differences(before, fingerprint(own.home, without=REMEMBERED)) == []


@pytest.mark.proves("system-version-offline")
@pytest.mark.parametrize(
    "words", [("--version",), ("--help",), ("pm", "--version"), ("pm", "--help"), ("pm", "status")]
)
def test_looking_needs_no_network_and_changes_nothing_also_where_the_checkout_moved_on(
    own: Installation, own_checkout: Path, without_network: tuple[str, ...], words: tuple[str, ...]
) -> None:
    """Case 53: the environment is stale; the answer comes all the same, and nothing is synced."""
    config = own.home / "config.yaml"
    config.write_text(
        config.read_text(encoding="utf-8").replace(str(own.checkout), str(own_checkout)), encoding="utf-8"
    )
    module = own_checkout / "app" / "perdure" / "hookspecs.py"
    module.write_text(module.read_text(encoding="utf-8") + "\nSTALE = True\n", encoding="utf-8")
    before = fingerprint(own.home)
    replace(own, prefix=without_network).perdure(*words).succeeded()
    assert differences(before, fingerprint(own.home)) == []


@pytest.mark.proves("system-up-answers")
def test_help_is_for_people_and_a_wrong_word_is_a_usage_fault(clone: Path, own: Installation) -> None:
    assert "up" in own.bootstrap("--help").succeeded().out
    wrong = own.bootstrap("upp", "--json")
    assert (wrong.code, wrong.json["errors"][0]["code"]) == (2, "usage")
    assert json.loads(wrong.out)["schema"] == 1
