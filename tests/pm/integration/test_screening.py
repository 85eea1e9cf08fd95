"""Ages and newest releases: what is in quarantine, what is let through, and old releases that only seem to fit."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from perdure_pm.adapters.filesystem import LocalFilesystem
from perdure_pm.model.errors import ConflictRefused, QuarantineRefused
from perdure_pm.model.network import Network
from perdure_pm.store.layout import Layout
from tests.pm.bench import Bench
from tests.pm.fake_host import Workshop, copy_home, prepare_home, replace_uv
from tests.pm.guest import guest, init
from tests.pm.hint_sites import commands_in
from tests.pm.wheels import write_wheel
from tests.system.machine import fingerprint
from tests.system.mirror import Mirror, serve_mirror, write_index

pytestmark = pytest.mark.platforms("linux", "darwin")

# Days before now that a file was uploaded. What is not named is of no known age.
AGES = {
    "fresh-1.0": 30,
    "fresh-2.0": 2,
    "only-fresh-1.0": 3,
    "brings-1.0": 30,
    "needs-fresh-1.0": 30,
    "guest-1.0": 30,
    "sprocket-1.0": 1,
    "sprocket-1.5": 400,
    "lagging-1.0": 100,
    "lagging-1.1": 60,
    "leaping-1.3": 3000,
    "leaping-2.0": 60,
    "minor-0.1": 90,
    "minor-0.3": 60,
    "aged-3.0": 2000,
    "aged-3.1": 60,
    "early-1.0": 90,
    "early-2.0": 3,
    "two-1.0": 60,
    "two-2.0": 50,
    "cord-1.0": 90,
    "cord-2.0": 80,
    "mixed-1.0": 60,
}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index in a directory; the host locked sprocket 1.0."""
    root = tmp_path_factory.mktemp("shop")
    wheels = root / "wheels"
    wheels.mkdir()
    guest(wheels, "1.0")
    write_wheel(wheels, "sprocket", "1.0", entries="")
    for name in ("fresh-1.0", "fresh-2.0", "only-fresh-1.0", "early-1.0", "early-2.0", "cord-1.0", "cord-2.0"):
        write_wheel(wheels, name.rpartition("-")[0], name.rpartition("-")[2], entries="")
    write_wheel(wheels, "brings", "1.0", requires=["fresh"], entries="")
    write_wheel(wheels, "needs-fresh", "1.0", requires=["only-fresh"], entries="")
    write_wheel(wheels, "undated", "1.0", entries="")
    write_wheel(wheels, "mixed", "1.0", requires=["undated", "fresh"], entries="")
    # Their newest releases need another sprocket than the host locked; their old ones do not say so.
    for name, old, new in [
        ("lagging", "1.0", "1.1"),
        ("leaping", "1.3", "2.0"),
        ("minor", "0.1", "0.3"),
        ("aged", "3.0", "3.1"),
    ]:
        write_wheel(wheels, name, old, entries="")
        write_wheel(wheels, name, new, requires=["sprocket>=1.5"], entries="")
    write_wheel(wheels, "two", "1.0", entries="")
    write_wheel(wheels, "two", "2.0", requires=["cord<2"], entries="")
    write_index(wheels, root / "simple")
    return root


