"""A host that moves under its plugins: what does not fit it any more sits out, is told everywhere, and comes back."""

from __future__ import annotations

import re
import shutil
from datetime import timedelta
from pathlib import Path

import pytest

from perdure_pm.model.errors import ConflictRefused
from perdure_pm.model.network import Network
from tests.pm.bench import Bench
from tests.pm.fake_host import replace_uv
from tests.pm.guest import extension, guest, init, says
from tests.pm.locked_host import clashes_of, packages, what_counts
from tests.pm.plugin_sources import without_uv
from tests.pm.plugin_states import running, states
from tests.pm.wheels import write_sdist, write_wheel
from tests.system.mirror import serve_mirror, write_index

pytestmark = pytest.mark.platforms("linux", "darwin")

REASON = "picky 1.0 needs guest<2, and the host is guest 2.0"


@pytest.fixture
def hosting(there: Bench, wheels: Path) -> Bench:
    """A home with the guest 1.0, and two plugins of which picky is not for 2.0, which there is since."""
    extension(wheels, "picky", "1.0", needs="guest<2")
    init(there, "guest<3")
    there.call("install")
    there.add("picky", "hat")
    guest(wheels, "2.0")
    return there


def plugins(bench: Bench) -> dict[str, object]:
    """What the host says it loaded."""
    found = says(bench)["plugins"]
    assert isinstance(found, dict)
    return found


@pytest.mark.proves("plugins-give-way", "plugins-never-silently-fewer")
def test_an_upgrade_goes_on_without_the_plugin_that_does_not_fit_and_says_so_everywhere(hosting: Bench) -> None:
    """Cases 69 and 101."""
    text = hosting.config.read_bytes()
    planned = hosting.pm("plan", "--upgrade")
    assert f"picky sits out: {REASON}" in planned.out
    ended = hosting.pm("upgrade", "--json")
    assert ended.exit_code == 0, ended.err
    data = ended.envelope["data"]
    assert data["plan"]["sit_outs"] == [{"name": "picky", "entry": "picky", "reason": REASON}]
    assert data["plan"]["plugins"] == ["hat"]
    assert f"picky sits out: {REASON}" in data["obligations"]
    assert f"picky sits out: {REASON}" in hosting.receipts("upgrade")[-1].obligations
    assert (says(hosting)["version"], plugins(hosting)) == ("2.0", {"hat": "1.0"})
    assert hosting.config.read_bytes() == text
    listed = hosting.pm("plugin", "list")
    assert re.search(rf"^picky +sits out: {re.escape(REASON)}$", listed.out, re.MULTILINE)
    assert "differ" not in listed.err
    assert hosting.pm("plugin", "info", "picky", "--json").envelope["data"]["why"] == REASON
    assert f"picky: {REASON}" in hosting.pm("status").out


@pytest.mark.proves("plugins-give-way")
def test_what_sits_out_is_remembered_and_no_index_is_asked(hosting: Bench) -> None:
    hosting.call("upgrade")
    without_uv(hosting)
    outcome = hosting.call("install")
    assert outcome.status == "noop"
    assert f"picky sits out: {REASON}" in outcome.obligations
    replace_uv(hosting.workshop, hosting.layout, f'exec "{hosting.workshop.uv}" "$@"\n')
    assert hosting.call("upgrade").status == "noop", "it is looked at anew, and does not fit"
    hosting.layout.published("default").unlink()  # without it the same is found again
    outcome = hosting.call("install")
    assert (outcome.status, states(hosting)) == ("noop", {"picky": "sits-out", "hat": "runs"})


@pytest.mark.proves("plugins-give-way", "plugins-sit-out")
@pytest.mark.parametrize("verb", ["upgrade", "plugin-update"])
def test_it_comes_back_with_a_release_that_fits(hosting: Bench, wheels: Path, verb: str) -> None:
    hosting.call("upgrade")
    extension(wheels, "picky", "2.0", needs="guest>=2")
    assert hosting.call("install").status == "noop", "nothing is looked for that nobody asked for"
    words = verb.split("-")
    assert "picky runs again" in hosting.pm(*words, "--dry-run").out
    assert "picky runs again" in hosting.pm(*words).out
    assert plugins(hosting) == {"picky": "2.0", "hat": "1.0"}
    assert list(states(hosting).values()) == ["runs", "runs"]


