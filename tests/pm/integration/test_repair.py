"""Nothing stays broken: repair mends what doctor finds, and neither needs what is broken."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from perdure_pm.model.errors import LazyInstallRefused
from perdure_pm.model.network import Network
from perdure_pm.ops.doctor import examine
from perdure_pm.store.generations import list_unsealed, load_files
from perdure_pm.store.inventory import find_site_packages
from perdure_pm.store.labels import load_labels
from perdure_pm.store.trial import load_trial
from tests.pm.bench import Bench
from tests.pm.damage import flip, problems, remove, writable
from tests.pm.fake_host import STUBS
from tests.pm.wheels import write_wheel

pytestmark = pytest.mark.platforms("linux", "darwin")


def packages(bench: Bench) -> Path:
    return find_site_packages(bench.current.environment)


def forget_what_ran(bench: Bench) -> None:
    """Have nothing in the profile say what it runs or ran."""
    bench.layout.pointer("default").unlink()
    bench.layout.history("default").unlink()


DAMAGES: dict[str, tuple[Callable[[Bench], object], str]] = {
    "a file deleted": (lambda bench: remove(packages(bench) / "gadget" / "__init__.py"), "generation-damaged"),
    "a byte changed": (lambda bench: flip(packages(bench) / "gadget" / "__init__.py", 3), "generation-damaged"),
    "byte code cut off": (
        lambda bench: writable(next((packages(bench) / "gadget" / "__pycache__").iterdir())).write_bytes(b"\0"),
        "generation-damaged",
    ),
    "a dist-info gone": (lambda bench: remove(next(packages(bench).glob("gadget-*.dist-info"))), "generation-damaged"),
    "a RECORD gone": (
        lambda bench: remove(next(packages(bench).glob("gadget-*.dist-info")) / "RECORD"),
        "generation-damaged",
    ),
    "a package directory gone": (lambda bench: remove(packages(bench) / "gadget"), "generation-damaged"),
    "a stranger among the modules": (
        lambda bench: writable(packages(bench) / "stranger.pth").write_text("import gadget\n"),
        "generation-damaged",
    ),
    "pyvenv.cfg gone": (lambda bench: remove(bench.current.environment / "pyvenv.cfg"), "generation-damaged"),
    "the environment gone": (lambda bench: remove(bench.current.environment), "generation-damaged"),
    "files.json gone": (lambda bench: remove(bench.current.path / "files.json"), "generation-damaged"),
    "the generation gone": (lambda bench: remove(bench.current.path), "selection-damaged"),
    "the record garbage": (
        lambda bench: writable(bench.current.path / "record.json").write_text("{}"),
        "selection-damaged",
    ),
    "the pointer garbage": (
        lambda bench: bench.layout.pointer("default").write_bytes(b"\xff\0 not a pointer"),
        "selection-damaged",
    ),
    "the pointer gone": (lambda bench: bench.layout.pointer("default").unlink(), "selection-damaged"),
    "the pointer and the history gone": (forget_what_ran, "selection-damaged"),
    "all of the profile, and so its configuration gone": (
        lambda bench: remove(bench.layout.profile("default")),
        "selection-damaged",
    ),
    "the launcher gone": (lambda bench: remove(bench.layout.bin / "fakehost"), "launcher-damaged"),
    "the launcher another one": (
        lambda bench: writable(bench.layout.bin / "fakehost").write_text("#!/bin/sh\n"),
        "launcher-damaged",
    ),
    "the launcher not executable": (lambda bench: (bench.layout.bin / "fakehost").chmod(0o644), "launcher-damaged"),
    "PM's launcher not executable": (lambda bench: (bench.layout.bin / "perdure-pm").chmod(0o600), "launcher-damaged"),
    "the home's configuration gone": (lambda bench: bench.layout.config.unlink(), "configuration-missing"),
    "the profile's configuration gone": (lambda bench: bench.config.unlink(), "configuration-missing"),
}


@pytest.mark.proves("doctor-names-it", "repair-mends-it", "repair-same-record")
@pytest.mark.parametrize("damage", DAMAGES)
def test_what_is_broken_is_named_and_mended(damage: str, bench: Bench) -> None:
    """Cases 71, 75, 97, 105: the same packages, the same selection, configuration untouched."""
    bench.add("gadget", "part-0")
    was, config, profile = bench.current.record, bench.layout.config.read_text(), bench.config.read_text()
    written_anew = "configuration gone" in damage  # what it says is the same; how a person quoted it is not known
    assert problems(bench.layout) == []
    break_it, code = DAMAGES[damage]
    break_it(bench)
    assert code in problems(bench.layout)
    outcome = bench.call("repair")
    assert outcome.status == "ok"
    assert problems(bench.layout) == []
    now = bench.current.record
    for name in ("inputs_digest", "requirements", "packages", "plugins", "selection", "wheels"):
        assert now[name] == was[name]
    texts = [bench.layout.config.read_text(), bench.config.read_text()]
    if written_anew:
        texts, profile = [text.replace('"', "") for text in texts], profile.replace('"', "")
    assert texts == [config, profile]
    said = json.loads(bench.start().stdout)
    assert set(said["plugins"]) == {"fakehost-clock", "gadget", "part-0"}
    assert bench.call("repair").status == "noop"


@pytest.mark.proves("pm-damaged-never-chosen")
def test_what_was_found_damaged_is_never_selected_again_and_is_collected(bench: Bench) -> None:
    first = bench.current.identity
    second = bench.add("gadget")
    flip(packages(bench) / "gadget" / "__init__.py", 3)
    (done,) = bench.call("repair").data["rebuilt"]
    assert (done["from"], bench.current.identity) == (second, done["generation"])
    assert list_unsealed(bench.layout) == [second]
    refused = bench.pm("rollback", second)
    assert refused.exit_code != 0
    bench.call("rollback", to=first)
    assert bench.current.identity == first
    bench.call("collect")
    assert not bench.layout.generation(second).exists()
    assert problems(bench.layout) == []


@pytest.mark.proves("repair-cache-too")
def test_a_byte_that_the_cache_shares_is_right_in_both_afterwards(bench: Bench) -> None:
    """Cases 72, 98: a fresh directory is no proof of fresh bytes."""
    bench.add("gadget")
    path = packages(bench) / "gadget" / "__init__.py"
    right, inode = path.read_bytes(), path.stat().st_ino
    assert path.stat().st_nlink > 1, "the cache does not share its files here"
    flip(path, 3)
    cached = [found for found in bench.layout.cache.rglob("__init__.py") if found.stat().st_ino == inode]
    assert cached
    bench.call("repair")
    assert (packages(bench) / "gadget" / "__init__.py").read_bytes() == right
    names = list(bench.layout.cache.rglob("gadget/__init__.py"))
    assert [found.read_bytes() for found in names] == [right] * len(names)


@pytest.mark.proves("repair-mends-it")
def test_a_home_whose_configuration_cannot_be_read_is_mended_from_its_record(bench: Bench) -> None:
    bench.add("gadget")
    broken = "host: [\n"
    bench.layout.config.write_text(broken)
    remove(bench.current.environment)
    assert {"config-invalid", "generation-damaged"} <= set(problems(bench.layout))
    outcome = bench.call("repair")
    assert any("config.yaml" in said for said in outcome.obligations)
    assert bench.layout.config.read_text() == broken
    assert problems(bench.layout) == ["config-invalid"]
    assert bench.start().returncode == 0


@pytest.mark.proves("pm-committed-records-kept")
def test_what_was_only_built_is_never_chosen(bench: Bench) -> None:
    """Case 75: without pointer and history, the newest that was committed once; a candidate never was."""
    bench.add("gadget")
    committed = bench.current.identity
    candidate = bench.layout.generation("9-abcdefabcdef")
    shutil.copytree(bench.current.path, candidate, symlinks=True)
    record = {**bench.current.record, "id": candidate.name, "number": 9}
    writable(candidate / "record.json").write_text(json.dumps(record))
    bench.layout.pointer("default").unlink()
    bench.layout.history("default").write_text("not a line of a history\n")
    bench.layout.pointer("default").write_text("garbage\n")
    bench.call("repair")
    assert bench.current.identity == committed


@pytest.mark.proves("repair-refuses-whole")
def test_a_release_that_is_gone_with_its_checkout_changed_is_resolved_anew(bench: Bench) -> None:
    remove(bench.layout.releases)
    remove(packages(bench) / "fakehost" / "__init__.py")
    with (bench.workshop.checkout / "src" / "fakehost" / "__init__.py").open("a", encoding="utf-8") as file:
        file.write("\n")
    try:
        outcome = bench.call("repair")
    finally:
        path = bench.workshop.checkout / "src" / "fakehost" / "__init__.py"
        path.write_text(path.read_text(encoding="utf-8")[:-1], encoding="utf-8")
    assert [found["profile"] for found in outcome.data["anew"]] == ["default"]
    assert any("its host's release is gone" in said for said in outcome.obligations)
    assert problems(bench.layout) == []


@pytest.mark.proves("repair-refuses-whole")
def test_what_cannot_be_fetched_is_named_and_nothing_changes(bench: Bench, tmp_path: Path) -> None:
    bench.add("gadget")
    flip(packages(bench) / "gadget" / "__init__.py", 3)
    (tmp_path / "empty").mkdir()
    bench.network = Network(wheelhouse=tmp_path / "empty")
    before = bench.current.identity
    ended = bench.pm("repair", "--json")
    assert ended.exit_code == 6, ended.out
    (error,) = ended.envelope["errors"]
    assert "gadget" in error["summary"]
    assert bench.current.identity == before
    assert bench.generations == sorted(bench.generations)
    bench.network = Network(wheelhouse=bench.workshop.index)
    assert bench.call("repair").status == "ok"
    assert problems(bench.layout) == []


@pytest.mark.proves("doctor-every-byte", "repair-cache-too")
def test_every_random_byte_is_found_and_all_are_mended(
    bench: Bench, request: pytest.FixtureRequest, figure: Callable[[str], None], tmp_path: Path
) -> None:
    """Case 98: single bits at random places of 5,000 files, size and time kept, the cache's inodes with them."""
    slow = request.config.getoption("--slow")
    seed = int(os.environ.get("PERDURE_TEST_SEED", "0")) or random.SystemRandom().randrange(1, 2**32)
    chance = random.Random(seed)  # noqa: S311 - places, not secrets
    count = 5000 if slow else 600
    more = {f"big/d{number % 97}/f{number}.txt": chance.randbytes(chance.randrange(1, 2000)) for number in range(count)}
    shutil.copytree(bench.workshop.index, tmp_path / "wheels")
    write_wheel(tmp_path / "wheels", "big", "1.0", more=more)
    bench.network = Network(wheelhouse=tmp_path / "wheels")
    bench.add("big", "gadget", *(f"part-{number}" for number in range(6)))
    total = 0
    for _ in range(10 if slow else 1):
        generation = bench.current
        files = load_files(bench.layout, generation.identity).files
        damaged = chance.sample(sorted(name for name, entry in files.items() if entry.size), count // 5)
        for name in damaged:
            flip(generation.path / name, chance.randrange(files[name].size), 1 << chance.randrange(8))
        problem = next(
            found
            for found in examine(bench.layout, "default", deep=True)["problems"]
            if found["code"] == "generation-damaged" and found["generation"] == generation.identity
        )
        named = {found["path"] for found in problem["files"]}
        assert named - {"venv"} == set(damaged), f"seed {seed}"  # its interpreter may be told to be another one, too
        total += len(damaged)
        bench.call("repair")
        assert problems(bench.layout) == [], f"seed {seed}"
        bench.call("collect", keep=1)
    figure(f"{total} single bits changed in {count} files and more, seed {seed}: all found, all mended")


@pytest.mark.proves("repair-mends-it", "repair-refuses-whole")
@pytest.mark.parametrize("stage", ["check", "build", "health", "seal", "before_publish", "committed", "published"])
def test_a_repair_that_is_cut_off_is_done_by_the_next_one(stage: str, bench: Bench) -> None:
    """Before the commit what was selected stays selected; after it the new one runs; the next repair finishes."""
    bench.add("gadget")
    before = bench.current.identity
    flip(packages(bench) / "gadget" / "__init__.py", 3)

    def cut_off(at: str) -> None:
        if at == stage:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bench.call("repair", bench.context(on_stage=cut_off))
    assert (bench.current.identity == before) is (stage != "published")
    bench.call("repair")
    assert bench.current.identity != before
    assert problems(bench.layout) == []
    bench.call("collect")
    assert list_unsealed(bench.layout) == []
    assert examine(bench.layout, "default", deep=True)["leftovers"] == []


@pytest.mark.proves("repair-mends-it", "pm-committed-records-kept")
def test_a_record_is_written_again_from_its_copy_and_nothing_is_built(bench: Bench) -> None:
    """Also that of a generation which is not selected: it stays a way back."""
    first = bench.current.identity
    second = bench.add("gadget")
    for identity in (first, second):
        writable(bench.layout.generation(identity) / "record.json").write_text("[]")
    bench.network = Network(offline=True)
    outcome = bench.call("repair")
    assert (outcome.data["rebuilt"], outcome.data["retired"]) == ([], [])
    assert sorted(outcome.data["restored"]) == sorted([first, second])
    assert (problems(bench.layout), bench.current.identity) == ([], second)
    bench.call("rollback")
    assert bench.current.identity == first


@pytest.mark.proves("repair-lazy-refused")
def test_a_repair_that_nobody_asked_for_is_lazy(bench: Bench) -> None:
    """An automatic repair builds nothing where lazy installs are off; what is sound is left alone all the same."""
    bench.add("gadget")
    unasked = bench.context(lazy=True, lazy_allowed=False)
    assert bench.call("repair", unasked).status == "noop"
    flip(packages(bench) / "gadget" / "__init__.py", 3)
    before = bench.current.identity
    with pytest.raises(LazyInstallRefused):
        bench.call("repair", unasked)
    assert (bench.current.identity, list_unsealed(bench.layout)) == (before, [])
    assert bench.call("repair", bench.context(lazy=True)).status == "ok"
    assert problems(bench.layout) == []


@pytest.mark.proves("repair-keeps-trial")
@pytest.mark.parametrize("confirmed", [False, True])
def test_what_was_on_trial_is_on_trial_after_it_was_mended(confirmed: bool, bench: Bench) -> None:
    """To be mended is not to be confirmed: the deadline is what it was, and so is the way back."""
    first = bench.current.identity
    bench.call("plugin-add", requirements=["gadget"], confirm_within=600)
    before = load_trial(bench.layout, "default")
    assert before is not None
    flip(packages(bench) / "gadget" / "__init__.py", 3)
    bench.call("repair")
    after = load_trial(bench.layout, "default")
    assert after is not None
    assert (after.generation, after.previous, after.deadline) == (bench.current.identity, first, before.deadline)
    if confirmed:
        bench.call("confirm")
        assert load_trial(bench.layout, "default") is None
        return
    bench.pass_time(seconds=601)
    bench.call("trial-judge")
    assert bench.current.identity == first
    assert load_trial(bench.layout, "default") is None


@pytest.mark.proves("repair-keeps-labels")
def test_pins_and_labels_go_with_what_was_rebuilt(bench: Bench) -> None:
    bench.add("gadget")
    bench.call("pin")
    bench.call("label", name="good")
    flip(packages(bench) / "gadget" / "__init__.py", 3)
    outcome = bench.call("repair")
    labels = load_labels(bench.layout)
    assert dict(labels.named) == {"good": bench.current.identity}
    assert set(labels.pinned) == {bench.current.identity}
    assert not any("pinned" in said for said in outcome.obligations)


@pytest.mark.proves("doctor-names-it")
def test_a_dry_run_names_what_a_repair_would_mend_and_nothing_else(bench: Bench) -> None:
    bench.add("gadget")
    bench.layout.config.write_text("host: [\n")
    dry = bench.context(dry_run=True)
    found = [problem["code"] for problem in bench.call("repair", dry).data["problems"] if problem["code"] not in STUBS]
    assert found == []
    flip(packages(bench) / "gadget" / "__init__.py", 3)
    before = bench.current.identity
    found = [problem["code"] for problem in bench.call("repair", dry).data["problems"] if problem["code"] not in STUBS]
    assert (found, bench.current.identity) == (["generation-damaged"], before)


@pytest.mark.proves("repair-mends-it")
def test_where_pointer_and_configuration_are_gone_one_repair_mends_both(bench: Bench) -> None:
    bench.add("gadget")
    bench.layout.pointer("default").unlink()
    bench.layout.config.unlink()
    bench.config.unlink()
    bench.call("repair")
    assert problems(bench.layout) == []
    assert "gadget" in bench.config.read_text()


@pytest.mark.proves("plugins-never-silently-fewer")
def test_an_install_after_all_of_a_profile_went_has_its_plugins(bench: Bench) -> None:
    bench.add("gadget", "part-0")
    before = list(bench.current.record["selection"])
    remove(bench.layout.profile("default"))
    outcome = bench.call("install")
    assert list(bench.current.record["selection"]) == before
    assert any("was gone; it says again what" in notice for notice in outcome.obligations)


@pytest.mark.proves("doctor-names-it", "repair-mends-it")
def test_files_that_a_power_loss_emptied_are_found_by_their_sizes(bench: Bench) -> None:
    """Case 94: names that reached the disk, and bytes that did not."""
    bench.add("gadget", "part-0")
    names = [name for name, entry in load_files(bench.layout, bench.current.identity).files.items() if entry.size]
    emptied = random.Random(7).sample(sorted(names), 12)  # noqa: S311 - places, not secrets
    for name in emptied:
        writable(bench.current.path / name).write_bytes(b"")
    (found,) = [
        entry
        for entry in examine(bench.layout, "default", deep=False)["problems"]
        if entry["code"] == "generation-damaged"
    ]
    assert {file["path"] for file in found["files"]} - {"venv"} == set(emptied)
    bench.call("repair")
    assert problems(bench.layout) == []
    assert bench.start().returncode == 0
