"""Collection in real homes: what goes, what never does, and what lies in its way."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perdure_pm.adapters.filesystem import LocalFilesystem
from perdure_pm.model.errors import IntegrityFault
from perdure_pm.ops.collect import plan_collection
from perdure_pm.ops.seed import seed_source
from perdure_pm.store.generations import list_generations, next_number
from perdure_pm.store.history import Selection, append_selection
from perdure_pm.store.labels import Labels, save_labels
from perdure_pm.store.layout import Layout
from perdure_pm.store.pointer import load_pointer
from tests.pm.bench import Bench
from tests.pm.sample_home import make_generation, select_generation
from tests.system.machine import fingerprint

pytestmark = pytest.mark.platforms("linux", "darwin")

MADE = "2026-11-20T12:00:00Z"


def name(number: int) -> str:
    return f"{number}-{number:012x}"


@pytest.fixture
def layout(home: Path) -> Layout:
    return Layout(home)


def at(day: int, hour: int = 12) -> datetime:
    return datetime(2026, 11, day, hour, tzinfo=UTC)


def reasons(layout: Layout, now: datetime, newest: int = 0) -> dict[str, tuple[str, ...]]:
    return plan_collection(layout, list_generations(layout)[0], now=now, newest=newest)


def run_one_after_the_other(layout: Layout, chosen: list[int], profile: str = "default", *, line: bool = True) -> None:
    """Have the profile's history and pointer say that these ran, one each day from the 20th; `line`: the last too."""
    layout.profile(profile).mkdir(parents=True, exist_ok=True)
    before = None
    for day, number in enumerate(chosen):
        if number != before and (line or day < len(chosen) - 1):
            entry = Selection(
                at=at(20 + day),
                generation=name(number),
                before=None if before is None else name(before),
                operation="install",
            )
            append_selection(LocalFilesystem(), layout, profile, entry)
        before = number
    select_generation(layout, name(chosen[-1]) + "\n", profile)


@pytest.mark.proves("collect-never-takes-used", "collect-takes-the-rest")
def test_current_and_previous_of_each_profile_pins_labels_and_the_young_stay(layout: Layout) -> None:
    for number in range(1, 10):
        make_generation(layout, name(number), created=MADE)
    run_one_after_the_other(layout, [1, 2, 3])
    run_one_after_the_other(layout, [4, 5], "other")
    save_labels(LocalFilesystem(), layout, Labels(frozenset([name(6)]), {"good": name(7)}))
    found = reasons(layout, at(30))
    assert {key: value for key, value in found.items() if value} == {
        name(3): ("current",),
        name(2): ("previous",),
        name(5): ("current",),
        name(4): ("previous",),
        name(6): ("pinned",),
        name(7): ("named",),
    }
    # On the day after it was deselected, the first one is young still: a launcher may have read the pointer before.
    assert reasons(layout, at(22, 11))[name(1)] == ("used less than 24 h ago",)
    assert reasons(layout, at(22, 12))[name(1)] == ()


@pytest.mark.proves("collect-never-takes-used", "rollback-previous")
def test_what_was_deselected_right_before_a_crash_is_previous_and_young(layout: Layout) -> None:
    for number in (1, 2, 3):
        make_generation(layout, name(number), created=MADE)
    run_one_after_the_other(layout, [1, 2, 3], line=False)
    assert reasons(layout, at(30))[name(2)] == ("previous", "used less than 24 h ago")


@pytest.mark.proves("collect-never-takes-used")
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    chosen=st.lists(st.integers(1, 6), min_size=1, max_size=8),
    written=st.booleans(),
    hours=st.integers(0, 24 * 12),
)
def test_what_ran_within_a_day_never_goes(
    tmp_path_factory: pytest.TempPathFactory, chosen: list[int], written: bool, hours: int
) -> None:
    layout = Layout(tmp_path_factory.mktemp("home"))
    for number in range(1, 7):
        make_generation(layout, name(number), created="2026-11-01T12:00:00Z")
    run_one_after_the_other(layout, chosen, line=written)
    last = at(20 + len(chosen) - 1)
    now = datetime.fromtimestamp(last.timestamp() + hours * 3600, UTC)
    kept = {key for key, value in reasons(layout, now).items() if value}
    assert name(chosen[-1]) in kept
    for day, number in enumerate(chosen):
        ended = at(20 + day + 1)  # it ran until the next one was selected
        if day < len(chosen) - 1 and (now - ended).total_seconds() < 86400:
            assert name(number) in kept
    shutil.rmtree(layout.home)


