"""The verbs on one home: who wins, who waits, what is shared, what a person is told, and what never changes."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from perdure_pm.model.errors import ConfigChanged, HealthCheckFailed, LazyInstallRefused, NoSpace, UsageFault
from perdure_pm.store.config import load_file
from perdure_pm.store.generations import load_generation
from perdure_pm.store.pointer import load_pointer
from tests.pm.bench import Bench
from tests.system.machine import fingerprint

pytestmark = pytest.mark.platforms("linux", "darwin")


def listed(bench: Bench) -> list[str]:
    """Return the plugins that the profile's configuration lists."""
    return [entry.strip(" '\"") for entry in re.findall(r"^\s*- (.*)$", bench.config.read_text(), re.MULTILINE)]


def running(bench: Bench) -> list[str]:
    """Return the plugins that the host says it runs."""
    ended = bench.start()
    assert ended.returncode == 0, ended.stderr
    return sorted(json.loads(ended.stdout)["plugins"])


# The configuration and the publication


@pytest.mark.proves("publish-restarts-once")
def test_an_edit_during_the_build_has_it_start_over_once(bench: Bench) -> None:
    """Case 36."""
    edits: list[str] = []

    def edit(stage: str) -> None:
        if stage == "seal" and not edits:
            edits.append(stage)
            bench.config.write_text("schema: 1\nplugins: [fakehost-clock, part-3]  # mine\n")

    outcome = bench.call("plugin-add", bench.context(on_stage=edit), requirements=["gadget"])
    assert outcome.status == "ok"
    assert running(bench) == ["fakehost-clock", "gadget", "part-3"]
    assert "# mine" in bench.config.read_text()
    assert len(bench.generations) == 2  # the first attempt left nothing
    assert bench.call("install").status == "noop"


@pytest.mark.proves("publish-restarts-once")
@pytest.mark.parametrize("file", ["profile", "home"])
def test_edits_without_end_are_refused_and_nothing_is_published(bench: Bench, file: str) -> None:
    before = (bench.current.identity, bench.generations)
    path = bench.config if file == "profile" else bench.layout.config
    text = path.read_text() if path.exists() else "schema: 1\n"

    def edit(stage: str) -> None:
        if stage == "seal":
            path.write_text(path.read_text() + "# again\n" if path.exists() else text)

    with pytest.raises(ConfigChanged) as caught:
        bench.call("plugin-add", bench.context(on_stage=edit), requirements=["gadget"])
    assert (caught.value.retry, caught.value.state) == ("later", "unchanged")
    assert (bench.current.identity, bench.generations) == before
    assert "gadget" not in path.read_text()


@pytest.mark.proves("intent-hand-edit-wins")
def test_an_edit_at_the_very_end_stays_and_is_told(bench: Bench) -> None:
    mine = "schema: 1\nplugins: [part-4]  # mine\n"

    def edit(stage: str) -> None:
        if stage == "before_publish":
            bench.config.write_text(mine)

    outcome = bench.call("plugin-add", bench.context(on_stage=edit), requirements=["gadget"])
    assert bench.config.read_text() == mine
    assert any("your edit stays" in said for said in outcome.obligations), outcome.obligations
    assert "gadget" in running(bench)
    bench.call("install")
    assert running(bench) == ["part-4"]
    assert bench.config.read_text() == mine


@pytest.mark.proves("intent-hand-edit-wins")
@pytest.mark.parametrize("edited", [False, True])
def test_what_a_crash_after_the_commit_left_undone_is_finished_by_the_next_operation(
    bench: Bench, edited: bool
) -> None:
    """Cases 33, 34."""
    second = bench.add("part-1")
    third = bench.add("gadget")
    wanted = bench.config.read_text()
    bench.call("rollback")
    assert (bench.current.identity, "gadget" in listed(bench)) == (second, False)
    # As the crash leaves it: the note, then the pointer, and nothing after that.
    file = load_file(bench.layout, bench.config)
    note = {"schema": 1, "generation": third, "digest": file.digest, "text": wanted}
    bench.layout.pending_intent("default").write_text(json.dumps(note))
    bench.layout.pointer("default").write_text(third + "\n")
    if edited:
        bench.config.write_text(file.text + "# mine\n")
    outcome = bench.call("install")
    assert not bench.layout.pending_intent("default").exists()
    if edited:
        assert bench.config.read_text() == file.text + "# mine\n"
        assert any("your edit stays" in said for said in outcome.obligations)
        assert bench.current.identity == second  # the configuration is what is wanted
    else:
        assert (outcome.status, bench.current.identity, bench.config.read_text()) == ("noop", third, wanted)
    assert bench.call("install").status == "noop"


