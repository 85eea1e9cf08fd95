"""Trials: a generation that goes back unless somebody confirms it, judged by the launcher's first step."""

from __future__ import annotations

import json
import os
from datetime import timedelta
from pathlib import Path

import pytest

from perdure_pm.adapters.mutex import held
from perdure_pm.model.errors import IntegrityFault, OperationVetoed, UsageFault
from perdure_pm.store.history import load_history
from perdure_pm.store.layout import Layout
from perdure_pm.store.pointer import load_pointer
from perdure_pm.store.trial import load_trial, save_trial
from tests.pm.bench import Bench

pytestmark = pytest.mark.platforms("linux", "darwin")


def pointer(bench: Bench) -> str:
    found = load_pointer(bench.layout, "default")
    assert found is not None
    return found


def starts(bench: Bench, generation: str, *words: str, **variables: str) -> str:
    """Start the host, which must run from `generation`; return what was said to the person."""
    ended = bench.start(*words, variables=variables)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["generation"] == generation
    return ended.stderr


def on_trial(bench: Bench) -> tuple[str, str]:
    """Have a second generation on trial for ten minutes; return the first and it."""
    first = pointer(bench)
    second = bench.add("gadget", confirm_within=600)
    trial = load_trial(bench.layout, "default")
    assert trial is not None
    assert (trial.generation, trial.previous, trial.starts) == (second, first, 0)
    assert trial.deadline == bench.now + timedelta(minutes=10)
    return first, second


@pytest.mark.proves("trial-goes-back")
def test_the_second_start_that_nobody_confirmed_goes_back_and_says_why(bench: Bench) -> None:
    first, second = on_trial(bench)
    assert starts(bench, second) == ""
    assert pointer(bench) == second
    said = starts(bench, first)
    assert said == f"notice: {second} went back to {first}: its last start was not confirmed\n"
    assert pointer(bench) == first
    assert load_trial(bench.layout, "default") is None
    receipt = bench.receipts("trial-judge")[-1]
    assert (receipt.status, receipt.data["failed"], receipt.data["generation"], receipt.data["why"]) == (
        "ok",
        second,
        first,
        "its last start was not confirmed",
    )
    assert load_history(bench.layout, "default")[-1].operation == "trial-failed"
    assert "gadget" not in bench.config.read_text()  # the configuration went back too
    count = len(bench.receipts())
    assert starts(bench, first) == ""
    assert len(bench.receipts()) == count  # without a trial, no start runs PM


@pytest.mark.proves("rollback-not-to-rejected")
@pytest.mark.parametrize("crashed", [False, True])
def test_a_rollback_after_a_failed_trial_goes_to_what_was_kept_before(bench: Bench, crashed: bool) -> None:
    first = pointer(bench)
    second = bench.add("gadget")
    third = bench.add("part-1", confirm_within=600)
    bench.call("trial-judge")
    trial, history = (path.read_bytes() for path in (bench.layout.trial("default"), bench.layout.history("default")))
    assert bench.call("trial-judge").data["failed"] == third
    if crashed:  # right after the pointer was written
        bench.layout.trial("default").write_bytes(trial)
        bench.layout.history("default").write_bytes(history)
    ended = bench.pm("rollback", "--json").envelope
    assert (ended["data"]["generation"], ended["data"]["from"]) == (first, second)
    assert [line.operation for line in load_history(bench.layout, "default")][-2:] == ["trial-failed", "rollback"]
    assert bench.pm("rollback", "3").exit_code == 0  # by name it is to be had


@pytest.mark.proves("rollback-not-to-rejected")
def test_where_only_what_was_rejected_came_before_a_rollback_says_so(bench: Bench) -> None:
    first, _second = on_trial(bench)
    bench.call("trial-judge")
    bench.call("trial-judge")
    ended = bench.pm("rollback", "--json")
    assert (ended.exit_code, ended.envelope["errors"][0]["code"]) == (1, "nothing-installed")
    assert pointer(bench) == first


@pytest.mark.proves("trial-goes-back")
def test_a_start_after_the_deadline_goes_back(bench: Bench) -> None:
    first, second = on_trial(bench)
    trial = load_trial(bench.layout, "default")
    assert trial is not None
    bench.pass_time(minutes=10)
    assert bench.call("trial-judge").data == {"trial": second}
    bench.pass_time(seconds=1)
    outcome = bench.call("trial-judge")
    assert outcome.data["why"] == f"nobody confirmed it until {trial.deadline:%Y-%m-%dT%H:%M:%SZ}"
    assert (pointer(bench), outcome.data["failed"]) == (first, second)


