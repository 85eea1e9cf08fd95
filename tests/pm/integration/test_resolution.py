"""Plugins from an index meet the host's lock: what is asked, what is installed, and what is refused."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from perdure_pm.model.errors import (
    ArtefactMissing,
    ConflictRefused,
    NetworkUnreachable,
    PerdureError,
    UsageFault,
)
from perdure_pm.model.network import Network
from perdure_pm.ops import explanation
from perdure_pm.store.generations import load_current
from perdure_pm.store.inventory import hash_file
from tests.pm.bench import Bench
from tests.pm.fake_host import Workshop, replace_uv
from tests.pm.locked_host import asked_projects, clashes_of, packages, what_counts
from tests.system.mirror import Mirror, serve_mirror

pytestmark = pytest.mark.platforms("linux", "darwin")

WITH = "be installed with fakehost 0.1.0"
LOCKED = "and fakehost 0.1.0 locked sprocket 1.0"


@pytest.mark.proves("plugins-host-stays-locked")
def test_a_plugin_moves_nothing_that_the_host_locked(locked: Bench, shop: Path) -> None:
    assert packages(locked)["sprocket"] == "1.0"
    host = locked.current.record["requirements"]
    locked.add("gadget")
    assert packages(locked) == {
        "fakehost": "0.1.0",
        "fakehost-clock": "0.1.0",
        "gadget": "1.5",
        "sprocket": "1.0",
    }
    # To the hash: the host's own lines stand there as they did, and before the plugin's.
    requirements = locked.current.record["requirements"]
    assert requirements.startswith(host)
    assert hash_file(shop / "wheels" / "sprocket-1.0-py3-none-any.whl") in requirements
    assert hash_file(shop / "wheels" / "gadget-1.5-py3-none-any.whl") in requirements
    assert "sprocket" not in requirements.removeprefix(host)


@pytest.mark.proves("plugins-host-stays-locked")
def test_versions_of_plugins_stay_until_an_upgrade(locked: Bench) -> None:
    locked.add("gadget<1.5")
    locked.config.write_text(locked.config.read_text().replace("gadget<1.5", "gadget"))
    locked.call("install")
    locked.add("thread")
    assert packages(locked)["gadget"] == "1.0"
    locked.call("upgrade")
    assert packages(locked) == {
        "fakehost": "0.1.0",
        "fakehost-clock": "0.1.0",
        "gadget": "1.5",
        "sprocket": "1.0",
        "thread": "2.0",
    }
    assert locked.call("upgrade").status == "noop"


@pytest.mark.proves("plugins-conflict-changes-nothing", "plugins-conflict-explained")
@pytest.mark.parametrize("wheelhouse", [False, True])
@pytest.mark.parametrize(
    ("requirements", "said"),
    [
        (["wrench"], f"wrench cannot {WITH}: wrench 1.0 needs sprocket>=2, {LOCKED}"),
        (["gadget", "wrench"], f"wrench cannot {WITH}: wrench 1.0 needs sprocket>=2, {LOCKED}"),
        (["ancient"], f"ancient cannot {WITH}: ancient 1.0 needs sprocket<1, {LOCKED}"),
        (["far-new"], f"far-new cannot {WITH}: far-new 1.0 needs wrench, wrench 1.0 needs sprocket>=2, {LOCKED}"),
        (["far-old"], f"far-old cannot {WITH}: far-old 1.0 needs ancient, ancient 1.0 needs sprocket<1, {LOCKED}"),
        (
            ["left", "right"],
            f"left and right cannot {WITH}: left 1.0 needs thread<2, right 1.0 needs thread>=2: no thread is both",
        ),
        (
            ["needs-newer-host"],
            f"needs-newer-host cannot {WITH}: needs-newer-host 1.0 needs fakehost>=9, and the host is fakehost 0.1.0",
        ),
        (["sprocket>=2"], f"sprocket>=2 cannot {WITH}: the profile needs sprocket>=2, {LOCKED}"),
    ],
)
def test_a_conflict_is_refused_and_nothing_changes(
    locked: Bench, shop: Path, requirements: list[str], said: str, wheelhouse: bool
) -> None:
    """Cases 55, 91, 102: and what fits is taken next."""
    if wheelhouse:
        locked.network = Network(wheelhouse=shop / "wheels")
    before = what_counts(locked)
    ended = locked.pm("plugin", "add", *requirements, "--json")
    assert ended.exit_code == 4, ended.err
    (error,) = ended.envelope["errors"]
    assert (error["code"], error["state"]) == ("conflict", "unchanged")
    assert error["summary"] == said
    assert error["context"]["uv"]  # its own words
    assert what_counts(locked) == before
    assert locked.receipts("plugin-add")[-1].status == "refused"
    assert "1.0" in packages(locked)["sprocket"]
    locked.add("gadget")
    assert locked.start().returncode == 0


@pytest.mark.proves("plugins-conflict-explained")
def test_ways_out_were_tried_and_the_first_one_works(locked: Bench) -> None:
    locked.add("right")
    ended = locked.pm("plugin", "add", "choosy>=1.1", "--json")
    (error,) = ended.envelope["errors"]
    clash = error["context"]["clashes"][0]
    assert clash["plugins"] == ["right", "choosy>=1.1"]
    assert (clash["smallest"], clash["contested"], clash["locked"], clash["not_tried"]) == (True, "thread", None, [])
    assert [(way["what"], way["command"], way["fits"]) for way in clash["ways_out"]] == [
        ("choosy 1.0", "HOME/bin/perdure-pm plugin add 'choosy==1.0'", True),
        ("leaving out right", "HOME/bin/perdure-pm plugin disable right", True),
        ("leaving out choosy", None, True),
        ("any other version of right", None, False),
    ]
    assert [[str(step["needs"]) for step in chain] for chain in clash["chains"]] == [["thread>=2"], ["thread<2"]]
    told = locked.pm("plugin", "add", "choosy>=1.1")
    assert (told.exit_code, told.out) == (4, "")
    assert "  tried and fits: choosy 1.0: HOME/bin/perdure-pm plugin add 'choosy==1.0'\n" in told.err
    words = shlex.split(error["hint"])
    assert words[0] == "HOME/bin/perdure-pm"
    assert locked.pm(*words[1:]).exit_code == 0
    assert packages(locked)["choosy"] == "1.0"


@pytest.mark.proves("plugins-smallest-clash")
def test_the_smallest_clash_among_32_plugins_takes_a_handful_of_trials_and_no_build(
    locked: Bench, workshop: Workshop, tmp_path: Path
) -> None:
    many = [*(f"part-{number}" for number in range(29)), "gadget"]
    many[7:7], many[21:21] = ["left"], ["right"]
    calls = tmp_path / "calls"
    replace_uv(workshop, locked.layout, f'echo "$*" >> "{calls}"\nexec "{workshop.uv}" "$@"\n')
    with pytest.raises(ConflictRefused) as caught:
        locked.add(*many)
    clash = clashes_of(caught.value)[0]
    assert (clash["plugins"], clash["smallest"]) == (["left", "right"], True)
    asked = calls.read_text(encoding="utf-8").splitlines()
    assert all(line.startswith("lock ") and " --no-build" in line for line in asked)
    # One that fails, then: the host alone; both, and each of them; each without the host; their chains; five ways out.
    assert len(asked) == 1 + clash["trials"] <= 13


@pytest.mark.proves("plugins-every-clash-told", "plugins-smallest-clash")
def test_clashes_that_have_nothing_to_do_with_each_other_are_told_in_one_refusal(
    locked: Bench, workshop: Workshop, tmp_path: Path
) -> None:
    many = [*(f"part-{number}" for number in range(28)), "left"]
    many[7:7], many[21:21], many[11:11] = ["wrench"], ["right"], ["far-old"]
    calls = tmp_path / "calls"
    replace_uv(workshop, locked.layout, f'echo "$*" >> "{calls}"\nexec "{workshop.uv}" "$@"\n')
    before = what_counts(locked)
    ended = locked.pm("plugin", "add", *many, "--json")
    assert ended.exit_code == 4
    (error,) = ended.envelope["errors"]
    told = {tuple(clash["plugins"]): clash for clash in error["context"]["clashes"]}
    assert set(told) == {("wrench",), ("far-old",), ("right", "left")}
    assert all(clash["smallest"] and clash["ways_out"] and not clash["not_tried"] for clash in told.values())
    assert [clash["contested"] for clash in told.values()].count("sprocket") == 2
    assert error["context"]["whole"] is True
    assert "wrench 1.0 needs sprocket>=2" in error["summary"]
    assert "left 1.0 needs thread<2" in error["summary"]
    fits = {way["what"] for clash in told.values() for way in clash["ways_out"] if way["fits"]}
    assert fits == {"leaving out wrench", "leaving out far-old", "leaving out left", "leaving out right"}
    asked = calls.read_text(encoding="utf-8").splitlines()
    assert all(line.startswith("lock ") and " --no-build" in line for line in asked)
    assert len(asked) <= explanation.MAX_TRIALS + 1
    assert what_counts(locked) == before
    told_text = locked.pm("plugin", "add", *many).err
    assert "  1. " in told_text
    assert "  3. " in told_text
    # Without one of each, the rest fits, as was said.
    locked.add(*(name for name in many if name not in {"wrench", "far-old", "left"}))


@pytest.mark.proves("plugins-conflict-explained")
def test_a_budget_that_is_spent_is_said(locked: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explanation, "MAX_TRIALS", 4)
    with pytest.raises(ConflictRefused) as caught:
        locked.add("left", "right", "gadget")
    clash = clashes_of(caught.value)[0]
    # That each resolves alone is known in any case: without it, it might be no conflict.
    assert (clash["plugins"], clash["smallest"], clash["trials"]) == (["left", "right"], True, 6)
    assert (clash["ways_out"], clash["not_tried"][0]) == ([], "another version of left")


@pytest.mark.proves("plugins-outage-is-no-conflict")
@pytest.mark.parametrize("failing", [2, 5, 7, 9])
def test_a_failure_in_the_middle_of_an_explanation_is_no_conflict_of_something_else(
    locked: Bench, workshop: Workshop, tmp_path: Path, failing: int
) -> None:
    """Case 82: uv is killed, says nothing, or says only a part; whatever was not learned is not claimed."""
    calls = tmp_path / "calls"
    script = f'echo >> "{calls}"\n[ $(wc -l < "{calls}") = {failing} ] && exit 2\nexec "{workshop.uv}" "$@"\n'
    replace_uv(workshop, locked.layout, script)
    before = what_counts(locked)
    with pytest.raises(PerdureError) as caught:
        locked.add("left", "right")
    assert what_counts(locked) == before
    if isinstance(caught.value, ConflictRefused):
        clash = clashes_of(caught.value)[0]
        assert clash["plugins"] == ["left", "right"]
        assert failing > 6


@pytest.mark.proves("plugins-outage-is-no-conflict")
@pytest.mark.parametrize("missing", ["the page", "the file", "the cache", "the server"])
def test_an_outage_is_no_conflict(locked: Bench, index: Mirror, shop: Path, tmp_path: Path, missing: str) -> None:
    before = what_counts(locked)
    broken = tmp_path / "broken"
    shutil.copytree(shop, broken)
    if missing == "the page":
        shutil.rmtree(broken / "simple" / "wrench")
    elif missing == "the file":
        shutil.rmtree(broken / "wheels")
    served = serve_mirror(broken)
    locked.network = Network(index_url=served.url, offline=missing == "the cache")
    if missing == "the server":
        served.stop()
    with pytest.raises((NetworkUnreachable, ArtefactMissing)) as caught:
        locked.add("wrench")
    assert isinstance(caught.value, NetworkUnreachable if missing in {"the file", "the server"} else ArtefactMissing)
    if missing != "the server":
        served.stop()
    assert what_counts(locked) == before


@pytest.mark.proves("plugins-outage-is-no-conflict")
@pytest.mark.parametrize("requirement", ["gadget==9", "gadget>=9", "nowhere", "future"])
def test_what_does_not_exist_is_told_by_name_and_is_no_conflict(locked: Bench, requirement: str) -> None:
    before = what_counts(locked)
    with pytest.raises(PerdureError) as caught:
        locked.add(requirement)
    assert not isinstance(caught.value, ConflictRefused)
    assert re.split("[=>]", requirement)[0] in f"{caught.value.summary} {caught.value.context}"
    assert what_counts(locked) == before


@pytest.mark.proves("pm-own-names-never-on-an-index")
@pytest.mark.parametrize("name", ["perdure-evil", "Perdure_Evil", "perdure.facts>=1", "fakehost", "FakeHost==9.0"])
def test_own_names_are_never_asked_of_an_index(locked: Bench, index: Mirror, name: str) -> None:
    before = what_counts(locked)
    with pytest.raises(UsageFault) as caught:
        locked.add(name)
    assert "has no plugin" in caught.value.summary
    assert index.asked == []
    assert what_counts(locked) == before


@pytest.mark.proves("pm-own-names-never-on-an-index")
def test_own_names_are_refused_also_where_a_plugin_brings_them(locked: Bench) -> None:
    before = what_counts(locked)
    with pytest.raises(ConflictRefused) as caught:
        locked.add("needs-own")
    assert "perdure-evil" in caught.value.summary
    assert what_counts(locked) == before


@pytest.mark.proves("pm-own-names-never-on-an-index")
def test_only_the_plugins_and_what_they_need_are_asked_for(locked: Bench, index: Mirror) -> None:
    locked.add("gadget")
    assert asked_projects(index) == {"gadget", "sprocket"}
    index.asked.clear()
    # The bundled plugin goes and comes back without any index.
    locked.call("plugin-remove", names=["gadget"])
    locked.call("plugin-remove", names=["FAKEHOST.clock"])
    locked.add("fakehost-clock")
    assert index.asked == []


@pytest.mark.proves("plugins-spelling")
@pytest.mark.parametrize("spelling", ["odd-name-here", "Odd_Name.Here", "ODD.NAME.HERE", "odd--name__here"])
def test_one_plugin_has_one_name_under_every_spelling(locked: Bench, spelling: str) -> None:
    """Case 65, for the simplest form."""
    locked.add("Odd_Name.Here")
    text = locked.config.read_text() + "# mine\n"
    locked.config.write_text(text)
    assert packages(locked)["odd-name-here"] == "1.0"
    assert locked.call("plugin-add", requirements=["Odd_Name.Here"]).status == "noop"
    # Another spelling is the same plugin in the same place; the file says what was typed last.
    locked.add(f"{spelling}>=1", "gadget")
    listed = re.findall(r"^\s*- (.*)$", locked.config.read_text(), re.MULTILINE)
    assert [entry.strip("'\"") for entry in listed] == ["fakehost-clock", f"{spelling}>=1", "gadget"]
    assert "# mine" in locked.config.read_text()
    locked.call("plugin-remove", names=["odd_name-here"])
    assert "odd-name-here" not in packages(locked)
    assert "# mine" in locked.config.read_text()
    with pytest.raises(UsageFault) as caught:
        locked.call("plugin-remove", names=[spelling])
    assert "is not among the plugins" in caught.value.summary


@pytest.mark.proves("plugins-spelling")
def test_a_plugin_named_twice_at_once_is_one(locked: Bench) -> None:
    locked.add("gadget", "Gadget<1.5")
    assert packages(locked)["gadget"] == "1.0"
    assert locked.config.read_text().lower().count("gadget") == 1


@pytest.mark.proves("plugins-spelling")
def test_extras_and_markers_of_a_requirement_reach_the_resolver(locked: Bench) -> None:
    locked.add("odd-name-here[more]", 'gadget; python_version >= "3"', "marked")
    found = packages(locked)
    assert (found["odd-name-here"], found["thread"], found["gadget"], found["marked"]) == ("1.0", "2.0", "1.5", "1.0")
    assert "absent" not in found
    assert locked.call("install").status == "noop"


@pytest.mark.proves("plugins-requirement-refused")
@pytest.mark.parametrize(
    "text",
    ["", " ", "-", "--index-url=x", "gad get", "gadget==", "gadget>=1 <2", "gadget @ https://example.org/x.whl",
     "gadget\nwrench", "gadget; nonsense", "[extra]"],
)  # fmt: skip
def test_what_is_no_requirement_is_refused_before_anything(locked: Bench, index: Mirror, text: str) -> None:
    """Case 62."""
    before = what_counts(locked)
    with pytest.raises(UsageFault):
        locked.add(text)
    assert (index.asked, what_counts(locked)) == ([], before)


@pytest.mark.proves("plugins-conflict-changes-nothing")
@pytest.mark.parametrize("stage", ["resolve", "build", "health", "seal", "before_publish"])
def test_a_failure_at_any_step_changes_nothing(locked: Bench, stage: str) -> None:
    """Cases 30, 91, 96."""
    before = what_counts(locked)

    def fail(now: str) -> None:
        if now == stage:
            raise RuntimeError(stage)

    with pytest.raises(RuntimeError):
        locked.call("plugin-add", locked.context(on_stage=fail), requirements=["gadget"])
    assert what_counts(locked) == before
    started: Callable[[], str] = lambda: locked.start().stdout
    assert locked.current.identity in started()


@pytest.mark.proves("extras-only-join")
def test_extras_of_the_host_join_those_that_are_there(locked: Bench) -> None:
    """Case 42: A, then B, is both; A again changes nothing."""
    locked.call("install", extras=["gear"])
    assert (packages(locked)["pinion"], "cord" in packages(locked)) == ("1.0", False)
    ended = locked.pm("install", "--extra", "knot.work", "--json")
    assert ended.exit_code == 0, ended.err
    both = {"pinion": "1.0", "cord": "1.0"}
    assert both.items() <= packages(locked).items()
    assert locked.call("install", extras=["gear"]).status == "noop"
    assert locked.call("install").status == "noop"
    # They are the home's: plugins, other profiles, and the way back have them too; they are locked like the host.
    locked.add("odd-name-here[more]")
    assert packages(locked) == {**packages(locked), **both, "odd-name-here": "1.0"}
    other = locked.context(profile="other")
    locked.call("install", other)
    assert both.keys() <= {entry["name"] for entry in load_current(locked.layout, "other").record["packages"]}
    before = what_counts(locked)
    with pytest.raises(ConflictRefused):
        locked.add("pinion>=1.5")
    with pytest.raises(UsageFault) as caught:
        locked.call("install", extras=["nothing-of-the-kind"])
    assert "gear" in f"{caught.value.summary} {caught.value.hint}"
    assert what_counts(locked) == before