@pytest.mark.proves("collect-never-takes-used")
def test_a_collection_right_after_a_commit_leaves_what_a_launcher_just_read(bench: Bench) -> None:
    """Case 46: a launcher has read the pointer; a commit and a collection come before it starts what it read."""
    read = load_pointer(bench.layout, "default")
    assert read is not None
    bench.add("gadget")
    bench.add("part-1")
    bench.add("part-2")
    assert bench.call("collect", keep=0).status == "noop"
    python = bench.layout.generation(read) / "venv" / "bin"
    started = subprocess.run([python / "python", "-I", python / "fakehost"], capture_output=True, text=True, check=True)
    assert read in started.stdout


@pytest.mark.proves("collect-takes-the-rest")
def test_what_nothing_holds_goes_with_its_release_and_the_rest_still_runs(bench: Bench) -> None:
    first = bench.current
    bench.call("upgrade", checkout=str(bench.workshop.newer_checkout))
    third = bench.add("gadget")
    fourth = bench.add("part-1")
    half = bench.layout.generation("9-00000000dead")
    (half / "venv").mkdir(parents=True)
    bench.pass_time(days=2)
    would = bench.call("collect", bench.context(dry_run=True), keep=0)
    assert first.path.exists()
    outcome = bench.call("collect", keep=0)
    assert outcome.status == "ok"
    assert outcome.data["removed"] == would.data["removed"]
    assert first.identity in outcome.data["removed"]
    assert outcome.data["half_built"] == [half.name]
    assert outcome.data["releases"] == [first.record["host"]["release"]]
    assert bench.generations == sorted([third, fourth])
    assert os.listdir(bench.layout.trash) == []
    assert bench.start().returncode == 0
    assert bench.call("rollback").data["generation"] == third
    assert bench.start().returncode == 0
    assert bench.call("collect", keep=0).status == "noop"


# What cannot be deleted


@pytest.fixture
def undeletable(as_root: None, tmp_path: Path) -> Iterator[Callable[[Path], Callable[[], None]]]:
    """Make a file that not even root deletes: immutable, or, where the filesystem has no such thing, mounted upon."""
    undo: list[Callable[[], None]] = []

    def make(path: Path) -> Callable[[], None]:
        if subprocess.run(["chattr", "+i", path], capture_output=True, check=False).returncode == 0:
            inode = path.stat().st_ino

            def free() -> None:
                found = next((item for item in tmp_path.rglob(path.name) if item.lstat().st_ino == inode), None)
                if found is not None:
                    subprocess.run(["chattr", "-i", found], check=True)

        elif subprocess.run(["mount", "--bind", path, path], capture_output=True, check=False).returncode == 0:

            def free() -> None:
                for place in [item for item in tmp_path.rglob(path.name) if os.path.ismount(item)]:
                    subprocess.run(["umount", place], check=True)

        else:
            pytest.skip("nothing here makes a file undeletable for root")
        undo.append(free)
        return free

    yield make
    for free in undo:
        free()