@pytest.mark.proves("trial-confirmed-stays")
@pytest.mark.parametrize("words", [[], ["2"], ["good"]])
def test_a_confirmed_generation_stays(bench: Bench, words: list[str]) -> None:
    _, second = on_trial(bench)
    bench.call("label", name="good")
    starts(bench, second)
    ended = bench.pm("confirm", *words)
    assert (ended.exit_code, ended.out) == (0, f"generation {second} stays\n")
    for _ in range(2):
        assert starts(bench, second) == ""
    assert bench.pm("confirm").out == "nothing is on trial\n"


@pytest.mark.proves("trial-confirmed-stays")
def test_confirming_another_generation_than_the_one_on_trial_confirms_nothing(bench: Bench) -> None:
    """As a slow process of an old generation does, whose trial is over."""
    first, second = on_trial(bench)
    assert bench.call("confirm", generation=first).status == "noop"
    assert load_trial(bench.layout, "default") is not None
    assert bench.pm("confirm", "1").out == f"generation {second} is on trial, and not {first}: nothing changed\n"
    with pytest.raises(UsageFault):
        bench.call("confirm", generation="9")
    assert bench.call("confirm", generation=second).status == "ok"
    assert load_trial(bench.layout, "default") is None


@pytest.mark.proves("trial-is-shown")
def test_a_trial_is_told_where_it_begins_and_by_status(bench: Bench) -> None:
    first = pointer(bench)
    said = bench.pm("plugin", "add", "gadget", "--confirm-within", "10m")
    trial = load_trial(bench.layout, "default")
    assert trial is not None
    until = trial.deadline.strftime("%Y-%m-%dT%H:%M:%SZ")
    words = f"until {until}, then {first} again; to keep it: HOME/bin/perdure-pm confirm"
    assert f"\non trial {words}\n" in said.out
    assert words in bench.pm("status").out
    shown = bench.pm("status", "--json").envelope["data"]["trial"]
    assert shown == {"generation": trial.generation, "until": until, "previous": first, "starts": 0}
    assert "would stay" in bench.pm("confirm", "--dry-run").out
    bench.layout.trial("default").write_text("nonsense")
    data = bench.pm("status", "--json").envelope["data"]
    assert data["trial"] is None
    assert [item.startswith("HOME/profiles/default/trial is damaged") for item in data["findings"]] == [True]
    assert bench.pm("confirm").exit_code == 0
    data = bench.pm("status", "--json").envelope["data"]
    assert (data["trial"], data["findings"]) == (None, [])


@pytest.mark.proves("trial-goes-back")
def test_what_asks_for_the_version_neither_confirms_nor_counts(bench: Bench) -> None:
    _, second = on_trial(bench)
    for words in ("--version", "--help", "--version"):
        assert starts(bench, second, words) == ""
    assert starts(bench, second) == ""
    trial = load_trial(bench.layout, "default")
    assert trial is not None
    assert trial.starts == 1


@pytest.mark.proves("trial-broken-file-dropped")
@pytest.mark.parametrize("text", ["", "{}", "nonsense", "\0" * 9000])
def test_a_broken_trial_file_is_dropped_and_the_generation_stays(bench: Bench, text: str) -> None:
    _, second = on_trial(bench)
    bench.layout.trial("default").write_text(text)
    starts(bench, second)
    assert not bench.layout.trial("default").exists()
    (told,) = bench.receipts("trial-judge")[-1].obligations
    assert "the trial was dropped" in told
    assert starts(bench, second) == ""


@pytest.mark.proves("trial-broken-file-dropped", "trial-confirmed-stays")
def test_a_broken_trial_can_be_confirmed(bench: Bench) -> None:
    _, second = on_trial(bench)
    bench.layout.trial("default").write_text("nonsense")
    assert bench.call("confirm").status == "ok"
    assert not bench.layout.trial("default").exists()
    assert starts(bench, second) == ""


@pytest.mark.proves("trial-broken-file-dropped")
def test_a_trial_of_what_is_not_selected_is_dropped(bench: Bench) -> None:
    first, second = on_trial(bench)
    trial = load_trial(bench.layout, "default")
    assert trial is not None
    bench.call("rollback", to="1")
    assert load_trial(bench.layout, "default") is None  # going back by hand ends it
    save_trial(bench.context().filesystem, bench.layout, "default", trial)  # as a crash before the commit leaves it
    assert starts(bench, first) == ""
    assert load_trial(bench.layout, "default") is None
    assert pointer(bench) == first != second


