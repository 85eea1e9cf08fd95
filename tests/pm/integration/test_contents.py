"""verify: every byte of generations, the named ones or all, and an exit code that says how bad it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pm.bench import Bench
from tests.pm.sample_home import snapshot

pytestmark = pytest.mark.platforms("linux", "darwin")


def boot_file(bench: Bench, identity: str) -> Path:
    """Return a file of a generation, open to changes."""
    path = bench.layout.generation(identity) / "boot.json"
    path.parent.chmod(0o755)
    path.chmod(0o644)
    return path


def change_a_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-2] ^= 1
    path.write_bytes(data)


@pytest.mark.proves("verify-reads-every-byte")
def test_sound_generations_are_said_to_be_and_nothing_is_written(bench: Bench) -> None:
    """Case 97."""
    first = bench.current.identity
    second = bench.add("gadget")
    before = snapshot(bench.layout.home)
    ended = bench.pm("verify", "--json")
    assert (ended.exit_code, ended.err) == (0, "")
    data = ended.envelope["data"]
    told = [(found["id"], found["profiles"], found["sound"], found["files"]) for found in data["generations"]]
    assert told == [(second, ["default"], True, []), (first, [], True, [])]  # the newest first
    assert data["files"] > 20
    assert snapshot(bench.layout.home) == before
    assert bench.pm("verify").out == (
        f"{second}, which default run: as it was sealed\n{first}: as it was sealed\n{data['files']} files read\n"
    )


@pytest.mark.proves("verify-reads-every-byte")
@pytest.mark.parametrize("damage", ["byte", "record"])
@pytest.mark.parametrize(
    ("which", "words", "exit_code"),
    [
        ("first", [], 3),
        ("first", ["1"], 8),
        ("first", ["old"], 8),
        ("first", ["2"], 0),
        ("second", [], 8),
        ("second", ["1"], 0),
        ("second", ["2", "1"], 8),
    ],
)
def test_the_exit_code_says_whether_what_runs_or_was_named_is_damaged(
    bench: Bench, damage: str, which: str, words: list[str], exit_code: int
) -> None:
    first = bench.current.identity
    bench.call("label", name="old", generation="1")
    second = bench.add("gadget")
    damaged = first if which == "first" else second
    file = boot_file(bench, damaged)
    if damage == "byte":
        change_a_byte(file)
    else:
        (file.parent / "record.json").chmod(0o644)
        (file.parent / "record.json").write_text("[]")
    ended = bench.pm("verify", *words, "--json")
    assert ended.exit_code == exit_code
    found = {entry["id"]: entry["files"] for entry in ended.envelope["data"]["generations"] if not entry["sound"]}
    name = "boot.json" if damage == "byte" else "record.json"
    assert {key: [file["path"] for file in files] for key, files in found.items()} == (
        {damaged: [name]} if exit_code else {}
    )
    assert (f"\n  {name}: " in bench.pm("verify", *words).out) is bool(exit_code)


@pytest.mark.proves("verify-reads-every-byte")
def test_what_names_no_generation_is_a_usage_error_and_an_empty_home_is_sound(bench: Bench) -> None:
    assert bench.pm("verify", "9").exit_code == 2
    bench.context().filesystem.remove_tree(bench.layout.store)
    ended = bench.pm("verify")
    assert (ended.exit_code, ended.out) == (0, "there is no generation\n")
