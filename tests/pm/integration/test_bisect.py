"""plugin bisect: one culprit, two, and two that fail only together, among many; nothing that is selected changes."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from perdure_pm.model.errors import HealthCheckFailed, NothingInstalled, UsageFault
from perdure_pm.store.layout import Layout
from tests.pm.bench import Bench
from tests.pm.fake_host import copy_home
from tests.pm.wheels import write_wheel
from tests.system.machine import fingerprint

pytestmark = pytest.mark.platforms("linux", "darwin")

PARTS = [f"part-{number}" for number in range(14)]
UNCHANGED = ["cache", "mutex", "mutex.json", "receipts"]
"""What any operation touches."""


@pytest.fixture(scope="module")
def many(one_generation: Layout, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A place for the home below."""
    return tmp_path_factory.mktemp("many")


@pytest.fixture(scope="module")
def installed(one_generation: Layout, many: Path, workshop: object) -> Iterator[Layout]:
    """A home whose host runs sixteen plugins, two of which can be broken from outside; nobody changes it."""
    from perdure_pm.adapters.filesystem import LocalFilesystem
    from perdure_pm.model.network import Network
    from tests.pm.fake_host import Workshop

    assert isinstance(workshop, Workshop)
    index = many / "index"
    shutil.copytree(workshop.index, index)
    for name in ("part-3", "part-11"):
        flag = many / f"{name}.broken"
        source = f"import os\nif os.path.exists({str(flag)!r}):\n    os._exit(5)\nplugin = '1.0'\n"
        write_wheel(index, name, "1.0", source=source)
    layout = copy_home(one_generation, many / "home")
    bench = Bench(workshop=workshop, layout=layout, network=Network(wheelhouse=index))
    bench.add("gadget", *PARTS)
    yield layout
    LocalFilesystem().remove_tree(layout.home)


@pytest.fixture
def full(installed: Layout, many: Path, bench: Bench, tmp_path: Path) -> Iterator[Bench]:
    """A copy of that home."""
    from perdure_pm.adapters.filesystem import LocalFilesystem

    layout = copy_home(installed, tmp_path / "full")
    yield replace(bench, layout=layout, network=replace(bench.network, wheelhouse=many / "index"))
    LocalFilesystem().remove_tree(layout.home)
    for flag in many.glob("*.broken"):
        flag.unlink()


def failing(condition: str) -> list[str]:
    """Return a command that fails where the host runs plugins as `condition` says."""
    return ["sh", "-c", f"said=$(fakehost) || exit 1; if {condition}; then exit 1; fi"]


def has(name: str) -> str:
    return f'echo "$said" | grep -q \'"{name}"\''


def builds_of(bench: Bench, **arguments: object) -> tuple[list[list[str]], int]:
    """Return the culprits, and how many candidates were built for that."""
    stages: list[str] = []
    before = fingerprint(bench.layout.home, without=UNCHANGED)
    outcome = bench.call("plugin-bisect", bench.context(on_stage=stages.append), **arguments)
    assert fingerprint(bench.layout.home, without=UNCHANGED) == before
    return outcome.data["culprits"], stages.count("build")


@pytest.mark.proves("plugins-bisect")
@pytest.mark.parametrize("culprit", ["gadget", "part-13"])
def test_one_culprit_is_found_in_about_as_many_builds_as_halvings(full: Bench, culprit: str) -> None:
    """Case 110. Beside the search: all of them, none of them, and all but the culprit."""
    culprits, builds = builds_of(full, command=failing(has(culprit)))
    assert culprits == [[culprit]]
    assert builds <= 4 + math.ceil(math.log2(16))


@pytest.mark.proves("plugins-bisect")
def test_two_that_fail_each_for_itself_are_both_found(full: Bench) -> None:
    culprits, builds = builds_of(full, command=failing(f"{has('part-2')} || {has('part-9')}"))
    assert sorted(culprits) == [["part-2"], ["part-9"]]
    assert builds <= 2 * (3 + math.ceil(math.log2(16)))


@pytest.mark.proves("plugins-bisect")
def test_two_that_fail_only_together_are_found_as_that(full: Bench) -> None:
    culprits, builds = builds_of(full, command=failing(f"{has('gadget')} && {has('part-9')}"))
    assert culprits == [["gadget", "part-9"]]
    assert builds <= 4 + 5 * math.ceil(math.log2(16))


@pytest.mark.proves("plugins-bisect")
def test_without_a_command_the_hosts_own_check_finds_what_began_to_crash(full: Bench, many: Path) -> None:
    """Two plugins that end the process at import, as they did not when they were installed."""
    for name in ("part-3", "part-11"):
        (many / f"{name}.broken").touch()
    ended = full.pm("plugin", "bisect")
    assert ended.exit_code == 0, ended.err
    assert "part-3 alone keeps it from working\n" in ended.out
    assert "part-11 alone keeps it from working\n" in ended.out
    command = ended.out.strip().rpartition("leave out: ")[2].split()
    assert sorted(command[3:]) == ["part-11", "part-3"]
    assert full.start().returncode == 5
    assert full.pm(*command[1:]).exit_code == 0
    assert full.start().returncode == 0


@pytest.mark.proves("plugins-bisect")
def test_where_nothing_fails_it_says_so_and_how_to_show_the_fault(full: Bench) -> None:
    ended = full.pm("plugin", "bisect", "--json", "--", "fakehost")
    assert (ended.exit_code, ended.envelope["status"], ended.envelope["data"]["culprits"]) == (0, "noop", [])
    assert "plugin bisect -- COMMAND" in full.pm("plugin", "bisect").out
    dry = full.pm("plugin", "bisect", "--dry-run", "--json").envelope["data"]
    assert (len(dry["plugins"]), dry["dry_run"]) == (16, True)


@pytest.mark.proves("plugins-bisect")
def test_what_no_plugin_causes_and_what_cannot_tell_is_told(full: Bench, tmp_path: Path) -> None:
    before = fingerprint(full.layout.home, without=UNCHANGED)
    with pytest.raises(HealthCheckFailed) as caught:
        full.call("plugin-bisect", command=["false"])
    assert "fails without any plugin too" in caught.value.summary
    for command in (["no-such-command"], ["sh", "-c", "exit 125"]):
        with pytest.raises(UsageFault):
            full.call("plugin-bisect", command=command)
    assert fingerprint(full.layout.home, without=UNCHANGED) == before
    nothing = replace(full, layout=Layout(tmp_path / "nothing"))
    with pytest.raises(NothingInstalled):
        nothing.call("plugin-bisect")


@pytest.mark.proves("plugins-bisect")
def test_a_plugin_that_hangs_is_found_by_the_time_limit(full: Bench) -> None:
    hangs = ["sh", "-c", f"said=$(fakehost); if {has('part-5')}; then sleep 60; fi"]
    culprits, _ = builds_of(full, command=hangs, timeout=1.5)
    assert culprits == [["part-5"]]


@pytest.mark.proves("plugins-bisect")
def test_a_killed_bisection_leaves_nothing_that_is_selected_or_kept(full: Bench) -> None:
    before = (full.current.identity, full.generations)

    def stop(stage: str) -> None:
        if stage == "health":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        full.call("plugin-bisect", full.context(on_stage=stop))
    assert (full.current.identity, full.generations) == before