@pytest.mark.proves("publish-expected-digest")
def test_a_digest_that_is_not_the_files_is_refused_before_anything(bench: Bench) -> None:
    """Case 37."""
    bench.add("gadget")
    seen = load_file(bench.layout, bench.config).digest
    bench.config.write_text(bench.config.read_text() + "- part-1\n")
    stages: list[str] = []
    before = fingerprint(bench.layout.home, without=["mutex"])
    with pytest.raises(ConfigChanged) as caught:
        bench.call("install", bench.context(on_stage=stages.append), expected=seen)
    assert (stages, caught.value.state) == ([], "unchanged")
    assert fingerprint(bench.layout.home, without=["mutex"]) == before
    outcome = bench.call("install", expected=load_file(bench.layout, bench.config).digest)
    assert outcome.status == "ok"


# Several at once


@pytest.mark.proves("publish-serial")
def test_two_adds_at_once_both_count(bench: Bench) -> None:
    """Case 38; with two more, and a removal."""
    bench.add("part-9")
    commands = [("add", "gadget"), ("add", "part-1"), ("add", "part-2"), ("remove", "part-9")]
    environment = {**bench.command_line.environment, **bench.settings()}
    started = [
        subprocess.Popen(
            [bench.layout.bin / "perdure-pm", "plugin", *words, "--json"],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for words in commands
    ]
    for process in started:
        out, err = process.communicate(timeout=120)
        assert (process.returncode, json.loads(out)["status"]) == (0, "ok"), err
    expected = ["fakehost-clock", "gadget", "part-1", "part-2"]
    assert (running(bench), sorted(listed(bench))) == (expected, expected)
    assert [receipt.status for receipt in bench.receipts()] == ["ok"] * 4
    assert bench.call("install").status == "noop"


@pytest.mark.proves("publish-serial")
def test_equal_selections_share_one_generation(bench: Bench) -> None:
    """Case 60."""
    first = bench.current.identity
    other = bench.context(profile="other")
    outcome = bench.call("install", other)
    assert (outcome.data["generation"], outcome.data["reused"]) == (first, True)
    second = bench.add("gadget")
    assert load_pointer(bench.layout, "other") == first
    outcome = bench.call("plugin-add", other, requirements=["gadget"])
    assert (outcome.data["generation"], outcome.data["reused"]) == (second, True)
    bench.call("plugin-remove", other, names=["fakehost-clock"])
    assert load_pointer(bench.layout, "default") == second
    assert json.loads(bench.start(variables={"PERDURE_PROFILE": "other"}).stdout)["plugins"] == {"gadget": "1.0"}
    assert running(bench) == ["fakehost-clock", "gadget"]
    # What ran before is found again too, instead of built.
    assert bench.call("plugin-remove", names=["gadget"]).data["generation"] == first


# What is there decides


@pytest.mark.proves("pm-same-inputs-noop")
def test_an_install_of_what_runs_writes_nothing(bench: Bench) -> None:
    """Case 41."""
    bench.add("gadget")
    before = fingerprint(bench.layout.home, without=["cache/tmp"])
    outcome = bench.call("install")
    assert (outcome.status, outcome.data["generation"]) == ("noop", bench.current.identity)
    assert fingerprint(bench.layout.home, without=["cache/tmp"]) == before


@pytest.mark.proves("publish-contents-decide")
@pytest.mark.parametrize("gone", ["the packages", "every package", "the interpreter", "one file", "the boot file"])
def test_an_installation_that_only_says_it_is_there_is_built_again(bench: Bench, gone: str) -> None:
    """Case 105: state is what lies there, not what a file says."""
    bench.add("gadget")
    damaged = bench.current
    for folder, _, _ in os.walk(damaged.path):
        os.chmod(folder, 0o755)
    site = next(damaged.path.glob("venv/lib/python3*/site-packages"))
    if gone == "the packages":
        shutil.rmtree(site / "fakehost")
    elif gone == "every package":
        shutil.rmtree(damaged.path / "venv" / "lib")
    elif gone == "the interpreter":
        damaged.python.unlink()
    elif gone == "one file":
        (site / "gadget" / "__init__.py").unlink()
    else:
        (damaged.path / "boot.json").unlink()
    config = bench.config.read_bytes()
    outcome = bench.call("install")
    assert outcome.status == "ok"
    assert bench.current.identity != damaged.identity
    assert (running(bench), bench.config.read_bytes()) == (["fakehost-clock", "gadget"], config)
    assert load_generation(bench.layout, bench.current.identity).record["packages"] == damaged.record["packages"]


@pytest.mark.proves("publish-launchers-stay")
def test_while_and_after_a_failed_change_the_launchers_start_what_ran(bench: Bench) -> None:
    """Case 96."""
    first = bench.current.identity
    said: list[str] = []

    def start(stage: str) -> None:
        said.append(json.loads(bench.start().stdout)["generation"])
        if stage == "seal":
            raise HealthCheckFailed("no")

    launchers = fingerprint(bench.layout.bin)
    with pytest.raises(HealthCheckFailed):
        bench.call("upgrade", bench.context(on_stage=start), checkout=str(bench.workshop.newer_checkout))
    assert len(said) > 2
    assert set(said) == {first}
    assert fingerprint(bench.layout.bin) == launchers
    bench.call("upgrade", checkout=str(bench.workshop.newer_checkout))
    assert json.loads(bench.start().stdout)["version"] == "0.2.0"


@pytest.mark.proves("publish-preflight")
def test_without_space_or_permission_to_install_nothing_is_fetched(bench: Bench) -> None:
    stages: list[str] = []
    bench.config.write_text("schema: 1\nplugins: [gadget]\n")
    before = fingerprint(bench.layout.home, without=["mutex"])
    context = bench.context(on_stage=stages.append, lazy=True, lazy_allowed=False)
    with pytest.raises(LazyInstallRefused):
        bench.call("install", context)
    full = bench.context(on_stage=stages.append)
    full.filesystem.free_bytes = lambda path: 1000  # type: ignore[method-assign]
    with pytest.raises(NoSpace) as caught:
        bench.call("install", full)
    assert (caught.value.context["free"], caught.value.exit_code) == (1000, 9)
    assert stages == []
    assert fingerprint(bench.layout.home, without=["mutex"]) == before
    bench.config.unlink()
    assert bench.call("install", context).status == "noop"  # what is there already needs no permission


# What a person is told


@pytest.mark.proves("publish-plan-is-true")
def test_what_a_plan_says_is_what_happens(bench: Bench) -> None:
    before = fingerprint(bench.layout.home, without=["receipts", "cache", "mutex"])
    planned = bench.pm("plugin", "add", "gadget", "--dry-run", "--json").envelope["data"]["plan"]
    assert fingerprint(bench.layout.home, without=["receipts", "cache", "mutex"]) == before
    assert planned["packages"] == [
        {"name": "gadget", "from": None, "to": "1.0"},
        {"name": "sprocket", "from": None, "to": "1.0"},
    ]
    done = bench.pm("plugin", "add", "gadget", "--json").envelope["data"]["plan"]
    assert done == planned
    assert bench.pm("plan", "--check").exit_code == 0
    bench.config.write_text("schema: 1\nplugins: []\n")
    ended = bench.pm("plan", "--check", "--json")
    assert ended.exit_code == 3
    assert [(item["name"], item["to"]) for item in ended.envelope["data"]["plan"]["packages"]] == [
        ("fakehost-clock", None),
        ("gadget", None),
        ("sprocket", None),
    ]


@pytest.mark.proves("publish-plan-is-true")
def test_history_diff_and_list_say_what_was_and_what_is(bench: Bench) -> None:
    first = bench.current.identity
    second = bench.add("gadget")
    bench.call("label", name="good", generation="1")
    bench.call("pin", generation="2")
    data = bench.pm("history", "--json").envelope["data"]
    assert data["selected"] == second
    assert [(entry["operation"], entry["from"], entry["generation"]) for entry in data["selections"]] == [
        ("install", None, first),
        ("plugin-add", first, second),
    ]
    assert [(found["id"], found["pinned"], found["labels"]) for found in data["generations"]] == [
        (second, True, []),
        (first, False, ["good"]),
    ]
    changed = bench.pm("diff", "good", "--json").envelope["data"]
    assert (changed["from"], changed["to"], changed["plugins"]) == (first, second, {"removed": [], "added": ["gadget"]})
    assert [item["name"] for item in changed["packages"]] == ["gadget", "sprocket"]
    back = bench.pm("diff", "2", "1", "--json").envelope["data"]
    assert back["plugins"] == {"removed": ["gadget"], "added": []}
    shown = bench.pm("plugin", "list", "--json").envelope["data"]
    assert (shown["wanted"], shown["runs"], shown["in_line"]) == (*[["fakehost-clock", "gadget"]] * 2, True)
    assert shown["versions"] == {"fakehost-clock": "0.1.0", "gadget": "1.0"}
    bench.config.write_text("schema: 1\nplugins: [gadget]\n")
    listed = bench.pm("plugin", "list")
    assert "differ: HOME/bin/perdure-pm install" in listed.err  # not on PATH here: by its whole path, as every hint
    assert "still runs (HOME/bin/perdure-pm install)" in listed.out
    other = bench.pm("label", "good", "2", "--remove")
    assert (other.exit_code, "is a label of generation 1-" in other.err) == (2, True)
    assert bench.pm("label", "good", "1", "--remove").exit_code == 0
    assert bench.pm("pin", "2", "--remove").exit_code == 0
    assert bench.pm("pin", "2", "--remove", "--json").envelope["status"] == "noop"
    with pytest.raises(UsageFault):
        bench.call("label", name="good", remove=True)


# PM's own bytes

VERBS: tuple[Callable[[random.Random], list[str]], ...] = (
    lambda chance: ["plugin", "add", chance.choice(["gadget", "part-1", "part-2", "part-3", "nothing-of-the-kind"])],
    lambda chance: ["plugin", "remove", chance.choice(["gadget", "part-1", "part-2", "fakehost-clock"])],
    lambda chance: ["plugin", "enable", chance.choice(["gadget", "part-1", "fakehost-clock", "--all"])],
    lambda chance: ["plugin", "disable", chance.choice(["gadget", "part-2", "fakehost-clock", "--all"])],
    lambda chance: ["plugin", "update", *chance.choice([[], ["gadget"]])],
    lambda _: ["install"],
    lambda _: ["upgrade"],
    lambda chance: ["rollback", *chance.choice([[], ["1"], ["2"], ["9"]])],
    lambda _: ["collect", "--keep", "0"],
    lambda chance: ["pin", *chance.choice([[], ["1"]]), *chance.choice([[], ["--remove"]])],
    lambda chance: ["label", chance.choice(["good", "bad"])],
    lambda _: ["confirm"],
    lambda chance: ["plugin", "add", "part-4", "--confirm-within", chance.choice(["1s", "10m"])],
    lambda chance: ["config", "set", "install.lazy", chance.choice(["true", "false"])],
    lambda _: ["status"],
    lambda _: ["plan", "--upgrade"],
    lambda _: ["start-on-trial", "fakehost"],
    lambda _: ["run", "--", "python", "-c", "print(1)"],
)


@pytest.mark.proves("pm-own-bytes-stay")
@pytest.mark.parametrize("seed", [11, 12])
def test_no_sequence_of_verbs_changes_pms_own_bytes(bench: Bench, seed: int) -> None:
    """Case 103."""

    def own_bytes() -> dict[str, str]:
        found: dict[str, str] = {}
        for name in ("pm", "tools"):
            inside = fingerprint(bench.layout.home / name)
            found |= {f"{name}/{path}": value for path, value in inside.items() if path != "policy"}
        return found | {"launcher": (bench.layout.bin / "perdure-pm").read_text()}

    old = bench.layout.runtime("aaaaaaaaaaaa")
    shutil.copytree(bench.layout.runtime("0123456789ab"), old, symlinks=True)
    before = own_bytes()
    chance = random.Random(seed)  # noqa: S311 - a sequence that can be repeated
    codes = []
    for _ in range(16):
        words = chance.choice(VERBS)(chance)
        ended = bench.pm(*words, variables={"PERDURE_YES": "1"})
        codes.append(ended.exit_code)
        assert ended.exit_code in {0, 1, 2, 4, 6, 7}, (words, ended.err)
        assert own_bytes() == before, words
    assert 0 in codes
    assert bench.start().returncode == 0
    assert bench.pm("status").exit_code == 0


@pytest.mark.proves("home-of-the-launcher")
def test_a_launcher_acts_on_its_own_home_whatever_the_variable_names(bench: Bench, tmp_path: Path) -> None:
    """Also `uninstall`; where --home is typed, that is meant."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "kept").write_text("mine")
    variables = {"PERDURE_HOME": str(other)}
    status = bench.pm("status", "--json", variables=variables)
    assert status.envelope["data"]["home"] == "HOME"
    assert status.err == (
        f"notice: PERDURE_HOME names {other}, and this launcher belongs to HOME, which is used; --home DIR chooses\n"
    )
    same = tmp_path / "same"
    same.symlink_to(bench.layout.home)
    assert bench.pm("status", variables={"PERDURE_HOME": str(same)}).err == ""
    typed = bench.pm("--home", str(other), "status", "--json", variables={"PERDURE_HOME": str(same)})
    assert (typed.envelope["data"]["home"], typed.err) == (str(other), "")
    assert bench.pm("label", "good", variables=variables).exit_code == 0
    assert bench.pm("uninstall", "--yes", variables=variables).exit_code == 0
    assert not bench.layout.bin.exists()
    assert [path.name for path in other.iterdir()] == ["kept"]


@pytest.mark.proves("home-usable-whatever-umask")
@pytest.mark.parametrize("mask", ["777", "277", "077"])
def test_an_owner_can_use_what_was_installed_whatever_the_umask(bench: Bench, mask: str) -> None:
    uv = next((bench.layout.home / "tools" / "uv").iterdir()) / "uv"
    ended = subprocess.run(
        ["/bin/sh", "-c", f'umask {mask}; exec "$0" "$@"', bench.layout.bin / "perdure-pm", "plugin", "add", "gadget"],
        env={**bench.command_line.environment, **bench.settings()},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stderr
    assert os.access(uv, os.X_OK)
    for folder, _, names in os.walk(bench.current.path):
        for path in (folder, *(os.path.join(folder, name) for name in names)):
            mode = os.lstat(path).st_mode
            assert mode & 0o400, path
            assert mode & 0o100 or not os.path.isdir(path), path
    (receipt,) = bench.receipts("plugin-add")
    assert (bench.layout.receipts / receipt.name).stat().st_mode & 0o600 == 0o600
    assert bench.start().returncode == 0


def test_a_checkout_that_is_empty_or_lost_its_project_is_told_as_what_it_is(bench: Bench, tmp_path: Path) -> None:
    for verb in ("install", "upgrade", "plan"):
        ended = bench.pm(verb, "--checkout", "")
        assert ended.exit_code == 2
        assert "'--checkout': it is empty; give it a directory, or leave it out" in ended.err, ended.err
    moved = tmp_path / "checkout"
    shutil.copytree(bench.workshop.checkout, moved)
    assert bench.pm("install", "--checkout", str(moved)).exit_code == 0
    (moved / "pyproject.toml").unlink()
    (said,) = bench.call("install").obligations
    assert said.startswith(f"{moved} is no checkout any more, it has no pyproject.toml: fakehost ")
    shutil.rmtree(moved)
    (said,) = bench.call("install").obligations
    assert said.startswith(f"the checkout {moved} is gone: fakehost ")