@pytest.mark.proves("trial-never-delays-a-start")
def test_a_busy_pm_delays_no_start(bench: Bench) -> None:
    """Case 52: the start ends while the other operation still holds the mutex."""
    first, second = on_trial(bench)
    with held(bench.layout, "a long install"):
        said = starts(bench, second)
        assert said.startswith("notice: the trial could not be judged: another operation is running: a long install")
        assert starts(bench, second) == said
    trial = load_trial(bench.layout, "default")
    assert trial is not None
    assert trial.starts == 0  # what was not judged does not count
    assert starts(bench, second) == ""
    assert "went back" in starts(bench, first)


@pytest.mark.proves("trial-never-delays-a-start")
@pytest.mark.parametrize("damage", ["no previous generation", "no receipts", "no worker"])
def test_a_pm_that_cannot_judge_keeps_nobody_from_starting(bench: Bench, damage: str) -> None:
    first, second = on_trial(bench)
    starts(bench, second)
    if damage == "no previous generation":
        bench.context().filesystem.remove_tree(bench.layout.generation(first))
    elif damage == "no receipts":
        bench.context().filesystem.remove_tree(bench.layout.receipts)
        bench.layout.receipts.write_text("in the way")
    else:
        bench.context().filesystem.remove_tree(bench.layout.mutex)
        bench.layout.mutex.mkdir()
    said = starts(bench, second)
    assert said.startswith("notice: the trial could not be judged: "), said
    assert pointer(bench) == second


@pytest.mark.proves("trial-goes-back")
def test_a_damaged_previous_generation_is_not_gone_back_to(bench: Bench) -> None:
    first, second = on_trial(bench)
    bench.call("trial-judge")
    path = bench.layout.generation(first) / "boot.json"
    path.parent.chmod(0o755)
    path.unlink()
    with pytest.raises(IntegrityFault):
        bench.call("trial-judge")
    assert pointer(bench) == second


@pytest.mark.proves("trial-own-home")
def test_the_home_of_the_launcher_is_judged_whatever_the_environment_names(bench: Bench, tmp_path: Path) -> None:
    first, second = on_trial(bench)
    other = Layout(tmp_path / "other home")
    other.home.mkdir()
    for expected in (second, first):
        starts(bench, expected, PERDURE_HOME=str(other.home), PERDURE_JSON="1")
    assert os.listdir(other.home) == []


@pytest.mark.proves("trial-own-home")
def test_each_profile_has_its_own_trial(bench: Bench) -> None:
    first = pointer(bench)
    other = bench.context(profile="other")
    bench.call("install", other)
    bench.call("plugin-add", other, requirements=["gadget"], confirm_within=600)
    second = load_pointer(bench.layout, "other")
    assert second is not None
    for _ in range(3):
        assert starts(bench, first) == ""
    starts(bench, second, PERDURE_PROFILE="other")
    assert "went back" in starts(bench, first, PERDURE_PROFILE="other")


@pytest.mark.proves("trial-goes-back")
def test_arguments_reach_the_host_as_they_were_typed(bench: Bench) -> None:
    _, second = on_trial(bench)
    script = bench.layout.generation(second) / "venv" / "bin" / "fakehost"
    script.parent.chmod(0o755)
    script.chmod(0o755)
    script.unlink()
    script.write_text("import os, sys\nprint(repr(sys.argv[1:]), os.environ['PERDURE_TRIAL'])\n")
    words = ["--json", "-x", "--", "", "a b", "'", "--home", "--profile=none", "--help"]
    assert bench.start(*words).stdout == f"{words!r} {second}\n"


@pytest.mark.proves("trial-confirmed-stays")
def test_a_new_publication_without_a_trial_ends_the_old_ones(bench: Bench) -> None:
    on_trial(bench)
    third = bench.add("part-1")
    assert load_trial(bench.layout, "default") is None
    for _ in range(2):
        assert starts(bench, third) == ""


def two_on_trial(bench: Bench) -> tuple[str, str, str]:
    """Have a third generation on trial on top of the second, which started once and was not confirmed."""
    first, second = on_trial(bench)
    assert starts(bench, second) == ""
    third = bench.add("part-1", confirm_within=3600)
    return first, second, third