def stamp(bench: Bench, days: float) -> str:
    return (bench.now - timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@pytest.fixture(scope="module")
def hosting(workshop: Workshop, shop: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Layout]:
    """A home that hosts the guest."""
    layout = prepare_home(workshop, LocalFilesystem(), tmp_path_factory.mktemp("hosting") / "home")
    bench = Bench(workshop=workshop, layout=layout, network=Network(wheelhouse=shop / "wheels"))
    init(bench, "guest")
    bench.call("install")
    # Only now, so that the host's lock has the older one.
    write_wheel(shop / "wheels", "sprocket", "1.5", entries="")
    yield layout
    LocalFilesystem().remove_tree(layout.home)


@pytest.fixture
def served(shop: Path, hosting: Layout) -> Iterator[tuple[Mirror, dict[str, str]]]:
    """The index with its ages, which a test may change."""
    uploaded: dict[str, str] = {}
    simple = shop / "simple"
    LocalFilesystem().remove_tree(simple)
    write_index(shop / "wheels", simple)
    mirror = serve_mirror(shop, as_json=True, uploaded=uploaded)
    yield mirror, uploaded
    mirror.stop()


@pytest.fixture
def there(
    hosting: Layout, workshop: Workshop, served: tuple[Mirror, dict[str, str]], tmp_path: Path
) -> Iterator[Bench]:
    """A home with that host, and the index."""
    layout = copy_home(hosting, tmp_path / "home")
    mirror, uploaded = served
    bench = Bench(workshop=workshop, layout=layout, network=Network(index_url=mirror.url))
    for name, days in AGES.items():
        distribution, _, version = name.rpartition("-")
        uploaded[f"{distribution.replace('-', '_')}-{version}-py3-none-any.whl"] = stamp(bench, days)
    yield bench
    LocalFilesystem().remove_tree(layout.home)


def packages(bench: Bench) -> dict[str, str]:
    return {entry["name"]: entry["version"] for entry in bench.current.record["packages"]}


def screened(bench: Bench) -> dict[str, Any]:
    found: dict[str, Any] = bench.current.record["screening"]
    return found


def state(bench: Bench) -> list[object]:
    return [*map(fingerprint, (bench.current.path, bench.layout.profile("default"))), *bench.generations]


@pytest.mark.proves("plugins-quarantine")
def test_what_is_too_new_is_held_back_where_something_older_fits(there: Bench) -> None:
    there.add("brings")
    assert packages(there)["fresh"] == "1.0"
    assert screened(there)["quarantine_days"] == 7
    (held,) = screened(there)["held_back"]
    assert (held["name"], held["version"], held["taken"]) == ("fresh", "2.0", "1.0")
    # What is installed stays where it is when something else is added, and is newer once its time has come.
    there.add("early")
    assert (packages(there)["fresh"], packages(there)["early"]) == ("1.0", "1.0")
    there.pass_time(days=6)
    there.call("upgrade")
    assert (packages(there)["fresh"], packages(there)["early"]) == ("2.0", "2.0")
    assert screened(there)["held_back"] == []


@pytest.mark.proves("plugins-quarantine")
def test_what_is_installed_stays_when_something_new_is_held_back(there: Bench) -> None:
    there.add("cord<2")
    there.config.write_text(there.config.read_text().replace("cord<2", "cord"))
    there.call("install")
    there.add("fresh")
    assert (packages(there)["cord"], packages(there)["fresh"]) == ("1.0", "1.0")


@pytest.mark.proves("plugins-quarantine")
@pytest.mark.parametrize("requirement", ["only-fresh", "needs-fresh", "fresh>=2"])
def test_what_is_too_new_and_has_nothing_older_is_refused_with_its_age(there: Bench, requirement: str) -> None:
    """Case 109."""
    before = state(there)
    with pytest.raises(QuarantineRefused) as caught:
        there.add(requirement)
    error = caught.value
    assert error.exit_code == 10
    what, age = ("fresh 2.0", "2 days") if requirement == "fresh>=2" else ("only-fresh 1.0", "3 days")
    assert error.summary == f"{what} was uploaded {age} ago, the quarantine is 7 days, and nothing older fits"
    assert "wait until" in str(error.hint)
    assert state(there) == before


@pytest.mark.proves("plugins-quarantine", "cli-true-hints")
def test_what_is_too_new_is_let_through_by_the_commands_of_the_refusal(there: Bench) -> None:
    """Case 87."""
    (error,) = there.pm("plugin", "add", "needs-fresh", "--json").envelope["errors"]
    (line,) = [text for text in error["context"]["lines"] if "let it through" in text]
    set_it, add_it = (shlex.split(text.replace("REASON", "it is needed")) for text in commands_in(line))
    assert set_it[1:4] == ["config", "set", "install.quarantine-exceptions"]
    for words in (set_it, add_it):
        assert there.pm(*words[1:]).exit_code == 0
    assert packages(there)["only-fresh"] == "1.0"


@pytest.mark.proves("plugins-quarantine")
def test_an_exception_lets_an_exactly_pinned_plugin_through_and_is_recorded(there: Bench) -> None:
    """Cases 66 and 109: the commands of the refusal work."""
    with pytest.raises(QuarantineRefused):
        there.add("fresh==2.0")
    until = (there.now + timedelta(days=3)).date().isoformat()
    text = f"Fresh==2.0 until {until} because CVE-2026-1 is fixed there"
    there.call("config-set", key="install.quarantine-exceptions", value=text)
    there.add("fresh==2.0")
    assert packages(there)["fresh"] == "2.0"
    assert screened(there)["exceptions"] == [
        {"name": "fresh", "version": "2.0", "until": until, "reason": "CVE-2026-1 is fixed there"}
    ]
    # It is over one day, and what it let in stays.
    there.pass_time(days=4)
    there.add("cord")
    assert packages(there)["fresh"] == "2.0"
    assert "ended on" in screened(there)["warnings"][0]


@pytest.mark.proves("plugins-quarantine")
@pytest.mark.parametrize(
    ("exception", "requirement", "why"),
    [
        ("fresh==2.0", "fresh>=2", "the profile has no plugin fresh==2.0"),
        ("only-fresh==1.0", "needs-fresh", "the profile has no plugin only-fresh==1.0"),
        ("only-fresh==1.1", "only-fresh==1.0", "the profile has only-fresh==1.0"),
    ],
)
def test_an_exception_for_what_nobody_pinned_is_ignored_with_a_warning(
    there: Bench, exception: str, requirement: str, why: str
) -> None:
    text = f"{exception} until {there.now.date()} because I say so"
    there.call("config-set", key="install.quarantine-exceptions", value=text)
    with pytest.raises(QuarantineRefused) as caught:
        there.add(requirement)
    lines = caught.value.context["lines"]
    assert isinstance(lines, list)
    assert lines[-1] == f"the exception for {exception} has no effect: {why}"


@pytest.mark.proves("plugins-quarantine")
def test_what_the_host_locked_is_exempt_by_that_and_an_exception_for_it_is_ignored(there: Bench) -> None:
    text = f"sprocket==1.0 until {there.now.date()} because I say so"
    there.call("config-set", key="install.quarantine-exceptions", value=text)
    there.add("brings")
    assert packages(there)["sprocket"] == "1.0", "uploaded yesterday, and locked"
    assert packages(there)["fresh"] == "1.0"
    assert screened(there)["warnings"] == [
        "the exception for sprocket==1.0 has no effect: the host's lock decides about sprocket"
    ]


@pytest.mark.proves("plugins-quarantine")
def test_without_upload_times_the_age_is_unknown_and_said_to_be(
    there: Bench, served: tuple[Mirror, dict[str, str]]
) -> None:
    ended = there.pm("plugin", "add", "mixed")
    assert ended.exit_code == 0, ended.err
    assert packages(there)["fresh"] == "1.0", "what has an age is held back all the same"
    assert screened(there)["unknown_age"] == ["undated"]
    assert "unknown age: undated (the index does not say when it was uploaded)\n" in ended.out
    assert "in quarantine: fresh 2.0" in ended.out
    served[1].clear()
    there.add("early")
    assert packages(there)["early"] == "2.0"
    assert screened(there)["unknown_age"] == ["early", "fresh", "mixed", "undated"]


@pytest.mark.proves("plugins-quarantine")
def test_a_wheelhouse_has_no_ages_and_newest_releases_all_the_same(there: Bench, shop: Path) -> None:
    there.network = Network(wheelhouse=shop / "wheels")
    there.add("early")
    assert (packages(there)["early"], screened(there)["unknown_age"]) == ("2.0", ["early"])
    with pytest.raises(ConflictRefused, match=r"leaping 1\.3 although there is 2\.0"):
        there.add("leaping")


@pytest.mark.proves("plugins-quarantine")
def test_a_quarantine_of_no_days_is_none(there: Bench) -> None:
    there.call("config-set", key="install.quarantine", value="0")
    there.add("only-fresh", "fresh")
    assert packages(there)["fresh"] == "2.0"
    assert (screened(there)["quarantine_days"], screened(there)["unknown_age"]) == (0, [])
    assert "quarantine: 0" in there.layout.config.read_text(encoding="utf-8")


@pytest.mark.proves("plugins-disguise-refused")
@pytest.mark.parametrize(
    ("name", "old", "new"), [("leaping", "1.3", "2.0"), ("minor", "0.1", "0.3"), ("aged", "3.0", "3.1")]
)
def test_an_old_release_that_only_seems_to_fit_is_refused_unless_it_is_asked_for(
    there: Bench, name: str, old: str, new: str
) -> None:
    before = state(there)
    for wanted in (name, f"{name}>={old}"):
        with pytest.raises(ConflictRefused) as caught:
            there.add(wanted)
        assert caught.value.exit_code == 4
        assert caught.value.summary == (
            f"the newest release of {name} does not fit, and an old one only seems to: {name} {old} of "
            f"{stamp(there, AGES[f'{name}-{old}'])[:10]} although there is {new} of "
            f"{stamp(there, AGES[f'{name}-{new}'])[:10]}: {name} {new} needs sprocket>=1.5, and guest 1.0 locked "
            "sprocket 1.0"
        )
        assert caught.value.hint == f"where the old release is what you want: perdure-pm plugin add '{name}=={old}'"
    assert state(there) == before
    there.add(f"{name}=={old}")
    assert packages(there)[name] == old
    there.add("cord")
    there.call("upgrade")
    assert packages(there)[name] == old
    there.call("plugin-remove", names=[name])
    there.add(f"{name}<{new}")
    assert packages(there)[name] == old


@pytest.mark.proves("plugins-disguise-refused")
def test_a_release_that_is_a_little_behind_is_taken_and_told(there: Bench) -> None:
    ended = there.pm("plugin", "add", "lagging")
    assert ended.exit_code == 0, ended.err
    assert packages(there)["lagging"] == "1.0"
    (behind,) = screened(there)["behind"]
    assert (behind["chosen"]["version"], behind["newest"]["version"], behind["far"]) == ("1.0", "1.1", False)
    assert behind["why"] == "lagging 1.1 needs sprocket>=1.5, and guest 1.0 locked sprocket 1.0"
    assert "behind: lagging 1.0 of" in ended.out
    planned = there.pm("plan", "--upgrade", "--json").envelope["data"]["plan"]
    assert planned.get("screening") is None or planned["screening"]["behind"] == []


@pytest.mark.proves("plugins-disguise-refused")
def test_a_newer_release_in_quarantine_is_none_that_could_be_had(there: Bench) -> None:
    there.add("early")
    assert (packages(there)["early"], screened(there)["behind"]) == ("1.0", [])


@pytest.mark.proves("plugins-disguise-refused")
def test_a_plugin_that_another_would_take_back_is_refused_too(there: Bench) -> None:
    there.add("cord")
    assert packages(there)["cord"] == "2.0"
    with pytest.raises(ConflictRefused) as caught:
        there.add("two")
    assert caught.value.summary.endswith(": the profile needs cord==2.0, two 2.0 needs cord<2: no cord is both")
    assert packages(there)["cord"] == "2.0"


@pytest.mark.proves("plugins-disguise-refused")
def test_where_nobody_can_say_what_is_newest_that_is_said(there: Bench, served: tuple[Mirror, dict[str, str]]) -> None:
    there.add("cord==1.0", "two==1.0")
    there.call("plugin-remove", names=["cord"])
    there.network = Network(index_url=served[0].url, offline=True)
    ended = there.pm("plugin", "add", "cord<=1.0", "--offline")
    assert ended.exit_code == 0, ended.err
    assert screened(there)["unknown_newest"] == ["cord"]
    assert "not known whether there is a newer release: cord\n" in ended.out


@pytest.mark.proves("plugins-quarantine")
def test_a_plugin_that_fits_costs_one_resolution_and_one_page(
    there: Bench, served: tuple[Mirror, dict[str, str]], tmp_path: Path
) -> None:
    calls = tmp_path / "calls"
    replace_uv(there.workshop, there.layout, f'echo "$1" >> "{calls}"\nexec "{there.workshop.uv}" "$@"\n')
    there.add("cord")
    assert calls.read_text(encoding="utf-8").split().count("lock") == 1
    assert served[0].asked.count("/simple/cord/") == 3, "uv's two, to resolve and to install, and the one that is ours"


@pytest.mark.proves("plugins-quarantine")
def test_a_host_from_an_index_waits_too_and_what_it_has_stays(
    there: Bench, shop: Path, served: tuple[Mirror, dict[str, str]]
) -> None:
    guest(shop / "wheels", "1.4")
    LocalFilesystem().remove_tree(shop / "simple")
    write_index(shop / "wheels", shop / "simple")
    served[1]["guest-1.4-py3-none-any.whl"] = stamp(there, 2)
    try:
        told: list[str] = []
        there.call("upgrade", there.context(on_stage=told.append))
        assert packages(there)["guest"] == "1.0"
        assert "quarantine" in told
        assert packages(there)["sprocket"] in {"1.0", "1.5"}
        init(there, "guest==1.4", replace=True)
        with pytest.raises(QuarantineRefused) as caught:
            there.call("install")
        assert caught.value.summary == (
            "guest 1.4 was uploaded 2 days ago, the quarantine is 7 days, and nothing older fits"
        )
        lines = caught.value.context["lines"]
        assert isinstance(lines, list)
        assert lines[-1].endswith("then perdure-pm host init 'guest==1.4' --yes")
        text = f"guest==1.4 until {there.now.date()} because it is mine"
        there.call("config-set", key="install.quarantine-exceptions", value=text)
        there.call("install")
        assert packages(there)["guest"] == "1.4"
    finally:
        (shop / "wheels" / "guest-1.4-py3-none-any.whl").unlink()