@pytest.mark.proves("plugins-give-way", "plugins-sit-out")
def test_it_comes_back_with_a_host_that_fits(hosting: Bench) -> None:
    hosting.call("upgrade")
    hosting.call("rollback")
    assert plugins(hosting) == {"picky": "1.0", "hat": "1.0"}
    assert hosting.pm("status", "--json").envelope["data"]["sit_outs"] == []
    assert hosting.pm("plugin", "list", "--json").envelope["data"]["in_line"] is True
    assert hosting.call("install").status == "noop"
    hosting.call("upgrade")
    assert plugins(hosting) == {"hat": "1.0"}
    init(hosting, "guest<2")
    hosting.call("install")
    assert plugins(hosting) == {"picky": "1.0", "hat": "1.0"}


@pytest.mark.proves("plugins-never-silently-fewer")
@pytest.mark.parametrize("words", [("upgrade",), ("upgrade", "--dry-run"), ("plan", "--upgrade")])
def test_with_keep_plugins_it_is_refused_and_explained(hosting: Bench, words: tuple[str, ...]) -> None:
    before = what_counts(hosting)
    ended = hosting.pm(*words, "--keep-plugins", "--json")
    assert ended.exit_code == 4
    (error,) = ended.envelope["errors"]
    assert error["summary"] == f"picky cannot be installed with guest 2.0: {REASON}"
    assert str(error["hint"]).endswith("plugin disable picky")
    assert [way["what"] for way in error["context"]["clashes"][0]["ways_out"] if way["fits"]] == ["leaving out picky"]
    assert what_counts(hosting) == before
    hosting.call("upgrade")
    assert hosting.pm("upgrade", "--keep-plugins", "--json").envelope["status"] == "noop", "it did not run any more"


@pytest.mark.proves("plugins-give-way")
def test_only_those_that_do_not_fit_sit_out_and_of_two_that_do_not_fit_each_other_the_later(
    hosting: Bench, wheels: Path
) -> None:
    for name, thread in (("left", "<2"), ("right", ">=2"), ("third", "<2")):
        write_wheel(wheels, name, "1.0", requires=["guest<2"])
        write_wheel(wheels, name, "2.0", requires=["guest>=2", f"thread{thread}"])
    for version in ("1.0", "2.0"):
        write_wheel(wheels, "thread", version, entries="")
    extension(wheels, "fussy", "1.0", needs="guest==1.0")
    hosting.call("plugin-remove", names=["picky", "hat"])
    hosting.add("left<2", "fussy", "right<2", "hat", "picky", "third<2")
    hosting.config.write_text(hosting.config.read_text().replace("<2", ""))
    hosting.call("install")
    outcome = hosting.call("upgrade", consent=True)
    reasons = {out["name"]: out["reason"] for out in outcome.data["plan"]["sit_outs"]}
    assert reasons == {
        "fussy": "fussy 1.0 needs guest==1.0, and the host is guest 2.0",
        "picky": REASON,
        "right": "left 2.0 needs thread<2, right 2.0 needs thread>=2: no thread is both",
    }
    assert plugins(hosting) == {"hat": "1.0"}, "the others are no plugins of the guest's"
    assert states(hosting) == dict.fromkeys(["left", "hat", "third"], "runs") | dict.fromkeys(reasons, "sits-out")
    assert hosting.call("install").status == "noop"
    # What it gave way to is gone: that is a change, and it is looked at anew.
    hosting.call("plugin-disable", names=["left"])
    assert states(hosting)["right"] == "sits-out", "third is in its way too"
    hosting.call("plugin-remove", names=["third"])
    assert states(hosting)["right"] == "runs"
    # Now left is the one that asks for it, and nothing gives way to it.
    with pytest.raises(ConflictRefused) as caught:
        hosting.call("plugin-enable", names=["left"])
    assert clashes_of(caught.value)[0]["plugins"] == ["left", "right"]