@pytest.mark.proves("trial-waits-below")
def test_a_trial_on_top_of_another_goes_back_to_it_and_it_goes_on(bench: Bench) -> None:
    first, second, third = two_on_trial(bench)
    below = load_trial(bench.layout, "default")
    assert below is not None
    assert below.replaced is not None
    deadline = below.replaced.deadline
    assert starts(bench, third) == ""
    said = starts(bench, second)
    assert said == f"notice: {third} went back to {second}: its last start was not confirmed\n"
    resumed = load_trial(bench.layout, "default")
    assert resumed is not None
    assert (resumed.generation, resumed.previous, resumed.deadline) == (second, first, deadline)
    assert "gadget" in bench.config.read_text()
    assert "part-1" not in bench.config.read_text()
    said = starts(bench, first)
    assert said == f"notice: {second} went back to {first}: its last start was not confirmed\n"
    assert load_trial(bench.layout, "default") is None
    for _ in range(2):
        assert starts(bench, first) == ""


@pytest.mark.proves("trial-waits-below", "trial-confirmed-stays")
@pytest.mark.parametrize("which", ["top", "below"])
def test_what_is_confirmed_of_two_trials_stays(bench: Bench, which: str) -> None:
    _, second, third = two_on_trial(bench)
    assert starts(bench, third) == ""
    if which == "below":
        starts(bench, second)
    assert bench.pm("confirm").exit_code == 0
    for _ in range(2):
        assert starts(bench, third if which == "top" else second) == ""


@pytest.mark.proves("trial-waits-below")
def test_a_trial_below_that_is_over_is_gone_past(bench: Bench) -> None:
    first, second, third = two_on_trial(bench)
    bench.call("trial-judge")
    bench.pass_time(minutes=11)
    outcome = bench.call("trial-judge")
    assert (outcome.data["failed"], outcome.data["trial"], pointer(bench)) == (third, None, first)
    assert f"its last start was not confirmed; {second}, which was on trial before it, went too" in outcome.data["why"]
    assert load_trial(bench.layout, "default") is None
    assert starts(bench, first) == ""


@pytest.mark.proves("trial-waits-below")
def test_a_trial_below_that_is_damaged_is_gone_past(bench: Bench) -> None:
    first, second, _third = two_on_trial(bench)
    bench.context().filesystem.remove_tree(bench.layout.generation(second))
    bench.call("trial-judge")
    assert bench.call("trial-judge").data["generation"] == first == pointer(bench)


@pytest.mark.proves("trial-waits-below", "collect-never-takes-used")
def test_what_a_trial_may_go_back_to_is_never_collected(bench: Bench) -> None:
    first, second = on_trial(bench)
    third = bench.add("part-1", confirm_within=14 * 86400)
    bench.pass_time(days=3)
    bench.call("collect", keep=0)
    assert bench.generations == sorted([first, second, third])
    bench.call("trial-judge")
    assert bench.call("trial-judge").data["generation"] == first


@pytest.mark.proves("trial-waits-below")
def test_going_back_by_hand_to_what_was_on_trial_confirms_nothing(bench: Bench) -> None:
    first, second, _third = two_on_trial(bench)
    outcome = bench.call("rollback")
    assert pointer(bench) == second
    assert any(f"{second} is on trial again until" in said for said in outcome.obligations)
    assert starts(bench, second) == ""
    assert "went back" in starts(bench, first)


@pytest.mark.proves("trial-goes-back")
def test_a_refused_publication_puts_nothing_on_trial(bench: Bench) -> None:
    first = pointer(bench)

    def refuse(stage: str) -> None:
        if stage == "before_publish":
            raise OperationVetoed("not now")

    with pytest.raises(OperationVetoed):
        bench.call("plugin-add", bench.context(on_stage=refuse), requirements=["gadget"], confirm_within=600)
    assert load_trial(bench.layout, "default") is None
    assert starts(bench, first) == ""


@pytest.mark.proves("trial-goes-back")
def test_the_time_is_typed_with_its_unit(bench: Bench) -> None:
    assert bench.pm("plugin", "add", "gadget", "--confirm-within", "10").exit_code == 2
    assert bench.pm("plugin", "add", "gadget", "--confirm-within", "10m").exit_code == 0
    assert load_trial(bench.layout, "default") is not None
