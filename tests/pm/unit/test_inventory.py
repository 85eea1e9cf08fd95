"""What files an environment has: taken, saved, compared with itself and with what its distributions say."""

from __future__ import annotations

import base64
import hashlib
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure_pm.model.errors import IntegrityFault
from perdure_pm.store.inventory import (
    Entry,
    Inventory,
    find_content_changes,
    find_known_files,
    find_record_deviations,
    find_site_packages,
    find_size_changes,
    hash_file,
    hash_tree,
    load_inventory,
    take_inventory,
)


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """An environment with two distributions and a script."""
    root = tmp_path / "venv"
    packages = root / "lib" / "python3.12" / "site-packages"
    (root / "bin").mkdir(parents=True)
    (root / "bin" / "tool").write_text("#!x\n", encoding="utf-8")
    (root / "bin" / "python").symlink_to("/usr/bin/python3")
    for name in ("one", "two"):
        (packages / name).mkdir(parents=True)
        (packages / name / "__init__.py").write_text(f"NAME = {name!r}\n", encoding="utf-8")
        (packages / f"{name}-1.0.dist-info").mkdir()
        (packages / f"{name}-1.0.dist-info" / "METADATA").write_text("x", encoding="utf-8")
    write_record(packages, "one", ["one/__init__.py", "one-1.0.dist-info/METADATA", "../../../bin/tool"])
    write_record(packages, "two", ["two/__init__.py", "two-1.0.dist-info/METADATA"])
    return root


def write_record(packages: Path, name: str, members: list[str]) -> None:
    rows = [f"{member},sha256={urlsafe(packages / member)},1" for member in members]
    (packages / f"{name}-1.0.dist-info" / "RECORD").write_text(
        "\n".join([*rows, f"{name}-1.0.dist-info/RECORD,,"]), encoding="utf-8"
    )


def urlsafe(path: Path) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(path.read_bytes()).digest()).rstrip(b"=").decode()


def told(environment: Path) -> list[str]:
    return [str(finding) for finding in find_record_deviations(environment, take_inventory(environment))]


@pytest.mark.proves("inventory-finds-damage")
def test_an_undamaged_environment_deviates_in_nothing(environment: Path, tmp_path: Path) -> None:
    inventory = take_inventory(environment)
    assert inventory.links == {"bin/python": "/usr/bin/python3"}
    assert find_record_deviations(environment, inventory) == []
    assert find_size_changes(environment, inventory) == []
    assert find_content_changes(environment, inventory) == []
    (tmp_path / "files.json").write_bytes(inventory.to_bytes())
    assert load_inventory(tmp_path / "files.json") == inventory


DAMAGES = {
    "deleted": lambda path: path.unlink(),
    "truncated": lambda path: path.write_bytes(b""),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"x"),
}


@pytest.mark.proves("inventory-finds-damage")
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("member", ["lib/python3.12/site-packages/one/__init__.py", "bin/tool"])
def test_a_file_that_is_gone_or_of_another_size_is_found_by_looking_only(
    environment: Path, damage: str, member: str
) -> None:
    inventory = take_inventory(environment)
    DAMAGES[damage](environment / member)
    (finding,) = find_size_changes(environment, inventory)
    assert finding.path == member
    (deep,) = find_content_changes(environment, inventory)
    assert deep.path == member


