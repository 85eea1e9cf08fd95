"""Reading manifests, and every fault at once."""

from pathlib import Path

import pytest

from perdure_compat.editing import with_entry
from perdure_compat.manifest import ManifestFaults, has_reached, load_manifest, parse_manifest
from perdure_compat.render import data_table
from tests.compat.shop import MANIFEST

HEAD = 'schema = 1\npackage = "pkg"\n'


def faults(text: str) -> list[str]:
    with pytest.raises(ManifestFaults) as caught:
        parse_manifest(text, Path("m.toml"))
    return [str(fault) for fault in caught.value.faults]


def entry(**values: str) -> str:
    known = {"old": "pkg.a.b", "new": "pkg.c.b", "since": "1", "removed-in": "2"}
    merged = {**known, **{name.replace("_", "-"): value for name, value in values.items()}}
    return "[[moved]]\n" + "".join(f"{name} = {value!r}\n" for name, value in merged.items() if value)


@pytest.mark.proves("compat-manifest-faults")
def test_every_fault_is_told_with_its_line() -> None:
    text = HEAD + entry(kind="mvoed") + entry(old="pkg.x", new="", colour="red") + entry(since="soon", old="a b")
    assert faults(text) == [
        "m.toml:3: pkg.a.b: kind is 'mvoed'; it is one of moved, renamed, module, import, restored, removed",
        "m.toml:9: pkg.x: new is missing",
        (
            "m.toml:9: pkg.x: unknown key 'colour'; known are old, new, since, removed-in, kind, note, loud, warn, "
            "constructed-only"
        ),
        "m.toml:14: a b: since is 'soon', which is no version",
        "m.toml:14: a b: old is 'a b', which is neither a dotted name nor module:attribute",
    ]


@pytest.mark.proves("compat-manifest-faults")
@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("schema = 2\npackage = 'pkg'\n", "m.toml: schema is 2; this reads schema = 1"),
        ("schema = 1\n", "m.toml: package must be the import name of the package whose names moved"),
        (f"{HEAD}colour = 1\n", "m.toml: unknown key 'colour'"),
        (f"{HEAD}moved = 1\n", "m.toml: moved must be an array of tables: [[moved]]"),
        (f"{HEAD}[tree]\nlint = 'src'\n", "m.toml: tree: lint must be a list of paths"),
        (f"{HEAD}[[except]]\npath = 'x'\n", "m.toml, except 1: an exception has a path (a pattern) and a why"),
        (
            HEAD + entry(new="pkg.c."),
            "m.toml:3: pkg.a.b: new is 'pkg.c.', which is neither a dotted name nor module:attribute",
        ),
        (
            HEAD + entry(kind="module", new="pkg.c:b"),
            "m.toml:3: pkg.a.b: a module as a whole moves to a module: there is no attribute in either",
        ),
        (HEAD + "a = " + "[" * 5000, "m.toml: not TOML: nested too deeply"),
        (HEAD + entry(old="other.a"), "m.toml:3: other.a: old does not lie in the package pkg"),
        (HEAD + entry(old="pkg._a.b"), "m.toml:3: pkg._a.b: a private name gets no pointer: it may change without one"),
        (HEAD + entry(removed_in="1.0"), "m.toml:3: pkg.a.b: removed-in 1.0 is not after since 1"),
        (HEAD + entry() + entry(new="pkg.d.b"), "m.toml:8: pkg.a.b is also at line 3"),
        (
            HEAD + entry() + entry(old="pkg.c.b", new="pkg.d.b"),
            "m.toml:3: pkg.a.b moved twice: write pkg.d.b as its new place",
        ),
        (HEAD + entry(new="pkg.a.b"), "m.toml:3: pkg.a.b -> pkg.a.b goes in a circle"),
    ],
)
def test_each_fault_says_what_and_where(text: str, fault: str) -> None:
    """Case 35."""
    assert faults(text) == [fault]


@pytest.mark.proves("compat-manifest-faults")
def test_what_is_no_toml_or_not_there_is_told(tmp_path: Path) -> None:
    assert faults("moved = [")[0].startswith("m.toml: not TOML: ")
    with pytest.raises(ManifestFaults, match="No such file"):
        load_manifest(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("version", "reached"),
    [
        ("0.6", True),
        ("0.6.0", True),
        ("0.6.1", True),
        ("1", True),
        ("0.6rc1", False),
        ("0.6.dev3", False),
        ("0.5.9", False),
    ],
)
def test_a_version_has_come_when_it_or_a_later_one_is_released(version: str, reached: bool) -> None:
    assert has_reached(version, "0.6") is reached


def test_what_a_package_ships_reads_as_the_manifest_it_was_made_from() -> None:
    manifest = parse_manifest(MANIFEST, Path("m.toml"))
    shipped = parse_manifest(data_table(manifest), Path("m.toml"))
    plain = [
        [(e.old, e.new, e.since, e.removed_in, e.kind, e.note, e.loud, e.warn) for e in m.entries]
        for m in (manifest, shipped)
    ]
    assert plain[0] == plain[1]


def test_a_new_entry_is_added_at_the_end_and_refused_where_it_is_at_fault() -> None:
    manifest = parse_manifest(MANIFEST, Path("m.toml"))
    first = manifest.entries[0]
    with pytest.raises(ManifestFaults, match="is also at line"):
        with_entry(manifest, MANIFEST, first)


@pytest.mark.proves("compat-manifest-faults")
@pytest.mark.parametrize(
    "key", ["old", "new", "since", "removed-in", "kind", "note", "loud", "schema", "package", "tree"]
)
@pytest.mark.parametrize("value", ["[]", "{}", "[{}]", "1.5", "nan", "1979-05-27", "'.'", "''", "true"])
def test_a_value_of_whatever_kind_is_a_fault_with_its_place_or_fine(key: str, value: str) -> None:
    known = {"old": "'pkg.a.b'", "new": "'pkg.c.b'", "since": "'1'", "removed-in": "'2'"}
    table = {**known, key: value} if key in {*known, "kind", "note", "loud"} else known
    head = {"schema": "1", "package": "'pkg'", **({key: value} if table is known else {})}
    text = "".join(f"{name} = {item}\n" for name, item in head.items()) + "[[moved]]\n"
    text += "".join(f"{name} = {item}\n" for name, item in table.items())
    fine = {("note", "'.'"), ("note", "''"), ("loud", "true"), ("tree", "{}")}
    if (key, value) in fine:
        assert len(parse_manifest(text, Path("m.toml")).entries) == 1
    else:
        assert all(fault.startswith("m.toml") for fault in faults(text))