@pytest.mark.proves("plugins-give-way")
def test_what_runs_stays_where_it_and_what_sat_out_do_not_fit_each_other(hosting: Bench, wheels: Path) -> None:
    for version in ("1.0", "2.0"):
        write_wheel(wheels, "thread", version, entries="")
    extension(wheels, "cap", "1.0", needs="thread<2")
    hosting.add("cap")
    hosting.call("upgrade")
    write_wheel(wheels, "picky", "2.0", requires=["guest>=2", "thread>=2"])
    guest(wheels, "2.1")
    outcome = hosting.call("upgrade", consent=True)
    (out,) = outcome.data["plan"]["sit_outs"]
    assert (out["name"], says(hosting)["version"]) == ("picky", "2.1"), "though it comes first"
    assert out["reason"] == "picky 2.0 needs thread>=2, cap 1.0 needs thread<2: no thread is both"
    assert plugins(hosting) == {"hat": "1.0", "cap": "1.0"}


@pytest.mark.proves("plugins-give-way")
def test_one_that_gave_way_to_another_comes_back_when_that_one_gives_way_itself(hosting: Bench, wheels: Path) -> None:
    for version in ("1.0", "2.0"):
        write_wheel(wheels, "thread", version, entries="")
        write_wheel(wheels, "cord", version, entries="")
    needed = {"one": ["cord<2"], "two": ["thread<2", "cord>=2"], "six": ["thread>=2"]}
    for name in needed:
        write_wheel(wheels, name, "1.0", requires=["guest<2"])
    hosting.call("plugin-remove", names=["picky"])
    hosting.add(*needed)
    for name, needs in needed.items():
        write_wheel(wheels, name, "2.0", requires=["guest>=2", *needs])
    outcome = hosting.call("upgrade", consent=True)
    assert [out["name"] for out in outcome.data["plan"]["sit_outs"]] == ["two"]
    assert states(hosting) == {"hat": "runs", "one": "runs", "two": "sits-out", "six": "runs"}


@pytest.mark.proves("plugins-give-way", "plugins-conflict-changes-nothing")
def test_nothing_that_runs_gives_way_to_what_a_person_asks_for(hosting: Bench, wheels: Path) -> None:
    extension(wheels, "tall", "1.0", needs="guest>=2")
    before = what_counts(hosting)
    with pytest.raises(ConflictRefused):
        hosting.add("tall")
    # Nor by hand, where the host moves with it.
    text = hosting.config.read_text()
    extension(wheels, "odd", "1.0", needs="guest>=3.0a1")
    hosting.config.write_text(text.replace("hat]", "hat, odd]"))
    with pytest.raises(ConflictRefused) as caught:
        hosting.call("upgrade")
    told = clashes_of(caught.value)
    assert [clash["plugins"] for clash in told] == [["picky"], ["odd"]]
    assert all(clash["ways_out"] for clash in told)
    hosting.config.write_text(text)
    assert what_counts(hosting) == before
    hosting.call("plugin-disable", names=["picky"])
    hosting.call("upgrade")
    with pytest.raises(ConflictRefused, match="picky cannot be installed"):
        hosting.call("plugin-enable", names=["picky"])


@pytest.mark.proves("plugins-give-way", "plugins-disguise-refused")
def test_one_whose_old_release_only_seems_to_fit_sits_out_too(hosting: Bench, wheels: Path) -> None:
    write_wheel(wheels, "retro", "1.0")
    write_wheel(wheels, "retro", "5.0", requires=["guest<2"])
    hosting.call("plugin-remove", names=["picky"])
    hosting.add("retro")
    outcome = hosting.call("upgrade")
    (out,) = outcome.data["plan"]["sit_outs"]
    assert out["name"] == "retro"
    assert out["reason"].startswith("5.0 does not fit guest 2.0 (retro 5.0 needs guest<2")
    assert out["reason"].endswith("and 1.0 only seems to")
    assert hosting.call("install").status == "noop"
    write_wheel(wheels, "retro", "6.0")
    hosting.call("upgrade")
    assert states(hosting) == {"hat": "runs", "retro": "runs"}