@pytest.mark.proves("inventory-finds-damage")
def test_one_changed_byte_is_found_by_contents_also_with_the_old_time(environment: Path) -> None:
    inventory = take_inventory(environment)
    path = environment / "lib/python3.12/site-packages/two/__init__.py"
    before = path.stat()
    path.write_bytes(path.read_bytes().replace(b"two", b"owt"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert find_size_changes(environment, inventory) == []
    assert [str(finding) for finding in find_content_changes(environment, inventory)] == [
        "lib/python3.12/site-packages/two/__init__.py: has other contents"
    ]
    assert told(environment) == [
        "lib/python3.12/site-packages/two/__init__.py of two-1.0: has other contents than its RECORD says"
    ]


@pytest.mark.proves("inventory-finds-damage")
def test_a_link_that_is_gone_or_leads_elsewhere_is_found(environment: Path) -> None:
    inventory = take_inventory(environment)
    link = environment / "bin" / "python"
    link.unlink()
    assert [finding.path for finding in find_size_changes(environment, inventory)] == ["bin/python"]
    link.symlink_to("/usr/bin/true")
    assert [str(finding) for finding in find_content_changes(environment, inventory)] == ["bin/python: leads elsewhere"]


@pytest.mark.proves("inventory-two-owners")
def test_two_distributions_that_write_the_same_path_differently_are_both_named(environment: Path) -> None:
    """Case 100: identical contents are allowed."""
    packages = find_site_packages(environment)
    (packages / "shared.py").write_text("x = 1\n", encoding="utf-8")
    write_record(packages, "one", ["one/__init__.py", "shared.py"])
    write_record(packages, "two", ["two/__init__.py", "shared.py"])
    assert told(environment) == []
    record = packages / "two-1.0.dist-info" / "RECORD"
    wrong = base64.urlsafe_b64encode(bytes(32)).rstrip(b"=").decode()
    record.write_text(
        record.read_text(encoding="utf-8").replace(urlsafe(packages / "shared.py"), wrong), encoding="utf-8"
    )
    (finding,) = told(environment)
    assert finding == (
        "lib/python3.12/site-packages/shared.py of two-1.0: is also written, with other contents, by one-1.0"
    )


@pytest.mark.proves("inventory-finds-damage")
@pytest.mark.parametrize("damage", ["gone", "no text"])
def test_a_record_that_cannot_be_read_is_a_finding(environment: Path, damage: str) -> None:
    """Case 97."""
    record = find_site_packages(environment) / "one-1.0.dist-info" / "RECORD"
    if damage == "gone":
        record.unlink()
    else:
        record.write_bytes(b"\xff\xfe\x00")
    (finding,) = told(environment)
    assert "one-1.0.dist-info/RECORD" in finding
    assert "cannot be read" in finding


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        '{"schema": 2, "files": {}, "links": {}}',
        '{"schema": 1, "files": {"a": [1]}, "links": {}}',
        '{"schema": 1, "files": {"a": ["x", 1, "y"]}, "links": {}}',
        '{"schema": 1}',
    ],
)
def test_what_is_no_inventory_is_refused_with_its_path(tmp_path: Path, text: str) -> None:
    path = tmp_path / "files.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(IntegrityFault, match="cannot be read") as caught:
        load_inventory(path)
    assert caught.value.context == {"path": str(path)}


PATHS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=20)
ENTRIES = st.builds(
    Entry,
    st.integers(0, 1 << 50),
    st.integers(0, 1 << 62),
    st.binary(min_size=32, max_size=32).map(lambda data: data.hex()),
)


@given(st.dictionaries(PATHS, ENTRIES), st.dictionaries(PATHS, PATHS))
def test_every_inventory_is_read_back_as_it_was(files: dict[str, Entry], links: dict[str, str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "files.json"
        path.write_bytes(Inventory(files, links).to_bytes())
        assert load_inventory(path) == Inventory(files, links)


@pytest.mark.proves("inventory-known-files")
def test_a_known_file_is_not_read_again_and_a_changed_one_is(environment: Path) -> None:
    inventory = take_inventory(environment)
    path = environment / "bin" / "tool"
    known = find_known_files(environment, inventory)
    trusted = dict.fromkeys(known, "f" * 64)
    assert set(take_inventory(environment, trusted).files.values()) != set(inventory.files.values())
    path.write_text("#!y\n", encoding="utf-8")
    os.utime(path, ns=(1, 1))
    assert take_inventory(environment, trusted).files["bin/tool"].sha256 == hash_file(path)
    assert len(find_known_files(environment, inventory)) == len(known) - 1


@pytest.mark.parametrize("count", [0, 2])
def test_what_is_no_environment_is_refused(tmp_path: Path, count: int) -> None:
    for number in range(count):
        (tmp_path / f"lib/python3.{number}/site-packages").mkdir(parents=True)
    with pytest.raises(IntegrityFault, match=f"it has {count} site-packages"):
        find_site_packages(tmp_path)


# Digests of sources


@pytest.mark.proves("inventory-source-digest")
def test_a_digest_of_sources_follows_names_and_bytes_and_nothing_else(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "inner").mkdir(parents=True)
    (tree / "a.py").write_text("a", encoding="utf-8")
    (tree / "inner" / "b.py").write_text("b", encoding="utf-8")
    digest = hash_tree({"x": tree})
    (tree / "__pycache__").mkdir()
    (tree / "__pycache__" / "a.cpython-312.pyc").write_bytes(b"x")
    (tree / "stray.pyc").write_bytes(b"x")
    os.utime(tree / "a.py", ns=(1, 1))
    assert hash_tree({"x": tree}) == digest
    seen = {digest, hash_tree({"y": tree})}
    (tree / "a.py").write_text("b", encoding="utf-8")
    seen.add(hash_tree({"x": tree}))
    (tree / "inner" / "b.py").rename(tree / "inner" / "c.py")
    seen.add(hash_tree({"x": tree}))
    (tree / "inner" / "c.py").rename(tree / "c.py")
    seen.add(hash_tree({"x": tree}))
    assert len(seen) == 5


def test_a_copy_elsewhere_has_the_same_digest(tmp_path: Path) -> None:
    """A checkout and the seed that was made of it."""
    for name in ("one", "__pycache__ of somebody"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.py").write_text("a", encoding="utf-8")
    assert hash_tree({"x": tmp_path / "one"}) == hash_tree({"x": tmp_path / "__pycache__ of somebody"})
