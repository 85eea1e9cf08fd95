"""Merging YAML: what a person wrote stays byte for byte, and exactly the defaults that lack are added."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

import merge_yaml
from tests.pm.plugin_sources import write_files

SCRIPT = Path(merge_yaml.__file__)


def merged(defaults: str, own: str) -> str:
    """Return the result, after a look at what holds for every result: nothing is lost, and once is enough."""
    given_source = merge_yaml.read_source("defaults.yaml", defaults.encode())
    text, _ = merge_yaml.merge(given_source, merge_yaml.read_source("own.yaml", own.encode()))
    assert is_inside(own, text)
    again, _ = merge_yaml.merge(given_source, merge_yaml.read_source("own.yaml", text.encode()))
    assert again == text
    return text


def is_inside(own: str, text: str) -> bool:
    """Return whether `text` is `own` with text added: each character of `own` is there, in order."""
    rest = iter(text)
    return all(char in rest for char in own)


def refused(defaults: str, own: str) -> str:
    with pytest.raises(merge_yaml.Refused) as caught:
        merged(defaults, own)
    return str(caught.value)


@pytest.mark.proves("merge-adds-defaults", "merge-loses-nothing")
@pytest.mark.parametrize(
    ("defaults", "own", "result"),
    [
        ("a: 1\n", "", "a: 1\n"),
        ("a: 1\n", "# mine\n", "# mine\na: 1\n"),
        ("# why\na: 1\n\n# how\nb: 2\n", "b: 3  # kept\n", "b: 3  # kept\n# why\na: 1\n"),
        ("a: {x: 1, y: 2}\n", "a:\n    x: 0\n", "a:\n    x: 0\n    y: 2\n"),
        ("a:\n  x: 1\n  # about y\n  y:\n  - 1\n  - 2\n", "a:\n      x: 0\n", None),
        ("a: {x: 1, y: [1, {z: 2}]}\n", "a: {x: 0}\n", "a: {x: 0, y: [1, {z: 2}]}\n"),
        ("a:\n  x: 1\n  y:\n    z: no\n", "a: {}\n", "a: {x: 1, y: {z: no}}\n"),
        ("a:\n  x: 1\n", "a:   # nothing said\n", "a:   # nothing said\n"),
        ("a: 1\n", "a: ~\n", "a: ~\n"),
        ("a: [1, 2]\n", "a: [3]\n", "a: [3]\n"),
        ("a: 1\nb: 2\n", "\"a\" : 'one'\r\n", "\"a\" : 'one'\r\nb: 2\r\n"),
        ("b: |\n  one\n   two\n", "a:\n  b: 1", "a:\n  b: 1\nb: |\n  one\n   two\n"),
        ("b: 2\n", "a:\n  b: 1", "a:\n  b: 1\nb: 2"),
        ("a: 1\n", "\ufeffb: 1\n", "\ufeffb: 1\na: 1\n"),
        ("a: 1\n", "---\nb: 1\n...\n", "---\nb: 1\na: 1\n...\n"),
        ("a:\n  y: 1\n", "a:\n  x: 1\n  # of a\n\n# of b\nb: 2\n", "a:\n  x: 1\n  # of a\n  y: 1\n\n# of b\nb: 2\n"),
        ("z: 1\n", "a: 1\n\n# the end\n", "a: 1\n\n# the end\nz: 1\n"),
        ("a:\n  k: v\n", "x: &x {k: 1}\na:\n  <<: *x\n", "x: &x {k: 1}\na:\n  <<: *x\n"),
        ("b: 1\n", "a: !vault secret\n", "a: !vault secret\nb: 1\n"),
        ("1: one\n", "'1': text\n", "'1': text\n1: one\n"),
        ("b: >-\n  folded\n  text\n", "a: {}\n", "a: {}\nb: >-\n  folded\n  text\n"),
        ("a: {b: 'it''s', c: \"x\\ty\"}\n", "a: {}\n", "a: {b: 'it''s', c: \"x\\ty\"}\n"),
    ],
)
def test_what_is_added_and_how(defaults: str, own: str, result: str | None) -> None:
    if result is None:
        result = "a:\n      x: 0\n      # about y\n      y:\n      - 1\n      - 2\n"
    assert merged(defaults, own) == result


@pytest.mark.proves("merge-loses-nothing")
def test_what_an_anchor_shares_is_left_alone_and_told() -> None:
    own = "a: &one\n  x: 1\nb: *one\n"
    defaults = merge_yaml.read_source("d", b"a: {y: 2}\nb: {x: 3}\nc: 1\n")
    text, notices = merge_yaml.merge(defaults, merge_yaml.read_source("own.yaml", own.encode()))
    assert text == f"{own}c: 1\n"
    assert notices == [
        "own.yaml:1:1: a is shared by an anchor, so nothing was added in it"
    ]  # b has x through the alias


@pytest.mark.proves("merge-refuses-with-place")
@pytest.mark.parametrize(
    ("defaults", "own", "said"),
    [
        ("a: 1\n", "a: 1\nb: 2\na: 3\n", "own.yaml:3:1: a stands here again; the first is at 1:1"),
        ("a: {x: 1, x: 2}\n", "", "defaults.yaml:1:11: x stands here again; the first is at 1:5"),
        ("a: 1\n", "a: 1\n---\nb: 2\n", "own.yaml:3:1: a second document begins; a file must hold one"),
        ("a: 1\n", "- a\n", "own.yaml:1:1: must be a mapping of keys to values"),
        ("a: 1\n", "a: [1\n", "own.yaml:2:1: is not YAML"),
        ("a: 1\n", "a:\n\t- 1\n", "own.yaml:2:1: is not YAML"),
        ("a: &x 1\n", "", "defaults.yaml:1:4: defaults must be written without anchors"),
    ],
)
def test_what_cannot_be_merged_is_refused_with_its_place(defaults: str, own: str, said: str) -> None:
    assert refused(defaults, own).startswith(said)


def test_bytes_that_are_no_text_are_refused_with_their_place() -> None:
    with pytest.raises(merge_yaml.Refused, match="own:2:4: is not UTF-8"):
        merge_yaml.read_source("own", b"a: 1\nb: \xff\n")


KEYS = st.text("abc", min_size=1, max_size=2)
VALUES = st.recursive(
    st.one_of(st.integers(0, 9), st.booleans(), st.none(), st.text("ab: #'\n\"", max_size=6)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=3)),
    max_leaves=8,
)
MAPPINGS = st.dictionaries(KEYS, VALUES, max_size=4)


def write(data: object, *, flow: bool, indent: int, newline: str) -> str:
    yaml = YAML()
    yaml.default_flow_style = flow
    yaml.indent(mapping=indent, sequence=indent + 2, offset=2)
    out = io.StringIO()
    yaml.dump(data, out)
    return out.getvalue().replace("\n", newline)


def joined(defaults: Any, own: Any) -> Any:
    """Return what the rules say of two mappings."""
    result = dict(own)
    for key, value in defaults.items():
        if key not in own:
            result[key] = value
        elif isinstance(value, dict) and isinstance(own[key], dict):
            result[key] = joined(value, own[key])
    return result


@pytest.mark.proves("merge-loses-nothing", "merge-adds-defaults")
@settings(deadline=None, max_examples=40)
@given(
    defaults=MAPPINGS,
    own=MAPPINGS,
    flow=st.tuples(st.booleans(), st.booleans()),
    indent=st.integers(2, 5),
    newline=st.sampled_from(["\n", "\r\n"]),
    cut=st.booleans(),
)
def test_any_two_mappings_give_what_the_rules_say(
    defaults: dict[str, Any], own: dict[str, Any], flow: tuple[bool, bool], indent: int, newline: str, cut: bool
) -> None:
    mine = write(own, flow=flow[1], indent=indent, newline=newline)
    mine = mine.rstrip("\r\n") if cut and "|" not in mine and ">" not in mine else mine
    text = merged(write(defaults, flow=flow[0], indent=2, newline="\n"), mine)
    reader = YAML(typ="safe", pure=True)
    assert reader.load(text) == joined(defaults, reader.load(mine) or {})


# The command


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-I", SCRIPT, *words], cwd=folder, capture_output=True, timeout=60, check=False
    )


@pytest.mark.proves("merge-loses-nothing")
def test_in_place_keeps_the_mode_and_the_link(tmp_path: Path) -> None:
    write_files(tmp_path, {"d.yaml": "a: 1\n", "real.yaml": "b: 2\n"})
    (tmp_path / "real.yaml").chmod(0o600)
    (tmp_path / "own.yaml").symlink_to("real.yaml")
    assert run(tmp_path, "d.yaml", "own.yaml", "--check").returncode == 3
    assert run(tmp_path, "d.yaml", "own.yaml", "--in-place").returncode == 0
    assert (tmp_path / "own.yaml").is_symlink()
    assert (tmp_path / "real.yaml").read_text() == "b: 2\na: 1\n"
    assert (tmp_path / "real.yaml").stat().st_mode & 0o777 == 0o600
    assert run(tmp_path, "d.yaml", "own.yaml", "--check").returncode == 0
    assert sorted(os.listdir(tmp_path)) == ["d.yaml", "own.yaml", "real.yaml"]


def test_without_a_place_the_result_is_printed_and_with_one_written(tmp_path: Path) -> None:
    write_files(tmp_path, {"d.yaml": "a: 1\n", "own.yaml": "b: 2\r\n"})
    assert run(tmp_path, "d.yaml", "own.yaml").stdout == b"b: 2\r\na: 1\r\n"
    assert run(tmp_path, "d.yaml", "absent.yaml", "--out", "new.yaml").returncode == 0
    assert (tmp_path / "new.yaml").read_bytes() == b"a: 1\n"
    assert (tmp_path / "own.yaml").read_bytes() == b"b: 2\r\n"


@pytest.mark.proves("merge-refuses-with-place")
@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["d.yaml", "twice.yaml", "--in-place"], 2, b"error: twice.yaml:2:1: a stands here again"),
        (["absent.yaml", "own.yaml"], 1, b"error: absent.yaml: cannot be read"),
        (["d.yaml", "own.yaml", "--out", "nowhere/x.yaml"], 1, b"error: nowhere/x.yaml: cannot be written"),
        (["d.yaml"], 2, b"usage:"),
    ],
)
def test_exit_codes_and_words(tmp_path: Path, words: list[str], code: int, said: bytes) -> None:
    write_files(tmp_path, {"d.yaml": "a: 1\n", "own.yaml": "b: 2\n", "twice.yaml": "a: 1\na: 2\n"})
    ended = run(tmp_path, *words)
    assert (ended.returncode, ended.stdout) == (code, b"")
    assert ended.stderr.startswith(said)
    assert (tmp_path / "twice.yaml").read_text() == "a: 1\na: 2\n"