@pytest.mark.proves("collect-one-file-stops-nothing")
def test_an_undeletable_file_stops_nothing_else_and_goes_next_time(
    bench: Bench, undeletable: Callable[[Path], Callable[[], None]]
) -> None:
    """Case 49."""
    first = bench.current
    second = bench.add("gadget")
    bench.add("part-1")
    bench.add("part-2")
    for folder, _, _ in os.walk(first.path):
        os.chmod(folder, 0o755)
    stubborn = first.path / "venv" / "stubborn"
    stubborn.write_text("here to stay")
    free = undeletable(stubborn)
    bench.pass_time(days=2)
    outcome = bench.call("collect", keep=0)
    assert outcome.status == "ok"
    assert sorted(outcome.data["removed"]) == sorted([first.identity, second])
    assert len(bench.generations) == 2
    (left,) = os.listdir(bench.layout.trash)
    # All of it went but the one file and the way to it.
    remains = [path for path in (bench.layout.trash / left).rglob("*") if not path.is_dir()]
    assert [path.name for path in remains] == ["stubborn"]
    (told,) = outcome.obligations
    assert told == f"{bench.layout.trash / left} could not be removed yet; the next collect tries again"
    assert bench.call("collect", keep=0).obligations == (told,)
    assert next_number(bench.layout) == 5
    free()
    outcome = bench.call("collect", keep=0)
    assert (outcome.obligations, os.listdir(bench.layout.trash)) == ((), [])


@pytest.mark.proves("collect-one-file-stops-nothing")
def test_an_undeletable_directory_keeps_only_itself(
    bench: Bench, undeletable: Callable[[Path], Callable[[], None]]
) -> None:
    first = bench.current
    bench.add("gadget")
    bench.add("part-1")
    first.path.chmod(0o755)
    first.path.joinpath("stubborn").mkdir()
    first.path.joinpath("stubborn", "file").touch()
    undeletable(first.path / "stubborn")
    bench.pass_time(days=2)
    outcome = bench.call("collect", keep=0)
    (left,) = outcome.data["left"]
    assert [path.name for path in Path(left).iterdir()] == ["stubborn"]


# Links that lead out


def outside(tmp_path: Path) -> Path:
    """Return a directory that belongs to somebody else."""
    folder = tmp_path / "elsewhere"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "precious").write_text("not PM's")
    (folder / "deep").chmod(0o500)
    return folder


def _replace_by_link(path: Path, target: Path) -> None:
    if path.exists():
        LocalFilesystem().remove_tree(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)


@pytest.mark.proves("collect-follows-no-link")
@pytest.mark.parametrize(
    "place",
    [
        "store/trash",
        "store/trash/old",
        "store/releases",
        "store/releases/000000000000",
        "store/generations/7-0123456789ab",
        "store/generations/1-aaaaaaaaaaaa/venv/lib/elsewhere",
        "cache/tmp",
        "cache/tmp/old",
        "pm/runtimes/ffffffffffff",
        "pm/seed/ffffffffffff",
    ],
)
def test_nothing_behind_a_link_is_touched(bench: Bench, tmp_path: Path, place: str) -> None:
    """Case 99."""
    bench.add("gadget")
    bench.add("part-1")
    folder = outside(tmp_path)
    path = bench.layout.home / place
    if "/venv/" in place:
        path = bench.layout.home / place.replace("1-aaaaaaaaaaaa", bench.generations[0])
        for inner, _, _ in os.walk(bench.layout.generation(bench.generations[0])):
            os.chmod(inner, 0o755)
    _replace_by_link(path, folder)
    before = fingerprint(folder)
    modes = [item.stat().st_mode for item in (folder, folder / "deep")]
    bench.pass_time(days=2)
    bench.call("collect", keep=0)
    assert fingerprint(folder) == before
    assert [item.stat().st_mode for item in (folder, folder / "deep")] == modes
    assert bench.start().returncode == 0


@pytest.mark.proves("collect-follows-no-link")
@pytest.mark.parametrize("place", ["store", "store/generations"])
def test_a_store_behind_a_link_is_not_collected(bench: Bench, tmp_path: Path, place: str) -> None:
    bench.add("gadget")
    bench.add("part-1")
    moved = tmp_path / "volume"
    path = bench.layout.home / place
    path.rename(moved)
    path.symlink_to(moved)
    before = fingerprint(moved)
    bench.pass_time(days=2)
    with contextlib.suppress(IntegrityFault):  # whether it is refused or finds nothing is all the same
        bench.call("collect", keep=0)
    assert fingerprint(moved) == before