@pytest.mark.proves("plugins-give-way", "plugins-quarantine")
def test_what_sits_out_holds_up_no_upgrade_while_what_would_fit_is_in_quarantine(
    hosting: Bench, wheels: Path, tmp_path: Path
) -> None:
    hosting.call("upgrade")
    extension(wheels, "picky", "2.0", needs="guest>=2")
    extension(wheels, "hat", "1.1")
    write_index(wheels, tmp_path / "simple")
    times = {path.name: "2026-01-01T00:00:00Z" for path in wheels.iterdir()}
    times["picky-2.0-py3-none-any.whl"] = f"{hosting.now - timedelta(days=1):%Y-%m-%dT%H:%M:%SZ}"
    served = serve_mirror(tmp_path, as_json=True, uploaded=times)
    hosting.network = Network(index_url=served.url)
    outcome = hosting.call("upgrade")
    (out,) = outcome.data["plan"]["sit_outs"]
    assert out["reason"].startswith("picky 2.0 was uploaded 24 hours ago, the quarantine is 7 days")
    assert plugins(hosting) == {"hat": "1.1"}
    assert hosting.call("install").status == "noop"
    hosting.pass_time(days=7)
    hosting.call("upgrade")
    assert plugins(hosting) == {"picky": "2.0", "hat": "1.1"}
    served.stop()


@pytest.mark.proves("plugins-give-way", "plugins-build-policy")
def test_what_sits_out_holds_up_no_upgrade_while_what_would_fit_may_not_be_built(hosting: Bench, wheels: Path) -> None:
    hosting.call("upgrade")
    write_sdist(wheels, extension(wheels, "picky", "2.0", needs="guest>=2"), backend="")
    extension(wheels, "hat", "1.1")
    hosting.call("upgrade")
    assert (plugins(hosting), states(hosting)["picky"]) == ({"hat": "1.1"}, "sits-out")
    hosting.call("config-set", key="install.build", value="picky")
    hosting.call("upgrade")
    assert plugins(hosting) == {"picky": "2.0", "hat": "1.1"}


@pytest.mark.proves("plugins-give-way")
def test_an_install_after_the_checkout_moved_goes_by_the_same_rule(bench: Bench, tmp_path: Path) -> None:
    """Cases 63, 69, 101: also where it comes with the change of something else."""
    house = tmp_path / "house"
    shutil.copytree(bench.workshop.index, house)
    write_wheel(house, "picky", "1.0", requires=["fakehost<0.2"])
    bench.network = Network(wheelhouse=house)
    bench.add("picky", "part-1")
    newer = str(bench.workshop.newer_checkout)
    ended = bench.pm("install", "--checkout", newer, "--keep-plugins", "--json")
    assert ended.exit_code == 4
    outcome = bench.call("install", checkout=newer)
    assert [out["reason"] for out in outcome.data["plan"]["sit_outs"]] == [
        "picky needs fakehost<0.2, and the host is fakehost 0.2.0"
    ]
    assert running(bench) == ["fakehost-clock", "part-1"]
    bench.add("part-2")
    assert running(bench) == ["fakehost-clock", "part-1", "part-2"]
    outcome = bench.call("install", checkout=str(bench.workshop.checkout))
    assert outcome.data["plan"]["returns"] == ["picky"]
    assert running(bench) == ["fakehost-clock", "picky", "part-1", "part-2"]


@pytest.mark.proves("plugins-give-way")
def test_a_security_bump_arrives_although_a_plugin_pins_what_was_locked_before(hosting: Bench, wheels: Path) -> None:
    """Case 69."""
    extension(wheels, "pins", "1.0", needs="sprocket==1.0")
    hosting.add("pins")
    write_wheel(wheels, "sprocket", "1.0.1", entries="")
    outcome = hosting.call("upgrade")
    assert packages(hosting)["sprocket"] == "1.0.1"
    assert {out["name"]: out["reason"] for out in outcome.data["plan"]["sit_outs"]} == {
        "pins": "pins 1.0 needs sprocket==1.0, and guest 2.0 locked sprocket 1.0.1",
        "picky": REASON,
    }