# What cannot be read


@pytest.mark.proves("collect-never-guesses")
@pytest.mark.parametrize("file", ["pointer", "another profile's pointer", "labels"])
def test_where_what_is_needed_cannot_be_told_nothing_goes(bench: Bench, file: str) -> None:
    bench.add("gadget")
    bench.add("part-1")
    path = {
        "pointer": bench.layout.pointer("default"),
        "another profile's pointer": bench.layout.pointer("other"),
        "labels": bench.layout.labels,
    }[file]
    path.parent.mkdir(exist_ok=True)
    path.write_text("\0 nonsense")
    before = fingerprint(bench.layout.store)
    bench.pass_time(days=2)
    with pytest.raises(IntegrityFault):
        bench.call("collect", keep=0)
    assert fingerprint(bench.layout.store) == before


@pytest.mark.proves("collect-never-guesses")
def test_a_generation_with_a_damaged_record_stays_and_is_named(bench: Bench) -> None:
    first = bench.current
    bench.add("gadget")
    bench.add("part-1")
    first.path.chmod(0o755)
    (first.path / "record.json").unlink()
    (first.path / "record.json").write_text("{")
    bench.pass_time(days=2)
    outcome = bench.call("collect", keep=0)
    assert outcome.data["damaged"] == {first.identity: "it is not JSON"}
    assert first.path.exists()
    assert bench.layout.release(first.record["host"]["release"]).exists()


@pytest.mark.proves("collect-never-guesses")
def test_where_pms_own_pointer_is_gone_its_runtimes_stay(bench: Bench) -> None:
    old = bench.layout.runtime("aaaaaaaaaaaa")
    for identity in ("aaaaaaaaaaaa", "bbbbbbbbbbbb"):
        path = bench.layout.runtime(identity)
        path.mkdir()
        (path / "record.json").write_text("{}")
        os.utime(path, (0, 0))
    pointer = bench.layout.runtime_pointer.read_bytes()
    bench.layout.runtime_pointer.write_text("nonsense")
    assert bench.call("collect").data["runtimes"] == []
    assert old.exists()
    bench.layout.runtime_pointer.write_bytes(pointer)
    # One is kept beside the selected one, for what still runs from it.
    assert len(bench.call("collect").data["runtimes"]) == 1


@pytest.mark.proves("collect-takes-the-rest")
def test_by_command_the_reasons_are_shown_and_the_receipt_says_what_went(bench: Bench) -> None:
    first = bench.current.identity
    bench.add("gadget")
    bench.add("part-1")
    # The command reads the machine's clock, so the generation is made old.
    for path in (bench.layout.history("default"), bench.layout.generation(first) / "record.json"):
        path.chmod(0o644)
        path.write_text(re.sub(r'"(at|created)": "20\d\d', r'"\1": "2020', path.read_text()))
    ended = bench.pm("collect", "--keep", "0")
    assert ended.exit_code == 0
    assert f"removed {first}" in ended.out
    assert "current" in ended.out
    assert bench.receipts("collect")[-1].data["removed"] == [first]


@pytest.mark.proves("collect-keeps-what-rebuilds-pm")
def test_of_pms_old_versions_goes_what_no_runtime_was_built_from(bench: Bench) -> None:
    """What is young stays: an update may be on its way to select it."""
    layout = bench.layout
    (uv,) = layout.uv("x").parent.parent.iterdir()
    kept = [seed_source(layout), uv]
    old = [layout.seed("ffffffffffff"), uv.with_name("0.0.1"), layout.incoming / "left"]
    for folder in old:
        (folder / "pm").mkdir(parents=True)
        (folder / "pm" / "bootstrap.py").touch()
    bench.call("collect")
    assert all(path.is_dir() for path in (*kept, *old))
    bench.pass_time(days=3)
    bench.call("collect")
    assert [path.exists() for path in kept] == [True, True]
    assert [path.exists() for path in old] == [False, False, False]
    bench.add("gadget")  # with the uv and the seed that stayed
